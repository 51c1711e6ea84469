// Gradients of the outputs of samples `first`.., in place, and the blocks' sums from `parts_at` on.
extern "C" __global__ __launch_bounds__(256, P_LANES > 1 ? 3 : 1) void wide_losses(const LossesArgs a) {
    wide_block_losses(a, [&](unsigned int first, const float* from) {
        if (!WIDE_LOSSES_NEAR) return;
        unsigned int rows = a.rows > first ? a.rows - first : 0u;
        float* to = a.outs + (unsigned long long)first * (P_OUT + 1);
        wide_copy_outs(from, to, rows < WIDE_OF_LOSSES ? rows : WIDE_OF_LOSSES);
    });
}

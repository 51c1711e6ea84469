// Acting on outputs that layers on tensor cores make.

#if U_HEAD_STAGES
// Draws the actions of `part` rows from `first` on; a warp takes a row at a time.
extern "C" __global__ __launch_bounds__(U_HEAD_THREADS, 2) void wide_tiled_decide(const TiledDecideArgs a) {
    u_heads_of_rows(a.outputs, a.part, [&](unsigned int first, const float* outs) {
        for (unsigned int row = threadIdx.x / 32; row < U_HEAD_ROWS && first + row < a.part; row += U_HEAD_THREADS / 32) {
            wide_decide_together(a.step, a.first + first + row, outs + row * U_HEAD_ROW);
        }
        __syncthreads();
    });
}
#endif

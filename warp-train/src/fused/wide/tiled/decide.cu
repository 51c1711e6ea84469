// Acting on outputs that layers on tensor cores make.

#if U_HEAD_STAGES
// Takes the outputs of tiles of rows; a warp has a row at a time.
struct UDecisions {
    const TiledDecideArgs& a;
    __device__ inline void prepare(unsigned int) {}
    __device__ inline void take(unsigned int first, const float* outs) {
        for (unsigned int row = threadIdx.x / 32; row < U_HEAD_ROWS && first + row < a.part; row += U_HEAD_THREADS / 32) {
            wide_decide_together(a.step, a.first + first + row, outs + row * U_HEAD_ROW);
        }
    }
};

// Draws the actions of `part` rows from `first` on.
extern "C" __global__ __launch_bounds__(U_HEAD_THREADS, U_HEAD_BLOCKS) void wide_tiled_decide(const TiledDecideArgs a) {
    UDecisions decisions = {a};
    u_heads_of_tiles(a.outputs, (a.part + U_HEAD_ROWS - 1) / U_HEAD_ROWS, decisions);
}
#endif

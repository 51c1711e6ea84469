// Losses of samples whose outputs layers on tensor cores make, and gradients as these layers read them.

// Gradients of a tower's outputs of ROWS samples, of which the first is number `first`, from f32 [ROWS, STRIDE], as halves, up
// to tiles that are full of samples. Columns in a tower's gap are kept: their sums are gradients, too. Eight threads take the
// same columns of rows that follow each other, which the rows' odd length spreads over shared memory, and four take
// neighbours in global memory.
template <unsigned int ROWS, unsigned int THREADS, unsigned int STRIDE>
__device__ inline void u_give_gradients(const TiledLossesArgs& a, unsigned int tower, unsigned int first, const float* from) {
    unsigned int rows = wide_present(a.losses.state, 1, a.losses.first, a.losses.rows);
    rows = (rows + U_ROWS - 1) / U_ROWS * U_ROWS;
    unsigned int eights = u_output_blocks(tower) * 8, real = u_output_columns(tower);
    unsigned char* to = a.outputs.y + tower * a.outputs.y_tower;
    for (unsigned int e = threadIdx.x; e < ROWS * eights; e += THREADS) {
        unsigned int row = e / (8 * eights) * 8 + e % 8, column = e / 8 % eights * 8;
        if (first + row >= rows) continue;
        const float* out = from + row * STRIDE + u_heads[tower].column + column;
        float x[8] = {};
        if (column + 8 <= real) {
            #pragma unroll
            for (unsigned int k = 0; k < 8; ++k) x[k] = out[k];
        } else {
            #pragma unroll
            for (unsigned int k = 0; k < 7; ++k) x[k] = column + k < real ? out[k] : 0.0f;
        }
        u_store(to + u_at(first + row, column, U_COLUMNS / 64), x);
    }
}

#if U_HEAD_STAGES

// Sums over the block's samples, which the first lane of each warp has; the results are thread 0's.
__device__ inline void u_sum_losses(double (&sums)[5], double* parts) {
    __shared__ double rows[U_HEAD_THREADS / 32][5];
    #pragma unroll
    for (int k = 0; k < 5; ++k) {
        #pragma unroll
        for (int half = 16; half >= P_LANES; half /= 2) sums[k] += __shfl_down_sync(0xffffffffu, sums[k], half);
        if (threadIdx.x % 32 == 0) rows[threadIdx.x / 32][k] = sums[k];
    }
    __syncthreads();
    if (threadIdx.x >= 5) return;
    double sum = 0.0;
    for (unsigned int warp = 0; warp < U_HEAD_THREADS / 32; ++warp) sum += rows[warp][threadIdx.x];
    parts[threadIdx.x] = sum;
}

// Outputs, the blocks' sums of losses from `parts_at` on, and gradients of all towers' outputs.
extern "C" __global__ __launch_bounds__(U_HEAD_THREADS, 2) void wide_tiled_losses(const TiledLossesArgs args) {
    const LossesArgs& a = args.losses;
    unsigned int n = wide_present(a.state, 1, a.first, a.rows), from = a.state->begin + a.first;
    unsigned int of_block = U_HEAD_THREADS / P_LANES;
    int lane = threadIdx.x % P_LANES;
    double sums[5] = {0.0, 0.0, 0.0, 0.0, 0.0};
    u_heads_of_rows(args.outputs, n, [&](unsigned int first, float* outs) {
        for (unsigned int row = threadIdx.x / P_LANES; row < U_HEAD_ROWS; row += of_block) {
            float* out = outs + row * U_HEAD_ROW;
            if (first + row < n) {
                unsigned int cell = a.order[from + first + row];
                WideKnown known = wide_known(a.from, a.state, cell);
                wide_sample_loss<true, true, P_LANES>(a.from, a.settings, known, cell, wide_mask(a.from, cell), out,
                                                      a.parameters, sums, lane);
            } else {
                for (int o = lane; o <= P_OUT; o += P_LANES) out[o] = 0.0f;
            }
        }
        __syncthreads();
        #pragma unroll
        for (unsigned int tower = 0; tower < U_TOWERS; ++tower) {
            u_give_gradients<U_HEAD_ROWS, U_HEAD_THREADS, U_HEAD_ROW>(args, tower, first, outs);
        }
        __syncthreads();
    });
    u_sum_losses(sums, a.parts + (unsigned long long)(a.parts_at + blockIdx.x) * 5);
}

#else

// The blocks' sums of losses from `parts_at` on, and gradients of all towers' outputs.
extern "C" __global__ __launch_bounds__(256, P_LANES > 1 ? 3 : 1) void wide_tiled_losses(const TiledLossesArgs a) {
    wide_block_losses(a.losses, [&](unsigned int first, const float* from) {
        #pragma unroll
        for (unsigned int tower = 0; tower < U_TOWERS; ++tower) {
            u_give_gradients<WIDE_OF_LOSSES, 256, P_OUT + 1>(a, tower, first, from);
        }
    });
}

#endif

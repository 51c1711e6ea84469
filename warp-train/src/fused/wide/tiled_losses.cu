// Losses of samples whose outputs layers on tensor cores have left, and gradients as these layers read them.

// Gradients of a tower's outputs of the block's samples, `from`, f32 [.., P_OUT + 1], as halves, up to tiles that are full of
// samples. Columns in a tower's gap are kept: their sums are gradients, too. Eight threads take the same columns of rows
// that follow each other, which the rows' odd width spreads over shared memory, and four take neighbours in global memory.
__device__ inline void u_give_gradients(const TiledLossesArgs& a, unsigned int tower, unsigned int first, const float* from) {
    unsigned int rows = wide_present(a.losses.state, 1, a.losses.first, a.losses.rows);
    rows = (rows + U_ROWS - 1) / U_ROWS * U_ROWS;
    unsigned int eights = u_output_blocks(tower) * 8, real = u_places[tower][U_DEPTH].n_out + u_heads[tower].gap;
    unsigned char* to = a.to + tower * a.to_tower;
    for (unsigned int e = threadIdx.x; e < WIDE_OF_LOSSES * eights; e += 256) {
        unsigned int row = e / (8 * eights) * 8 + e % 8, column = e / 8 % eights * 8;
        if (first + row >= rows) continue;
        const float* out = from + row * (P_OUT + 1) + u_heads[tower].column + column;
        float x[8];
        #pragma unroll
        for (unsigned int k = 0; k < 8; ++k) x[k] = column + k < real ? out[k] : 0.0f;
        u_store(to + u_at(first + row, column, U_COLUMNS / 64), x);
    }
}

// The blocks' sums from `parts_at` on, and gradients of all towers' outputs.
extern "C" __global__ __launch_bounds__(256, P_LANES > 1 ? 3 : 1) void wide_tiled_losses(const TiledLossesArgs a) {
    wide_block_losses(a.losses, [&](unsigned int first, const float* from) {
        #pragma unroll
        for (unsigned int tower = 0; tower < U_TOWERS; ++tower) u_give_gradients(a, tower, first, from);
    });
}

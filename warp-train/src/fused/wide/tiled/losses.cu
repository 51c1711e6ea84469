// Losses of samples whose outputs layers on tensor cores make, and gradients as these layers read them.

// Gradients of a tower's outputs of ROWS samples, of which the first is number `first`, from f32 [ROWS, STRIDE], as halves, up
// to tiles that are full of samples. Columns in a tower's gap are kept: their sums are gradients, too. Eight threads take the
// same columns of rows that follow each other, which rows of odd length spread over shared memory, and four take neighbours
// in global memory.
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

// Sums over the block's samples, of which the first of P_LANES lanes has each one's, to `parts`.
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

// What the rollout knows of a row, on its way before it is needed.
struct UGivenRow {
    // The advantage, the action's log-probability, the value, its target.
    float numbers[4];
    WideGivenHeads<P_LANES> heads;
    bool exists;

    // Cell `cell`, or none.
    __device__ inline void read(const WideSamples& from, unsigned int cell, int lane) {
        exists = cell != 0xffffffffu;
        if (!exists) return;
        numbers[0] = from.advantages[cell];
        numbers[1] = from.log_probs[cell];
        numbers[2] = from.values[cell];
        numbers[3] = from.returns[cell];
        heads.read(wide_mask(from, cell), from.actions + (unsigned long long)cell * P_ACTION, lane);
        wide_loaded(numbers);
        wide_loaded(heads.allows);
        wide_loaded(heads.action);
    }
};

// Takes the outputs of tiles of samples. P_LANES lanes have rows in turn, and what is given of the next one is under way.
struct ULosses {
    static constexpr unsigned int apart = U_HEAD_THREADS / P_LANES;
    const TiledLossesArgs& args;
    unsigned int n = wide_present(args.losses.state, 1, args.losses.first, args.losses.rows), next_cell;
    double mean = args.losses.state->adv_mean, scale = args.losses.state->adv_scale, sums[5] = {0.0, 0.0, 0.0, 0.0, 0.0};
    UGivenRow given;

    __device__ inline unsigned int cell_of(unsigned int first, unsigned int row) const {
        bool exists = row < U_HEAD_ROWS && first + row < n;
        return exists ? args.losses.order[args.losses.state->begin + args.losses.first + first + row] : 0xffffffffu;
    }
    __device__ inline void prepare(unsigned int first) {
        unsigned int row = threadIdx.x / P_LANES;
        given.read(args.losses.from, cell_of(first, row), threadIdx.x % P_LANES);
        next_cell = cell_of(first, row + apart);
    }
    __device__ inline void take(unsigned int first, float* outs) {
        const LossesArgs& a = args.losses;
        int lane = threadIdx.x % P_LANES;
        for (unsigned int row = threadIdx.x / P_LANES; row < U_HEAD_ROWS; row += apart) {
            WideAlikeHeads<P_LANES> heads;
            heads.given = given.heads;
            float advantage = wide_scaled_advantage(given.numbers[0], mean, scale);
            WideKnown known = {given.numbers[1], given.numbers[2], advantage, given.numbers[3]};
            bool exists = given.exists;
            given.read(a.from, next_cell, lane);
            next_cell = cell_of(first, row + 2 * apart);
            float* out = outs + row * U_HEAD_ROW;
            if (exists) {
                WideDistribution now = wide_evaluate_given<P_LANES>(out, lane, heads);
                wide_apply_loss<true, true, P_LANES>(a.settings, known, now, 0, 0, 0, out, a.parameters, sums, lane, heads);
            } else {
                for (int o = lane; o <= P_OUT; o += P_LANES) out[o] = 0.0f;
            }
        }
        __syncthreads();
        #pragma unroll
        for (unsigned int tower = 0; tower < U_TOWERS; ++tower) {
            u_give_gradients<U_HEAD_ROWS, U_HEAD_THREADS, U_HEAD_ROW>(args, tower, first, outs);
        }
    }
};

// Outputs, the blocks' sums of losses from `parts_at` on, and gradients of all towers' outputs.
extern "C" __global__ __launch_bounds__(U_HEAD_THREADS, U_HEAD_BLOCKS) void wide_tiled_losses(const TiledLossesArgs args) {
    ULosses losses = {args};
    // Up to tiles of layers that are full of samples: gradients of others are zero.
    u_heads_of_tiles(args.outputs, (losses.n + U_ROWS - 1) / U_ROWS * U_HEAD_TILES, losses);
    const LossesArgs& a = args.losses;
    u_sum_losses(losses.sums, a.parts + (unsigned long long)(a.parts_at + blockIdx.x) * 5);
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

// Gradients of a tile of weights and the step along them, where a block takes one tile at a time: all that it needs from
// memory is on its way before it waits for any of it.

// Rows on their way to a warp: 16 of derivatives and 16 of inputs, twice. Its sums take their place.
#define ROWS_AHEAD 2
#define AHEAD_OF_GROUP (2 * ROWS_AT_ONCE * STAGED)
#define AHEAD_OF_WARP (ROWS_AHEAD * AHEAD_OF_GROUP)
// A product of 16 outputs and 8 inputs has four sums per lane; behind all of them are those of biases.
#define PRODUCTS_OF_TILE 8
static_assert((PRODUCTS_OF_TILE * 32 + 8) * sizeof(float4) <= AHEAD_OF_WARP * sizeof(Half), "a warp's sums");
// Behind what all warps have of rows are parameters, both moments and targets: of a tile's weights, a thread's four side by
// side, and of its biases. Registers would be full of what is on its way to them.
struct CellsAhead {
    float4 weights[CELL_ARRAYS][N_THREADS];
    float biases[CELL_ARRAYS][32];
};
#define ROWS_BYTES (N_WARPS * AHEAD_OF_WARP * sizeof(Half))
static_assert(ROWS_BYTES + sizeof(CellsAhead) == LEARN_BYTES, "what the host gives a block");

// 16 bytes.
__device__ inline void bring_four(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

// Brings a lane's part of 16 rows of 32 numbers, of `width` each.
__device__ inline void bring_rows(const Kept* rows, int width, int group, Half* to) {
    unsigned int lane = threadIdx.x % 32, row = lane / 4, column = lane % 4 * 8;
    const Kept* from = rows + (unsigned long long)(ROWS_AT_ONCE * group + row) * (unsigned int)width + column;
    to += row * STAGED + column;
    bring_four(to, from);
    bring_four(to + 8 * STAGED, from + 8 * width);
}

// Sums of a first layer with 8 inputs at most.
struct FirstLayerSums {
    float weights[2][4];
    float biases[2][2];
};

__device__ inline FirstLayerSums take_first(WeightSums& sums) {
    FirstLayerSums first;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            first.weights[i][j] = sums.products[4 * i][j];
            sums.products[4 * i][j] = 0.0f;
        }
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            first.biases[i][j] = sums.biases[i][2 * j];
            sums.biases[i][2 * j] = 0.0f;
        }
    }
    return first;
}

__device__ inline void give_first(WeightSums& sums, const FirstLayerSums& first) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sums.products[4 * i][j] += first.weights[i][j];
#pragma unroll
        for (int j = 0; j < 2; ++j) sums.biases[i][2 * j] += first.biases[i][j];
    }
}

// A warp's sums over its rows, the first of which are on their way to `ahead`: groups of 16 in steps of N_WARPS, or
// `pairwise` two neighbouring ones, of which each is summed by itself (first.cu).
struct RowsOfWarp {
    int first, step, end;
    __device__ inline RowsOfWarp(const Slab& slab, bool pairwise) {
        int warp = threadIdx.x / 32, n = slab.rows / ROWS_AT_ONCE;
        first = pairwise ? 2 * warp : warp;
        step = pairwise ? 1 : N_WARPS;
        end = pairwise && first + 2 < n ? first + 2 : n;
    }
    __device__ inline void bring(const Slab& slab, int i, Half* ahead) const {
        int group = first + i * step;
        Half* d = ahead + i % ROWS_AHEAD * AHEAD_OF_GROUP;
        if (group < end) {
            bring_rows(slab.d, slab.n, group, d);
            bring_rows(slab.x, slab.k, group, d + ROWS_AT_ONCE * STAGED);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    __device__ inline WeightSums sum(const Slab& slab, Half* ahead, bool pairwise, bool with_bias) const {
        WeightSums sums = {};
#pragma unroll 1
        for (int i = 0; first + i * step < end; ++i) {
            asm volatile("cp.async.wait_group %0;" ::"n"(ROWS_AHEAD - 1) : "memory");
            __syncwarp();
            const Half* d = ahead + i % ROWS_AHEAD * AHEAD_OF_GROUP;
            FirstLayerSums before;
            bool alone = pairwise && i > 0;
            if (alone) before = take_first(sums);
            add_staged(sums, d, d + ROWS_AT_ONCE * STAGED, STAGED, with_bias);
            if (alone) give_first(sums, before);
            __syncwarp();
            bring(slab, i + ROWS_AHEAD, ahead);
        }
        return sums;
    }
};

// Puts a warp's sums where all warps find them.
__device__ inline void put_sums(const WeightSums& sums, float4* to) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < PRODUCTS_OF_TILE; ++i) {
        const float(&four)[4] = sums.products[i];
        to[32 * i + lane] = make_float4(four[0], four[1], four[2], four[3]);
    }
    // All columns of a product of biases are the same.
    const float(&b)[2][4] = sums.biases;
    if (lane % 4 == 0) to[32 * PRODUCTS_OF_TILE + lane / 4] = make_float4(b[0][0], b[0][2], b[1][0], b[1][2]);
}

// Adds up what all warps have put `at` behind their first sums, as weight_tile does.
__device__ inline float4 sum_of_warps(const Half* ahead, int at, bool pairwise) {
    float4 sum = {};
    auto add = [](float& to, float a, float b, bool pairwise) { to = pairwise ? to + (a + b) : to + a + b; };
#pragma unroll
    for (int warp = 0; warp < N_WARPS; warp += 2) {
        const Half* of_warp = ahead + warp * AHEAD_OF_WARP;
        float4 a = ((const float4*)of_warp)[at], b = ((const float4*)(of_warp + AHEAD_OF_WARP))[at];
        add(sum.x, a.x, b.x, pairwise);
        add(sum.y, a.y, b.y, pairwise);
        add(sum.z, a.z, b.z, pairwise);
        add(sum.w, a.w, b.w, pairwise);
    }
    return sum;
}

// The cells of a tile, of which a thread brings what it needs itself.
struct TileCells {
    CellsAhead* here;
    bool has_weights, has_bias;
    __device__ inline TileCells(const WeightTile& tile) {
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        here = (CellsAhead*)((char*)shared + ROWS_BYTES);
        // Padding is 0 and stays so.
        has_weights = tile.outputs > warp / 4 * 16 && tile.inputs > warp % 4 * 8;
        has_bias = tile.bias >= 0 && warp == 0 && lane < tile.outputs;
    }
    __device__ inline void bring(const WeightTile& tile, const DescentAhead& take) const {
        const float* of[CELL_ARRAYS] = {take.parameters, take.first, take.second, take.parameters + take.behind};
#pragma unroll
        for (int i = 0; i < CELL_ARRAYS; ++i) {
            if (i == CELL_ARRAYS - 1 && take.behind == 0) break;
            if (has_weights) bring_four(&here->weights[i][threadIdx.x], of[i] + tile.weight + 4 * threadIdx.x);
            if (has_bias) bring_word(&here->biases[i][threadIdx.x], of[i] + tile.bias + threadIdx.x);
        }
    }
    // Two neighbouring inputs of an output, or of the one 8 behind it.
    __device__ inline Cell<float2> two(int i) const {
        auto of = [&](int array) { return ((const float2*)&here->weights[array][threadIdx.x])[i]; };
        return {of(0), of(1), of(2), of(3)};
    }
    __device__ inline Cell<float> bias() const {
        auto of = [&](int array) { return here->biases[array][threadIdx.x]; };
        return {of(0), of(1), of(2), of(3)};
    }
};

// A warp has the 16 outputs by 8 inputs of a product, a lane two neighbouring inputs of an output and of the one 8 behind
// it (weight_place), and the first warp all biases.
__device__ __noinline__ void learn_tile(const WeightTile tile, const Slab slab, bool pairwise, const DescentAhead take) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Half *all_ahead = (Half*)shared, *ahead = all_ahead + warp * AHEAD_OF_WARP;
    const RowsOfWarp rows(slab, pairwise);
    const TileCells cells(tile);
    for (int i = 0; i < ROWS_AHEAD; ++i) rows.bring(slab, i, ahead);
    take.bring();
    cells.bring(tile, take);

    const WeightSums sums = rows.sum(slab, ahead, pairwise, tile.bias >= 0);
    put_sums(sums, (float4*)ahead);
    wait_for_words();
    __syncthreads();
    if (cells.has_weights) {
        float4 sum = sum_of_warps(all_ahead, 32 * warp + lane, pairwise);
        float g[2][2] = {{sum.x, sum.y}, {sum.z, sum.w}};
        Cell<float2> two[2] = {cells.two(0), cells.two(1)};
#pragma unroll
        for (int i = 0; i < 2; ++i) take.move(two[i], g[i], 2);
        take.store(Cell<float4>{both(two[0].parameter, two[1].parameter), both(two[0].first, two[1].first),
                                both(two[0].second, two[1].second), both(two[0].target, two[1].target)},
                   tile.weight + 4 * threadIdx.x);
        take.pack(tile, two);
    }
    if (cells.has_bias) {
        float4 sum = sum_of_warps(all_ahead, 32 * PRODUCTS_OF_TILE + lane % 8, pairwise);
        float g = lane < 16 ? lane < 8 ? sum.x : sum.y : lane < 24 ? sum.z : sum.w;
        take.bias(cells.bias(), tile.bias + lane, g);
    }
    __syncthreads();
}

// Gradients of a first layer with few inputs, summed by the pass that goes back, which has derivatives in shared memory: where
// runs share the GPU, they need not be kept for all rows. Each tile of rows has its part of the sums.

// Inputs at most, all in one product.
#define FIRST_INPUTS 8

// What some rows add to the gradients of 16 outputs: a lane's four weights (weight_place), and two biases.
struct FirstSums {
    float weights[4];
    float biases[2];
};

__device__ inline FirstSums operator+(const FirstSums& a, const FirstSums& b) {
    FirstSums sum;
#pragma unroll
    for (int i = 0; i < 4; ++i) sum.weights[i] = a.weights[i] + b.weights[i];
#pragma unroll
    for (int i = 0; i < 2; ++i) sum.biases[i] = a.biases[i] + b.biases[i];
    return sum;
}

// Of one, two or four times 16 rows: (16 + 16) + (16 + 16) of 64, wherever their sums come together.
template <int N>
__device__ inline FirstSums sum_pairwise(const FirstSums (&of)[N]) {
    if constexpr (N == 4) return (of[0] + of[1]) + (of[2] + of[3]);
    if constexpr (N == 2) return of[0] + of[1];
    if constexpr (N == 1) return of[0];
}

// A layer's parts, tile of rows by tile of rows: of weights, 16 outputs by 16 outputs and lane by lane, and of biases.
struct FirstParts {
    float* first;
    // Of the layer, and 16 outputs times so many before those that are meant.
    int outputs, before;

    __device__ inline void store(int tile, int sixteen, const FirstSums& sums) const {
        float* to = first + tile * (FIRST_INPUTS + 1) * outputs;
        int lane = threadIdx.x % 32, at = before + sixteen;
        const float(&w)[4] = sums.weights;
        ((float4*)to)[32 * at + lane] = make_float4(w[0], w[1], w[2], w[3]);
        if (lane % 4 != 0) return;
        float* biases = to + FIRST_INPUTS * outputs + 16 * at + lane / 4;
        biases[0] = sums.biases[0];
        biases[8] = sums.biases[1];
    }
    __device__ inline FirstSums load(int tile, int sixteen) const {
        const float* from = first + tile * (FIRST_INPUTS + 1) * outputs;
        int lane = threadIdx.x % 32, at = before + sixteen;
        float4 w = __ldcg((const float4*)from + 32 * at + lane);
        const float* biases = from + FIRST_INPUTS * outputs + 16 * at + lane / 4;
        return {{w.x, w.y, w.z, w.w}, {__ldcg(biases), __ldcg(biases + 8)}};
    }
    // Adds all tiles' up, those of 64 rows as one tile of them would.
    __device__ inline FirstSums sum(int tiles, int sixteen) const {
        constexpr int AT_ONCE = 4 / TILES_HIGH;
        FirstSums sums = {};
#pragma unroll 4
        for (int tile = 0; tile < tiles; tile += AT_ONCE) {
            FirstSums part[AT_ONCE] = {};
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
                if (tile + i < tiles) part[i] = load(tile + i, sixteen);
            }
            sums = sums + sum_pairwise(part);
        }
        return sums;
    }
};

// Brings the inputs of a tile's rows, of which only the first 8 are not 0, into shared memory.
__device__ __noinline__ void put_first_inputs(const Kept* from, int width, float* to) {
    int row = threadIdx.x;
    if (row < TILE_ROWS) ((uint4*)to)[row] = *(const uint4*)(from + row * width);
}

// Sums the gradients of a tile of derivatives d [TILE_ROWS, outputs + 8] and inputs [TILE_ROWS, 8].
__device__ __noinline__ void sum_first_layer(const Half* d, const float* inputs, FirstParts to, int tile) {
    int lane = threadIdx.x % 32, row = lane % 8 + lane / 16 * 8, stride = to.outputs + 8;
    for (int sixteen = threadIdx.x / 32; 16 * sixteen < to.outputs; sixteen += N_WARPS) {
        FirstSums sums[TILES_HIGH];
#pragma unroll
        for (int h = 0; h < TILES_HIGH; ++h) {
            unsigned int outputs[4], x[2];
            load_turned(outputs, d + (16 * h + row) * stride + 16 * sixteen + lane / 8 % 2 * 8);
            load_two_turned(x, (const Half*)inputs + (16 * h + lane % 16) * FIRST_INPUTS);
            float weights[4] = {}, biases[4] = {};
            multiply_add<true>(weights, outputs, x[0], x[1]);
            multiply_add<true>(biases, outputs, 0x3f803f80u, 0x3f803f80u);
            sums[h] = {{weights[0], weights[1], weights[2], weights[3]}, {biases[0], biases[2]}};
        }
        to.store(tile, sixteen, sum_pairwise(sums));
    }
}

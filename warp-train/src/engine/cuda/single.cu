// Products of a tile with weights in fp32.
//
// Numbers of a tile lie in device memory and come from the second-level cache, so layers may be of any
// width, and blocks of a team may share a layer's columns.

// What a pass keeps for its backward pass.
typedef float Kept;
typedef SlabOf<Kept> Slab;
// There are no weights beside the parameters.
typedef float Half;

// 32 columns of a product of a tile with weights.
struct Product {
    // The tile's first row; k numbers each, a multiple of 32.
    const float* x;
    int k;
    // Weights [32, k], or [k, 32] where they are turned; numbers from row to row.
    const float* w;
    int stride;
    // Of the 32 columns, or 0.
    const float* bias;
    // Outputs whose slope multiplies the product, where y is; or 0.
    const float* kept;
    // The tile's first row and the first of the 32 columns; numbers from row to row.
    float* y;
    int y_stride;
    // Columns and rows that are there.
    int low, high, rows;
    Epilogue epilogue;
};

// Adds k = from..to of a product. Lane 4 q + t has rows q and q + 8 of each 16, columns 8 t to 8 t + 7:
// sums [8 half + column].
template <bool TURNED>
__device__ inline void accumulate(float (&sums)[TILES_HIGH][16], const Product& p, int from, int to) {
    int lane = threadIdx.x % 32, q = lane / 4, t = lane % 4;
    for (int k = from; k < to; k += 4) {
        float4 x[TILES_HIGH][2];
#pragma unroll
        for (int high = 0; high < 2 * TILES_HIGH; ++high) {
            x[high / 2][high % 2] = load_four(p.x + (8 * high + q) * p.k + k);
        }
#pragma unroll
        for (int c = 0; c < 8; c += 4) {
            float4 w[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                w[i] = load_four(TURNED ? p.w + (long long)(k + i) * p.stride + 8 * t + c
                                        : p.w + (long long)(8 * t + c + i) * p.stride + k);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    float weight = TURNED ? part_of(w[i], j) : part_of(w[j], i);
#pragma unroll
                    for (int high = 0; high < 2 * TILES_HIGH; ++high) {
                        float& sum = sums[high / 2][high % 2 * 8 + c + j];
                        sum = fmaf(part_of(x[high / 2][high % 2], i), weight, sum);
                    }
                }
            }
        }
    }
}

// What four neighbouring columns need besides: their biases, or the outputs whose slopes multiply them.
__device__ inline float4 besides(const Product& p, int row, int column) {
    if (p.epilogue <= RELU) return load_four(p.bias + column);
    if (p.epilogue == PLAIN) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    return load_four(p.kept + (long long)row * p.y_stride + column);
}

__device__ inline float finished(const Product& p, float x, float besides) {
    if (p.epilogue <= RELU) return activated(p.epilogue, x + besides);
    return p.epilogue == PLAIN ? x : sloped(p.epilogue, x, besides);
}

// Writes four neighbouring columns.
__device__ inline void write_four(const Product& p, int row, int column, const float (&x)[4]) {
    if (row >= p.rows) return;
    float* to = p.y + (long long)row * p.y_stride + column;
    if (p.low == 0 && p.high == 32 && ((unsigned long long)p.y & 15ull) == 0 && p.y_stride % 4 == 0) {
        *(float4*)to = make_float4(x[0], x[1], x[2], x[3]);
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (column + i >= p.low && column + i < p.high) to[i] = x[i];
    }
}

// Products number 0 to n - 1, as `of` says, shared by the team; SPLIT warps share the sum of each.
template <int SPLIT, bool TURNED, class Of>
__device__ inline void products(int n, int member, Of of) {
    constexpr int AT_ONCE = N_WARPS / SPLIT, OF_LANE = 16 * TILES_HIGH;
    // Sums are written by fours, which neighbouring threads have side by side.
    constexpr int THREADS = 32 * SPLIT, FOURS = 8 * TILE_ROWS, OWN = (FOURS + THREADS - 1) / THREADS;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = warp % SPLIT, thread = 32 * part + lane;
    for (int first = 0; first + member < n; first += AT_ONCE * TEAM) {
        int number = first + warp / SPLIT * TEAM + member;
        Product p;
        float4 more[OWN];
        if (number < n) {
            p = of(number);
            // Loaded ahead of the sums, since nothing that is written can be overtaken.
#pragma unroll
            for (int i = 0; i < OWN; ++i) {
                int four = thread + i * THREADS;
                if (four < FOURS) more[i] = besides(p, four / 8, four % 8 * 4);
            }
            float sums[TILES_HIGH][16] = {};
            int rounds = p.k / 16;
            accumulate<TURNED>(sums, p, 16 * (rounds * part / SPLIT), 16 * (rounds * (part + 1) / SPLIT));
#pragma unroll
            for (int i = 0; i < OF_LANE; ++i) shared[(warp * OF_LANE + i) * 32 + lane] = sums[i / 16][i % 16];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            int four = thread + i * THREADS, row = four / 8, column = four % 8 * 4;
            if (number >= n || four >= FOURS) break;
            const float* from = shared + ((warp - part) * OF_LANE + row / 8 * 8 + column % 8) * 32;
            from += 4 * (row % 8) + column / 8;
            float x[4] = {};
#pragma unroll
            for (int other = 0; other < SPLIT; ++other) {
#pragma unroll
                for (int j = 0; j < 4; ++j) x[j] += from[(other * OF_LANE + j) * 32];
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) x[j] = finished(p, x[j], part_of(more[i], j));
            write_four(p, row, column, x);
        }
        __syncthreads();
    }
}

// Puts numbers of a tile's rows side by side, `width` per row, with zeros where there are none. Every block
// of the team writes the same ones, which can be read when the block has met.
template <class From>
__device__ inline void assemble(float* to, int width, int columns, int rows, From from) {
    for (int i = threadIdx.x; i < TILE_ROWS * width; i += N_THREADS) {
        int row = i / width, column = i % width;
        to[i] = row < rows && column < columns ? from(row, column) : 0.0f;
    }
}

// A thread's sums of gradients: those of weights [4 outputs, 8 inputs] and of biases, per lane. Lane 4 q + t
// has outputs 4 q to 4 q + 3 and inputs 8 t to 8 t + 7.
struct WeightSums {
    float weights[4][8];
    float biases[4];
    __device__ inline float weight(int i) const { return weights[i / 8][i % 8]; }
    __device__ inline float bias(int i) const { return biases[i]; }
};

#define ROWS_AT_ONCE 8

// Adds rows 8 i of a slab, for i = first, and so on in steps of N_WARPS, up to `to`.
__device__ inline void add_rows(WeightSums& sums, const Slab& slab, int first, int to, bool, bool) {
    int lane = threadIdx.x % 32, q = lane / 4, t = lane % 4;
#pragma unroll 4
    for (int at = first; at < to; at += N_WARPS) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            long long row = 8 * at + i;
            const float* x = slab.x + row * slab.k + 8 * t;
            float4 d = load_four(slab.d + row * slab.n + 4 * q), low = load_four(x), high = load_four(x + 4);
#pragma unroll
            for (int a = 0; a < 4; ++a) {
                sums.biases[a] += part_of(d, a);
#pragma unroll
                for (int b = 0; b < 4; ++b) {
                    sums.weights[a][b] = fmaf(part_of(d, a), part_of(low, b), sums.weights[a][b]);
                    sums.weights[a][4 + b] = fmaf(part_of(d, a), part_of(high, b), sums.weights[a][4 + b]);
                }
            }
        }
    }
}

// Where a warp's share of all warps' sums lies in a tile: sums 4 warp + 2 pair and the one behind it, which are
// neighbouring inputs of an output, and that of biases.
__device__ inline int output_of(int warp, int lane, int) { return lane / 4 * 4 + warp / 2; }
__device__ inline int input_of(int warp, int lane, int pair) { return lane % 4 * 8 + warp % 2 * 4 + 2 * pair; }
__device__ inline int bias_of(int warp, int lane) { return lane / 4 * 4 + warp; }

// Where a weight lies in its tile: in the row of its output.
__device__ inline int weight_place(int stride, int output, int input) { return output * stride + input; }

__device__ inline void pack_share(Half*, Half*, float2, float2) {}
__device__ inline void pack_two(Half*, Half*, int, int, float, float) {}

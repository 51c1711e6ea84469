// A tile of rows, on which a team of blocks works together, and its products with weights.
//
// Numbers of a tile lie in device memory and come from the second-level cache, so layers may be of any
// width, and blocks of a team may share a layer's columns. Before this text stand TEAM (blocks of a team: a cluster), TILES_HIGH (16 rows each of a tile)
// and EXACT (fp32, or operands in TF32).

#define TILE_ROWS (16 * TILES_HIGH)
#define N_THREADS 256
#define N_WARPS 8

extern __shared__ float shared[];

// Waits for all blocks of the team, whose writes are seen afterwards.
__device__ inline void team_sync() {
#if TEAM > 1
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
    __syncthreads();
#endif
}

// Waits for all blocks. Every round turns the highest bit of `barrier` and leaves the others at 0.
__device__ inline void grid_sync(unsigned int* barrier) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        unsigned int add = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1u) : 1u;
        unsigned int before = atomicAdd(barrier, add), now;
        do {
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(barrier) : "memory");
        } while (((before ^ now) & 0x80000000u) == 0u);
        __threadfence();
    }
    __syncthreads();
}

// What becomes of a product.
enum Way { LINEAR, TANH, RELU, PLAIN, TANH_SLOPE, RELU_SLOPE };

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
    Way way;
};

__device__ inline float4 load_four(const float* at) { return *(const float4*)at; }

__device__ inline float part_of(const float4& four, int i) {
    return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
}

#if !EXACT
__device__ inline unsigned int as_tf32(float x) {
    unsigned int bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

__device__ inline void multiply_add(float& c0, float& c1, float& c2, float& c3,
                                    const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

// Adds k = from..to of a product. Lane 4 q + t has rows q and q + 8 of each 16, columns 8 t to 8 t + 7:
// sums [8 half + column].
template <bool TURNED>
__device__ inline void accumulate(float (&sums)[TILES_HIGH][16], const Product& p, int from, int to) {
    int lane = threadIdx.x % 32, q = lane / 4, t = lane % 4;
#if EXACT
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
#else
    // The 16 numbers of a round are taken in the order in which lanes load them: k + 4 t + 2 s + h is
    // element t + 4 h of step s. Column 4 q + j is column q of product j.
#pragma unroll 4
    for (int k = from; k < to; k += 16) {
        float4 x[TILES_HIGH][2], w[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            w[i] = load_four(TURNED ? p.w + (long long)(k + 4 * t + i) * p.stride + 4 * q
                                    : p.w + (long long)(4 * q + i) * p.stride + k + 4 * t);
        }
#pragma unroll
        for (int high = 0; high < 2 * TILES_HIGH; ++high) {
            x[high / 2][high % 2] = load_four(p.x + (8 * high + q) * p.k + k + 4 * t);
        }
#pragma unroll
        for (int s = 0; s < 2; ++s) {
#pragma unroll
            for (int high = 0; high < TILES_HIGH; ++high) {
                const float4 &top = x[high][0], &low = x[high][1];
                unsigned int a[4] = {as_tf32(part_of(top, 2 * s)), as_tf32(part_of(low, 2 * s)),
                                     as_tf32(part_of(top, 2 * s + 1)), as_tf32(part_of(low, 2 * s + 1))};
                float(&c)[16] = sums[high];
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    float b0 = TURNED ? part_of(w[2 * s], j) : part_of(w[j], 2 * s);
                    float b1 = TURNED ? part_of(w[2 * s + 1], j) : part_of(w[j], 2 * s + 1);
                    multiply_add(c[j], c[4 + j], c[8 + j], c[12 + j], a, as_tf32(b0), as_tf32(b1));
                }
            }
        }
    }
#endif
}

// What four neighbouring columns need besides: their biases, or the outputs whose slopes multiply them.
__device__ inline float4 besides(const Product& p, int row, int column) {
    if (p.way <= RELU) return load_four(p.bias + column);
    if (p.way == PLAIN) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    return load_four(p.kept + (long long)row * p.y_stride + column);
}

__device__ inline float finished(const Product& p, float x, float besides) {
    if (p.way <= RELU) x += besides;
    if (p.way == TANH) return warp_tanh(x);
    if (p.way == RELU) return x > 0.0f ? x : 0.0f;
    if (p.way <= PLAIN) return x;
    if (p.way == TANH_SLOPE) return x * (1.0f - besides * besides);
    return besides > 0.0f ? x : 0.0f;
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
    constexpr int AT_ONCE = N_WARPS / SPLIT, SUMS = 16 * TILES_HIGH;
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
            for (int i = 0; i < SUMS; ++i) shared[(warp * SUMS + i) * 32 + lane] = sums[i / 16][i % 16];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            int four = thread + i * THREADS, row = four / 8, column = four % 8 * 4;
            if (number >= n || four >= FOURS) break;
            const float* from = shared + ((warp - part) * SUMS + row / 8 * 8 + column % 8) * 32;
            from += 4 * (row % 8) + column / 8;
            float x[4] = {};
#pragma unroll
            for (int other = 0; other < SPLIT; ++other) {
#pragma unroll
                for (int j = 0; j < 4; ++j) x[j] += from[(other * SUMS + j) * 32];
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

// The columns of 32 that a part of some numbers has, from where the part begins and up to where it ends.
__device__ inline int low_of(int begin) { return begin > 0 ? begin : 0; }
__device__ inline int high_of(int end) { return end < 32 ? end : 32; }

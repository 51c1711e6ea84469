// Products of a tile with weights in half precision, summed in fp32: fp16 on the way forward, bf16 on the
// way back, where numbers may be small.
//
// A tile's numbers lie in shared memory [TILE_ROWS, width + 8], where eight neighbouring rows never meet in
// a bank. Weights lie beside the parameters, packed in the order in which lanes need them.

typedef unsigned short Half;
// What a pass keeps for its way back: bf16.
typedef Half Kept;
typedef SlabOf<Kept> Slab;

template <bool BACK>
__device__ inline unsigned int two_halves(float low, float high) {
    unsigned int two;
    if (BACK) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
        return two;
    }
    // The largest there is, rather than infinity; what is no number stays none.
    asm("{\n.reg .f32 low, high;\nmin.NaN.f32 low, %2, 0f477fe000;\nmax.NaN.f32 low, low, 0fc77fe000;\n"
        "min.NaN.f32 high, %1, 0f477fe000;\nmax.NaN.f32 high, high, 0fc77fe000;\n"
        "cvt.rn.f16x2.f32 %0, high, low;\n}"
        : "=r"(two)
        : "f"(high), "f"(low));
    return two;
}

__device__ inline float low_of_two(unsigned int two) { return __uint_as_float(two << 16); }
__device__ inline float high_of_two(unsigned int two) { return __uint_as_float(two & 0xffff0000u); }

__device__ inline unsigned int shared_address(const void* at) {
    return (unsigned int)__cvta_generic_to_shared(at);
}

// Four matrices of 8 by 8; each lane says where a row begins.
__device__ inline void load_matrices(unsigned int (&to)[4], const Half* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ inline void load_turned(unsigned int (&to)[4], const Half* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}

template <bool BACK>
__device__ inline void multiply_add(float (&c)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
#define MULTIPLY_ADD(type)                                                                         \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, "           \
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                            \
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                           \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
    if (BACK) {
        MULTIPLY_ADD("bf16");
    } else {
        MULTIPLY_ADD("f16");
    }
#undef MULTIPLY_ADD
}

// Packed weights of 32 columns and 32 terms: where one of them lies.
__device__ inline int packed_place(int column, int term) {
    int lane = column % 8 * 4 + term % 8 / 2;
    return term / 16 * 512 + column / 16 * 256 + lane * 8 + column / 8 % 2 * 4 + term % 16 / 8 * 2 + term % 2;
}

// A lane's packed weights of 32 columns and 16 terms.
struct RoundWeights {
    uint4 low, top;
    __device__ inline void load(const uint4* from) {
        low = __ldcg(from);
        top = __ldcg(from + 32);
    }
};

// Adds a round of 16 terms: 16 rows by 32 columns.
template <bool BACK>
__device__ inline void add_round(float (&sums)[4][4], const Half* rows, const RoundWeights& w) {
    unsigned int a[4];
    load_matrices(a, rows);
    multiply_add<BACK>(sums[0], a, w.low.x, w.low.y);
    multiply_add<BACK>(sums[1], a, w.low.z, w.low.w);
    multiply_add<BACK>(sums[2], a, w.top.x, w.top.y);
    multiply_add<BACK>(sums[3], a, w.top.z, w.top.w);
}

// Products of a tile's numbers x [TILE_ROWS, K + 8] with packed weights of 32 columns each, `chunks` of them,
// one to a warp, or to HIGH times 16 rows of it. What else two sums need is before(row, column), loaded ahead
// where registers suffice; calls finish(row, column, two sums, what before gave).
template <bool BACK, int HIGH, int K, class Before, class Finish>
__device__ inline void multiply(const Half* x, const Half* weights, int chunks, Before before, Finish finish) {
    constexpr int PARTS = TILES_HIGH / HIGH, ROUNDS = K / 16;
    constexpr int AHEAD = HIGH == 4 ? 2 : 4;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int unit = warp; unit < chunks * PARTS; unit += N_WARPS) {
        int chunk = unit / PARTS, high = unit % PARTS * HIGH;
        int row = 16 * high + lane / 4, column = 32 * chunk + lane % 4 * 2;
        const uint4* w = (const uint4*)weights + (long long)chunk * ROUNDS * 64 + lane;
        const Half* from = x + (16 * high + lane % 16) * (K + 8) + lane / 16 * 8;
        RoundWeights ahead[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            if (i < ROUNDS) ahead[i].load(w + 64 * i);
        }
        decltype(before(0, 0)) more[4][2];
        if (HIGH == 1) {
#pragma unroll
            for (int i = 0; i < 8; ++i) more[i / 2][i % 2] = before(row + i % 2 * 8, column + i / 2 * 8);
        }
        float sums[HIGH][4][4] = {};
#pragma unroll 16
        for (int round = 0; round < ROUNDS; ++round) {
            RoundWeights now = ahead[round % AHEAD];
            if (round + AHEAD < ROUNDS) ahead[round % AHEAD].load(w + 64 * (round + AHEAD));
#pragma unroll
            for (int h = 0; h < HIGH; ++h) add_round<BACK>(sums[h], from + 16 * h * (K + 8) + 16 * round, now);
        }
#pragma unroll
        for (int h = 0; h < HIGH; ++h) {
            if (HIGH > 1) {
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    more[i / 2][i % 2] = before(row + 16 * h + i % 2 * 8, column + i / 2 * 8);
                }
            }
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const float(&four)[4] = sums[h][i / 2];
                finish(row + 16 * h + i % 2 * 8, column + i / 2 * 8, four[i % 2 * 2], four[i % 2 * 2 + 1],
                       more[i / 2][i % 2]);
            }
        }
    }
}

// The same for the first 8 columns of a chunk: all warps share the terms of each sum.
template <bool BACK, int K, class Finish>
__device__ inline void multiply_eight(const Half* x, const uint4* weights, float* parts, Finish finish) {
    constexpr int ROUNDS = K / 16;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float sums[TILES_HIGH][4] = {};
#pragma unroll
    for (int round = warp; round < ROUNDS; round += N_WARPS) {
        uint4 now = __ldcg(weights + 64 * round);
#pragma unroll
        for (int h = 0; h < TILES_HIGH; ++h) {
            unsigned int a[4];
            load_matrices(a, x + (16 * h + lane % 16) * (K + 8) + lane / 16 * 8 + 16 * round);
            multiply_add<BACK>(sums[h], a, now.x, now.y);
        }
    }
#pragma unroll
    for (int h = 0; h < TILES_HIGH; ++h) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float* to = parts + (warp * TILE_ROWS + 16 * h + lane / 4 + 8 * i) * 8 + lane % 4 * 2;
            *(float2*)to = make_float2(sums[h][2 * i], sums[h][2 * i + 1]);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < TILE_ROWS * 8; i += N_THREADS) {
        float sum = 0.0f;
#pragma unroll
        for (int other = 0; other < N_WARPS; ++other) sum += parts[other * TILE_ROWS * 8 + i];
        finish(i / 8, i % 8, sum);
    }
    __syncthreads();
}

// The same for few columns, `columns` of them from `first` on: all warps share the terms of each sum; calls
// finish(row, column, sum). `parts`: room for the warps' parts, which have met when this begins.
template <bool BACK, int K, class Finish>
__device__ inline void multiply_few(const Half* x, const Half* weights, int first, int columns, float* parts,
                                    Finish finish) {
    constexpr int ROUNDS = K / 16;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int chunk = first / 32; 32 * chunk < first + columns; ++chunk) {
        const uint4* w = (const uint4*)weights + (long long)chunk * ROUNDS * 64 + lane;
        int low = low_of(first - 32 * chunk), n = high_of(first + columns - 32 * chunk) - low;
        if (low + n <= 8) {
            multiply_eight<BACK, K>(x, w, parts, [&](int row, int column, float sum) {
                if (column >= low && column < low + n) finish(row, 32 * chunk + column, sum);
            });
            continue;
        }
#pragma unroll 1
        for (int h = 0; h < TILES_HIGH; ++h) {
            const Half* from = x + (16 * h + lane % 16) * (K + 8) + lane / 16 * 8;
            float sums[4][4] = {};
#pragma unroll
            for (int round = warp; round < ROUNDS; round += N_WARPS) {
                RoundWeights now;
                now.load(w + 64 * round);
                add_round<BACK>(sums, from + 16 * round, now);
            }
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                float* to = parts + (warp * 16 + lane / 4 + i % 2 * 8) * 32 + i / 2 * 8 + lane % 4 * 2;
                *(float2*)to = make_float2(sums[i / 2][i % 2 * 2], sums[i / 2][i % 2 * 2 + 1]);
            }
            __syncthreads();
            for (int i = threadIdx.x; i < 16 * n; i += N_THREADS) {
                int row = i / n, column = low + i % n;
                float sum = 0.0f;
#pragma unroll
                for (int other = 0; other < N_WARPS; ++other) sum += parts[(other * 16 + row) * 32 + column];
                finish(16 * h + row, 32 * chunk + column, sum);
            }
            __syncthreads();
        }
    }
}

// Two neighbouring numbers of a tile, and of what is kept of it, if it is.
template <bool BACK>
__device__ inline void put_two(Half* y, Kept* kept, int width, int row, int column, float a, float b) {
    *(unsigned int*)(y + row * (width + 8) + column) = two_halves<BACK>(a, b);
    if (kept) *(unsigned int*)(kept + row * width + column) = two_halves<true>(a, b);
}

// The functions below are one copy of code each, which all passes share: a program goes through its code once, so
// that every instruction of another copy would come from the second-level cache.

// Puts a column's numbers, or zeros where there is none, behind the `at` that a tile's rows have.
template <bool BACK>
__device__ __noinline__ void put_column(Half* to, Kept* kept, int width, int at, const float* from, int columns,
                                        int rows) {
    for (int i = threadIdx.x; i < TILE_ROWS * columns; i += N_THREADS) {
        int row = i / columns, column = i % columns;
        float x = from && row < rows ? from[i] : 0.0f;
        to[row * (width + 8) + at + column] = (Half)two_halves<BACK>(x, 0.0f);
        if (kept) kept[row * width + at + column] = (Kept)two_halves<true>(x, 0.0f);
    }
}

// A hidden layer on the way forward: y = way(x w + bias).
template <int HIGH, int K>
__device__ __noinline__ void hidden_layer(const Half* x, const Half* weights, const float* bias, Way way, Half* y,
                                          Kept* kept, int n) {
    auto biases = [&](int, int column) { return *(const float2*)(bias + column); };
    auto finish = [&](int row, int column, float a, float b, float2 add) {
        put_two<false>(y, kept, n, row, column, activated(way, a + add.x), activated(way, b + add.y));
    };
    multiply<false, HIGH, K>(x, weights, n / 32, biases, finish);
}

// A last layer, into a column of `outputs` numbers per row.
template <int K>
__device__ __noinline__ void last_layer(const Half* x, const Half* weights, const float* bias, float* parts,
                                        float* to, int outputs, int rows) {
    multiply_few<false, K>(x, weights, 0, outputs, parts, [&](int row, int column, float sum) {
        if (row < rows) to[row * outputs + column] = sum + bias[column];
    });
}

// Back through a layer to the k outputs y of the hidden one before it.
template <int HIGH, int N>
__device__ __noinline__ void layer_back(const Half* d, const Half* weights, Way way, const Kept* y, Half* to,
                                        Kept* kept, int k) {
    auto outputs = [&](int row, int column) { return *(const unsigned int*)(y + row * k + column); };
    auto finish = [&](int row, int column, float a, float b, unsigned int two) {
        a = sloped(way, a, low_of_two(two));
        b = sloped(way, b, high_of_two(two));
        put_two<true>(to, kept, k, row, column, a, b);
    };
    multiply<true, HIGH, N>(d, weights, k / 32, outputs, finish);
}

// Back through a first layer to inputs `from` to from + width - 1, into a column.
template <int N>
__device__ __noinline__ void inputs_back(const Half* d, const Half* weights, float* parts, float* to, int from,
                                         int width, int rows) {
    multiply_few<true, N>(d, weights, from, width, parts, [&](int row, int column, float sum) {
        if (row < rows) to[row * width + column - from] = sum;
    });
}

// Sums of gradients: products of derivatives and inputs of a pass's rows, 32 outputs by 32 inputs.
// Product 4 i + j is that of outputs 16 i to 16 i + 15 and inputs 8 j to 8 j + 7.
struct WeightSums {
    float products[8][4];
    float biases[2][4];
    __device__ inline float weight(int i) const { return products[i / 4][i % 4]; }
    __device__ inline float bias(int i) const { return biases[i / 2][i % 2 * 2]; }
};

#define ROWS_AT_ONCE 16
// Of a warp's rows in shared memory, which are 32 numbers wide.
#define STAGED 40

// Adds 16 rows that lie in shared memory, `stride` numbers from row to row.
__device__ inline void add_staged(WeightSums& sums, const Half* d, const Half* x, int stride, bool with_bias) {
    int matrix = threadIdx.x % 32 / 8, row = threadIdx.x % 8;
    unsigned int outputs[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        load_turned(outputs[i], d + (row + matrix / 2 * 8) * stride + 16 * i + matrix % 2 * 8);
        if (with_bias) multiply_add<true>(sums.biases[i], outputs[i], 0x3f803f80u, 0x3f803f80u);
    }
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
        unsigned int inputs[4];
        load_turned(inputs, x + (row + matrix % 2 * 8) * stride + 8 * j + matrix / 2 * 8);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            multiply_add<true>(sums.products[4 * i + j], outputs[i], inputs[0], inputs[1]);
            multiply_add<true>(sums.products[4 * i + j + 1], outputs[i], inputs[2], inputs[3]);
        }
    }
}

// Adds rows 16 i of a slab, for i = first_group, and so on in steps of N_WARPS, up to `to`.
__device__ inline void add_rows(WeightSums& sums, const Slab& slab, int first_group, int to, bool with_bias) {
    constexpr int BUFFERS = 2;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Half *staged_d = (Half*)(shared + warp * SUMS * 32), *staged_x = staged_d + 16 * STAGED;
    uint4 d[BUFFERS][2], x[BUFFERS][2];
    auto load = [&](int buffer, int at) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            long long row = 16 * at + lane / 4 + 8 * i;
            d[buffer][i] = __ldcg((const uint4*)(slab.d + row * slab.n + lane % 4 * 8));
            x[buffer][i] = __ldcg((const uint4*)(slab.x + row * slab.k + lane % 4 * 8));
        }
    };
#pragma unroll
    for (int b = 0; b < BUFFERS; ++b) {
        if (first_group + b * N_WARPS < to) load(b, first_group + b * N_WARPS);
    }
    for (int first = first_group; first < to; first += BUFFERS * N_WARPS) {
#pragma unroll
        for (int b = 0; b < BUFFERS; ++b) {
            int at = first + b * N_WARPS, next = at + BUFFERS * N_WARPS;
            if (at >= to) break;
            __syncwarp();
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                int place = (lane / 4 + 8 * i) * STAGED + lane % 4 * 8;
                *(uint4*)(staged_d + place) = d[b][i];
                *(uint4*)(staged_x + place) = x[b][i];
            }
            __syncwarp();
            if (next < to) load(b, next);
            add_staged(sums, staged_d, staged_x, STAGED, with_bias);
        }
    }
    __syncwarp();
}

// Adds a warp's partial sums to others.
__device__ inline void add_sums(WeightSums& to, const WeightSums& from) {
#pragma unroll
    for (int i = 0; i < 32; ++i) to.products[i / 4][i % 4] += from.products[i / 4][i % 4];
#pragma unroll
    for (int i = 0; i < 4; ++i) to.biases[i / 2][i % 2 * 2] += from.biases[i / 2][i % 2 * 2];
}

// Where a warp's share of all warps' sums lies in a tile: sums 4 warp + 2 pair and the one behind it, which are
// neighbouring inputs of an output, and that of biases.
__device__ inline int output_of(int warp, int lane, int pair) { return warp / 4 * 16 + lane / 4 + 8 * pair; }
__device__ inline int input_of(int warp, int lane, int) { return warp % 4 * 8 + lane % 4 * 2; }
__device__ inline int bias_of(int warp, int lane) { return warp / 2 * 16 + lane / 4 + warp % 2 * 8; }

// Keeps weights of an output and two neighbouring inputs, the first of them even, packed, too.
__device__ inline void pack_two(Half* forward, Half* back, int output, int input, float a, float b) {
    unsigned int two = two_halves<true>(a, b);
    *(unsigned int*)(forward + packed_place(output, input)) = two_halves<false>(a, b);
    back[packed_place(input, output)] = (Half)two;
    back[packed_place(input + 1, output)] = (Half)(two >> 16);
}

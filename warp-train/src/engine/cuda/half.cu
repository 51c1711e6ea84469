// Products of a tile with weights in half precision, summed in fp32: fp16 in the forward pass, or with BF16 bf16, and
// bf16 in the backward pass, where numbers may be small.
//
// A tile's numbers lie in shared memory [TILE_ROWS, width + 8], where eight neighbouring rows never meet in
// a bank. Weights lie beside the parameters, packed in the order in which lanes need them.

typedef unsigned short Half;
// What a pass keeps for its backward pass: bf16.
typedef Half Kept;
typedef SlabOf<Kept> Slab;

template <bool BACK>
__device__ inline unsigned int two_halves(float low, float high) {
    unsigned int two;
    if (BACK || BF16) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
        return two;
    }
    // The largest there is, rather than infinity; what is no number stays none.
    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
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

__device__ inline void load_two_turned(unsigned int (&to)[2], const Half* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
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
    if (BACK || BF16) {
        MULTIPLY_ADD("bf16");
    } else {
        MULTIPLY_ADD("f16");
    }
#undef MULTIPLY_ADD
}

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

// What the four lanes of a row have of its 32 columns, turned: of columns 8 j + 2 lane and the one behind for each j,
// a lane gets the eight neighbours from 8 lane on, or the reverse.
__device__ inline uint4 turned(uint4 of) {
    bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
    unsigned int first = __shfl_xor_sync(~0u, odd ? of.x : of.y, 1), last = __shfl_xor_sync(~0u, odd ? of.z : of.w, 1);
    (odd ? of.x : of.y) = first;
    (odd ? of.z : of.w) = last;
    first = __shfl_xor_sync(~0u, high ? of.x : of.z, 2);
    last = __shfl_xor_sync(~0u, high ? of.y : of.w, 2);
    (high ? of.x : of.z) = first;
    (high ? of.y : of.w) = last;
    return of;
}

__device__ inline unsigned int word_of(const uint4& four, int i) {
    return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
}

// Where a layer's products go: into a tile's numbers, and to what is kept of them, if that is.
struct Into {
    Half* to;
    Kept* kept;
    int width;
};

// Puts eight numbers of a row, those in two neighbouring columns 8 apart.
template <bool BACK>
__device__ inline void put_eight(const Into& into, int row, int chunk, const float (&numbers)[4][2]) {
    int lane = threadIdx.x % 4;
    Half* to = into.to + row * (into.width + 8) + 32 * chunk + 2 * lane;
#pragma unroll
    for (int j = 0; j < 4; ++j) put_word(to + 8 * j, two_halves<BACK>(numbers[j][0], numbers[j][1]));
    if (!into.kept) return;
    uint4 kept = {two_halves<true>(numbers[0][0], numbers[0][1]), two_halves<true>(numbers[1][0], numbers[1][1]),
                  two_halves<true>(numbers[2][0], numbers[2][1]), two_halves<true>(numbers[3][0], numbers[3][1])};
    // Whole sectors of memory at a time.
    *(uint4*)(into.kept + row * into.width + 32 * chunk + 8 * lane) = turned(kept);
}

// Products of a tile's numbers x [TILE_ROWS, K + 8] with packed weights of 32 columns each, `chunks` of them,
// one to a warp of those that share a pass, or to HIGH times 16 rows of it. `more` says what else is needed:
// of(chunk, high) for all rows, and of_row(row, chunk), which are loaded ahead; and takes
// finish(row, chunk, sums, both, eight) of every eighth row, in the end done(chunk, high, of all rows).
template <bool BACK, int HIGH, int K, class More>
__device__ inline void multiply(const Half* x, const Half* weights, int chunks, const More& more) {
    constexpr int PARTS = TILES_HIGH / HIGH, ROUNDS = K / 16;
    constexpr int AHEAD = HIGH == 4 ? 2 : HIGH == 1 && ROUNDS > 16 ? 8 : 4;
    int lane = threadIdx.x % 32;
    for (int unit = first_unit(); unit < chunks * PARTS; unit += N_WARPS * SHARE) {
        int chunk = unit / PARTS, high = unit % PARTS * HIGH, row = 16 * high + lane / 4;
        const uint4* w = (const uint4*)weights + (long long)chunk * ROUNDS * 64 + lane;
        const Half* from = x + (16 * high + lane % 16) * (K + 8) + lane / 16 * 8;
        RoundWeights ahead[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            if (i < ROUNDS) ahead[i].load(w + 64 * i);
        }
        auto of_chunk = more.template of<HIGH>(chunk, high);
        decltype(more.of_row(0, 0)) of_rows[2];
        auto load_rows = [&](int h) {
#pragma unroll
            for (int i = 0; i < 2; ++i) of_rows[i] = more.of_row(row + 16 * h + 8 * i, chunk);
        };
        if (HIGH == 1) load_rows(0);
        float sums[HIGH][4][4] = {};
        // Unrolled, so that what is on its way stays in registers.
        constexpr int AT_ONCE = ROUNDS <= 16 ? ROUNDS : AHEAD;
        for (int first = 0; first < ROUNDS; first += AT_ONCE) {
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
                int round = first + i;
                if (ROUNDS % AT_ONCE != 0 && round >= ROUNDS) break;
                RoundWeights now = ahead[i % AHEAD];
                if (round + AHEAD < ROUNDS) ahead[i % AHEAD].load(w + 64 * (round + AHEAD));
#pragma unroll
                for (int h = 0; h < HIGH; ++h) add_round<BACK>(sums[h], from + 16 * h * (K + 8) + 16 * round, now);
            }
        }
        if (HIGH > 1) load_rows(0);
#pragma unroll
        for (int h = 0; h < HIGH; ++h) {
            decltype(more.of_row(0, 0)) now[2] = {of_rows[0], of_rows[1]};
            if (h + 1 < HIGH) load_rows(h + 1);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float numbers[4][2];
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    numbers[j][0] = sums[h][j][2 * i];
                    numbers[j][1] = sums[h][j][2 * i + 1];
                }
                more.finish(row + 16 * h + 8 * i, chunk, numbers, of_chunk, now[i], 2 * h + i);
            }
        }
        more.done(chunk, high, of_chunk);
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
        uint4 now = load_packed(weights + 64 * round);
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

// The functions below are one copy of code each, which all passes share: a program goes through its code once, so
// that every instruction of another copy would come from the second-level cache.

// Where a number of each row lies, from row to row; none: 0.
struct OfRows {
    const float* first;
    int stride;
    __device__ inline float at(int row, int rows) const { return first && row < rows ? first[row * stride] : 0.0f; }
};

// Columns that stand side by side in the rows of a tile.
struct SideBySide {
    const float* column[MOST_INPUTS];
    // How many numbers those up to here have together.
    int end[MOST_INPUTS];
    __device__ inline OfRows number(int i) const {
        int begin = 0;
#pragma unroll
        for (int c = 0; c < MOST_INPUTS; ++c) {
            if (i < end[c]) return {column[c] + i - begin, end[c] - begin};
            begin = end[c];
        }
        return {};
    }
};

// Puts columns side by side, with zeros behind them, and in rows that are not there.
template <bool BACK>
__device__ __noinline__ void put_columns(Into into, SideBySide from, int rows) {
    constexpr int AT_ONCE = 4;
    // Two rows of 32 numbers at a time, or one of more.
    int of_row = into.width == 32 ? 16 : 32, rows_of_warp = 32 / of_row;
    int lane = threadIdx.x % of_row, thread_row = threadIdx.x / of_row, step = rows_of_warp * N_WARPS;
    for (int column = 2 * lane; column < into.width; column += 64) {
        OfRows low = from.number(column), high = from.number(column + 1);
        for (int first = thread_row; first < TILE_ROWS; first += AT_ONCE * step) {
            float two[AT_ONCE][2];
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
                two[i][0] = low.at(first + i * step, rows);
                two[i][1] = high.at(first + i * step, rows);
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
                int row = first + i * step;
                if (row >= TILE_ROWS) break;
                *(unsigned int*)(into.to + row * (into.width + 8) + column) = two_halves<BACK>(two[i][0], two[i][1]);
                if (!into.kept) continue;
                *(unsigned int*)(into.kept + row * into.width + column) = two_halves<true>(two[i][0], two[i][1]);
            }
        }
    }
}

// Which outputs of relu are on, of the eight of a chunk's columns that a lane has, in every eighth of HIGH times 16 rows. A
// word has four such rows: in each of its bytes two bits of each, the highest first.
template <int HIGH>
struct On {
    unsigned int words[(HIGH + 1) / 2];

    // Columns 2 j and 2 j + 1 are the halves of word j in bf16, and not below 0.
    __device__ inline void set(int eight, const unsigned int (&two)[4]) {
        unsigned int on[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) on[j] = two[j] + 0x7fff7fffu;
        // The highest bits of bytes: of columns 0 to 3, and of the others.
        unsigned int low = __byte_perm(on[0], on[1], 0x7531), high = __byte_perm(on[2], on[3], 0x7531);
        words[eight / 4] |= ((low & 0x80808080u) | (high & 0x80808080u) >> 1) >> eight % 4 * 2;
    }
    __device__ inline bool is(int eight, int column) const {
        int bit = column % 4 * 8 + 7 - column / 4 - eight % 4 * 2;
        return (words[eight / 4] & 1u << bit) != 0u;
    }

    // Where a lane keeps them.
    static __device__ inline unsigned char* of_lane(unsigned char* on, int chunk, int high) {
        return on + (chunk * 32 + threadIdx.x % 32) * 2 * TILES_HIGH + 2 * high;
    }
    __device__ inline void load(const unsigned char* from) {
        if constexpr (HIGH == 1) {
            // Two rows have the higher halves of bytes alone.
            unsigned int four = *(const unsigned short*)from;
            words[0] = (four & 0xfu) << 4 | (four & 0xf0u) << 8 | (four & 0xf00u) << 12 | (four & 0xf000u) << 16;
        } else {
#pragma unroll
            for (int i = 0; i < HIGH / 2; ++i) words[i] = ((const unsigned int*)from)[i];
        }
    }
    __device__ inline void store(unsigned char* to) const {
        if constexpr (HIGH == 1) {
            unsigned int w = words[0];
            *(unsigned short*)to = w >> 4 & 0xfu | w >> 8 & 0xf0u | w >> 12 & 0xf00u | w >> 16 & 0xf000u;
        } else if constexpr (HIGH == 2) {
            *(unsigned int*)to = words[0];
        } else {
            *(uint2*)to = make_uint2(words[0], words[1]);
        }
    }
};

// Of a hidden layer in the forward pass: biases, and where to keep which outputs of relu are on, if that is.
template <Epilogue EPILOGUE>
struct Activated {
    Into into;
    const float* bias;
    unsigned char* on;
    struct Nothing {};
    template <int HIGH>
    struct OfChunk {
        float2 bias[4];
        On<HIGH> on;
    };
    template <int HIGH>
    __device__ inline OfChunk<HIGH> of(int chunk, int) const {
        const float* from = bias + 32 * chunk + threadIdx.x % 4 * 2;
        return {{*(const float2*)from, *(const float2*)(from + 8), *(const float2*)(from + 16),
                 *(const float2*)(from + 24)},
                {}};
    }
    __device__ inline Nothing of_row(int, int) const { return {}; }
    template <int HIGH>
    __device__ inline void finish(int row, int chunk, float (&numbers)[4][2], OfChunk<HIGH>& of_chunk, Nothing,
                                  int eight) const {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            numbers[j][0] = activated(EPILOGUE, numbers[j][0] + of_chunk.bias[j].x);
            numbers[j][1] = activated(EPILOGUE, numbers[j][1] + of_chunk.bias[j].y);
        }
        put_eight<false>(into, row, chunk, numbers);
        if (EPILOGUE != RELU || !on) return;
        unsigned int two[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) two[j] = two_halves<true>(numbers[j][0], numbers[j][1]);
        of_chunk.on.set(eight, two);
    }
    template <int HIGH>
    __device__ inline void done(int chunk, int high, const OfChunk<HIGH>& of_chunk) const {
        if (EPILOGUE == RELU && on) of_chunk.on.store(On<HIGH>::of_lane(on, chunk, high));
    }
};

// Of a layer in the backward pass: which outputs of the hidden one before it are on, if they are those of relu.
struct ReluSlopes {
    Into into;
    unsigned char* on;
    struct Nothing {};
    template <int HIGH>
    __device__ inline On<HIGH> of(int chunk, int high) const {
        On<HIGH> of_chunk;
        of_chunk.load(On<HIGH>::of_lane(on, chunk, high));
        return of_chunk;
    }
    __device__ inline Nothing of_row(int, int) const { return {}; }
    template <int HIGH>
    __device__ inline void finish(int row, int chunk, float (&numbers)[4][2], const On<HIGH>& of_chunk, Nothing,
                                  int eight) const {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            if (!of_chunk.is(eight, i)) numbers[i / 2][i % 2] = 0.0f;
        }
        put_eight<true>(into, row, chunk, numbers);
    }
    template <int HIGH>
    __device__ inline void done(int, int, const On<HIGH>&) const {}
};

// The same of tanh: its outputs y.
struct TanhSlopes {
    Into into;
    const Kept* y;
    struct Nothing {};
    template <int HIGH>
    __device__ inline Nothing of(int, int) const {
        return {};
    }
    __device__ inline uint4 of_row(int row, int chunk) const {
        return *(const uint4*)(y + row * into.width + 32 * chunk + threadIdx.x % 4 * 8);
    }
    __device__ inline void finish(int row, int chunk, float (&numbers)[4][2], Nothing, const uint4& of_row, int) const {
        uint4 outputs = turned(of_row);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            numbers[j][0] = sloped(TANH_SLOPE, numbers[j][0], low_of_two(word_of(outputs, j)));
            numbers[j][1] = sloped(TANH_SLOPE, numbers[j][1], high_of_two(word_of(outputs, j)));
        }
        put_eight<true>(into, row, chunk, numbers);
    }
    __device__ inline void done(int, int, Nothing) const {}
};

// Of a layer in the backward pass whose inputs are normalised: what is activated there is not known yet.
struct NoSlopes {
    Into into;
    struct Nothing {};
    template <int HIGH>
    __device__ inline Nothing of(int, int) const {
        return {};
    }
    __device__ inline Nothing of_row(int, int) const { return {}; }
    __device__ inline void finish(int row, int chunk, const float (&numbers)[4][2], Nothing, Nothing, int) const {
        put_eight<true>(into, row, chunk, numbers);
    }
    __device__ inline void done(int, int, Nothing) const {}
};

// A hidden layer in the forward pass: its outputs are activated sums of x w + bias.
template <int HIGH, int K, Epilogue EPILOGUE>
__device__ __noinline__ void hidden_layer(const Half* x, const Half* weights, Activated<EPILOGUE> more) {
    multiply<false, HIGH, K>(x, weights, more.into.width / 32, more);
}

// A last layer, into a column of `outputs` numbers per row.
template <int K>
__device__ __noinline__ void last_layer(const Half* x, const Half* weights, const float* bias, float* parts,
                                        float* to, int outputs, int rows) {
    // Loaded ahead where a thread's columns are all this one.
    int own = threadIdx.x % 8;
    float own_bias = own < outputs ? bias[own] : 0.0f;
    multiply_few<false, K>(x, weights, 0, outputs, parts, [&](int row, int column, float sum) {
        if (row < rows) to[row * outputs + column] = sum + (column == own ? own_bias : bias[column]);
    });
}

// Back through a layer to the outputs of the hidden one before it.
template <int HIGH, int N, class Slopes>
__device__ __noinline__ void layer_back(const Half* d, const Half* weights, Slopes more) {
    multiply<true, HIGH, N>(d, weights, more.into.width / 32, more);
}

// Back through a first layer to inputs `from` to from + width - 1, into a column.
template <int N>
__device__ __noinline__ void inputs_back(const Half* d, const Half* weights, float* parts, float* to, int from,
                                         int width, int rows) {
    multiply_few<true, N>(d, weights, from, width, parts, [&](int row, int column, float sum) {
        if (row < rows) to[row * width + column - from] = sum;
    });
}

// Back through the normalisation of a hidden layer, of the two rows that a thread holds a quarter of: from the gradients of
// what gains and shifts gave to those of what was normalised; sums of the gradients of gains and shifts.

#if T_NORMED
// A sixteenth, twice: sums of 16 rows stay within the range of halves if each number is one.
#define T_SIXTEENTHS (BF16 ? 0x3d803d80u : 0x2c002c00u)

// Adds a part of 32 columns of two rows to the warp's sums for the gradients of shifts, and sixteenths of its products with
// what was normalised to those of gains: over its rows first, which eight threads have, so that every thread ends with two
// columns of either.
__device__ inline void t_add_columns(const unsigned int* d, const unsigned int* products, float* gains, float* shifts) {
    int lane = threadIdx.x % 32;
    unsigned int x[8];
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
        x[j] = t_times_plus(d[2 * j], T_SIXTEENTHS, t_times(d[2 * j + 1], T_SIXTEENTHS));
        x[4 + j] = t_plus(products[2 * j], products[2 * j + 1]);
    }
    #pragma unroll
    for (int count = 4; count > 0; count /= 2) {
        bool upper = lane & 4 * count;
        #pragma unroll
        for (int i = 0; i < count; ++i) {
            unsigned int sent = upper ? x[i] : x[i + count], kept = upper ? x[i + count] : x[i];
            x[i] = t_plus(kept, __shfl_xor_sync(0xffffffffu, sent, 4 * count));
        }
    }
    // Bit 4 of the lane has said which of the two, bits 3 and 2 which eight columns.
    float2* to = (float2*)((lane & 16 ? gains : shifts) + lane / 4 % 4 * 8 + lane % 4 * 2);
    float2 own = {16.0f * t_low(x[0]), 16.0f * t_high(x[0])};
    // Nobody else adds to it. In memory, that needs no answer.
    if (T_LEARNERS) *to = make_float2(to->x + own.x, to->y + own.y);
    else atomicAdd(to, own);
}

// sums += 16 columns of 16 rows, each times its weight, in every column of the product; a thread has its two rows' in
// sums[0] and sums[2].
__device__ inline void t_add_weighted(float (&sums)[4], const unsigned int* rows, const unsigned int* weights) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32." HALF_TYPE "." HALF_TYPE ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(weights[0]), "r"(weights[1]));
}

// What a layer's normalisation left for the way back.
struct TNormed {
    const float* gains;
    // One over the deviations of the thread's two rows.
    float2 inverse;
    // What it gave, and the activations of that.
    const unsigned char *units, *activations;
    // The warp's sums of gradients of gains, then of shifts.
    float* gradients;
};

// What a thread has kept of N numbers in parts of 32 columns, 16 numbers each, on its way back: all parts at once where
// registers suffice, or the next one while one is worked on.
template <int N>
struct TRecalled {
    static constexpr int parts = N / 16;
    static constexpr bool all = N <= 64;
    const unsigned char* tile;
    unsigned int part[all ? parts : 2][8];

    __device__ inline void begin(const unsigned char* kept) {
        tile = kept;
        #pragma unroll
        for (int t = 0; t < (all ? parts : 1); ++t) t_recall_part(part[t], tile, t);
    }
    // Parts are asked for in their order.
    __device__ inline const unsigned int* get(int t) {
        if (!all && t + 1 < parts) t_recall_part(part[(t + 1) % 2], tile, t + 1);
        return part[all ? t : t % 2];
    }
};

// Gradients of part t of the activations, d, to those of what was activated, as halves, of which tanh needs the
// activations h and relu a bit.
template <int N, int M>
__device__ inline void t_activation_back(const unsigned int* h, const unsigned int (&positive)[M], const float (&d)[N], int t,
                                         unsigned int* to) {
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        float low = d[16 * t + 2 * i], high = d[16 * t + 2 * i + 1];
        unsigned int bits = positive[t / 2] << (t % 2 * 8 + i);
        to[i] = T_TANH ? t_slope(low, high, h[i])
                       : t_halves(bits & 0x8000u ? low : 0.0f, bits & 0x80000000u ? high : 0.0f);
    }
}

// The gains of a part of 32 columns that this thread has numbers of, as halves.
__device__ inline void t_gains_of(const float* gains, int t, unsigned int (&to)[4]) {
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
        float2 gain = *(const float2*)(gains + 32 * t + 8 * j + threadIdx.x % 4 * 2);
        to[j] = t_halves(gain.x, gain.y);
    }
}

// From gradients d of layer L's activations to those of its sums, as a product's operand.
template <int L, int N, int M, int K>
__device__ inline void t_norm_back(const TNormed& a, const unsigned int (&positive)[M], const float (&d)[N],
                                   unsigned int (&operand)[K]) {
    constexpr float share = 1.0f / t_real_out(L);
    // Over a row's columns, each times its gain: of the gradients, and of sixteenths of their products with what was
    // normalised, which could be too large for halves.
    float sum[4] = {}, sum_of_products[4] = {};
    TRecalled<N> units, activations;
    units.begin(a.units);
    if (T_TANH) activations.begin(a.activations);
    #pragma unroll
    for (int t = 0; t < N / 16; ++t) {
        const unsigned int* unit = units.get(t);
        unsigned int *given = &operand[8 * t], products[8], gains[4];
        t_activation_back(T_TANH ? activations.get(t) : unit, positive, d, t, given);
        #pragma unroll
        for (int i = 0; i < 8; ++i) products[i] = t_times(given[i], t_times(unit[i], T_SIXTEENTHS));
        t_gains_of(a.gains, t, gains);
        t_add_columns(given, products, a.gradients + 32 * t, a.gradients + t_out(L) + 32 * t);
        #pragma unroll
        for (int k = 0; k < 2; ++k) {
            t_add_weighted(sum, &given[4 * k], &gains[2 * k]);
            t_add_weighted(sum_of_products, &products[4 * k], &gains[2 * k]);
        }
    }
    unsigned int minus_mean[2], by_unit[2], inverse[2], limit[2];
    #pragma unroll
    for (int row = 0; row < 2; ++row) {
        float mean = share * sum[2 * row], of_products = 16.0f * share * sum_of_products[2 * row];
        float of_row = row ? a.inverse.y : a.inverse.x, most = fminf(65504.0f / of_row, 65504.0f);
        minus_mean[row] = t_halves(-mean, -mean);
        by_unit[row] = t_halves(-of_products, -of_products);
        inverse[row] = t_halves(of_row, of_row);
        limit[row] = t_halves(most, most);
    }
    if (!units.all) units.begin(a.units);
    #pragma unroll
    for (int t = 0; t < N / 16; ++t) {
        const unsigned int* unit = units.get(t);
        unsigned int gains[4];
        t_gains_of(a.gains, t, gains);
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            int row = i % 2, column = 32 * t + i / 2 * 8 + threadIdx.x % 4 * 2;
            unsigned int x = t_times_plus(operand[8 * t + i], gains[i / 2], minus_mean[row]);
            x = t_times(t_clamp(t_times_plus(unit[i], by_unit[row], x), limit[row]), inverse[row]);
            x &= (t_is_real<L>(column) ? 0xffffu : 0u) | (t_is_real<L>(column + 1) ? 0xffff0000u : 0u);
            operand[8 * t + i] = x;
        }
    }
}
#endif

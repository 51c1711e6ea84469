// Back through the normalisation of a hidden layer, of the two rows that a thread holds a quarter of: from the gradients of
// what gains and shifts gave to those of what was normalised; sums of the gradients of gains and shifts.

#if T_NORMED
// Adds numbers of 32 columns, of which this thread has 8, to the warp's sums: over its rows first, which 8 threads have, so
// that every thread ends with one column's.
__device__ inline void t_add_columns(const float (&own)[8], float* to) {
    int lane = threadIdx.x % 32;
    float x[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = own[i];
    #pragma unroll
    for (int count = 4; count > 0; count /= 2) {
        bool upper = lane & 4 * count;
        #pragma unroll
        for (int i = 0; i < count; ++i) {
            float sent = upper ? x[i] : x[i + count], kept = upper ? x[i + count] : x[i];
            x[i] = kept + __shfl_xor_sync(0xffffffffu, sent, 4 * count);
        }
    }
    // Bits 4 and 3 of the lane have said which eight columns, bit 2 which of two neighbours.
    float* sum = to + lane / 8 * 8 + lane % 4 * 2 + lane / 4 % 2;
    // Nobody else adds to it. In memory, that needs no answer.
    if (T_LEARNERS) *sum += x[0];
    else atomicAdd(sum, x[0]);
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

// Gradients of part t of the activations, in d, to those of what was activated, of which tanh needs the activations h and relu
// a bit.
template <int N, int M>
__device__ inline void t_activation_back(const unsigned int* h, const unsigned int (&positive)[M], float (&d)[N], int t) {
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        float &low = d[16 * t + 2 * i], &high = d[16 * t + 2 * i + 1];
        unsigned int bits = positive[t / 2] << (t % 2 * 8 + i);
        low = T_TANH ? low * (1.0f - t_low(h[i]) * t_low(h[i])) : bits & 0x8000u ? low : 0.0f;
        high = T_TANH ? high * (1.0f - t_high(h[i]) * t_high(h[i])) : bits & 0x80000000u ? high : 0.0f;
    }
}

// From gradients d of layer L's activations to those of its sums, as a product's operand.
template <int L, int N, int M, int K>
__device__ inline void t_norm_back(const TNormed& a, const unsigned int (&positive)[M], float (&d)[N],
                                   unsigned int (&operand)[K]) {
    constexpr float share = 1.0f / t_real_out(L);
    int first = threadIdx.x % 4 * 2;
    float2 sum = {0.0f, 0.0f}, along = {0.0f, 0.0f};
    TRecalled<N> units, activations;
    units.begin(a.units);
    if (T_TANH) activations.begin(a.activations);
    #pragma unroll
    for (int t = 0; t < N / 16; ++t) {
        const unsigned int* unit = units.get(t);
        t_activation_back(T_TANH ? activations.get(t) : unit, positive, d, t);
        float of_gains[8], of_shifts[8];
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            float* of = &d[16 * t + 4 * j];
            float2 gain = *(const float2*)(a.gains + 32 * t + 8 * j + first);
            float upper[] = {t_low(unit[2 * j]), t_high(unit[2 * j])};
            float lower[] = {t_low(unit[2 * j + 1]), t_high(unit[2 * j + 1])};
            #pragma unroll
            for (int e = 0; e < 2; ++e) {
                of_gains[2 * j + e] = of[e] * upper[e] + of[2 + e] * lower[e];
                of_shifts[2 * j + e] = of[e] + of[2 + e];
                of[e] *= e ? gain.y : gain.x;
                of[2 + e] *= e ? gain.y : gain.x;
                sum.x += of[e];
                sum.y += of[2 + e];
                along.x += of[e] * upper[e];
                along.y += of[2 + e] * lower[e];
            }
        }
        t_add_columns(of_gains, a.gradients + 32 * t);
        t_add_columns(of_shifts, a.gradients + t_out(L) + 32 * t);
    }
    sum = t_sum_of_rows(sum);
    along = t_sum_of_rows(along);
    if (!units.all) units.begin(a.units);
    #pragma unroll
    for (int t = 0; t < N / 16; ++t) {
        const unsigned int* unit = units.get(t);
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            bool upper = i % 4 < 2;
            float of_row = upper ? sum.x : sum.y, by = upper ? along.x : along.y;
            float u = i % 2 ? t_high(unit[i / 2]) : t_low(unit[i / 2]);
            float x = (upper ? a.inverse.x : a.inverse.y) * (d[16 * t + i] - share * (of_row + u * by));
            d[16 * t + i] = t_is_real<L>(32 * t + i / 4 * 8 + first + i % 2) ? x : 0.0f;
        }
        #pragma unroll
        for (int i = 0; i < 8; ++i) operand[8 * t + i] = t_halves(d[16 * t + 2 * i], d[16 * t + 2 * i + 1]);
    }
}
#endif

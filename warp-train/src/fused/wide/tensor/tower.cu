// A whole tower (hidden layers and the output layers that read the last of them) on tensor cores, for
// networks whose weights fit into a multiprocessor's shared memory in half precision.
//
// A group of four warps takes 64 rows through all layers. Weights stay in shared memory; what one
// layer gives lies in the registers in the very order in which the next one's product wants it.
// Products have half-precision operands and fp32 sums; losses, sums and parameters are fp32.
//
// Made for one tower by constants: T_DEPTH hidden layers, T_WIDTHS their inputs' widths and the last one's output width
// (padded to multiples of 64 but for the first, which is one of 16), T_REALS the same without padding, T_N outputs (a
// multiple of 16), T_WEIGHTS where each layer lies in the parameters, T_OUTS real rows of the output layer, T_GAP
// columns left free from T_GAP_AT on, T_ROLE 0: actor and critic, 1: actor, 2: critic; T_EITHER whether the text is an
// actor's and a critic's, of which an argument names one; T_TANH; T_BLOCKS blocks a multiprocessor, T_LEARNERS groups
// that learn in one pass, or 0, T_MULTIPLIERS that multiply beside them, T_LEARN_REGISTERS and T_MULTIPLY_REGISTERS of
// a thread of theirs, or 0, T_AHEAD whether they have room for the observations of two tiles; T_SUMS_OBS whether what
// acts also sums observations; T_EDGES whether the first of two passes makes the gradients of the first and the output
// layer; T_NORMED whether hidden layers are normalised before their activation, T_GAINS where each one's gains lie in
// the parameters, with its shifts behind them, T_EPSILON what is added to variances.

#define T_IN t_real(0)
#define T_ACTS (T_ROLE != 2)
#define T_VALUES (T_ROLE != 1 || T_EITHER)
#define T_VALUE_AT (T_ROLE == 2 || T_EITHER ? 0 : P_OUT)
// An even stride, in which a warp stores outputs two by two and reads a column of all rows without conflicts.
#define T_STRIDE (T_N + 2)
// Shared memory of a warp, in bytes: 16 rows of observations, then of outputs. Rows of observations
// are so far apart that reading a product's operand meets no bank twice.
#define T_ROW (t_in(0) * 2 + 16)
#define T_SCRATCH (16 * (T_ROW > T_STRIDE * 4 ? T_ROW : T_STRIDE * 4))
// The same where the first pass makes gradients of outer layers: outputs alone; then a group's room for 64 rows of
// the layer next to one, and bytes of a row of observations.
#define T_LEARN_SCRATCH (T_EDGES ? 16 * T_STRIDE * 4 : T_SCRATCH)
#define T_STAGE_BYTES (T_EDGES * 128 * (t_in(T_DEPTH) > t_out(0) ? t_in(T_DEPTH) : t_out(0)))
#define T_OBS_ROW ((T_IN + 7) / 8 * 16)

__host__ __device__ constexpr int t_width(int l) {
    constexpr int widths[] = T_WIDTHS;
    return widths[l];
}
__host__ __device__ constexpr int t_real(int l) {
    constexpr int widths[] = T_REALS;
    return widths[l];
}
__host__ __device__ constexpr unsigned int t_weights(int l) {
    constexpr unsigned int weights[] = T_WEIGHTS;
    return weights[l];
}
__host__ __device__ constexpr unsigned int t_gains(int l) {
    constexpr unsigned int gains[] = T_GAINS;
    return gains[l];
}
// Outputs of layer l, padded; its inputs, padded and not.
__host__ __device__ constexpr int t_out(int l) { return l < T_DEPTH ? t_width(l + 1) : T_N; }
__host__ __device__ constexpr int t_in(int l) { return t_width(l); }
__host__ __device__ constexpr int t_real_in(int l) { return t_real(l); }
__host__ __device__ constexpr int t_real_out(int l) { return l < T_DEPTH ? t_real(l + 1) : T_OUTS; }

// The image of the weights: per layer blocks of 64 inputs, [outputs, 128 bytes], swizzled by 128
// bytes, then blocks of 16 inputs, [outputs, 32 bytes], swizzled by 32; in bytes.
__host__ __device__ constexpr unsigned int t_image(int l) { return t_in(l) * t_out(l) * 2; }
__host__ __device__ constexpr unsigned int t_image_at(int l) {
    return l == 0 ? 0 : t_image_at(l - 1) + t_image(l - 1);
}
__host__ __device__ constexpr int t_bias_at(int l) { return l == 0 ? 0 : t_bias_at(l - 1) + t_out(l - 1); }

#define T_IMAGE t_image_at(T_DEPTH + 1)
#define T_BIASES t_bias_at(T_DEPTH + 1)
// Gains and shifts of hidden layers, as many as each has outputs; a layer's lie behind the biases of all.
#define T_NORMS (T_NORMED * 2 * t_bias_at(T_DEPTH))
#define T_VECTORS (T_BIASES + T_NORMS)
__host__ __device__ constexpr int t_norm_at(int l) { return T_BIASES + 2 * t_bias_at(l); }

// What is kept of 64 rows between the two passes of an update lies together, per array in blocks of 64
// columns, [64 rows, 128 bytes], swizzled as a product wants them. Within 32 columns of a hidden layer
// the order is that in which a thread holds them, 8 in 16 bytes.
//
// Where two groups multiply (two_multiply.cu), gradients of hidden layers replace what the layers gave, and rows and columns
// are in their own order, since the next layer's products read them, too.
#define T_REPLACES (T_MULTIPLIERS > 1)
__host__ __device__ constexpr int t_blocks(int columns) { return (columns + 63) / 64; }
// Whether layer l is one of those: not if the first pass makes the gradients of the outer layers itself.
__host__ __device__ constexpr bool t_keeps(int l) { return !T_EDGES || (l > 0 && l < T_DEPTH); }
// Inputs of layer l (0: observations) and gradients of its outputs, within what is kept of 64 rows.
__host__ __device__ constexpr unsigned int t_inputs_at(int l) {
    return l == 0 ? 0 : t_inputs_at(l - 1) + (t_keeps(l - 1) ? t_blocks(t_in(l - 1)) * 8192 : 0);
}
__host__ __device__ constexpr unsigned int t_outputs_at(int l) {
    // Those of hidden layers take the place of what the layers gave.
    if (T_REPLACES && l < T_DEPTH) return t_inputs_at(l + 1);
    return l == 0 || (T_REPLACES && l == T_DEPTH) ? t_inputs_at(T_DEPTH + 1)
                  : t_outputs_at(l - 1) + (t_keeps(l - 1) ? t_blocks(t_out(l - 1)) * 8192 : 0);
}
#define T_KEPT t_outputs_at(T_DEPTH + 1)
// Where what the normalisation of layer l gives, before gains and shifts, waits for the gradients of its outputs: in one pass
// in their place, in the first of two passes in blocks that all tiles of a group share.
__host__ __device__ constexpr unsigned int t_units_at(int l) {
    if (T_LEARNERS) return t_outputs_at(l);
    return l == 0 ? 0 : t_units_at(l - 1) + T_NORMED * t_blocks(t_out(l - 1)) * 8192;
}
// Bytes of those blocks.
#define T_UNITS (T_LEARNERS ? 0 : t_units_at(T_DEPTH))

// The place of row r among kept rows: those that neighbouring threads write at once lie 4 apart, so that their swizzled
// pieces of 16 bytes meet no bank twice.
__device__ inline int t_row(int r) { return T_REPLACES ? r : (r & ~7) | (r & 1) << 2 | (r >> 1 & 3); }

// Words of bits of a row's mask, a bit per choice, whether it is allowed.
#define T_MASK_WORDS ((P_MASK + 31) / 32)

// Column of the outputs that row r of the output layer's weights stands for.
__device__ inline int t_column(int r) { return r < T_GAP_AT ? r : r + T_GAP; }

// Activations of two sums as halves.
__device__ inline unsigned int t_activate(float low, float high) {
    return T_TANH ? t_halves(t_tanh(low), t_tanh(high)) : t_halves_relu(low, high);
}

// Two gradients times the slope of tanh, which is a function of its outputs h.
__device__ inline unsigned int t_slope(float low, float high, unsigned int h) {
    float a = t_low(h), b = t_high(h);
    return t_halves(low * (1.0f - a * a), high * (1.0f - b * b));
}

// Heads two by two: the even threads of a pair have head 2 p of pair p, the odd ones 2 p + 1.
#if T_ACTS && !P_CONTINUOUS
__host__ __device__ constexpr int t_size(int head) {
    constexpr int sizes[] = P_SIZES;
    return head < P_ACTION ? sizes[head] : 0;
}
__host__ __device__ constexpr int t_first(int head) {
    return head == 0 ? 0 : t_first(head - 1) + t_size(head - 1);
}
__host__ __device__ constexpr int t_larger(int pair) {
    return t_size(2 * pair) > t_size(2 * pair + 1) ? t_size(2 * pair) : t_size(2 * pair + 1);
}
#define T_PAIRS ((P_ACTION + 1) / 2)

// A head's softmax, of the pair's size at most: weights exp(logit - max), their sum, and the sum of
// weight times (logit - max).
template <int SIZE>
struct TSoftmax {
    int first, size;
    float max, sum, moment;
    float weights[SIZE];
    // A bit per choice, whether the mask allows it.
    unsigned int allowed[(SIZE + 31) / 32];

    __device__ inline float logit(const float* out, int j) const {
        return allowed[j / 32] >> j % 32 & 1 ? out[first + j] : WIDE_NONE;
    }

    __device__ inline void compute(const float* out, const unsigned int* mask) {
        #pragma unroll
        for (int word = 0; word < (SIZE + 31) / 32; ++word) {
            int left = size - 32 * word, from = first / 32 + word;
            allowed[word] = left >= 32 ? 0xffffffffu : left > 0 ? (1u << left) - 1u : 0u;
            if (!P_MASK) continue;
            if (T_MASK_WORDS == 1) {
                allowed[word] &= mask[0] >> first % 32;
                continue;
            }
            unsigned int low = from < T_MASK_WORDS ? mask[from] : 0u;
            unsigned int high = from + 1 < T_MASK_WORDS ? mask[from + 1] : 0u;
            allowed[word] &= __funnelshift_r(low, high, first % 32);
        }
        max = WIDE_NONE;
        #pragma unroll
        for (int j = 0; j < SIZE; ++j) {
            weights[j] = logit(out, j);
            max = fmaxf(max, weights[j]);
        }
        sum = 0.0f;
        moment = 0.0f;
        #pragma unroll
        for (int j = 0; j < SIZE; ++j) {
            float below = weights[j] - max;
            weights[j] = t_exp(below);
            sum += weights[j];
            moment += weights[j] > 0.0f ? weights[j] * below : 0.0f;
        }
    }

    // The first choice at which the running sum of weights exceeds the threshold.
    __device__ inline int choose(float threshold) const {
        float running = 0.0f;
        int index = 0;
        #pragma unroll
        for (int j = 0; j < SIZE; ++j) {
            index = running <= threshold && weights[j] > 0.0f ? j : index;
            running += weights[j];
        }
        return index;
    }
};

template <int PAIR>
__device__ inline TSoftmax<t_larger(PAIR)> t_softmax(const float* out, const unsigned int* mask,
                                                     int half) {
    TSoftmax<t_larger(PAIR)> head;
    head.first = half ? t_first(2 * PAIR + 1) : t_first(2 * PAIR);
    head.size = half ? t_size(2 * PAIR + 1) : t_size(2 * PAIR);
    head.compute(out, mask);
    return head;
}
#endif

// sums = inputs (64 rows, as registers) times the transposed weights of layer L.
template <int L, int N, int K>
__device__ inline void t_forward(unsigned int image, const unsigned int (&inputs)[K],
                                 float (&sums)[N]) {
    constexpr int steps = t_in(L) / 16, whole = t_in(L) / 64 * 4;
    static_assert(N == t_out(L) / 2 && K == t_in(L) / 4, "registers do not fit the layer");
    unsigned int base = image + t_image_at(L);
    WideWord wide = t_operand(base, 16, 1024, 1);
    WideWord rest = t_operand(base + whole / 4 * t_out(L) * 128, 16, 256, 3);
    t_settle(sums);
    t_fence();
    #pragma unroll
    for (int k = 0; k < steps; ++k) {
        WideWord b = k < whole ? wide + (k / 4 * t_out(L) * 128 + k % 4 * 32) / 16
                               : rest + (k - whole) * t_out(L) * 32 / 16;
        Mma<t_out(L)>::template registers<0>(sums, &inputs[4 * k], b, k != 0);
    }
    t_commit();
    t_wait<0>();
    t_settle(sums);
}

// sums = gradients of layer L's outputs times its weights: gradients of its inputs.
template <int L, int N, int K>
__device__ inline void t_backward(unsigned int image, const unsigned int (&outputs)[K],
                                  float (&sums)[N]) {
    static_assert(N == t_in(L) / 2 && K == t_out(L) / 4, "registers do not fit the layer");
    WideWord b = t_operand(image + t_image_at(L), t_out(L) * 128, 1024, 1);
    t_settle(sums);
    t_fence();
    #pragma unroll
    for (int k = 0; k < t_out(L) / 16; ++k) {
        Mma<t_in(L)>::template registers<1>(sums, &outputs[4 * k], b + k * 2048 / 16, k != 0);
    }
    t_commit();
    t_wait<0>();
    t_settle(sums);
}

// Activations of a layer's sums, as the next product's operand.
template <int N, int K>
__device__ inline void t_epilogue(const float (&sums)[N], const float* biases, unsigned int (&h)[K]) {
    #pragma unroll
    for (int j = 0; j < N / 4; ++j) {
        float2 b = *(const float2*)(biases + 8 * j + threadIdx.x % 4 * 2);
        int to = j / 2 * 4 + j % 2 * 2;
        h[to] = t_activate(sums[4 * j] + b.x, sums[4 * j + 1] + b.y);
        h[to + 1] = t_activate(sums[4 * j + 2] + b.x, sums[4 * j + 3] + b.y);
    }
}

#if T_NORMED
// Where number `i` of all gains and shifts of layer L and those above it lies in the parameters; -1 if it is padding.
template <int L = 0>
__device__ inline int t_norm_place(int i) {
    if constexpr (L >= T_DEPTH) {
        return -1;
    } else {
        if (i >= 2 * t_out(L)) return t_norm_place<L + 1>(i - 2 * t_out(L));
        int column = i % t_out(L);
        return column < t_real_out(L) ? (int)t_gains(L) + i / t_out(L) * t_real_out(L) + column : -1;
    }
}

// Of four threads that share two rows.
__device__ inline float2 t_sum_of_rows(float2 x) {
    #pragma unroll
    for (int by = 1; by < 4; by *= 2) {
        x.x += __shfl_xor_sync(0xffffffffu, x.x, by);
        x.y += __shfl_xor_sync(0xffffffffu, x.y, by);
    }
    return x;
}

// Whether a column of layer L's outputs is no padding.
template <int L>
__device__ inline bool t_is_real(int column) {
    return t_real_out(L) == t_out(L) || column < t_real_out(L);
}

// Layer L's sums, with their biases, of this thread's two rows become numbers with mean 0 and deviation 1; returns one over
// the deviations. Operations that fuse do so in every build, so that what learns finds the numbers of what acted.
template <int L, int N>
__device__ inline float2 t_normalise(float (&z)[N], const float* biases) {
    constexpr float share = 1.0f / t_real_out(L);
    // Padding is 0 here. What it becomes, its gains and shifts of 0 take back.
    float2 sum = {0.0f, 0.0f}, squares = {0.0f, 0.0f};
    #pragma unroll
    for (int j = 0; j < N / 4; ++j) {
        float2 b = *(const float2*)(biases + 8 * j + threadIdx.x % 4 * 2);
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            float& x = z[4 * j + i];
            x += i % 2 ? b.y : b.x;
            (i < 2 ? sum.x : sum.y) += x;
            float& to = i < 2 ? squares.x : squares.y;
            to = fmaf(x, x, to);
        }
    }
    sum = t_sum_of_rows(sum);
    squares = t_sum_of_rows(squares);
    float2 mean = {sum.x * share, sum.y * share};
    float2 variance = {fmaf(-mean.x, mean.x, squares.x * share), fmaf(-mean.y, mean.y, squares.y * share)};
    float2 inverse = {rsqrtf(fmaxf(variance.x, 0.0f) + T_EPSILON), rsqrtf(fmaxf(variance.y, 0.0f) + T_EPSILON)};
    float2 less = {-mean.x * inverse.x, -mean.y * inverse.y};
    #pragma unroll
    for (int i = 0; i < N; ++i) z[i] = i % 4 < 2 ? fmaf(z[i], inverse.x, less.x) : fmaf(z[i], inverse.y, less.y);
    return inverse;
}

// Activations of a layer that was normalised, as the next product's operand; before that, `keep(part, t)` gets each part of
// 32 columns of what the normalisation gave, as halves.
template <int N, int K, class Keep>
__device__ inline void t_normed_epilogue(const float (&units)[N], const float* gains, unsigned int (&h)[K], Keep keep) {
    #pragma unroll
    for (int t = 0; t < K / 8; ++t) {
        unsigned int part[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) part[i] = t_halves(units[16 * t + 2 * i], units[16 * t + 2 * i + 1]);
        keep(part, t);
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float *of = &units[16 * t + 2 * i], *column = gains + 32 * t + i / 2 * 8 + threadIdx.x % 4 * 2;
            float2 gain = *(const float2*)column, shift = *(const float2*)(column + 2 * N);
            h[8 * t + i] = t_activate(fmaf(of[0], gain.x, shift.x), fmaf(of[1], gain.y, shift.y));
            // Else the compiler has sums of all parts before it packs them, which fill the registers.
            asm volatile("" : "+r"(h[8 * t + i]));
        }
    }
}
#endif

// Starts to load the weights of layer L and those above it.
template <int BARRIERS, int L = 0>
__device__ inline void t_load_layers(unsigned int shared, const unsigned char* image, WideWord* barriers) {
    if constexpr (L <= T_DEPTH) {
        constexpr unsigned int from = t_image_at(L), to = t_image_at(L + 1);
        unsigned int b = t_shared(barriers + (BARRIERS > 1 ? L : 0));
        if (BARRIERS > 1 || L == 0) t_expect(b, BARRIERS > 1 ? to - from : T_IMAGE);
        for (unsigned int at = from; at < to; at += 8192) {
            t_bulk(shared + at, image + at, to - at < 8192 ? to - at : 8192, b);
        }
        t_load_layers<BARRIERS, L + 1>(shared, image, barriers);
    }
}

// Starts to load the weights, once per block; `t_wait_barrier(.., 0)` waits for them, or for a layer's where each has a
// barrier. Barriers are in shared memory.
template <int BARRIERS = 1>
__device__ inline void t_load_weights(unsigned char* shared, const unsigned char* image,
                                      const float* biases, float* shared_biases,
                                      WideWord* barriers) {
    static_assert(BARRIERS == 1 || BARRIERS == T_DEPTH + 1, "a barrier for all layers, or one for each");
    if (threadIdx.x == 0) {
        for (int i = 0; i < BARRIERS; ++i) t_barrier(t_shared(barriers + i), 1);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        t_load_layers<BARRIERS>(t_shared(shared), image, barriers);
    }
    for (int i = threadIdx.x; i < T_VECTORS; i += blockDim.x) shared_biases[i] = biases[i];
    __syncthreads();
}

// This thread's part of the 16 observations of its warp, as a product's operand.
__device__ inline void t_take_inputs(const unsigned char* rows, unsigned int (&x)[t_in(0) / 4]) {
    int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    #pragma unroll
    for (int k = 0; k < t_in(0) / 16; ++k) {
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
            int column = 16 * k + 2 * q + e / 2 * 8;
            x[4 * k + e] = *(const unsigned int*)(rows + (g + e % 2 * 8) * T_ROW + column * 2);
        }
    }
}

// Outputs of the 16 rows of this warp, with biases, to its part of shared memory.
template <int N>
__device__ inline void t_spread(const float (&sums)[N], const float* biases, float* outs) {
    __syncwarp();
    int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    // Observations lay in the same place.
    __syncwarp();
    #pragma unroll
    for (int j = 0; j < N / 4; ++j) {
        float* to = outs + g * T_STRIDE + 8 * j + 2 * q;
        float2 b = *(const float2*)(biases + 8 * j + 2 * q);
        *(float2*)to = make_float2(sums[4 * j] + b.x, sums[4 * j + 1] + b.y);
        *(float2*)(to + 8 * T_STRIDE) = make_float2(sums[4 * j + 2] + b.x, sums[4 * j + 3] + b.y);
    }
    __syncwarp();
}

// The hidden layers from layer L on, then the outputs; each waits for its weights at its own one of `barriers`.
template <int L, int K>
__device__ inline void t_layers(unsigned int image, const float* biases, const unsigned int (&x)[K],
                                float* outs, unsigned int barriers) {
    t_wait_barrier(barriers + L * 8, 0);
    if constexpr (L == T_DEPTH) {
        float sums[T_N / 2];
        t_forward<L>(image, x, sums);
        t_spread(sums, biases + t_bias_at(L), outs);
    } else {
        unsigned int h[t_out(L) / 4];
        {
            float sums[t_out(L) / 2];
            t_forward<L>(image, x, sums);
#if T_NORMED
            t_normalise<L>(sums, biases + t_bias_at(L));
            t_normed_epilogue(sums, biases + t_norm_at(L), h, [](const unsigned int*, int) {});
#else
            t_epilogue(sums, biases + t_bias_at(L), h);
#endif
        }
        t_layers<L + 1>(image, biases, h, outs, barriers);
    }
}

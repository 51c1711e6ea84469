// Whole towers in fp32: a block of 128 threads takes some rows at a time through all layers in shared
// memory, 128 to learn, 32 or 64 to act.
//
// Numbers of a tile lie [features, rows]. Within a feature groups of four rows change places by its
// number, so that neither threads of neighbouring features nor those of neighbouring rows meet in a bank.
// Sums run in a fixed order.
//
// Made for one network by constants: F_TOWERS, F_TANH, F_BLOCKS (blocks that share a multiprocessor when
// they learn), F_ACT_ROWS, and FusedTower<t>: `depth` hidden layers, `width(l)` inputs of layer l (the heads
// are layer `depth`), `weight(l)` where it lies in the parameters, `outs` outputs of the heads, those from
// number `gap_at` on by `gap` columns further right; whether it `acts` and `values`.

#define FUSED_THREADS 128

// Where a group of four rows of a feature lies in a tile of R rows.
template <int R> __device__ inline int fused_at(int feature, int group) {
    return feature * R + (group ^ feature / 4 % 8) * 4;
}
// Eight groups of threads a warp for neighbouring columns and four for rows. Neighbouring threads read
// the same rows, those two apart the same columns: a read of 16 bytes then takes half the time.
__device__ inline int fused_column() {
    int lane = threadIdx.x;
    return (lane & 1) + (lane >> 1 & 6);
}
__device__ inline int fused_row() { return threadIdx.x >> 1 & 1 | threadIdx.x >> 3 & 2; }
__device__ inline int fused_warp() { return threadIdx.x / 32; }

// This thread's rows of a tile of R: two neighbours, a group of four, or two such groups.
template <int R> struct FusedRows {
    static constexpr int n = R / 16;
    __device__ static inline int at(int feature) {
        if (R == 32)
            return fused_at<R>(feature, (fused_row() >> 1) + fused_warp() * 2) + (fused_row() & 1) * 2;
        return fused_at<R>(feature, fused_warp() + fused_row() * 4);
    }
    __device__ static inline void read(float (&x)[n], const float* from) {
        if constexpr (n == 2) {
            *(float2*)&x[0] = *(const float2*)from;
        } else {
            #pragma unroll
            for (int i = 0; i < n; i += 4) *(float4*)&x[i] = *(const float4*)(from + i * 16);
        }
    }
    __device__ static inline void write(float* to, const float (&x)[n]) {
        if constexpr (n == 2) {
            *(float2*)to = make_float2(x[0], x[1]);
        } else {
            #pragma unroll
            for (int i = 0; i < n; i += 4)
                *(float4*)(to + i * 16) = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
        }
    }
};

// Shared memory of a tower, in floats: tiles of inputs and of every hidden layer, weights [in, out] of the
// hidden layers and [outs, in] of the heads, biases, outputs of a row; to learn also the weights
// [out, in] but for the first layer's, gradients of outputs [outs, rows], figures of a row.
template <class F, int R, bool LEARNS> struct Fused : F {
    static constexpr int tile_rows = R;
    static constexpr bool learns = LEARNS;
    static constexpr int columns = F::acts ? P_OUT + F::values : 1;
    static constexpr int value_at = F::acts ? P_OUT : 0;
    static constexpr int stride = columns | 1;
    __host__ __device__ static constexpr int in(int l) { return F::width(l); }
    __host__ __device__ static constexpr int out(int l) {
        return l < F::depth ? F::width(l + 1) : F::outs;
    }
    // Inputs of layer l.
    __host__ __device__ static constexpr int tile(int l) {
        return l == 0 ? 0 : tile(l - 1) + in(l - 1) * R;
    }
    __host__ __device__ static constexpr int weights(int l) {
        return l == 0 ? tile(F::depth + 1) : weights(l - 1) + in(l - 1) * out(l - 1);
    }
    // Those as the backward pass reads them.
    __host__ __device__ static constexpr int turned(int l) {
        return l == 1 ? weights(F::depth + 1)
                      : turned(l - 1) + (LEARNS ? in(l - 1) * out(l - 1) : 0);
    }
    __host__ __device__ static constexpr int biases(int l) {
        return l == 0 ? turned(F::depth) : biases(l - 1) + out(l - 1);
    }
    static constexpr int gradients = (biases(F::depth + 1) + 3) / 4 * 4;
    static constexpr int figures = gradients + (LEARNS ? F::outs * R : 0);
    static constexpr int rows = figures + (LEARNS ? 10 * R : 0);
    __host__ __device__ static constexpr int column(int o) {
        return o < F::gap_at ? o : o + F::gap;
    }
};

// The bits of warp_tanh, but for the sign of a zero; its steps are the same for either sign. Its divisor
// lies between 1 and a few hundred where the quotient counts, so the steps of a division that are for very
// large and very small numbers are left out.
__device__ inline float fused_tanh(float x) {
    float y = x * x;
    float p = 0.0038703126f + y * (2.8046014e-5f + y * (3.067143e-8f + y * -1.2261977e-11f));
    float q = 0.027253162f + y * (3.9420798e-4f + y * 1.2899754e-6f);
    float above = x * (1.0f + y * (0.13681519f + y * p));
    float below = 1.0f + y * (0.47014853f + y * q);
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(below));
    inverse = fmaf(inverse, fmaf(-below, inverse, 1.0f), inverse);
    float t = above * inverse;
    t = fmaf(inverse, fmaf(-below, t, above), t);
    t = fmaf(inverse, fmaf(-below, t, above), t);
    return fabsf(t) > 1.0f || fabsf(x) > 9.01f ? copysignf(1.0f, x) : t;
}

__device__ inline float fused_slope(float h) { return F_TANH ? 1.0f - h * h : h > 0.0f ? 1.0f : 0.0f; }

// Weights and biases into shared memory.
template <class F, int L = 0> __device__ inline void fused_load(const float* parameters, float* shared) {
    if constexpr (L <= F::depth) {
        constexpr int in = F::in(L), out = F::out(L);
        const float* from = parameters + F::weight(L);
        if constexpr (L < F::depth) {
            // Eight outputs by four inputs a warp.
            int o = fused_warp() * 8 + threadIdx.x % 8, i = threadIdx.x / 8 % 4;
            #pragma unroll 8
            for (int i0 = 0; i0 < in; i0 += 4) {
                #pragma unroll
                for (int o0 = 0; o0 < out; o0 += 32) {
                    if (i0 + 4 <= in || i0 + i < in)
                        shared[F::weights(L) + (i0 + i) * out + o0 + o] = from[(o0 + o) * in + i0 + i];
                }
            }
        }
        if constexpr (L == F::depth || L > 0 && F::learns) {
            constexpr int at = L == F::depth ? F::weights(L) : F::turned(L);
            #pragma unroll 8
            for (int e = threadIdx.x; e < in * out; e += FUSED_THREADS) shared[at + e] = from[e];
        }
        if (threadIdx.x < out) shared[F::biases(L) + threadIdx.x] = from[in * out + threadIdx.x];
        fused_load<F, L + 1>(parameters, shared);
    }
}

// Products of a tile [K, rows] and weights [K, N], of which this thread has its rows and 4 Q columns from
// `first` on.
template <int R, int K, int N, int Q>
__device__ inline void fused_product(const float* tile, const float* weights, int first,
                                     float (&sums)[4 * Q][R / 16]) {
    typedef FusedRows<R> Rows;
    const float* columns = weights + first + fused_column() * 4;
    #pragma unroll 2
    for (int k0 = 0; k0 < K; k0 += 4) {
        const float* rows = tile + Rows::at(k0);
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (K % 4 != 0 && k0 + k >= K) break;
            float l[Rows::n], r[4 * Q];
            Rows::read(l, rows + k * R);
            #pragma unroll
            for (int q = 0; q < Q; ++q)
                *(float4*)&r[4 * q] = *(const float4*)(columns + k * N + q * 32);
            #pragma unroll
            for (int j = 0; j < 4 * Q; ++j) {
                #pragma unroll
                for (int i = 0; i < Rows::n; ++i) sums[j][i] = fmaf(l[i], r[j], sums[j][i]);
            }
        }
        columns += 4 * N;
    }
}

// Column number j of those that this thread has from `first` on.
__device__ inline int fused_own(int first, int j) {
    return first + j / 4 * 32 + fused_column() * 4 + j % 4;
}

// Outputs of hidden layer L from column FIRST on.
template <class F, int L, int FIRST = 0> __device__ inline void fused_layer(float* shared) {
    constexpr int R = F::tile_rows, N = F::out(L), Q = N % 64 == 0 ? 2 : 1;
    typedef FusedRows<R> Rows;
    float* to = shared + F::tile(L + 1);
    {
        float sums[4 * Q][Rows::n];
        #pragma unroll
        for (int j = 0; j < 4 * Q; ++j) {
            float bias = shared[F::biases(L) + fused_own(FIRST, j)];
            #pragma unroll
            for (int i = 0; i < Rows::n; ++i) sums[j][i] = bias;
        }
        fused_product<R, F::in(L), N, Q>(shared + F::tile(L), shared + F::weights(L), FIRST, sums);
        #pragma unroll
        for (int j = 0; j < 4 * Q; ++j) {
            #pragma unroll
            for (int i = 0; i < Rows::n; ++i)
                if (!F_TANH) sums[j][i] = sums[j][i] > 0.0f ? sums[j][i] : 0.0f;
            Rows::write(to + Rows::at(fused_own(FIRST, j)), sums[j]);
        }
    }
    // Not while the sums fill the registers; so many at once that none waits for the one before.
    constexpr int together = Rows::n == 8 ? 2 : 4;
    #pragma unroll 1
    for (int j0 = 0; j0 < (F_TANH ? 4 * Q : 0); j0 += together) {
        float z[together][Rows::n];
        #pragma unroll
        for (int j = 0; j < together; ++j) Rows::read(z[j], to + Rows::at(fused_own(FIRST, j0 + j)));
        #pragma unroll
        for (int j = 0; j < together; ++j) {
            #pragma unroll
            for (int i = 0; i < Rows::n; ++i) z[j][i] = fused_tanh(z[j][i]);
        }
        #pragma unroll
        for (int j = 0; j < together; ++j) Rows::write(to + Rows::at(fused_own(FIRST, j0 + j)), z[j]);
    }
    if constexpr (FIRST + 32 * Q < N) fused_layer<F, L, FIRST + 32 * Q>(shared);
}

// All hidden layers from the inputs on, which lie in their tile.
template <class F, int L = 0> __device__ inline void fused_forward(float* shared) {
    if constexpr (L < F::depth) {
        fused_layer<F, L>(shared);
        __syncthreads();
        fused_forward<F, L + 1>(shared);
    }
}

// Outputs of a tile's row. With fewer rows than threads, neighbouring warps have the same rows and
// take outputs in turn.
template <class F> __device__ inline void fused_heads(float* shared) {
    constexpr int R = F::tile_rows, turns = FUSED_THREADS / R, most = (F::outs + turns - 1) / turns;
    constexpr int width = F::in(F::depth);
    int row = threadIdx.x % R, turn = threadIdx.x / R;
    const float* tile = shared + F::tile(F::depth) + row % 4;
    const float* weights = shared + F::weights(F::depth);
    float sums[most];
    #pragma unroll
    for (int s = 0; s < most; ++s) {
        int o = s * turns + turn;
        sums[s] = o < F::outs ? shared[F::biases(F::depth) + o] : 0.0f;
    }
    #pragma unroll 2
    for (int k = 0; k < width; k += 4) {
        const float* h = tile + fused_at<R>(k, row / 4);
        #pragma unroll
        for (int s = 0; s < most; ++s) {
            int o = s * turns + turn;
            float4 w = *(const float4*)(weights + (o < F::outs ? o : 0) * width + k);
            sums[s] = fmaf(h[0], w.x, sums[s]);
            sums[s] = fmaf(h[R], w.y, sums[s]);
            sums[s] = fmaf(h[2 * R], w.z, sums[s]);
            sums[s] = fmaf(h[3 * R], w.w, sums[s]);
        }
    }
    #pragma unroll
    for (int s = 0; s < most; ++s) {
        int o = s * turns + turn;
        if (o < F::outs) shared[F::rows + row * F::stride + F::column(o)] = sums[s];
    }
}

// Loss and gradients of a minibatch in one launch: forward, the rows' losses, back, and the gradients of
// the weights, which a thread has in registers as sums over all tiles of its block.

template <int T> using FusedLearner = Fused<FusedTower<T>, FUSED_THREADS, true>;

// What a thread has of a tower's gradients.
template <class F> struct FusedSums {
    // Sums of a matrix: every eighth of its outputs by every eighth of its inputs.
    __host__ __device__ static constexpr int matrix(int l) { return F::in(l) / 8 * (F::out(l) / 8); }
    __host__ __device__ static constexpr int matrix_at(int l) {
        return l <= 1 ? 0 : matrix_at(l - 1) + matrix(l - 1);
    }
    static constexpr int matrices = matrix_at(F::depth);
    float of[matrices > 0 ? matrices : 1];
    // Of one feature: weights of the first layer, of the heads, biases of the hidden layers.
    float first[F::in(0)];
    float heads[F::outs];
    float biases[F::depth];
    // Of this thread's row: all columns of the outputs.
    float columns[F::columns];
};

// The feature of a layer of WIDTH that this thread sums rows of, and which share of the rows.
template <int WIDTH> struct FusedFeature {
    static constexpr int warps = WIDTH / 32, shares = 4 / warps;
    int feature, share;
    __device__ inline FusedFeature() {
        int lane = threadIdx.x % 32;
        feature = fused_warp() % warps * 32 + lane % 8 * 4 + lane / 8;
        share = fused_warp() / warps;
    }
    __device__ inline bool takes() const { return share < shares; }
};

__device__ inline float fused_add(float sum, float4 a, float4 b) {
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}
__device__ inline float fused_add(float sum, float4 a) {
    return sum + ((a.x + a.y) + (a.z + a.w));
}

// From the gradients of the outputs to those of the last hidden layer, in place, and of the heads.
template <class F> __device__ inline void fused_back_heads(float* shared, FusedSums<F>& sums) {
    constexpr int width = F::in(F::depth);
    FusedFeature<width> own;
    if (!own.takes()) return;
    float* tile = shared + F::tile(F::depth);
    float w[F::outs];
    #pragma unroll
    for (int o = 0; o < F::outs; ++o) w[o] = shared[F::weights(F::depth) + o * width + own.feature];
    #pragma unroll 2
    for (int group = own.share; group < 32; group += own.shares) {
        float4* at = (float4*)(tile + fused_at<FUSED_THREADS>(own.feature, group));
        float4 h = *at, d = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        #pragma unroll
        for (int o = 0; o < F::outs; ++o) {
            float4 dy = *(const float4*)(shared + F::gradients + o * FUSED_THREADS + group * 4);
            sums.heads[o] = fused_add(sums.heads[o], dy, h);
            d.x = fmaf(dy.x, w[o], d.x), d.y = fmaf(dy.y, w[o], d.y);
            d.z = fmaf(dy.z, w[o], d.z), d.w = fmaf(dy.w, w[o], d.w);
        }
        d.x *= fused_slope(h.x), d.y *= fused_slope(h.y);
        d.z *= fused_slope(h.z), d.w *= fused_slope(h.w);
        sums.biases[F::depth - 1] = fused_add(sums.biases[F::depth - 1], d);
        *at = d;
    }
}

// Gradients of the weights of layer L > 0 from those of its outputs and its inputs. Half of the block
// takes half of the rows.
template <class F, int L> __device__ inline void fused_weights(const float* shared, FusedSums<F>& sums) {
    constexpr int down = F::out(L) / 8, right = F::in(L) / 8;
    int o = fused_column(), i = fused_row() + fused_warp() % 2 * 4;
    const float* dy = shared + F::tile(L + 1) + o * 4 * FUSED_THREADS;
    const float* x = shared + F::tile(L) + i * 4 * FUSED_THREADS;
    #pragma unroll 1
    for (int group = fused_warp() / 2; group < 32; group += 2) {
        float4 l[down], r[right];
        #pragma unroll
        for (int a = 0; a < down; ++a)
            l[a] = *(const float4*)(dy + (a / 4 * 32 + a % 4) * FUSED_THREADS + (group ^ o) * 4);
        #pragma unroll
        for (int b = 0; b < right; ++b)
            r[b] = *(const float4*)(x + (b / 4 * 32 + b % 4) * FUSED_THREADS + (group ^ i) * 4);
        #pragma unroll
        for (int row = 0; row < 4; ++row) {
            #pragma unroll
            for (int a = 0; a < down; ++a) {
                #pragma unroll
                for (int b = 0; b < right; ++b) {
                    float& sum = sums.of[FusedSums<F>::matrix_at(L) + a * right + b];
                    sum = fmaf((&l[a].x)[row], (&r[b].x)[row], sum);
                }
            }
        }
    }
}

// Gradients of the inputs of layer L > 0 in their place, from column FIRST on.
template <class F, int L, int FIRST = 0> __device__ inline void fused_inputs(float* shared) {
    constexpr int N = F::in(L), Q = N % 64 == 0 ? 2 : 1;
    typedef FusedRows<FUSED_THREADS> Rows;
    float sums[4 * Q][Rows::n] = {};
    fused_product<FUSED_THREADS, F::out(L), N, Q>(shared + F::tile(L + 1), shared + F::turned(L), FIRST,
                                                  sums);
    // Everyone has read the inputs themselves.
    if (FIRST == 0) __syncthreads();
    #pragma unroll
    for (int j = 0; j < 4 * Q; ++j) {
        float* at = shared + F::tile(L) + Rows::at(fused_own(FIRST, j));
        float h[Rows::n];
        Rows::read(h, at);
        #pragma unroll
        for (int i = 0; i < Rows::n; ++i) sums[j][i] *= fused_slope(h[i]);
        Rows::write(at, sums[j]);
    }
    if constexpr (FIRST + 32 * Q < N) fused_inputs<F, L, FIRST + 32 * Q>(shared);
}

// Sums over the rows of the gradients of layer L's outputs, for its biases.
template <class F, int L> __device__ inline void fused_biases(const float* shared, FusedSums<F>& sums) {
    FusedFeature<F::out(L)> own;
    if (!own.takes()) return;
    #pragma unroll 2
    for (int group = own.share; group < 32; group += own.shares) {
        const float* at = shared + F::tile(L + 1) + fused_at<FUSED_THREADS>(own.feature, group);
        sums.biases[L] = fused_add(sums.biases[L], *(const float4*)at);
    }
}

// Gradients of the first layer's weights and biases.
template <class F> __device__ inline void fused_first(const float* shared, FusedSums<F>& sums) {
    FusedFeature<F::out(0)> own;
    if (!own.takes()) return;
    #pragma unroll 1
    for (int group = own.share; group < 32; group += own.shares) {
        float4 d = *(const float4*)(shared + F::tile(1) + fused_at<FUSED_THREADS>(own.feature, group));
        // Else the heads' gradients came with those.
        if (F::depth > 1) sums.biases[0] = fused_add(sums.biases[0], d);
        #pragma unroll
        for (int k = 0; k < F::in(0); ++k)
            sums.first[k] = fused_add(sums.first[k], d, *(const float4*)(shared + fused_at<FUSED_THREADS>(k, group)));
    }
}

// Layer L and all below it but the first, from the gradients of its outputs.
template <class F, int L> __device__ inline void fused_back(float* shared, FusedSums<F>& sums) {
    if constexpr (L > 0) {
        if constexpr (L + 1 < F::depth) fused_biases<F, L>(shared, sums);
        fused_weights<F, L>(shared, sums);
        fused_inputs<F, L>(shared);
        __syncthreads();
        fused_back<F, L - 1>(shared, sums);
    }
}

// Puts the sums of a matrix where a copy of the gradient has them; the halves of the block meet.
template <class F, int L = 1>
__device__ inline void fused_store_matrices(float* shared, const FusedSums<F>& sums, float* to) {
    if constexpr (L < F::depth) {
        constexpr int down = F::out(L) / 8, right = F::in(L) / 8;
        const float* own = sums.of + FusedSums<F>::matrix_at(L);
        __syncthreads();
        #pragma unroll
        for (int e = 0; e < down * right; ++e)
            if (threadIdx.x >= 64) shared[e * 64 + threadIdx.x - 64] = own[e];
        __syncthreads();
        int o = fused_column() * 4, i = (fused_row() + fused_warp() % 2 * 4) * 4;
        #pragma unroll
        for (int e = 0; e < down * right; ++e) {
            int a = e / right, b = e % right;
            int at = (o + a / 4 * 32 + a % 4) * F::in(L) + i + b / 4 * 32 + b % 4;
            if (threadIdx.x < 64)
                to[F::weight(L) + at] = own[e] + shared[e * 64 + threadIdx.x];
        }
        fused_store_matrices<F, L + 1>(shared, sums, to);
    }
}

// The sum of number `number` over the shares of a layer's features, in the first share's threads.
template <int WIDTH> __device__ inline float fused_shares(const float* shared, int number) {
    const float* from = shared + number * FUSED_THREADS + threadIdx.x;
    float sum = 0.0f;
    #pragma unroll
    for (int share = 0; share < FusedFeature<WIDTH>::shares; ++share) sum += from[share * WIDTH];
    return sum;
}

template <class F, int L = 0>
__device__ inline void fused_store_biases(const float* shared, int number, float* to) {
    if constexpr (L < F::depth) {
        FusedFeature<F::out(L)> own;
        if (own.share == 0)
            to[F::weight(L) + F::in(L) * F::out(L) + own.feature] =
                fused_shares<F::out(L)>(shared, number + L);
        fused_store_biases<F, L + 1>(shared, number, to);
    }
}

// The block's sums as a copy of the gradient.
template <class F>
__device__ inline void fused_store(float* shared, const FusedSums<F>& sums, float* to) {
    fused_store_matrices<F>(shared, sums, to);
    __syncthreads();
    constexpr int heads_at = F::in(0), biases_at = heads_at + F::outs;
    constexpr int columns_at = biases_at + F::depth, width = F::in(F::depth);
    float* mine = shared + threadIdx.x;
    #pragma unroll
    for (int k = 0; k < F::in(0); ++k) mine[k * FUSED_THREADS] = sums.first[k];
    #pragma unroll
    for (int o = 0; o < F::outs; ++o) mine[(heads_at + o) * FUSED_THREADS] = sums.heads[o];
    #pragma unroll
    for (int l = 0; l < F::depth; ++l) mine[(biases_at + l) * FUSED_THREADS] = sums.biases[l];
    #pragma unroll
    for (int c = 0; c < F::columns; ++c) mine[(columns_at + c) * FUSED_THREADS] = sums.columns[c];
    __syncthreads();
    FusedFeature<F::out(0)> low;
    FusedFeature<width> high;
    for (int k = 0; k < F::in(0); ++k)
        if (low.share == 0)
            to[F::weight(0) + low.feature * F::in(0) + k] = fused_shares<F::out(0)>(shared, k);
    for (int o = 0; o < F::outs; ++o)
        if (high.share == 0)
            to[F::weight(F::depth) + o * width + high.feature] =
                fused_shares<width>(shared, heads_at + o);
    fused_store_biases<F>(shared, biases_at, to);
    // What the outputs get: biases of the heads, and log-deviations that are parameters.
    int c = threadIdx.x, o = c < F::gap_at ? c : c - F::gap;
    if (c >= F::columns) return;
    float sum = 0.0f;
    for (int row = 0; row < FUSED_THREADS; ++row) sum += shared[(columns_at + c) * FUSED_THREADS + row];
    if (c < F::gap_at || c >= F::gap_at + F::gap)
        to[F::weight(F::depth) + F::outs * width + o] = sum;
    else
        to[P_LOG_STD_AT + c - F::gap_at] = sum;
}

// This thread's row: its outputs turned into their gradients, zeros if it is not there.
template <class F>
__device__ inline void fused_loss(const FusedLearnArgs& a, unsigned int cell, bool present, float* shared,
                                  FusedSums<F>& sums) {
    float* out = shared + F::rows + threadIdx.x * F::stride;
    double* figures = (double*)(shared + F::figures) + threadIdx.x;
    WideKnown known = wide_known(a.from, a.state, cell);
    fused_heads<F>(shared);
    if (present) {
        double own[5];
        #pragma unroll
        for (int k = 0; k < 5; ++k) own[k] = figures[k * FUSED_THREADS];
        const unsigned char* mask = wide_mask(a.from, cell);
        wide_sample_loss<F::acts, F::values>(a.from, a.settings, known, cell, mask, out, a.parameters, own);
        #pragma unroll
        for (int k = 0; k < 5; ++k) figures[k * FUSED_THREADS] = own[k];
        #pragma unroll
        for (int c = 0; c < F::columns; ++c) sums.columns[c] += out[c];
    }
    #pragma unroll
    for (int o = 0; o < F::outs; ++o)
        shared[F::gradients + o * FUSED_THREADS + threadIdx.x] = present ? out[F::column(o)] : 0.0f;
}

// Asks for what will soon be read of a sample.
template <class F> __device__ inline void fused_ask_for(const FusedLearnArgs& a, unsigned int cell) {
    auto ask = [](const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); };
    ask(a.obs + (unsigned long long)cell * P_WIDTH);
    if (P_WIDTH > 8) ask(a.obs + (unsigned long long)cell * P_WIDTH + P_WIDTH - 1);
    if (F::acts) {
        ask(a.from.advantages + cell);
        ask(a.from.log_probs + cell);
        unsigned long long action = (unsigned long long)cell * P_ACTION;
        if (P_CONTINUOUS) ask(a.from.raws + action);
        else ask(a.from.actions + action);
    }
    if (F::values) {
        ask(a.from.returns + cell);
        ask(a.from.values + cell);
    }
}

// A sample's observation.
__device__ inline void fused_observe(const FusedLearnArgs& a, unsigned int cell, float (&x)[P_WIDTH]) {
    #pragma unroll
    for (int k = 0; k < P_WIDTH; ++k) x[k] = a.obs[(unsigned long long)cell * P_WIDTH + k];
}

// A tower's share of the minibatch at hand: tiles `start`, `start` + `copies` ..
template <class F>
__device__ inline void fused_learn(const FusedLearnArgs& a, unsigned int start, float* shared) {
    fused_load<F>(a.parameters, shared);
    double* figures = (double*)(shared + F::figures);
    for (int k = 0; k < 5; ++k) figures[k * FUSED_THREADS + threadIdx.x] = 0.0;
    FusedSums<F> sums = {};
    unsigned int n = a.state->end - a.state->begin, tiles = (n + FUSED_THREADS - 1) / FUSED_THREADS;
    const unsigned int* samples = a.order + a.state->begin;
    // Beyond the last sample that of another one.
    auto cell_of = [&](unsigned int tile) {
        unsigned int row = tile * FUSED_THREADS + threadIdx.x;
        return n > 0 ? samples[row < n ? row : 0] : 0u;
    };
    unsigned int next = cell_of(start);
    float x[P_WIDTH];
    fused_observe(a, next, x);
    #pragma unroll 1
    for (unsigned int tile = start; tile < tiles; tile += a.copies) {
        unsigned int cell = next;
        bool present = tile * FUSED_THREADS + threadIdx.x < n;
        next = cell_of(tile + a.copies);
        // All that was read of the last tile.
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < P_WIDTH; ++k) {
            int at = fused_at<FUSED_THREADS>(k, threadIdx.x / 4) + threadIdx.x % 4;
            shared[at] = present ? x[k] : 0.0f;
        }
        __syncthreads();
        fused_forward<F>(shared);
        fused_ask_for<F>(a, next);
        fused_loss<F>(a, cell, present, shared, sums);
        __syncthreads();
        fused_back_heads<F>(shared, sums);
        __syncthreads();
        fused_back<F, F::depth - 1>(shared, sums);
        // On their way while the first layer's gradients are summed.
        fused_observe(a, next, x);
        fused_first<F>(shared, sums);
    }
    __syncthreads();
    if (threadIdx.x < 5) {
        double sum = 0.0;
        for (int i = 0; i < FUSED_THREADS; ++i) sum += figures[threadIdx.x * FUSED_THREADS + i];
        a.parts[blockIdx.x * 5 + threadIdx.x] = sum;
    }
    fused_store<F>(shared, sums, a.partial + (unsigned long long)start * a.n_parameters);
}

// The minibatch at hand: every tower's blocks leave copies of its gradient, [copies, n_parameters], and
// sums of figures, [blocks, 5].
extern "C" __global__ __launch_bounds__(FUSED_THREADS, F_BLOCKS) void wide_fused_learn(
    const FusedLearnArgs a) {
    extern __shared__ __align__(16) float fused_shared[];
    unsigned int start = blockIdx.x / F_TOWERS;
    if (blockIdx.x % F_TOWERS == 0)
        fused_learn<FusedLearner<0>>(a, start, fused_shared);
#if F_TOWERS > 1
    else
        fused_learn<FusedLearner<1>>(a, start, fused_shared);
#endif
}

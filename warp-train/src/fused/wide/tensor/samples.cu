// From the inputs of 64 samples to the gradients of all layers' outputs, on tensor cores: through the network, the
// loss, and back. Inputs and gradients of every layer are kept as halves, since their products are the gradients of the
// weights: in shared memory where all of a tower fits (`gradient.cu`), else in two passes (`learn.cu`
// and `weights.cu`).

// What was done in a thread's row: what its mask allowed, and what its heads chose.
struct TDone {
#if T_ACTS && !P_CONTINUOUS
    unsigned int mask[T_MASK_WORDS + 1];
    int actions[T_PAIRS];
#endif
};

#if T_ACTS && !P_CONTINUOUS
// This thread's heads of a row from pair PAIR on: what they add to its distribution; after `between`,
// which turns that into derivatives, the gradients of their logits.
template <int PAIR, class Between>
__device__ inline void t_pairs(float* out, const TDone& done, int half, WideDistribution* now, float* d_log_prob, float* d_entropy,
                               Between between) {
    if constexpr (PAIR == T_PAIRS) {
        between();
    } else {
        auto head = t_softmax<PAIR>(out, done.mask, half);
        bool there = 2 * PAIR + half < P_ACTION;
        int action = there ? done.actions[PAIR] : 0;
        float log_sum = t_ln(head.sum), inverse = __fdividef(1.0f, head.sum);
        float mean = head.moment * inverse;
        if (there) {
            now->entropy += log_sum - mean;
            now->log_prob += out[head.first + action] - head.max - log_sum;
        }
        t_pairs<PAIR + 1>(out, done, half, now, d_log_prob, d_entropy, between);
        #pragma unroll
        for (int j = 0; j < t_larger(PAIR); ++j) {
            if (j >= head.size) continue;
            // log p + entropy = (below - log sum) + (log sum - mean)
            float below = head.logit(out, j) - head.max;
            float p = head.weights[j] * inverse;
            float d = p > 0.0f ? -p * (*d_log_prob + *d_entropy * (below - mean)) : 0.0f;
            out[head.first + j] = j == action ? d + *d_log_prob : d;
        }
    }
}

// The same of a row's only head, whose choices its two threads share: one has the even ones.
template <class Between>
__device__ inline void t_only_head(float* out, const TDone& done, int half, WideDistribution* now,
                                   const float* d_log_prob, const float* d_entropy, Between between) {
    constexpr int size = t_size(0), share = (size + 1) / 2;
    float logits[share], weights[share], max = WIDE_NONE, sum = 0.0f, moment = 0.0f;
    #pragma unroll
    for (int j = 0; j < share; ++j) {
        bool allowed = 2 * j + half < size && (!P_MASK || done.mask[j / 16] >> half & 1u << 2 * j % 32);
        logits[j] = allowed ? out[2 * j + half] : WIDE_NONE;
        max = fmaxf(max, logits[j]);
    }
    max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 1));
    #pragma unroll
    for (int j = 0; j < share; ++j) {
        float below = logits[j] - max;
        weights[j] = t_exp(below);
        sum += weights[j];
        moment += weights[j] > 0.0f ? weights[j] * below : 0.0f;
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    moment += __shfl_xor_sync(0xffffffffu, moment, 1);
    float log_sum = t_ln(sum), inverse = __fdividef(1.0f, sum), mean = moment * inverse;
    int action = done.actions[0];
    if (half == 0) {
        now->entropy = log_sum - mean;
        now->log_prob = out[action] - max - log_sum;
    }
    between();
    #pragma unroll
    for (int j = 0; j < share; ++j) {
        int choice = 2 * j + half;
        if (choice >= size) continue;
        float p = weights[j] * inverse;
        float d = p > 0.0f ? -p * (*d_log_prob + *d_entropy * (logits[j] - max - mean)) : 0.0f;
        out[choice] = choice == action ? d + *d_log_prob : d;
    }
}
#elif T_ACTS
__device__ inline WideDistribution t_evaluate(float* out, const float* parameters,
                                              const float* raws, int half) {
    WideDistribution row = {0.0f, 0.0f};
    for (int d = half; d < P_ACTION; d += 2) {
        float log_std = wide_clamp_log_std(wide_log_stds(out, parameters)[d]);
        float entropy, by_mean, by_log_std;
        wide_entropy(d, out[d], log_std, &entropy, &by_mean, &by_log_std);
        row.log_prob += wide_normal(raws[d], out[d], log_std).log_density -
                        wide_log_jacobian(d, raws[d]);
        row.entropy += entropy;
    }
    return row;
}

__device__ inline void t_gradient(float* out, const float* parameters, const float* raws,
                                  float d_log_prob, float d_entropy, int half) {
    for (int d = half; d < P_ACTION; d += 2) {
        wide_element_gradient(out, parameters, raws, d, d_log_prob, d_entropy);
    }
}
#endif

// The observations of a group's next tile: of this warp's rows, their cells, how many there are, and where they go, if
// there is a next tile; and the barrier and its phase once what is kept of the last tile was read.
struct TNext {
    const unsigned char* obs;
    unsigned int cell;
    int present;
    unsigned char* to;
    bool there;
    unsigned int read, phase;
};
#if T_AHEAD
__device__ inline void t_turn(const TNext& next);
#endif

// What a warp learns from.
struct TLearn {
    const WideSettings* settings;
    const WideState* state;
    const float* parameters;
    WideSamples from;
    // This warp's part of shared memory: outputs [16, T_STRIDE]; this thread's sums [5].
    float* outs;
    float* sums;
    // This thread's row for the loss: its cell, if it has one, and what is known of it where that was asked for.
    unsigned int cell;
    bool present;
    float4 known;
    TDone done;
    unsigned int image;
    const float* biases;
    unsigned char* tile;
    // Sums of gradients that groups make themselves: those of outer layers, of all groups; or those of gains and shifts, of
    // this warp.
    float* own_gradients;
    // Where t_units_at() begins.
    unsigned char* units;
    // Where groups make the gradients of outer layers: this one's observations of the tile.
    const unsigned char* obs;
    // Where observations come a tile ahead.
    TNext next;
    // What the tower is for, as in T_ROLE, where the text does not know it.
    unsigned int role;

    __device__ inline bool acts() const { return T_ACTS && (!T_EITHER || role == 1); }
    __device__ inline bool values() const { return T_VALUES && (!T_EITHER || role == 2); }
};

// Of this thread's row: advantage, log-probability, return, value.
__device__ inline float4 t_known(const TLearn& a) { return ((const float4*)a.from.known)[a.cell]; }

// What was done in it.
__device__ inline TDone t_done(const TLearn& a) {
    TDone done;
#if T_ACTS && !P_CONTINUOUS
    const unsigned int* mask = (const unsigned int*)a.from.masks + (unsigned long long)a.cell * T_MASK_WORDS;
    #pragma unroll
    for (int i = 0; i < T_MASK_WORDS; ++i) done.mask[i] = mask[i];
    const int* actions = a.from.actions + (unsigned long long)a.cell * P_ACTION;
    #pragma unroll
    for (int pair = 0; pair < T_PAIRS; ++pair) {
        int number = 2 * pair + threadIdx.x % 2;
        done.actions[pair] = actions[number < P_ACTION ? number : 0];
    }
#endif
    return done;
}

// Two threads per row: turns its outputs, of which there are COLUMNS, into their gradients. All lanes of the warp come
// here.
template <int COLUMNS>
__device__ inline void t_loss_row(const TLearn& a, float4 known, float* out) {
    int half = threadIdx.x % 2;
    float advantage = (float)(((double)known.x - a.state->adv_mean) * a.state->adv_scale);
    WideRow row = {0.0f, known.y, 0.0f, known.w, advantage, known.z};
    if (a.values()) row.value = out[T_VALUE_AT];
    WideDistribution now = {0.0f, 0.0f};
    WideLoss loss;
    float d_log_prob = 0.0f, d_entropy = -a.settings->ent_coef;
    auto between = [&]() {
        __syncwarp();
        now.log_prob += __shfl_xor_sync(0xffffffffu, now.log_prob, 1);
        now.entropy += __shfl_xor_sync(0xffffffffu, now.entropy, 1);
        row.log_prob = now.log_prob;
        loss = wide_loss(a.settings->cells, row);
        d_log_prob = loss.d_log_prob;
    };
    if (!a.acts()) {
        between();
    } else {
#if T_ACTS && P_CONTINUOUS
        const float* raws = a.from.raws + (unsigned long long)a.cell * P_ACTION;
        now = t_evaluate(out, a.parameters, raws, half);
        between();
        t_gradient(out, a.parameters, raws, d_log_prob, d_entropy, half);
#elif T_ACTS
        TDone done = T_LEARNERS || T_EDGES ? a.done : t_done(a);
        if constexpr (P_ACTION == 1) t_only_head(out, done, half, &now, &d_log_prob, &d_entropy, between);
        else t_pairs<0>(out, done, half, &now, &d_log_prob, &d_entropy, between);
#endif
    }
    if (half == 0 && a.present) {
        if (a.values()) {
            out[T_VALUE_AT] = a.settings->vf_coef * loss.d_value;
            a.sums[1] += loss.value_loss;
        }
        if (a.acts()) {
            a.sums[0] += loss.policy_loss;
            a.sums[2] += now.entropy;
            a.sums[3] += loss.approx_kl;
            a.sums[4] += loss.clipped;
        }
    }
    __syncwarp();
    if (a.present) return;
    // A row that is not there was computed with what belongs to the first one.
    for (int j = half; j < COLUMNS; j += 2) out[j] = 0.0f;
}

// Gradients of the outputs of this thread's two rows, as a product's operand.
__device__ inline void t_take_gradients(const float* outs, unsigned int (&d)[T_N / 4]) {
    int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    #pragma unroll
    for (int k = 0; k < T_N / 16; ++k) {
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
            const float* from = outs + (g + e % 2 * 8) * T_STRIDE + 16 * k + 2 * q + e / 2 * 8;
            float2 pair = *(const float2*)from;
            d[4 * k + e] = t_halves(pair.x, pair.y);
        }
    }
}

// Outputs turned into their gradients, as a product's operand, by way of the warp's part of shared memory.
__device__ inline void t_loss(const TLearn& a, float4 known, const float (&sums)[T_N / 2], unsigned int (&d)[T_N / 4]) {
    t_spread(sums, a.biases + t_bias_at(T_DEPTH), a.outs);
    t_loss_row<T_N>(a, known, a.outs + threadIdx.x % 32 / 2 * T_STRIDE);
    __syncwarp();
    t_take_gradients(a.outs, d);
}

// The same of a value alone, in registers: the first of four threads has those of two rows.
__device__ inline void t_value_loss(const TLearn& a, float4 known, const float (&sums)[T_N / 2],
                                    unsigned int (&d)[T_N / 4]) {
    int lane = threadIdx.x % 32, row = lane / 2;
    float upper = __shfl_sync(0xffffffffu, sums[0], row % 8 * 4);
    float lower = __shfl_sync(0xffffffffu, sums[2], row % 8 * 4);
    float value[1] = {(row < 8 ? upper : lower) + a.biases[t_bias_at(T_DEPTH)]};
    t_loss_row<1>(a, known, value);
    upper = __shfl_sync(0xffffffffu, value[0], lane / 4 * 2);
    lower = __shfl_sync(0xffffffffu, value[0], lane / 4 * 2 + 16);
    unsigned int none = 0;
    // Else the compiler makes zeros anew for the product, and then waits for each of them.
    asm volatile("" : "+r"(none));
    #pragma unroll
    for (int i = 0; i < T_N / 4; ++i) d[i] = none;
    if (lane % 4 != 0) return;
    d[0] = t_halves(upper, 0.0f);
    d[1] = t_halves(lower, 0.0f);
}

// Keeps what hidden layer L gives, which the thread holds; and gets it back. What lies next to the outputs stays in shared
// memory where its products are made here, and the first layer's activations have been copied back there.
template <int L, int K>
__device__ inline void t_keep_activations(const TLearn& a, const unsigned int (&h)[K]) {
#if T_EDGES
    if constexpr (L == T_DEPTH - 1) return t_stage_keep(h, t_stage(a.image));
#endif
    t_keep(h, a.tile + t_inputs_at(L + 1));
}
template <int L, int K>
__device__ inline void t_recall_activations(const TLearn& a, unsigned int (&h)[K]) {
#if T_EDGES
    asm volatile("cp.async.wait_all;" ::: "memory");
    if constexpr (L == 0 || L == T_DEPTH - 1) return t_stage_recall(h, t_stage(a.image));
#endif
    t_recall(h, a.tile + t_inputs_at(L + 1));
}

// Layer L and all above it, forward and back: from activations below to their gradients; where the first layer's are
// made from what it leaves, up to those of its outputs.
template <int L, int K>
__device__ inline void t_learn(TLearn& a, const unsigned int (&below)[K],
                               float (&d_below)[2 * K]) {
    if constexpr (L == T_DEPTH) {
        // On its way meanwhile.
        float4 known = T_LEARNERS || T_EDGES ? a.known : t_known(a);
        unsigned int d[T_N / 4];
#if T_EDGES
        TOutputSums edges;
#endif
        {
            float sums[T_N / 2];
            t_forward<L>(a.image, below, sums);
#if T_EDGES
            edges.load(t_edges(a.own_gradients));
#endif
            // Where observations do not come ahead, registers do not suffice for it: then products wait for each other.
            if constexpr (T_ROLE == 2 && T_AHEAD) t_value_loss(a, known, sums, d);
            else t_loss(a, known, sums, d);
        }
#if T_EDGES
        t_meet(threadIdx.x / 128);
        t_edge_outputs(edges, t_edges(a.own_gradients), t_stage(a.image), a.outs - threadIdx.x % 128 / 32 * 16 * T_STRIDE);
        t_meet(threadIdx.x / 128);
#else
        t_keep_plain(d, a.tile + t_outputs_at(L));
#endif
        t_backward<L>(a.image, d, d_below);
    } else {
        unsigned int h[t_out(L) / 4];
        float sums[t_out(L) / 2];
        t_forward<L>(a.image, below, sums);
#if T_EDGES
        // What the loss needs is on its way meanwhile.
        if constexpr (L == T_DEPTH - 1) a.known = t_known(a), a.done = t_done(a);
#endif
#if T_NORMED
#if T_AHEAD
        // What is kept next lies where the last tile's gradients did.
        if constexpr (L == 0) t_turn(a.next);
#endif
        float2 inverse = t_normalise<L>(sums, a.biases + t_bias_at(L));
        t_normed_epilogue(sums, a.biases + t_norm_at(L), h, [&](const unsigned int* part, int t) {
            t_keep_part(part, a.units + t_units_at(L), t);
        });
#else
        t_epilogue(sums, a.biases + t_bias_at(L), h);
#if T_AHEAD
        if constexpr (L == 0) t_turn(a.next);
#endif
#endif
        t_keep_activations<L>(a, h);
        unsigned int positive[(t_out(L) / 4 + 15) / 16] = {};
        if (!T_TANH) t_signs(h, positive);
        t_learn<L + 1>(a, h, sums);
#if T_NORMED
        TNormed normed = {a.biases + t_norm_at(L), inverse, a.units + t_units_at(L), a.tile + t_inputs_at(L + 1),
                          a.own_gradients + 2 * t_bias_at(L)};
        t_norm_back<L>(normed, positive, sums, h);
#else
        // Activations themselves would fill the registers of large towers: relu needs a bit of each, tanh reads
        // them again.
        if constexpr (T_TANH && !T_LEARNERS) t_recall_activations<L>(a, h);
        #pragma unroll
        for (int i = 0; i < t_out(L) / 4; ++i) {
            // Register i holds two columns of the upper or the lower row.
            int at = i / 4 * 8 + i % 4 / 2 * 4 + i % 2 * 2;
            if (T_TANH) {
                h[i] = t_slope(sums[at], sums[at + 1], h[i]);
            } else {
                unsigned int bits = positive[i / 16];
                h[i] = t_halves(bits & 0x8000u >> i % 16 ? sums[at] : 0.0f,
                                bits & 0x80000000u >> i % 16 ? sums[at + 1] : 0.0f);
            }
        }
#endif
#if T_EDGES
        if constexpr (L == 0) return t_stage_keep(h, t_stage(a.image));
        // The first layer's activations are back by the time that their gradients are there.
        if constexpr (L == 1 && T_TANH) t_copy_back<t_in(1)>(t_stage(a.image), a.tile + t_inputs_at(1));
#endif
        t_keep(h, a.tile + t_outputs_at(L));
        if constexpr (L > 0) t_backward<L>(a.image, h, d_below);
    }
}

// Asks for the observations of the group's next tile, whose cells lanes 0 to 15 have.
__device__ inline void t_ask_for_samples(const unsigned char* obs, unsigned int next) {
    int lane = threadIdx.x % 32;
    unsigned int cell = __shfl_sync(0xffffffffu, next, lane / 2);
    const unsigned char* from = obs + (unsigned long long)cell * (t_in(0) * 2);
    #pragma unroll
    for (int at = 0; at < t_in(0) * 2; at += 256) {
        // What follows a short row is another sample's.
        if (lane % 2 == 0 || at + 128 < t_in(0) * 2) t_prefetch(from + at + lane % 2 * 128);
    }
}

// The same, and for what the loss of this tile needs.
__device__ inline void t_ask_for(const TLearn& a, const unsigned char* obs, unsigned int next) {
    if (threadIdx.x % 2 == 0) {
        t_prefetch((const float4*)a.from.known + a.cell);
    } else if (a.acts()) {
        if (P_CONTINUOUS) t_prefetch(a.from.raws + (unsigned long long)a.cell * P_ACTION);
        else t_prefetch(a.from.actions + (unsigned long long)a.cell * P_ACTION);
        if (P_MASK) t_prefetch((const unsigned int*)a.from.masks + (unsigned long long)a.cell * T_MASK_WORDS);
    }
    t_ask_for_samples(obs, next);
}

// The block's sums of losses, from those of its first THREADS threads; all threads of the block come here.
template <int THREADS>
__device__ inline void t_sum_losses(const float* sums, double* parts, unsigned int parts_at) {
    __shared__ double of_warps[THREADS / 32][5];
    __syncthreads();
    if (threadIdx.x < THREADS) {
        #pragma unroll
        for (int k = 0; k < 5; ++k) {
            double sum = sums[threadIdx.x * 5 + k];
            #pragma unroll
            for (int half = 16; half > 0; half /= 2) sum += __shfl_down_sync(0xffffffffu, sum, half);
            if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32][k] = sum;
        }
    }
    __syncthreads();
    if (threadIdx.x >= 5) return;
    double sum = 0.0;
    for (int i = 0; i < THREADS / 32; ++i) sum += of_warps[i][threadIdx.x];
    parts[(unsigned long long)(parts_at + blockIdx.x) * 5 + threadIdx.x] = sum;
}

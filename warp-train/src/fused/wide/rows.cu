// One row of a policy: an action drawn from its outputs, and the loss of an action with its
// derivatives by the outputs, twins of warp-train's loss, operation by operation; in release builds, many heads that are alike
// take their exponentials, logarithms and quotients from the samplers, which are approximate there.
//
// Made for one policy by constants and the functions of its objective: P_OUT outputs per row, P_ACTION numbers per action, P_SIZES the
// heads' sizes, P_FIRSTS their first outputs, P_LANES how many lanes share a sample's heads, P_HEAD_SIZE the size of many heads that
// are alike, or 0, P_LARGEST_HEAD that of the largest of many heads that lanes draw one by one, or 0, WideLayout what the outputs
// mean to a sampler; P_CONTINUOUS for a box, P_LOG_STD_AT where log-deviations that are parameters lie, or -1.

__device__ const int wide_sizes[] = P_SIZES;
__device__ const int wide_firsts[] = P_FIRSTS;

// What masks are copied by.
#if P_MASK % 4 == 0
typedef unsigned int WideMaskWord;
#elif P_MASK % 2 == 0
typedef unsigned short WideMaskWord;
#else
typedef unsigned char WideMaskWord;
#endif

// The LANES lanes of a warp that share a row; other rows may not be there.
template <int LANES> __device__ inline unsigned int wide_lanes() {
    return 0xffffffffu >> (32 - LANES) << threadIdx.x % 32 / LANES * LANES;
}
// The sum over them.
template <int LANES>
__device__ inline float wide_sum_lanes(float x) {
    if (LANES == 1) return x;
    #pragma unroll
    for (int by = 1; by < LANES; by *= 2) x += __shfl_xor_sync(wide_lanes<LANES>(), x, by);
    return x;
}

#define WIDE_NONE __int_as_float((int)0xff800000u)
#define WIDE_INFINITY __int_as_float((int)0x7f800000u)

// A head's allowed logit; negative infinity for one that the mask forbids.
__device__ inline float wide_logit(const float* out, const unsigned char* mask, int at) {
    return mask != 0 && mask[at] == 0 ? WIDE_NONE : out[at];
}

#if !P_CONTINUOUS

// Draws all heads.
__device__ inline WarpSampled wide_sample(const float* out, const float*, const unsigned char* mask,
                                          WarpDraw draw, int* actions, float*, float*) {
    return warp_sample_heads<WideLayout, false, true>(out, mask, draw, actions);
}

struct WideDistribution {
    float log_prob, entropy;
};

#if P_HEAD_SIZE

// Where lanes share heads, which are many and have P_HEAD_SIZE choices each, a lane has every LANESth: which choices the masks
// of its heads allow, a byte each, several of which are read at once, and which are chosen.
template <int LANES> struct WideGivenHeads {
    static constexpr int n = (P_ACTION + LANES - 1) / LANES;
    static constexpr int bytes = P_HEAD_SIZE % 4 == 0 ? 4 : P_HEAD_SIZE % 2 == 0 ? 2 : 1, words = P_HEAD_SIZE / bytes;
    unsigned int allows[n * words], action[n];

    __device__ inline void read(const unsigned char* mask, const int* actions, int lane) {
        read_mask(mask, lane);
        #pragma unroll
        for (int h = 0; h < n; ++h) {
            if (lane + h * LANES < P_ACTION) action[h] = actions[lane + h * LANES];
        }
    }
    __device__ inline void read_mask(const unsigned char* mask, int lane) {
        #pragma unroll
        for (int h = 0; h < n; ++h) {
            int head = lane + h * LANES;
            if (head >= P_ACTION) continue;
            const unsigned char* own = mask + head * P_HEAD_SIZE;
            #pragma unroll
            for (int i = 0; i < words; ++i) {
                allows[h * words + i] = !P_MASK ? 0xffffffffu : bytes == 4 ? ((const unsigned int*)own)[i]
                                        : bytes == 2 ? ((const unsigned short*)own)[i] : own[i];
            }
        }
    }
    // Whether choice j of number h of a lane's heads is allowed.
    __device__ inline bool operator()(int h, int j) const {
        return (allows[h * words + j / bytes] & 0xffu << j % bytes * 8) != 0;
    }
};

// What a lane finds of them stays in registers.
template <int LANES> struct WideAlikeHeads {
    static constexpr int n = WideGivenHeads<LANES>::n;
    WideGivenHeads<LANES> given;
    float p[n][P_HEAD_SIZE], log_p[n][P_HEAD_SIZE], entropy[n];
};

// Evaluates number h of a lane's heads; adds to the row.
template <int LANES>
__device__ inline void wide_evaluate_head(const float* out, int h, WideAlikeHeads<LANES>& found, WideDistribution& row) {
    constexpr int size = P_HEAD_SIZE;
    float(&p)[size] = found.p[h], (&log_p)[size] = found.log_p[h], max = WIDE_NONE, sum = 0.0f, entropy = 0.0f;
    #pragma unroll
    for (int j = 0; j < size; ++j) {
        log_p[j] = found.given(h, j) ? out[j] : WIDE_NONE;
        max = log_p[j] > max ? log_p[j] : max;
    }
    #pragma unroll
    for (int j = 0; j < size; ++j) {
        // A NaN stays one and is noticed.
        p[j] = log_p[j] == WIDE_NONE ? 0.0f : warp_sample_exp(log_p[j] - max);
        sum += p[j];
    }
    float log_sum = warp_sample_ln(sum), chosen = WIDE_NONE;
    #pragma unroll
    for (int j = 0; j < size; ++j) {
        p[j] = warp_sample_ratio(p[j], sum);
        log_p[j] = log_p[j] - max - log_sum;
        if (p[j] > 0.0f) entropy -= p[j] * log_p[j];
        if (j == (int)found.given.action[h]) chosen = log_p[j];
    }
    // A choice that the mask forbids counts for nothing.
    if (!(chosen == WIDE_NONE)) row.log_prob += chosen;
    row.entropy += found.entropy[h] = entropy;
}

// Evaluates what is given.
template <int LANES>
__device__ inline WideDistribution wide_evaluate_given(const float* out, int lane, WideAlikeHeads<LANES>& found) {
    WideDistribution row = {0.0f, 0.0f};
    #pragma unroll
    for (int h = 0; h < WideAlikeHeads<LANES>::n; ++h) {
        int head = lane + h * LANES;
        if (head < P_ACTION) wide_evaluate_head(out + head * P_HEAD_SIZE, h, found, row);
    }
    return {wide_sum_lanes<LANES>(row.log_prob), wide_sum_lanes<LANES>(row.entropy)};
}

template <int LANES>
__device__ inline WideDistribution wide_evaluate(const float* out, const float*, const unsigned char* mask,
                                                 const int* actions, const float*, int lane, WideAlikeHeads<LANES>& found) {
    found.given.read(mask, actions, lane);
    return wide_evaluate_given<LANES>(out, lane, found);
}

// Turns the outputs of the row last evaluated into their gradient, in place.
template <int LANES>
__device__ inline void wide_gradient(float* out, const float*, const unsigned char*, const int*, const float*,
                                     float d_log_prob, float d_entropy, int lane, const WideAlikeHeads<LANES>& found) {
    #pragma unroll
    for (int h = 0; h < WideAlikeHeads<LANES>::n; ++h) {
        int head = lane + h * LANES;
        if (head >= P_ACTION) continue;
        #pragma unroll
        for (int j = 0; j < P_HEAD_SIZE; ++j) {
            float p = found.p[h][j], log_p = found.log_p[h][j];
            float d = p == 0.0f ? 0.0f : -p * (d_log_prob + d_entropy * (log_p + found.entropy[h]));
            out[head * P_HEAD_SIZE + j] = j == (int)found.given.action[h] ? d + d_log_prob : d;
        }
    }
}

#endif

// Largest allowed logit and logarithm of the sum of weights of a head.
__device__ inline void wide_normaliser(const float* out, const unsigned char* mask, int first,
                                       int size, float* max, float* sum) {
    *max = WIDE_NONE;
    for (int j = first; j < first + size; ++j) {
        float logit = wide_logit(out, mask, j);
        *max = logit > *max ? logit : *max;
    }
    *sum = 0.0f;
    for (int j = first; j < first + size; ++j) {
        bool allowed = mask == 0 || mask[j] != 0;
        *sum += allowed ? warp_exp(out[j] - *max) : 0.0f;
    }
}

// What a head's evaluation found, for its gradient.
struct WideHead {
    float max, sum, log_sum, entropy;
};

// That of all heads that one of LANES lanes takes, which is every LANESth.
template <int LANES> struct WideHeads {
    WideHead heads[(P_ACTION + LANES - 1) / LANES];
};

template <int LANES>
__device__ inline WideDistribution wide_evaluate(const float* out, const float*,
                                                 const unsigned char* mask, const int* actions,
                                                 const float*, int lane, WideHeads<LANES>& found) {
    WideDistribution row = {0.0f, 0.0f};
    for (int head = lane; head < P_ACTION; head += LANES) {
        int first = wide_firsts[head], size = wide_sizes[head];
        float max, sum;
        wide_normaliser(out, mask, first, size, &max, &sum);
        float log_sum = warp_ln(sum), entropy = 0.0f;
        for (int j = first; j < first + size; ++j) {
            if (mask != 0 && mask[j] == 0) continue;
            float p = warp_exp(out[j] - max) / sum;
            float log_p = out[j] - max - log_sum;
            if (p > 0.0f) entropy -= p * log_p;
            if (j - first == actions[head]) row.log_prob += log_p;
        }
        row.entropy += entropy;
        found.heads[head / LANES] = {max, sum, log_sum, entropy};
    }
    return {wide_sum_lanes<LANES>(row.log_prob), wide_sum_lanes<LANES>(row.entropy)};
}

// Turns the outputs of the row last evaluated into their gradient, in place.
template <int LANES>
__device__ inline void wide_gradient(float* out, const float*, const unsigned char* mask,
                                     const int* actions, const float*, float d_log_prob,
                                     float d_entropy, int lane, const WideHeads<LANES>& found) {
    for (int head = lane; head < P_ACTION; head += LANES) {
        int first = wide_firsts[head], size = wide_sizes[head];
        const auto& [max, sum, log_sum, entropy] = found.heads[head / LANES];
        for (int j = first; j < first + size; ++j) {
            bool allowed = mask == 0 || mask[j] != 0;
            float p = allowed ? warp_exp(out[j] - max) / sum : 0.0f;
            float log_p = out[j] - max - log_sum;
            float d = p == 0.0f ? 0.0f : -p * (d_log_prob + d_entropy * (log_p + entropy));
            out[j] = j - first == actions[head] ? d + d_log_prob : d;
        }
    }
}

#if P_HEAD_SIZE
template <int LANES> struct WideHeadsBy { typedef WideAlikeHeads<LANES> type; };
template <> struct WideHeadsBy<1> { typedef WideHeads<1> type; };
template <int LANES> using WideHeadsOf = typename WideHeadsBy<LANES>::type;
#else
template <int LANES> using WideHeadsOf = WideHeads<LANES>;
#endif

#else

// Log-deviations, be they outputs or parameters.
__device__ inline const float* wide_log_stds(const float* out, const float* parameters) {
    return P_LOG_STD_AT >= 0 ? parameters + P_LOG_STD_AT : out + P_ACTION;
}

__device__ inline float wide_clamp_log_std(float log_std) {
    return warp_clip(log_std, WideLayout::log_std_min(), WideLayout::log_std_max());
}

__device__ inline float wide_log_jacobian(int d, float raw) {
    return WideLayout::squashed ? WideLayout::log_half_range(d) + warp_log_slope(raw) : 0.0f;
}

__device__ inline float wide_bound(int d, float raw) {
    float action = raw;
    if (WideLayout::squashed)
        action = WideLayout::centre(d) + WideLayout::half_range(d) * warp_tanh(raw);
    return warp_clip(action, WideLayout::low(d), WideLayout::high(d));
}

struct WideNormal {
    float z, inverse_std, log_density;
};

__device__ inline WideNormal wide_normal(float raw, float mean, float log_std) {
    float inverse_std = warp_exp(-log_std);
    float z = (raw - mean) * inverse_std;
    WideNormal normal = {z, inverse_std, (-0.5f * (z * z) - log_std) - 0.9189385f};
    return normal;
}

// An element's entropy and its derivatives by mean and log-deviation.
__device__ inline void wide_entropy(int d, float mean, float log_std, float* entropy,
                                    float* by_mean, float* by_log_std) {
    float plain = 1.4189385f + log_std;
    *entropy = plain;
    *by_mean = 0.0f;
    *by_log_std = 1.0f;
    if (!WideLayout::squashed) return;
    const float nodes[3] = {1.1544054f, 2.3667594f, 3.7504397f};
    const float weights[3] = {0.24012318f, 0.030757124f, 5.482688699e-4f};
    float std = warp_exp(log_std);
    float value = 0.45714286f * warp_log_slope(mean);
    float mean_tanh = 0.45714286f * warp_tanh(mean), mean_tanh_node = 0.0f;
    #pragma unroll
    for (int i = 0; i < 3; ++i) {
        float above = mean + std * nodes[i], below = mean - std * nodes[i];
        float tanh_above = warp_tanh(above), tanh_below = warp_tanh(below);
        value += weights[i] * (warp_log_slope(above) + warp_log_slope(below));
        mean_tanh += weights[i] * (tanh_above + tanh_below);
        mean_tanh_node += weights[i] * nodes[i] * (tanh_above - tanh_below);
    }
    *entropy = plain + WideLayout::log_half_range(d) + value;
    *by_mean = -2.0f * mean_tanh;
    *by_log_std = 1.0f + -2.0f * std * mean_tanh_node;
}

// Draws all elements.
__device__ inline WarpSampled wide_sample(const float* out, const float* parameters,
                                          const unsigned char*, WarpDraw draw, int*, float* raw,
                                          float* bounded) {
    const float* log_stds = wide_log_stds(out, parameters);
    return warp_sample_box<WideLayout, false>(out, log_stds, draw, raw, bounded);
}

struct WideDistribution {
    float log_prob, entropy;
};

// Nothing that the gradient would not compute again.
template <int LANES> struct WideHeadsOf {};

template <int LANES>
__device__ inline WideDistribution wide_evaluate(const float* out, const float* parameters,
                                                 const unsigned char*, const int*,
                                                 const float* raw, int, WideHeadsOf<LANES>&) {
    WideDistribution row = {0.0f, 0.0f};
    for (int d = 0; d < P_ACTION; ++d) {
        float log_std = wide_clamp_log_std(wide_log_stds(out, parameters)[d]);
        float entropy, by_mean, by_log_std;
        wide_entropy(d, out[d], log_std, &entropy, &by_mean, &by_log_std);
        row.log_prob += wide_normal(raw[d], out[d], log_std).log_density -
                        wide_log_jacobian(d, raw[d]);
        row.entropy += entropy;
    }
    return row;
}

// Turns the outputs of element d into their gradient, in place.
__device__ inline void wide_element_gradient(float* out, const float* parameters, const float* raw,
                                             int d, float d_log_prob, float d_entropy) {
    float mean = out[d], given = wide_log_stds(out, parameters)[d];
    float log_std = wide_clamp_log_std(given);
    float entropy, by_mean, by_log_std;
    wide_entropy(d, mean, log_std, &entropy, &by_mean, &by_log_std);
    WideNormal normal = wide_normal(raw[d], mean, log_std);
    float outside = given == log_std ? 0.0f : given > log_std ? 1.0f : -1.0f;
    out[d] = d_log_prob * (normal.z * normal.inverse_std) + d_entropy * by_mean;
    float by = d_log_prob * (normal.z * normal.z - 1.0f) + d_entropy * by_log_std;
    // Outside its range only where descent leads back inside.
    out[P_ACTION + d] = by * outside < 0.0f ? 0.0f : by;
}

template <int LANES>
__device__ inline void wide_gradient(float* out, const float* parameters, const unsigned char*,
                                     const int*, const float* raw, float d_log_prob,
                                     float d_entropy, int, const WideHeadsOf<LANES>&) {
    for (int d = 0; d < P_ACTION; ++d) {
        wide_element_gradient(out, parameters, raw, d, d_log_prob, d_entropy);
    }
}

#endif

// What an algorithm says of one row.
struct WideLoss {
    float policy_loss, d_log_prob, value_loss, d_value, approx_kl, clipped;
};

struct WideRow {
    float log_prob, old_log_prob, value, old_value, advantage, target;
};

__device__ inline WideLoss wide_loss(const float* cells, const WideRow& row) {
    WideLoss loss;
    warp_policy_loss(cells, row.log_prob, row.old_log_prob, row.advantage, loss.policy_loss,
                     loss.d_log_prob, loss.approx_kl, loss.clipped);
    warp_value_loss(cells, row.value, row.old_value, row.target, loss.value_loss, loss.d_value);
    return loss;
}

// What the rollout knows of a sample.
struct WideKnown {
    float log_prob, value, advantage, target;
};

__device__ inline float wide_scaled_advantage(float advantage, double mean, double scale) {
    return (float)(((double)advantage - mean) * scale);
}

__device__ inline WideKnown wide_known(const WideSamples& from, const WideState* state,
                                       unsigned int cell) {
    float advantage = wide_scaled_advantage(from.advantages[cell], state->adv_mean, state->adv_scale);
    WideKnown known = {from.log_probs[cell], from.values[cell], advantage, from.returns[cell]};
    return known;
}

// The mask of a sample that was stored.
__device__ inline const unsigned char* wide_mask(const WideSamples& from, unsigned int cell) {
    return from.masks + (unsigned long long)cell * P_MASK;
}

// Turns the outputs of a sample of which `now` and `heads` are known into their gradient (times the number of samples), in
// place; adds to the sums. A tower that ACTS has P_OUT of them, one that VALUES a value behind them. LANES lanes share a
// sample, and the first of them has what it adds to the sums.
template <bool ACTS, bool VALUES, int LANES>
__device__ inline void wide_apply_loss(const WideSettings* settings, const WideKnown& known, const WideDistribution& now,
                                       const unsigned char* mask, const int* actions, const float* raws, float* out,
                                       const float* parameters, double (&sums)[5], int lane,
                                       const WideHeadsOf<LANES>& heads) {
    constexpr int value_at = ACTS ? P_OUT : 0;
    WideRow row = {now.log_prob, known.log_prob, VALUES ? out[value_at] : 0.0f, known.value,
                   known.advantage, known.target};
    WideLoss loss = wide_loss(settings->cells, row);
    if (ACTS) {
        float d_entropy = -settings->ent_coef;
        wide_gradient<LANES>(out, parameters, mask, actions, raws, loss.d_log_prob, d_entropy, lane, heads);
    }
    // All of them have read the value, which its gradient replaces.
    if (LANES > 1) __syncwarp(wide_lanes<LANES>());
    if (lane != 0) return;
    if (ACTS) {
        sums[0] += loss.policy_loss;
        sums[2] += now.entropy;
        sums[3] += loss.approx_kl;
        sums[4] += loss.clipped;
    }
    if (VALUES) {
        sums[1] += loss.value_loss;
        out[value_at] = settings->vf_coef * loss.d_value;
    }
}

// The same of a sample that is a cell of the rollout, with the mask that is stored.
template <bool ACTS, bool VALUES, int LANES = 1>
__device__ inline void wide_sample_loss(const WideSamples& from, const WideSettings* settings,
                                        const WideKnown& known, unsigned int cell,
                                        const unsigned char* stored, float* out, const float* parameters,
                                        double (&sums)[5], int lane = 0) {
    const unsigned char* mask = P_MASK ? stored : 0;
    const int* actions = from.actions + (unsigned long long)cell * P_ACTION;
    const float* raws = from.raws + (unsigned long long)cell * P_ACTION;
    WideDistribution now = {0.0f, 0.0f};
    WideHeadsOf<LANES> heads;
    if (ACTS) now = wide_evaluate<LANES>(out, parameters, mask, actions, raws, lane, heads);
    wide_apply_loss<ACTS, VALUES, LANES>(settings, known, now, mask, actions, raws, out, parameters, sums, lane, heads);
}

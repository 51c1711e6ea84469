// Losses and their derivatives by a row's outputs: the twins of loss/, but for the objective, which is made
// from its row functions.
//
// Needs: CONTINUOUS, and HEADS and ACTION_WIDTH, or ACTION_WIDTH and ActionBox, which says between which
// bounds actions and log-deviations lie; MASKED, NORM_ADV.
#pragma once
#include "layers.cuh"
#include "objective.cuh"

struct Coefficients {
    float value, entropy;
    float mean, scale;  // of advantages
    float cells[MOST_CELLS];  // of the objective
};

struct LossSums {
    float policy, value, entropy, kl, clipped;
};

#if CONTINUOUS
#define ACTION_WORDS ACTION_WIDTH
#else
#define ACTION_WORDS 1
#endif

#if CONTINUOUS
// (1 - e) / (1 + e) for e = exp(-2 |x|), and with the sign of x.
__device__ __forceinline__ float exact_tanh(float x) {
    float e = fast_exp(-2.0f * fabsf(x));
    return copysignf(fast_divide(1.0f - e, 1.0f + e), x);
}
// ln(1 - tanh(x)^2).
__device__ __forceinline__ float log_slope(float x) {
    float a = fabsf(x);
    return 2.0f * ((0.6931472f - a) - fast_log(1.0f + fast_exp(-2.0f * a)));
}
// The logarithm of how much action `i` moves with its raw sample.
__device__ __forceinline__ float log_jacobian(int i, float raw) {
    return ActionBox::squashed ? ActionBox::log_half_range(i) + log_slope(raw) : 0.0f;
}
__device__ __forceinline__ float clamp_log_std(float given) {
    return fminf(fmaxf(given, ActionBox::log_std_min()), ActionBox::log_std_max());
}

// What squashing adds to the entropy of action `i`, and its derivatives by mean and log-deviation: the mean of
// log_slope by Gauss-Hermite quadrature with seven nodes.
struct SquashedEntropy {
    float value, by_mean, by_log_std;

    __device__ __forceinline__ SquashedEntropy(int i, float mean, float log_std) {
        constexpr float nodes[3] = {1.1544054f, 2.3667594f, 3.7504397f};
        constexpr float weights[3] = {0.24012318f, 0.030757124f, 5.482688699e-4f};
        float std = fast_exp(log_std), slope = 0.45714286f * log_slope(mean);
        float tanh_sum = 0.45714286f * exact_tanh(mean), tanh_moment = 0.0f;
#pragma unroll
        for (int node = 0; node < 3; ++node) {
            float above = mean + std * nodes[node], below = mean - std * nodes[node];
            float tanh_above = exact_tanh(above), tanh_below = exact_tanh(below);
            slope += weights[node] * (log_slope(above) + log_slope(below));
            tanh_sum += weights[node] * (tanh_above + tanh_below);
            tanh_moment += weights[node] * nodes[node] * (tanh_above - tanh_below);
        }
        value = ActionBox::log_half_range(i) + slope;
        by_mean = -2.0f * tanh_sum;
        by_log_std = -2.0f * std * tanh_moment;
    }
};
#endif

// d: derivatives by the outputs; first the chosen actions' log-probability and the entropy.
#if CONTINUOUS
struct Distribution {
    float log_prob, entropy;
    float z[ACTION_WIDTH], inverse[ACTION_WIDTH], outside[ACTION_WIDTH];
    // Of the entropy, by mean and log-deviation; 0 and 1 where actions are not squashed.
    float by_mean[ACTION_WIDTH], by_log_std[ACTION_WIDTH];

    __device__ __forceinline__ void evaluate(const float* outputs, u32, const float* raw) {
        log_prob = entropy = 0.0f;
#pragma unroll
        for (int i = 0; i < ACTION_WIDTH; ++i) {
            float given = outputs[ACTION_WIDTH + i];
            float log_std = clamp_log_std(given);
            inverse[i] = fast_exp(-log_std);
            z[i] = (raw[i] - outputs[i]) * inverse[i];
            log_prob += -0.5f * z[i] * z[i] - log_std - 0.9189385f;
            entropy += 1.4189385f + log_std;
            if (ActionBox::squashed) {
                SquashedEntropy squashed(i, outputs[i], log_std);
                log_prob -= log_jacobian(i, raw[i]);
                entropy += squashed.value;
                by_mean[i] = squashed.by_mean;
                by_log_std[i] = 1.0f + squashed.by_log_std;
            }
            outside[i] = given > log_std ? 1.0f : given < log_std ? -1.0f : 0.0f;
        }
    }
    __device__ __forceinline__ void gradient(u32, float by_log_prob, float by_entropy,
                                             float* d) const {
#pragma unroll
        for (int i = 0; i < ACTION_WIDTH; ++i) {
            d[i] = by_log_prob * z[i] * inverse[i];
            if (ActionBox::squashed) d[i] += by_entropy * by_mean[i];
            float of_entropy = ActionBox::squashed ? by_entropy * by_log_std[i] : by_entropy;
            float by = by_log_prob * (z[i] * z[i] - 1.0f) + of_entropy;
            // Outside its range only what leads back inside counts.
            d[ACTION_WIDTH + i] = by * outside[i] < 0.0f ? 0.0f : by;
        }
    }
};
#else
struct Distribution {
    float log_prob, entropy;
    float log_p[OUT], head_entropy[ACTION_WIDTH];

    __device__ __forceinline__ void evaluate(const float* logits, u32 what, const float*) {
        constexpr int sizes[] = HEADS;
        log_prob = entropy = 0.0f;
        int first = 0;
#pragma unroll
        for (int head = 0; head < ACTION_WIDTH; ++head) {
            int chosen = (what >> (4 * head)) & 15;
            float largest = -3.0e38f, sum = 0.0f, moment = 0.0f;
#pragma unroll
            for (int i = 0; i < sizes[head]; ++i) {
                bool allowed = !MASKED || ((what >> (ROW_MASK_AT + first + i)) & 1u);
                log_p[first + i] = allowed ? logits[first + i] : -1.0e30f;
                largest = fmaxf(largest, log_p[first + i]);
            }
#pragma unroll
            for (int i = 0; i < sizes[head]; ++i) {
                float below = log_p[first + i] - largest, w = fast_exp(below);
                sum += w;
                moment += w > 0.0f ? w * below : 0.0f;
            }
            float log_sum = fast_log(sum);
            head_entropy[head] = log_sum - fast_divide(moment, sum);
            entropy += head_entropy[head];
#pragma unroll
            for (int i = 0; i < sizes[head]; ++i) {
                log_p[first + i] -= largest + log_sum;
                log_prob += i == chosen ? log_p[first + i] : 0.0f;
            }
            first += sizes[head];
        }
    }
    __device__ __forceinline__ void gradient(u32 what, float by_log_prob, float by_entropy,
                                             float* d) const {
        constexpr int sizes[] = HEADS;
        int first = 0;
#pragma unroll
        for (int head = 0; head < ACTION_WIDTH; ++head) {
            int chosen = (what >> (4 * head)) & 15;
#pragma unroll
            for (int i = 0; i < sizes[head]; ++i) {
                float p = fast_exp(log_p[first + i]);
                float by = by_log_prob + by_entropy * (log_p[first + i] + head_entropy[head]);
                d[first + i] = (i == chosen ? by_log_prob : 0.0f) - (p > 0.0f ? p * by : 0.0f);
            }
            first += sizes[head];
        }
    }
};
#endif

// Derivatives of one row's loss by its outputs, of which those within half precision's range are
// kept; adds the row to `sums`, times `weight`.
template <int NET>
__device__ __forceinline__ void row_loss(const float (&z)[Role<NET>::outputs], const Row& row,
                                         const float* raw, const Coefficients& k, float weight,
                                         float (&d)[Role<NET>::outputs], LossSums& sums) {
    using R = Role<NET>;
    if (R::policy) {
        Distribution now;
        now.evaluate(z, row.what, raw);
        float advantage = NORM_ADV ? (row.advantage - k.mean) * k.scale : row.advantage;
        float loss, by_log_prob, kl, clipped;
        warp_policy_loss(k.cells, now.log_prob, row.log_prob, advantage, loss, by_log_prob, kl, clipped);
        sums.kl += weight * kl;
        sums.clipped += weight * clipped;
        sums.policy += weight * loss;
        sums.entropy += weight * now.entropy;
        now.gradient(row.what, by_log_prob, -k.entropy, d);
    }
    if (R::value) {
        float loss, by;
        float target = row.advantage + row.value;
        warp_value_loss(k.cells, z[R::value_column], row.value, target, loss, by);
        sums.value += weight * loss;
        d[R::value_column] = k.value * by;
    }
#pragma unroll
    for (int o = 0; o < R::outputs; ++o) {
        // What is no number stays none, and is noticed in the norm.
        d[o] = d[o] > 60000.0f ? 60000.0f : d[o];
        d[o] = d[o] < -60000.0f ? -60000.0f : d[o];
    }
}

// This lane's two columns of a row's derivatives.
template <int NET>
__device__ __forceinline__ u32 own_columns(const float (&d)[Role<NET>::outputs], bool counts) {
    int j = threadIdx.x & 3;
    float low = 0.0f, high = 0.0f;
#pragma unroll
    for (int o = 0; o < Role<NET>::outputs; ++o) {
        bool mine = counts && o / 2 == j;
        if (o & 1)
            high = mine ? d[o] : high;
        else
            low = mine ? d[o] : low;
    }
    return pack_halves(low, high);
}

// Losses and their derivatives by a row's outputs: the twins of loss/, but for the objective, which is made
// from its row functions.
//
// Needs: CONTINUOUS, and HEADS and ACTION_WIDTH, or ACTION_WIDTH, LOG_STD_MIN
// and LOG_STD_MAX; MASKED, NORM_ADV.
#pragma once
#include "net.cuh"
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

// d: derivatives by the outputs; first the chosen actions' log-probability and the entropy.
#if CONTINUOUS
struct Distribution {
    float log_prob, entropy;
    float z[ACTION_WIDTH], inverse[ACTION_WIDTH], outside[ACTION_WIDTH];

    __device__ __forceinline__ void evaluate(const float* outputs, u32, const float* raw) {
        log_prob = entropy = 0.0f;
#pragma unroll
        for (int i = 0; i < ACTION_WIDTH; ++i) {
            float given = outputs[ACTION_WIDTH + i];
            float log_std = fminf(fmaxf(given, LOG_STD_MIN), LOG_STD_MAX);
            inverse[i] = fast_exp(-log_std);
            z[i] = (raw[i] - outputs[i]) * inverse[i];
            log_prob += -0.5f * z[i] * z[i] - log_std - 0.9189385f;
            entropy += 1.4189385f + log_std;
            outside[i] = given > log_std ? 1.0f : given < log_std ? -1.0f : 0.0f;
        }
    }
    __device__ __forceinline__ void gradient(u32, float by_log_prob, float by_entropy,
                                             float* d) const {
#pragma unroll
        for (int i = 0; i < ACTION_WIDTH; ++i) {
            d[i] = by_log_prob * z[i] * inverse[i];
            float by = by_log_prob * (z[i] * z[i] - 1.0f) + by_entropy;
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

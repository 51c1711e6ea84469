// How one row's action is drawn: the twin of head.rs, gaussian.rs and ou.rs, operation by operation.
//
// For kernels of any kind. What a policy's outputs mean is a struct of constants, which kernel_text.rs
// writes; here it is the template's parameter L. Sums run over choices or elements in order. With
// WARP_RELEASE exponentials, logarithms and quotients of discrete heads are approximate.
#pragma once
#include "draw.cuh"

// Up to this many choices a head's running sums are kept in registers, beyond they are computed again.
__device__ constexpr bool warp_keeps(int size) { return size <= 32; }
__device__ constexpr int warp_unrolled(int size) { return warp_keeps(size) ? size : 4; }

// What is known about a row's action. `sound` is false where the outputs allow no choice or are not
// numbers; the action is then in range, and nothing else holds a meaning.
struct WarpSampled {
    float log_prob, entropy;
    bool sound;
};

#if defined(WARP_RELEASE) && !defined(WARP_HOST)
__device__ inline float warp_sample_exp(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
    return y;
}
__device__ inline float warp_sample_ln(float x) { return __logf(x); }
__device__ inline float warp_sample_ratio(float a, float b) { return __fdividef(a, b); }
#else
__device__ inline float warp_sample_exp(float x) { return warp_exp(x); }
__device__ inline float warp_sample_ln(float x) { return warp_ln(x); }
__device__ inline float warp_sample_ratio(float a, float b) { return a / b; }
#endif

__device__ inline float warp_infinity() { return warp_float(0x7f800000u); }

// A logit as the softmax sees it.
template <bool masked>
__device__ inline float warp_logit(const float* logits, const unsigned char* mask, int i) {
    return masked && mask[i] == 0 ? -warp_infinity() : logits[i];
}

// The larger of two, and the first if the second is not a number.
__device__ inline float warp_larger(float a, float b) {
#ifdef WARP_HOST
    return b > a ? b : a;
#else
    return fmaxf(a, b);
#endif
}

// The first largest allowed logit and, if `greedy`, its number; false if a logit is NaN or positive infinity, allowed or not.
template <int size, bool masked, bool greedy>
__device__ inline bool warp_largest(const float* logits, const unsigned char* mask, int& index,
                                    float& largest) {
    bool sound = true;
    index = 0;
    largest = -warp_infinity();
    constexpr int unrolled = warp_unrolled(size);
#pragma unroll unrolled
    for (int i = 0; i < size; ++i) {
        // What is not forbidden shows in the sum of the weights.
        if (masked) sound = sound && logits[i] < warp_infinity();
        float logit = warp_logit<masked>(logits, mask, i);
        if (greedy) index = logit > largest ? i : index;
        largest = warp_larger(largest, logit);
    }
    return sound;
}

// One head's action: drawn by a uniform number in [0, 1), or the first whose logit is largest. Adds
// to the row. `in_memory` says that the logits have addresses, that is, lie in no registers.
template <int size, bool masked, bool greedy, bool in_memory>
__device__ inline int warp_choose(const float* logits, const unsigned char* mask, float uniform,
                                  WarpSampled& row) {
    constexpr bool keeps = warp_keeps(size);
    constexpr int unrolled = warp_unrolled(size);
    // Running sums of the weights.
    float sums[keeps ? size : 1];
    int largest;
    float max, sum = 0.0f, moment = 0.0f;
    bool sound = warp_largest<size, masked, greedy>(logits, mask, largest, max);
#pragma unroll unrolled
    for (int i = 0; i < size; ++i) {
        float below = warp_logit<masked>(logits, mask, i) - max;
        float weight = warp_sample_exp(below);
        sum += weight;
        if (keeps) sums[i] = sum;
        // Below -150 the weight is 0, and its product with a logit of -inf would be NaN.
        moment += weight * warp_larger(-150.0f, below);
    }
    // The largest logit's weight is 1, unless something is not a number or nothing is allowed.
    sound = sound && sum >= 1.0f && sum < warp_infinity();
    int index = greedy ? largest : 0;
    float chosen = greedy ? max : logits[0];
    if (!greedy) {
        // Less than the sum, also when rounded, as the uniform number is at most 1 - 2^-24. So the
        // choice is the first whose running sum is above, and as the sum grew there, its weight is not 0.
        float threshold = uniform * sum, running = 0.0f;
#pragma unroll unrolled
        for (int i = 0; i < size - 1; ++i) {
            running = keeps ? sums[i]
                            : running + warp_sample_exp(warp_logit<masked>(logits, mask, i) - max);
            bool passes = running <= threshold;
            index = passes ? i + 1 : index;
            if (!in_memory) chosen = passes ? logits[i + 1] : chosen;
        }
        if (in_memory) chosen = logits[index];
    }
    float ln_sum = warp_sample_ln(sum);
    row.log_prob += (chosen - max) - ln_sum;
    row.entropy += ln_sum - warp_sample_ratio(moment, sum);
    row.sound = row.sound && sound;
    return sound ? index : 0;
}

template <class L, bool greedy, bool in_memory, int head, int first>
__device__ inline void warp_choose_heads(const float* logits, const unsigned char* mask,
                                         WarpDraw& draw, int* actions, WarpSampled& row) {
    if constexpr (head < L::actions) {
        constexpr int size = L::size(head);
        float uniform = greedy ? 0.0f : warp_draw_uniform(&draw);
        const unsigned char* allowed = L::masked ? mask + first : mask;
        actions[head] = warp_choose<size, L::masked, greedy, in_memory>(logits + first, allowed,
                                                                       uniform, row);
        warp_choose_heads<L, greedy, in_memory, head + 1, first + size>(logits, mask, draw, actions,
                                                                        row);
    }
}

// The next head whose size no head before it has.
template <class L>
__device__ constexpr int warp_next_of_new_size(int head) {
    for (++head; head < L::actions; ++head) {
        bool is_new = true;
        for (int earlier = 0; earlier < head; ++earlier) {
            is_new = is_new && L::size(earlier) != L::size(head);
        }
        if (is_new) break;
    }
    return head;
}

// warp_choose for a size that only runs tell: that of head `like`, or of a later one.
template <class L, bool greedy, int like>
__device__ inline int warp_choose_sized(int size, const float* logits, const unsigned char* mask,
                                        float uniform, WarpSampled& row) {
    constexpr int next = warp_next_of_new_size<L>(like);
    if constexpr (next < L::actions) {
        if (size != L::size(like)) {
            return warp_choose_sized<L, greedy, next>(size, logits, mask, uniform, row);
        }
    }
    return warp_choose<L::size(like), L::masked, greedy, true>(logits, mask, uniform, row);
}

// All heads of a row: `logits` [width], `mask` [width] or nothing, `draw` the row's stream for
// WARP_PURPOSE_ACTION, of which head h takes draw h; `actions` [heads].
template <class L, bool greedy, bool in_memory>
__device__ inline WarpSampled warp_sample_heads(const float* logits, const unsigned char* mask,
                                                WarpDraw draw, int* actions) {
    // From -0, so that the first head's number is taken as it is.
    WarpSampled row = {-0.0f, -0.0f, true};
    if constexpr (in_memory && L::actions > 8) {
        // A loop, with one text for each size: head by head, they would take long to compile.
        int first = 0;
#pragma unroll 1
        for (int head = 0; head < L::actions; ++head) {
            float uniform = greedy ? 0.0f : warp_draw_uniform(&draw);
            const unsigned char* allowed = L::masked ? mask + first : mask;
            int size = L::size(head);
            actions[head] = warp_choose_sized<L, greedy, 0>(size, logits + first, allowed, uniform, row);
            first += size;
        }
    } else {
        warp_choose_heads<L, greedy, in_memory, 0, 0>(logits, mask, draw, actions, row);
    }
    return row;
}

// ln(1 - tanh(u)^2).
__device__ inline float warp_log_slope(float u) {
    float a = warp_float(warp_bits(u) & 0x7fffffffu);
    return 2.0f * ((0.6931472f - a) - warp_ln(1.0f + warp_exp(-2.0f * a)));
}

// The mean of that over a normal u, by Gauss-Hermite quadrature with seven nodes.
__device__ inline float warp_mean_log_slope(float mean, float std) {
    const float nodes[3] = {1.1544054f, 2.3667594f, 3.7504397f};
    const float weights[3] = {0.24012318f, 0.030757124f, 5.4826886e-4f};
    float value = 0.45714286f * warp_log_slope(mean);
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        float above = mean + std * nodes[i], below = mean - std * nodes[i];
        value += weights[i] * (warp_log_slope(above) + warp_log_slope(below));
    }
    return value;
}

__device__ inline float warp_clip(float x, float low, float high) {
    x = x < low ? low : x;
    return x > high ? high : x;
}

// All elements of a row: `means` and `log_stds` [dim], `draw` the row's stream for
// WARP_PURPOSE_ACTION, whose d-th normal number element d takes; `raw` and `bounded` [dim].
template <class L, bool greedy>
__device__ inline WarpSampled warp_sample_box(const float* means, const float* log_stds,
                                              WarpDraw draw, float* raw, float* bounded) {
    WarpSampled row = {0.0f, 0.0f, true};
#pragma unroll
    for (int i = 0; i < L::actions; ++i) {
        float mean = means[i], given = log_stds[i];
        float log_std = warp_clip(given, L::log_std_min(), L::log_std_max());
        float noise = greedy ? 0.0f : warp_draw_normal(&draw);
        float std = warp_exp(log_std);
        float sample = mean + std * noise;
        raw[i] = sample;
        float action = L::squashed ? L::centre(i) + L::half_range(i) * warp_tanh(sample) : sample;
        bounded[i] = warp_clip(action, L::low(i), L::high(i));
        float z = (sample - mean) * warp_exp(-log_std);
        float density = (-0.5f * (z * z) - log_std) - 0.9189385f;
        float entropy = 1.4189385f + log_std;
        if (L::squashed) {
            density = density - (L::log_half_range(i) + warp_log_slope(sample));
            entropy = entropy + L::log_half_range(i) + warp_mean_log_slope(mean, std);
        }
        row.log_prob += density;
        row.entropy += entropy;
        row.sound = row.sound && (mean - mean) == 0.0f && (given - given) == 0.0f;
    }
    return row;
}

// A random choice of each head, within the mask: `draw` is the row's stream for
// WARP_PURPOSE_RANDOM_ACTION. False if nothing is allowed.
template <class L>
__device__ inline bool warp_random_heads(const unsigned char* mask, WarpDraw draw, int* actions) {
    bool sound = true;
    int first = 0;
    for (int head = 0; head < L::actions; ++head) {
        unsigned int size = (unsigned int)L::size(head), allowed = size;
        if constexpr (L::masked) {
            allowed = 0u;
            for (unsigned int i = 0; i < size; ++i) allowed += mask[first + i] != 0 ? 1u : 0u;
        }
        unsigned int nth = warp_draw_below(&draw, allowed);
        int choice = (int)nth;
        if constexpr (L::masked) {
            choice = 0;
            for (unsigned int i = 0; i < size; ++i) {
                if (mask[first + i] == 0) continue;
                if (nth == 0u) choice = (int)i;
                nth -= 1u;
            }
            sound = sound && allowed > 0u;
            first += (int)size;
        }
        actions[head] = choice;
    }
    return sound;
}

// A random element of each bound, as Gymnasium's Box.sample.
template <class L>
__device__ inline void warp_random_box(WarpDraw draw, float* bounded) {
    for (int i = 0; i < L::actions; ++i) {
        float low = L::low(i), high = L::high(i);
        bool above = low > -warp_infinity(), below = high < warp_infinity();
        if (above && below) {
            bounded[i] = warp_clip(warp_draw_uniform_in(&draw, low, high), low, high);
        } else if (!above && !below) {
            bounded[i] = warp_draw_normal(&draw);
        } else if (above) {
            bounded[i] = low - warp_ln(1.0f - warp_draw_uniform(&draw));
        } else {
            bounded[i] = high + warp_ln(1.0f - warp_draw_uniform(&draw));
        }
    }
}

// Ornstein-Uhlenbeck noise.
struct WarpNoise {
    float damping, stddev, scale;
};

// Moves a row's noise by one step and adds it to the means: `noise`, `bounded` [dim], `draw` the
// row's stream for WARP_PURPOSE_NOISE, whose d-th normal number element d takes.
template <class L>
__device__ inline void warp_noisy_box(const float* means, const WarpNoise& by, WarpDraw draw,
                                      float* noise, float* bounded) {
    for (int i = 0; i < L::actions; ++i) {
        noise[i] = (1.0f - by.damping) * noise[i] + by.stddev * warp_draw_normal(&draw);
        bounded[i] = warp_clip(means[i] + by.scale * noise[i], L::low(i), L::high(i));
    }
}

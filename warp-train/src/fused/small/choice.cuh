// What every way of collecting does for an agent: how an observation is stored, and how an action is
// drawn from a network's outputs.
//
// Needs what order.cuh needs.
#pragma once
#include "order.cuh"

// Uniform numbers that were drawn before: the first four of a stream.
struct Ready {
    float u[4];
    int next;
};
__device__ __forceinline__ float uniform_of(Ready& ready) { return ready.u[ready.next++]; }
__device__ __forceinline__ float uniform_of(WarpDraw& draw) { return warp_draw_uniform(&draw); }
template <class Stream> __device__ __forceinline__ float normal_of(Stream& stream) {
    float u = 1.0f - uniform_of(stream);
    float angle = 6.2831855f * uniform_of(stream);
    return warp_sqrt(-2.0f * warp_ln(u)) * warp_cos(angle);
}

// Choices of all heads, and their log-probability.
#if CONTINUOUS
struct Choice {
    float raw[ACTION_WIDTH], bounded[ACTION_WIDTH], log_prob;
    u32 what;

    template <class Stream>
    __device__ __forceinline__ void draw(const float* outputs, u32, Stream stream) {
        log_prob = 0.0f;
        what = 0u;
#pragma unroll
        for (int i = 0; i < ACTION_WIDTH; ++i) {
            float log_std = clamp_log_std(outputs[ACTION_WIDTH + i]), normal = normal_of(stream);
            raw[i] = outputs[i] + __expf(log_std) * normal;
            float action = raw[i];
            if (ActionBox::squashed)
                action = ActionBox::centre(i) + ActionBox::half_range(i) * exact_tanh(raw[i]);
            bounded[i] = fminf(fmaxf(action, ActionBox::low(i)), ActionBox::high(i));
            log_prob += -0.5f * normal * normal - log_std - 0.9189385f;
            if (ActionBox::squashed) log_prob -= log_jacobian(i, raw[i]);
        }
    }
};
#else
struct Choice {
    int actions[ACTION_WIDTH];
    float log_prob;
    u32 what;

    template <class Stream>
    __device__ __forceinline__ void draw(const float* logits, u32 mask, Stream stream) {
        constexpr int sizes[] = HEADS;
        log_prob = 0.0f;
        what = mask << ROW_MASK_AT;
        int first = 0;
#pragma unroll
        for (int head = 0; head < ACTION_WIDTH; ++head) {
            float w[8], largest = -3.0e38f, sum = 0.0f, running = 0.0f, chosen_below = 0.0f;
#pragma unroll
            for (int i = 0; i < sizes[head]; ++i) {
                w[i] = !MASKED || ((mask >> (first + i)) & 1u) ? logits[first + i] : -1.0e30f;
                largest = fmaxf(largest, w[i]);
            }
            float below[8];
#pragma unroll
            for (int i = 0; i < sizes[head]; ++i) {
                below[i] = w[i] - largest;
                w[i] = __expf(below[i]);
                sum += w[i];
            }
            float threshold = uniform_of(stream) * sum;
            int chosen = 0;
#pragma unroll
            for (int i = 0; i < sizes[head]; ++i) {
                bool takes = running <= threshold && w[i] > 0.0f;
                running += w[i];
                chosen = takes ? i : chosen;
                chosen_below = takes ? below[i] : chosen_below;
            }
            actions[head] = chosen;
            what |= (u32)chosen << (4 * head);
            log_prob += chosen_below - __logf(sum);
            first += sizes[head];
        }
    }
};
#endif

// Unit `q` of an observation as it is stored: halves with a one behind them.
__device__ __forceinline__ uint4 observed_unit(const float* obs, int q) {
    u32 words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        int at = q * 8 + 2 * i;
        float low = at < OBS ? obs[at < OBS ? at : 0] : at == OBS ? 1.0f : 0.0f;
        float high = at + 1 < OBS ? obs[at + 1 < OBS ? at + 1 : 0] : at + 1 == OBS ? 1.0f : 0.0f;
        words[i] = pack_halves(low, high);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// Rows of a lane in the stored rollout.
__device__ __forceinline__ uint4* stored(u32* records, u32 n_rows, u32 step, u32 row) {
    return (uint4*)records + ((unsigned long long)step * n_rows + row) * RECORD_UNITS;
}

// Running normalisation. A rollout sees observations through the factors that those before it left, and sums
// what it saw; the update makes the next factors of the sums. Rewards are divided by the deviation of
// discounted returns, this rollout's among them.
//
// Twin of engine/rollout/normalise.rs, but that a rollout is merged as a whole and not step by step. Sums are
// of distances from the mean that was known, in double precision, so that they hold where a number differs
// little from a large mean.
//
// Needs, beside gradient.cuh's: NORM_OBS, NORM_REWARD, N_STEPS.
#pragma once
#include "gradient.cuh"

// What a normalised number is cut off at, and what is added to a variance before its root is taken.
#define NORM_CLIP 10.0f
#define NORM_EPSILON 1e-8
// Numbers that have moments: those of an observation, then the discounted return.
#define NORM_COLUMNS (OBS + 1)
// Mean and inverse deviation of each, then what observations are cut off at.
#define N_FACTORS (2 * NORM_COLUMNS + 1)
// Columns that are summed.
#define N_SUMMED ((NORM_OBS ? OBS : 0) + (NORM_REWARD ? 1 : 0))

__device__ __forceinline__ float norm_clip(float x, float bound) {
    // Not fminf: what is no number stays none, and is noticed.
    asm("{.reg .f32 low;\n neg.f32 low, %1;\n min.NaN.f32 %0, %0, %1;\n max.NaN.f32 %0, %0, low;}" : "+f"(x) : "f"(bound));
    return x;
}

// Observations as a policy sees them.
__device__ __forceinline__ float normalised(float x, const float* factors, int column) {
    return norm_clip((x - factors[2 * column]) * factors[2 * column + 1], factors[2 * NORM_COLUMNS]);
}

// Distances of some numbers from what they were expected to be, and their squares, summed.
struct Distances {
    double sum, squares;

    __device__ __forceinline__ void add(float x, float mean) {
        double off = (double)x - (double)mean;
        sum += off;
        squares += off * off;
    }
};

#if NORM_OBS || NORM_REWARD
// What one row of a rollout is normalised by and adds to the sums.
struct Normaliser {
    const float* factors;
    double gamma, discounted;
    float raw[OBS];
    Distances of[N_SUMMED];

    __device__ __forceinline__ void begin(const float* known, const NormaliserArgs& a, u32 row) {
        factors = known;
        gamma = a.known[3 * NORM_COLUMNS];
        discounted = NORM_REWARD ? a.running[row] : 0.0;
#pragma unroll
        for (int i = 0; i < N_SUMMED; ++i) of[i] = {0.0, 0.0};
    }
    // Makes of an observation what the policy sees.
    __device__ __forceinline__ void look(float* obs) {
#pragma unroll
        for (int i = 0; i < (NORM_OBS ? OBS : 0); ++i) {
            raw[i] = obs[i];
            obs[i] = normalised(obs[i], factors, i);
        }
    }
    // The observation that was looked at last is one of the rollout's.
    __device__ __forceinline__ void count() {
#pragma unroll
        for (int i = 0; i < (NORM_OBS ? OBS : 0); ++i) of[i].add(raw[i], factors[2 * i]);
    }
    __device__ __forceinline__ void reward(float reward, bool over) {
        if (!NORM_REWARD) return;
        discounted = discounted * gamma + (double)reward;
        of[N_SUMMED - 1].add((float)discounted, factors[2 * OBS]);
        discounted = over ? 0.0 : discounted;
    }
    __device__ __forceinline__ void finish(const NormaliserArgs& a, u32 row) const {
        if (NORM_REWARD) a.running[row] = discounted;
    }
    // Adds up a warp's rows, of which those that `counts` are there, as part number `part`.
    __device__ __forceinline__ void write(const NormaliserArgs& a, u32 part, bool counts) const {
#pragma unroll
        for (int i = 0; i < N_SUMMED; ++i) {
            double sum = warp_sum(counts ? of[i].sum : 0.0);
            double squares = warp_sum(counts ? of[i].squares : 0.0);
            if ((threadIdx.x & 31) != 0 || part >= a.n_parts) continue;
            a.parts[(2 * i) * a.n_parts + part] = sum;
            a.parts[(2 * i + 1) * a.n_parts + part] = squares;
        }
    }
};

// Copies the factors to where a block has them near; the work of `n` threads.
__device__ __forceinline__ void load_factors(float* near, const NormaliserArgs& a, u32 thread, u32 n) {
    for (u32 i = thread; i < N_FACTORS; i += n) near[i] = a.factors[i];
}

// Lets the `n` rows times steps of a rollout count from now on; a warp of the group takes a column. `known` has
// count, mean and variance of each column, merged as Chan, Golub & LeVeque do.
__device__ __forceinline__ void learn_factors(const NormaliserArgs& a, double n, u32 own, u32 n_blocks) {
    u32 lane = threadIdx.x & 31;
    for (u32 i = (u32)group_warp() * n_blocks + own; i < N_SUMMED; i += n_blocks * (GROUP_THREADS / 32)) {
        u32 column = NORM_OBS ? i : OBS;
        double sum = 0.0, squares = 0.0;
#pragma unroll 8
        for (u32 part = lane; part < a.n_parts; part += 32) {
            sum += a.parts[2 * i * a.n_parts + part];
            squares += a.parts[(2 * i + 1) * a.n_parts + part];
        }
        double off = warp_sum(sum) / n, spread = warp_sum(squares) / n - off * off;
        if (lane != 0) continue;
        double* of = a.known + 3 * column;
        double mean = (double)a.factors[2 * column] + off, var = spread > 0.0 ? spread : spread == spread ? 0.0 : spread;
        double total = of[0] + n, before = of[0] / total, share = n / total, delta = mean - of[1];
        of[0] = total;
        of[1] += delta * share;
        of[2] = of[2] * before + var * share + delta * delta * before * share;
        __stcg(a.factors + 2 * column, (float)of[1]);
        __stcg(a.factors + 2 * column + 1, (float)(1.0 / sqrt(of[2] + NORM_EPSILON)));
        if (i == 0) __stcg(a.factors + 2 * NORM_COLUMNS, NORM_CLIP);
    }
}

// What rewards are multiplied by, once all blocks know.
__device__ __forceinline__ float reward_factor(const NormaliserArgs& a) {
    return NORM_REWARD ? __ldcg(a.factors + 2 * OBS + 1) : 1.0f;
}
#else
// Nothing is normalised.
struct Normaliser {
    __device__ __forceinline__ void begin(const float*, const NormaliserArgs&, u32) {}
    __device__ __forceinline__ void look(float*) {}
    __device__ __forceinline__ void count() {}
    __device__ __forceinline__ void reward(float, bool) {}
    __device__ __forceinline__ void finish(const NormaliserArgs&, u32) const {}
    __device__ __forceinline__ void write(const NormaliserArgs&, u32, bool) const {}
};
__device__ __forceinline__ void load_factors(float*, const NormaliserArgs&, u32, u32) {}
__device__ __forceinline__ void learn_factors(const NormaliserArgs&, double, u32, u32) {}
__device__ __forceinline__ float reward_factor(const NormaliserArgs&) { return 1.0f; }
#endif

// What an update needs to know before its first minibatch: values, advantages, and the moments by
// which each minibatch's advantages are normalised.
//
// Needs, beside order.cuh's: GAMMA, LAMBDA, COMPAT.
#pragma once
#include "order.cuh"

// Sum over the block's threads, the same in all of them; `place` is theirs for the moment.
__device__ __forceinline__ double block_sum(double x, double* place) {
    x = warp_sum(x);
    __syncthreads();
    if ((threadIdx.x & 31) == 0) place[threadIdx.x / 32] = x;
    __syncthreads();
    double sum = 0.0;
#pragma unroll
    for (int i = 0; i < GROUP_THREADS / 32; ++i) sum += place[i];
    return sum;
}
// The largest over the block's threads.
__device__ __forceinline__ double block_max(double x, double* place) {
    for (int d = 16; d > 0; d >>= 1) {
        double other = __shfl_xor_sync(0xffffffffu, x, d);
        x = other > x ? other : x;
    }
    __syncthreads();
    if ((threadIdx.x & 31) == 0) place[threadIdx.x / 32] = x;
    __syncthreads();
    double most = place[0];
    for (int i = 1; i < GROUP_THREADS / 32; ++i) most = place[i] > most ? place[i] : most;
    return most;
}

// Loads the observations of 32 rows from `row` on, a unit or more per lane.
#define VALUE_UNITS X_UNITS
__device__ __forceinline__ void load_observations(const u32* records, u32 row, u32 end,
                                                  uint4 (&parts)[VALUE_UNITS]) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < VALUE_UNITS; ++i) {
        u32 unit = lane + 32 * i, r = row + unit / X_UNITS;
        parts[i] = make_uint4(0u, 0u, 0u, 0u);
        if (r < end) parts[i] = __ldcg(record_at(records, r) + unit % X_UNITS);
    }
}

// Values of all stored observations (with a shared trunk only of those that follow the rollout).
__device__ void write_values(UpdateShared& shared, u32* records, const SmallRun& run) {
    constexpr int net = SHARED_TRUNK ? 0 : 1;
    int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    u32 first = SHARED_TRUNK ? N_STEPS * run.n_rows : 0u;
    u32 end = (N_STEPS + 1 + CUTS) * run.n_rows;
    unsigned short* rows = shared.value_rows + warp * 32 * LDX;
    u32 stride = gridDim.x * (GROUP_THREADS / 32) * 32;
    u32 row = first + (blockIdx.x * (GROUP_THREADS / 32) + warp) * 32;
    uint4 parts[VALUE_UNITS];
    load_observations(records, row, end, parts);
    for (; row < end; row += stride) {
#pragma unroll
        for (int i = 0; i < VALUE_UNITS; ++i) {
            int unit = lane + 32 * i;
            *(uint4*)(rows + unit / X_UNITS * LDX + unit % X_UNITS * 8) = parts[i];
        }
        load_observations(records, row + stride, end, parts);
        __syncwarp();
        u32 x[2][KX / 16][4];
        Hidden h1[2], h2[2];
        float out[2][4];
        load_inputs<2>(x, rows);
        first_layer<2>(shared.net, x, h1);
        second_layer<2>(shared.net, h1, h2);
        last_layer<2>(shared.net, h2, out);
        // Lane by lane the four rows that it and its three neighbours share.
        float value = 0.0f;
        int j = lane & 3;
#pragma unroll
        for (int t = 0; t < 2; ++t) {
            float low[Role<net>::outputs], high[Role<net>::outputs];
            gather_outputs<net>(out[t], low, high);
            value = j == 2 * t ? low[Role<net>::value_column] : value;
            value = j == 2 * t + 1 ? high[Role<net>::value_column] : value;
        }
        u32 r = row + j * 8 + lane / 4;
        if (r < end) __stcg((float*)(record_at(records, r) + X_UNITS) + 2, value);
        __syncwarp();
    }
}

// Sums over a thread's samples: of returns and advantages, and of each minibatch's advantages.
struct Moments {
    double returns[2], advantages[2];
    float parts[N_UPDATES][2];
};

// Adds a sample's advantage to the minibatch of each epoch that will have it.
__device__ __forceinline__ void add_to_minibatches(Moments& sums, const SmallRun& run, u32 sample,
                                                   float advantage) {
    u32 n = N_STEPS * run.n_rows;
#pragma unroll
    for (int epoch = 0; epoch < EPOCHS; ++epoch) {
        u32 place = Order(run, n, epoch).place(sample);
#pragma unroll
        for (int part = 0; part < MINIBATCHES; ++part) {
            bool inside = place >= minibatch_start(n, part) && place < minibatch_start(n, part + 1);
            float one = inside ? advantage : 0.0f;
            sums.parts[epoch * MINIBATCHES + part][0] += one;
            sums.parts[epoch * MINIBATCHES + part][1] += one * one;
        }
    }
}

// Generalised advantages of one row, by a warp whose lanes are steps.
__device__ __forceinline__ void row_advantages(u32* records, const SmallRun& run, u32 row,
                                               Moments& sums) {
    int lane = threadIdx.x & 31;
    auto rest = [&](u32 t) { return record_at(records, t * run.n_rows + row) + X_UNITS; };
    auto load = [&](int t) {
        return t < N_STEPS ? __ldcg(rest((u32)t)) : make_uint4(0u, 0u, 0u, 0u);
    };
    float following = __ldcg((const float*)rest(N_STEPS) + 2), carry = 0.0f;
    int first = (N_STEPS - 1) / 32 * 32;
    uint4 words = load(first + lane);
#pragma unroll 1
    for (; first >= 0; first -= 32) {
        int t = first + lane;
        bool exists = t < N_STEPS;
        uint4 now = words;
        if (first > 0) words = load(t - 32);
        float value = __uint_as_float(now.z), reward = __uint_as_float(now.w);
        float next = __shfl_down_sync(0xffffffffu, value, 1);
        next = lane == 31 || t == N_STEPS - 1 ? following : next;
        bool ended = now.x & ROW_ENDED;
        if (ended)
            next = now.x & ROW_TRUNCATED
                       ? __ldcg((const float*)rest(N_STEPS + 1 + (now.x >> 26)) + 2)
                       : 0.0f;
        bool stops = ended || !exists || (COMPAT && t == N_STEPS - 1);
        float c = stops ? 0.0f : COMPAT ? GAMMA : GAMMA * LAMBDA;
        float b = reward + GAMMA * next - value;
        if (COMPAT) b = !ended && t == N_STEPS - 1 ? value : reward;
        b = exists ? b : 0.0f;
#pragma unroll
        for (int d = 1; d < 32; d <<= 1) {
            float later = __shfl_down_sync(0xffffffffu, b, d);
            float factor = __shfl_down_sync(0xffffffffu, c, d);
            b = lane + d < 32 ? b + c * later : b;
            c = lane + d < 32 ? c * factor : c;
        }
        float sum = b + c * carry;
        carry = __shfl_sync(0xffffffffu, sum, 0);
        following = __shfl_sync(0xffffffffu, value, 0);
        float advantage = COMPAT ? sum - value : sum;
        if (exists) {
            __stcg((float*)rest((u32)t) + 3, advantage);
            double target = advantage + value;
            sums.returns[0] += target;
            sums.returns[1] += target * target;
            sums.advantages[0] += advantage;
            sums.advantages[1] += (double)advantage * advantage;
            if (NORM_ADV && MINIBATCHES > 1)
                add_to_minibatches(sums, run, (u32)t * run.n_rows + row, advantage);
        }
    }
}

// What this block's replicas say of the episodes that ended: count, sums of lengths and returns; then
// what is largest of lengths, returns and their negatives.
__device__ __forceinline__ void write_episodes(UpdateShared& shared, const float* episodes,
                                               double* totals, const SmallRun& run) {
    double counts[3] = {}, most[4] = {-1e300, -1e300, -1e300, -1e300};
    for (u32 env = blockIdx.x * GROUP_THREADS + threadIdx.x; env < run.n_envs;
         env += gridDim.x * GROUP_THREADS) {
        const float* of = episodes + env;
        if (of[0] == 0.0f) continue;
        u32 n = run.n_envs;
#pragma unroll
        for (int i = 0; i < 3; ++i) counts[i] += of[i * n];
#pragma unroll
        for (int i = 0; i < 4; ++i) most[i] = of[(3 + i) * n] > most[i] ? of[(3 + i) * n] : most[i];
    }
    for (int i = 0; i < 3; ++i) {
        double sum = block_sum(counts[i], shared.totals);
        if (threadIdx.x == 0) totals[4 + i] = sum;
    }
    for (int i = 0; i < 4; ++i) {
        double largest = block_max(most[i], shared.totals);
        if (threadIdx.x == 0) totals[7 + i] = largest;
    }
}

// Advantages of all rows, and this block's part of all that is summed over samples and replicas.
__device__ void write_advantages(UpdateShared& shared, u32* records, const float* episodes,
                                 double* totals, const SmallRun& run) {
    int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    Moments sums = {};
    for (u32 row = blockIdx.x * (GROUP_THREADS / 32) + warp; row < run.n_rows;
         row += gridDim.x * (GROUP_THREADS / 32))
        row_advantages(records, run, row, sums);
    // First over lanes, then over warps, each in order.
    auto add = [&](int i, double x) {
        x = warp_sum(x);
        if (lane == 0) shared.moments[i][warp] = x;
    };
    add(0, sums.returns[0]);
    add(1, sums.returns[1]);
    add(2, sums.advantages[0]);
    add(3, sums.advantages[1]);
    if (NORM_ADV && MINIBATCHES > 1) {
#pragma unroll
        for (int i = 0; i < 2 * N_UPDATES; ++i) add(4 + i, (double)sums.parts[i / 2][i % 2]);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 4 + 2 * N_UPDATES; i += GROUP_THREADS) {
        double sum = 0.0;
        for (int w = 0; w < GROUP_THREADS / 32; ++w) sum += shared.moments[i][w];
        totals[i < 4 ? i : 12 + i] = sum;
    }
    write_episodes(shared, episodes, totals, run);
}

// Sum of entry `i` over all blocks, by one warp.
__device__ __forceinline__ double over_blocks(const double* totals, int i) {
    double sum = 0.0;
    for (u32 b = threadIdx.x & 31; b < gridDim.x; b += 32) sum += __ldcg(totals + b * N_TOTALS + i);
    return warp_sum(sum);
}

__device__ void read_moments(UpdateShared& shared, const double* totals, const SmallRun& run) {
    u32 n = N_STEPS * run.n_rows;
    for (int u = threadIdx.x / 32; u < N_UPDATES; u += GROUP_THREADS / 32) {
        u32 count = minibatch_start(n, u % MINIBATCHES + 1) - minibatch_start(n, u % MINIBATCHES);
        int from = MINIBATCHES == 1 ? 2 : 16 + 2 * u;
        double sum = over_blocks(totals, from), squares = over_blocks(totals, from + 1);
        double mean = sum / count, spread = squares - sum * mean;
        spread = spread > 0.0 ? spread : 0.0;
        bool lone = count < 2u;
        shared.mean[u] = lone ? 0.0f : (float)mean;
        shared.scale[u] = lone ? 1.0f : (float)(1.0 / (sqrt(spread / (count - 1.0)) + 1e-8));
    }
}


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

// Values of all stored observations (with a shared trunk only of those that follow the rollout).
__device__ void write_values(UpdateShared& shared, u32* records, const SmallRun& run) {
    constexpr int net = SHARED_TRUNK ? 0 : 1;
    int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    u32 first = SHARED_TRUNK ? N_STEPS * run.n_rows : 0u;
    u32 end = (N_STEPS + 1 + CUTS) * run.n_rows;
    unsigned short* rows = shared.stage[0].x + warp * 16 * LDX;
    u32 n_warps = gridDim.x * (GROUP_THREADS / 32);
    for (u32 row = first + (blockIdx.x * (GROUP_THREADS / 32) + warp) * 16; row < end;
         row += n_warps * 16) {
        for (int unit = lane; unit < 16 * X_UNITS; unit += 32) {
            u32 r = row + unit / X_UNITS;
            uint4 part = make_uint4(0u, 0u, 0u, 0u);
            if (r < end) part = __ldcg(record_at(records, r) + unit % X_UNITS);
            *(uint4*)(rows + unit / X_UNITS * LDX + unit % X_UNITS * 8) = part;
        }
        __syncwarp();
        u32 x[KX / 16][4];
        Hidden h1, h2;
        float out[4], low[Role<net>::outputs], high[Role<net>::outputs];
        load_inputs(x, rows);
        first_layer(shared.net, x, h1);
        second_layer(shared.net, h1, h2);
        last_layer(shared.net, h2, out);
        gather_outputs<net>(out, low, high);
        u32 r = row + lane / 4 + ((lane & 1) ? 8 : 0);
        float value = (lane & 1) ? high[Role<net>::value_column] : low[Role<net>::value_column];
        if ((lane & 2) == 0 && r < end) ((float*)(record_at(records, r) + X_UNITS))[2] = value;
        __syncwarp();
    }
}

// Generalised advantages of one row, by a warp whose lanes are steps; adds to the four moments.
__device__ void row_advantages(u32* records, const SmallRun& run, u32 row, double (&sums)[4]) {
    int lane = threadIdx.x & 31;
    auto rest = [&](u32 t) { return record_at(records, t * run.n_rows + row) + X_UNITS; };
    auto load = [&](int t) {
        return t < N_STEPS ? __ldcg(rest((u32)t)) : make_uint4(0u, 0u, 0u, 0u);
    };
    float following = __ldcg((const float*)rest(N_STEPS) + 2), carry = 0.0f;
    int first = (N_STEPS - 1) / 32 * 32;
    uint4 words = load(first + lane);
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
            ((float*)rest((u32)t))[3] = advantage;
            double target = advantage + value;
            sums[0] += target;
            sums[1] += target * target;
            sums[2] += advantage;
            sums[3] += (double)advantage * advantage;
        }
    }
}

// Advantages of all rows, and this block's part of the episodes' figures.
__device__ void write_advantages(UpdateShared& shared, u32* records, const float* episodes,
                                 double* totals, const SmallRun& run) {
    int warp = threadIdx.x / 32;
    double sums[4] = {};
    for (u32 row = blockIdx.x * (GROUP_THREADS / 32) + warp; row < run.n_rows;
         row += gridDim.x * (GROUP_THREADS / 32))
        row_advantages(records, run, row, sums);
    // Count, sum of lengths, sum of returns; then what is largest: lengths and returns, and their
    // negatives.
    double counts[3] = {}, most[4] = {-1e300, -1e300, -1e300, -1e300};
    for (u32 env = blockIdx.x * GROUP_THREADS + threadIdx.x; env < run.n_envs;
         env += gridDim.x * GROUP_THREADS) {
        const float* of = episodes + env;
        if (of[0] == 0.0f) continue;
        u32 n = run.n_envs;
        counts[0] += of[0];
        counts[1] += of[n];
        counts[2] += of[2 * n];
#pragma unroll
        for (int i = 0; i < 4; ++i) most[i] = of[(3 + i) * n] > most[i] ? of[(3 + i) * n] : most[i];
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        double sum = block_sum(sums[i], shared.totals);
        double largest = block_max(most[i], shared.totals);
        if (threadIdx.x == 0) {
            totals[i] = sum;
            totals[7 + i] = largest;
        }
    }
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        double sum = block_sum(counts[i], shared.totals);
        if (threadIdx.x == 0) totals[4 + i] = sum;
    }
}

// This block's part of each minibatch's mean and deviation of advantages.
__device__ void write_moments(UpdateShared& shared, const u32* records, double* totals,
                              const SmallRun& run) {
    u32 n = N_STEPS * run.n_rows;
    for (int u = 0; u < N_UPDATES; ++u) {
        Order order(run, n, u / MINIBATCHES);
        u32 end = minibatch_start(n, u % MINIBATCHES + 1);
        double sum = 0.0, squares = 0.0;
        for (u32 i = minibatch_start(n, u % MINIBATCHES) + blockIdx.x * GROUP_THREADS + threadIdx.x;
             i < end; i += gridDim.x * GROUP_THREADS) {
            float a = __ldcg((const float*)(record_at(records, order.at(i)) + X_UNITS) + 3);
            sum += a;
            squares += (double)a * a;
        }
        sum = block_sum(sum, shared.totals);
        squares = block_sum(squares, shared.totals);
        if (threadIdx.x == 0) {
            totals[16 + 2 * u] = sum;
            totals[17 + 2 * u] = squares;
        }
    }
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


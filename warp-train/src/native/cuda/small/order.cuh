// What the kernels of a learner share: where a run stands, how blocks wait for each other, and the
// order in which an epoch takes the samples.
//
// Needs, beside gradient.cuh's: N_STEPS, CUTS (truncations of a replica in a rollout), MINIBATCHES,
// EPOCHS.
#pragma once
#include "gradient.cuh"

#define N_UPDATES (EPOCHS * MINIBATCHES)
#define N_STAGES (HID <= 64 ? 2 : 1)
// Whether a thread holds weights and moments in registers.
#define KEEPS_STATE (OWN_TILES <= 6)
// Doubles that a block reports: 16 sums, then two per minibatch.
#define N_TOTALS (16 + 2 * N_UPDATES)
#define N_METRICS 20

struct SmallRun {
    unsigned long long seed;
    u32 n_rows;        // agents of all replicas
    u32 n_envs;
    u32 iteration;     // iterations done: what permutations depend on
    u32 index;         // row of the schedule and of the metrics
    u32 policy;        // number of the policy's first agent
    u32 actor_blocks;
    u32 steps_before;  // steps of this launch's fellows that the counter of steps does not know yet
    u32 end;
};

struct UpdateShared {
    Stage stage[N_STAGES];
    NetShared net;
    float4 parts[GROUP_THREADS];
    double totals[8];
    float norms[8];
    float mean[N_UPDATES], scale[N_UPDATES];
};

__device__ __forceinline__ void grid_wait(u32* counter, u32& target) {
    target += gridDim.x;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
        u32 seen;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
        } while (seen < target);
    }
    __syncthreads();
}

// The order of an epoch: a bijection of 0 .. n, by rounds that permute 0 .. 2^bits; what falls outside
// is sent round again.
struct Order {
    u32 n, mask;
    int shift;
    WarpWords key;

    __device__ __forceinline__ Order(const SmallRun& run, u32 n, int epoch) : n(n) {
        int bits = n > 1u ? 32 - __clz((int)(n - 1u)) : 1;
        mask = bits >= 32 ? 0xffffffffu : (1u << bits) - 1u;
        shift = bits / 2 > 0 ? bits / 2 : 1;
        WarpDraw draw = warp_draw(run.seed, run.policy, run.iteration, WARP_PURPOSE_SHUFFLE);
        draw = warp_draw_agent(&draw, (u32)epoch);
        warp_draw_u32(&draw);
        key = draw.block;
    }
    __device__ __forceinline__ u32 at(u32 i) const {
        if (MINIBATCHES == 1) return i;
        do {
            i = ((i ^ key.x) * 0x9E3779B1u) & mask;
            i ^= i >> shift;
            i = ((i + key.y) * (key.z | 1u)) & mask;
            i ^= i >> shift;
            i = ((i ^ key.w) * 0x85EBCA77u) & mask;
            i ^= i >> shift;
            i = ((i + key.z) * 0xC2B2AE3Du) & mask;
            i ^= i >> shift;
        } while (i >= n);
        return i;
    }
};

__device__ __forceinline__ u32 minibatch_start(u32 n, int part) {
    return (u32)((unsigned long long)n * part / MINIBATCHES);
}

__device__ __forceinline__ const uint4* record_at(const u32* records, u32 number) {
    return (const uint4*)records + (unsigned long long)number * RECORD_UNITS;
}


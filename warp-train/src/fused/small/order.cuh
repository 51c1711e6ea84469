// What the kernels of a learner share: where a run stands, how blocks wait for each other, and the
// order in which an epoch takes the samples.
//
// Needs, beside gradient.cuh's: N_STEPS, CUTS (truncations of a replica in a rollout), MINIBATCHES,
// EPOCHS, CRITIC_RATE (whether the value's network has a rate of its own), DECAYS.
#pragma once
#include "gradient.cuh"

#define N_UPDATES (EPOCHS * MINIBATCHES)
// What a GPU tells another in a round: quads of gradients, then moments of minibatches.
#define RANK_SLOTS (4u * N_NETS * OWN_TILES * GROUP_THREADS + 4u * N_UPDATES)
#include "exchange.cuh"
// Whether an update is in pieces, between which NCCL gathers (pieces.cuh).
#ifndef RELAYED
#define RELAYED 0
#endif
// Two blocks of a multiprocessor have room for two of them where inputs are few.
#define N_STAGES (HID * ROWS * BLOCKS <= 64 && (BLOCKS == 1 || KX <= 16) && !LEAN ? 2 : 1)
// Whether a thread holds weights and moments in registers, which no piece of an update leaves to the next.
#define KEEPS_STATE (OWN_TILES <= 6 && ROWS * BLOCKS == 1 && !LEAN && !RELAYED)
// Doubles that a block reports: its part of the figures before the norm, then two per minibatch.
#define FIGURE(name) ((int)(WARP_OFFSET(Figures, name) / sizeof(double)))
#define N_PARTS FIGURE(grad_norm)
#define N_TOTALS (N_PARTS + 2 * N_UPDATES)
#define EPISODE_FIGURES ((int)(sizeof(EpisodeFigures) / sizeof(float)))

// What a step of the optimiser is made with.
struct DescentStep {
    float step_size, inverse_bias_correction2_sqrt, epsilon;
    float keep;  // what is left of each weight, if they decay
};
// Learning rates.
#define RATES (CRITIC_RATE ? 2 : 1)

// What one iteration learns with. Nothing of it is compiled in, so that runs that differ in it share
// their kernels and their launch.
struct Schedule : Settings {
    StepFactors steps[RATES][N_UPDATES];
#if DECAYS
    float keep[RATES];
#endif

    // Step `u` of network `net`.
    __device__ __forceinline__ DescentStep step(int net, int u) const {
        int rate = CRITIC_RATE ? net : 0;
        const StepFactors& factors = steps[rate][u];
#if DECAYS
        float left = keep[rate];
#else
        float left = 1.0f;
#endif
        return {factors.step_size, factors.inverse_bias_correction2_sqrt, adam_eps, left};
    }
};

// Whether two networks' moments have a place in shared memory, beside what their tiles leave.
#define NEAR                                                                                         \
    (TIGHT && N_NETS * (sizeof(Stage) + sizeof(NetShared) + 2 * WIDE_TILES * GROUP_THREADS * 16) < 229000u)

// Rows of observations of the eight warps that compute values.
struct ValueRows {
    unsigned short x[8 * 32 * LDX];
};

// Which of the blocks that work on one run this is.
struct NetworkBlocks {
    u32 own, n;
};

struct UpdateShared {
    union {
        Stage stage[N_STAGES];
        // Before the first tile.
        ValueRows value_rows;
        double sums[N_TOTALS][8];
        // Between the tiles of two minibatches; behind the inputs, whose padding stays zero.
        struct {
            float4 parts[GROUP_THREADS];
        };
    };
    // Moments of the wide tiles, by thread, where they have a place here.
    float4 wide[NEAR ? 2 * WIDE_TILES * GROUP_THREADS : 1];
    // Gradients of the small tiles, where tiles leave no place for them.
    float4 raw[SPREAD ? SMALL_TILES * GROUP_THREADS : 1];
    NetShared net;
    float norms[8];
    float pair[2][2];
    float mean[N_UPDATES], scale[N_UPDATES];
};
static_assert(sizeof(ValueRows) <= sizeof(Stage), "the stage is too small for what shares it");

// Tells the other blocks that this one has come to where all wait for each other.
__device__ __forceinline__ void grid_arrive(u32* counter, u32& target) {
    target += gridDim.x;
    __syncthreads();
    // Released with it is all that the block's threads wrote before their barrier.
    if (threadIdx.x == 0) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}
// Waits until all blocks have come there.
__device__ __forceinline__ void grid_await(u32* counter, u32 target) {
    if (threadIdx.x == 0) {
        u32 seen;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
        } while (seen < target);
    }
    __syncthreads();
}
__device__ __forceinline__ void grid_wait(u32* counter, u32& target) {
    grid_arrive(counter, target);
    grid_await(counter, target);
}

// The order of an epoch: a bijection of 0 .. n, by rounds that permute 0 .. 2^bits; what falls outside
// is sent round again. It is computed both ways: which sample is at a place, and at which place a
// sample is.
struct Order {
    u32 n, mask;
    int shift;
    WarpWords key;

    __device__ __forceinline__ Order(u32 n, WarpWords key) : n(n), key(key) {
        int bits = n > 1u ? 32 - __clz((int)(n - 1u)) : 1;
        mask = bits >= 32 ? 0xffffffffu : (1u << bits) - 1u;
        shift = (bits + 1) / 2;
    }
    __device__ __forceinline__ Order(const SmallRun& run, u32 n, int epoch)
        : Order(n, key_of(run, epoch)) {}
    static __device__ __forceinline__ WarpWords key_of(const SmallRun& run, int epoch) {
        WarpDraw draw = warp_draw(run.seed, run.first_agent, run.iteration, WARP_PURPOSE_SHUFFLE);
        draw = warp_draw_agent(&draw, run.shard << 16 | (u32)epoch);
        warp_draw_u32(&draw);
        return draw.block;
    }
    // A round: odd factors and shifts by half of the bits or more can be taken back.
    __device__ __forceinline__ u32 forth(u32 i, u32 add, u32 factor) const {
        i = ((i + add) * factor) & mask;
        return i ^ i >> shift;
    }
    __device__ __forceinline__ u32 back(u32 i, u32 add, u32 inverse) const {
        i ^= i >> shift;
        return (i * inverse - add) & mask;
    }
    // The sample at place `i`.
    __device__ __forceinline__ u32 at(u32 i) const {
        if (MINIBATCHES == 1) return i;
#pragma unroll 1
        do {
            i = forth(i, key.x, 0x9E3779B1u);
            i = forth(i, key.y, 0x85EBCA77u);
            i = forth(i, key.z, 0xC2B2AE3Du);
            i = forth(i, key.w, 0x27D4EB2Fu);
        } while (i >= n);
        return i;
    }
    // The place of sample `j`.
    __device__ __forceinline__ u32 place(u32 j) const {
#pragma unroll 1
        do {
            j = back(j, key.w, inverse(0x27D4EB2Fu));
            j = back(j, key.z, inverse(0xC2B2AE3Du));
            j = back(j, key.y, inverse(0x85EBCA77u));
            j = back(j, key.x, inverse(0x9E3779B1u));
        } while (j >= n);
        return j;
    }
    // The factor that undoes an odd one, modulo 2^32, by Newton's iteration.
    static __device__ constexpr u32 inverse(u32 factor) {
        u32 x = factor;
        for (int i = 0; i < 5; ++i) x *= 2u - factor * x;
        return x;
    }
};

__device__ __forceinline__ u32 minibatch_start(u32 n, int part) {
    return (u32)((unsigned long long)n * part / MINIBATCHES);
}

// Whether what is stored beside observations lies behind all of those: rows that are taken in their order
// are read whole either way, but advantages are then found side by side.
#ifndef APART
#define APART 0
#endif

// The observation of stored row `number`, and what else is stored of it; a step has `n_rows` rows.
__device__ __forceinline__ const uint4* record_at(const u32* records, u32 number) {
    return (const uint4*)records + (unsigned long long)number * (APART ? X_UNITS : RECORD_UNITS);
}
__device__ __forceinline__ const uint4* rest_at(const u32* records, u32 n_rows, u32 number) {
    if (!APART) return record_at(records, number) + X_UNITS;
    unsigned long long observations = (unsigned long long)(N_STEPS + 1 + CUTS) * n_rows * X_UNITS;
    return (const uint4*)records + observations + (unsigned long long)number * (1 + RAW_UNITS);
}

// Sets rows of inputs to 0: columns beyond those that are stored stay so.
__device__ __forceinline__ void clear_inputs(unsigned short* rows, int n_rows) {
    for (int i = group_thread(); i < n_rows * LDX / 2; i += GROUP_THREADS) ((u32*)rows)[i] = 0u;
}

// Sizes that the host needs to know; a block of the launch has `shared_bytes`.
__device__ __forceinline__ void write_sizes(SmallSizes* sizes, unsigned long long shared_bytes) {
    sizes->shared_bytes = (u32)shared_bytes;
    sizes->n_parameters = N_NETS * N_PARAMETERS;
    sizes->record_units = RECORD_UNITS;
    sizes->own = OWN_TILES * GROUP_THREADS * 4;
    sizes->n_totals = N_TOTALS;
}

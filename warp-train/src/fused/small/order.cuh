// What the kernels of a learner share: where a run stands, how blocks wait for each other, and the
// order in which an epoch takes the samples (epochs.cuh).
//
// Needs, beside gradient.cuh's and epochs.cuh's: N_STEPS, CUTS (truncations of a replica in a rollout),
// CRITIC_RATE (whether the value's network has a rate of its own), DECAYS, TARGET_KL (whether epochs may end early).
#pragma once
#include "gradient.cuh"
#include "epochs.cuh"

#define N_UPDATES (EPOCHS * MINIBATCHES)
// What a GPU tells another in a round: quads of gradients, then moments of minibatches.
#define RANK_SLOTS (4u * N_NETS * OWN_TILES * GROUP_THREADS + 4u * N_UPDATES)
#include "exchange.cuh"
// Two blocks of a multiprocessor have room for two of them where inputs are few.
#define N_STAGES (HID * ROWS * BLOCKS <= 64 && (BLOCKS == 1 || KX <= 16) && !LEAN ? 2 : 1)
// Whether a thread holds weights and moments in registers, which no piece of an update leaves to the next.
#define KEEPS_STATE (OWN_TILES <= 6 && ROWS * BLOCKS == 1 && !LEAN && !RELAYED)
// Whether instead each block of a network steps a slice of it, from which all blocks then take the new weights: a
// barrier more, but nobody reads and writes the state of the whole network.
#define STEPS_SLICES (!KEEPS_STATE && !LEAN && !RELAYED)
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

    // Which of the rates network `net` has.
    static __device__ __forceinline__ int rate_of(int net) { return CRITIC_RATE ? net : 0; }
    // Step `u` of network `net`.
    __device__ __forceinline__ DescentStep step(int net, int u) const { return step(net, steps[rate_of(net)][u]); }
    __device__ __forceinline__ DescentStep step(int net, const StepFactors& factors) const {
#if DECAYS
        float left = keep[rate_of(net)];
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
#if KEEPS_KEYS && !LEAN
    WarpWords keys[EPOCHS];  // of the epochs' orders
#endif
#if TARGET_KL
    // Worked out here, since the host does not know how many steps came before.
    StepFactors steps[RATES][N_UPDATES];
#endif
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

// Sets so many halves of rows of inputs to 0: columns beyond those that are stored stay so.
__device__ __forceinline__ void clear_inputs(unsigned short* rows, int n) {
    for (int i = group_thread(); i < n / 2; i += GROUP_THREADS) ((u32*)rows)[i] = 0u;
}

// Sizes that the host needs to know; a block of the launch has `shared_bytes`.
__device__ __forceinline__ void write_sizes(SmallSizes* sizes, unsigned long long shared_bytes) {
    sizes->shared_bytes = (u32)shared_bytes;
    sizes->n_parameters = N_NETS * N_PARAMETERS;
    sizes->record_units = RECORD_UNITS;
    sizes->own = OWN_TILES * GROUP_THREADS * 4;
    sizes->n_totals = N_TOTALS;
}

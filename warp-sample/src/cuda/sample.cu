// Kernels that draw the actions of whole batches: one thread per row, all heads in one launch.
//
// Before this file stand `Policy`, which says what the outputs are, and WARP_SAMPLE_AGENTS, the rows
// per replica; WARP_SAMPLE_SHARED_STD is 1 if all rows share their log-deviations. Rows of up to
// WARP_SAMPLE_TILED numbers go through shared memory, so that neighbouring threads read neighbouring
// addresses.
#include "sample.cuh"

#define WARPS 4
#define WARP_SAMPLE_TILED 88

// Numbers that every row has of its own.
constexpr int WIDTH = Policy::boxed && WARP_SAMPLE_SHARED_STD ? Policy::actions : Policy::width;
constexpr bool TILED = WIDTH <= WARP_SAMPLE_TILED;
// Rows lie as they do in memory, which is what copies are fastest into, unless too many of them would
// begin in the same bank.
constexpr int STRIDE = WIDTH % 8 == 0 && WIDTH > 24 ? WIDTH + 4 : WIDTH;
// Blocks that a multiprocessor must have room for. Where they are few, a row's logits stay in registers;
// without a number the compiler would read them twice. A box's elements are worked on one by one.
constexpr int RESIDENT = Policy::boxed ? 10 : 4;

struct WarpSampleArrays {
    const float* outputs;
    const float* log_std;
    const unsigned char* mask;
    const unsigned int* run_step;
    int* discrete;
    float* raw;
    float* bounded;
    float* log_probs;
    float* entropies;
    unsigned int* fault;
    float* noise;
    const unsigned char* terminated;
    const unsigned char* truncated;
};

struct WarpSampleRows {
    unsigned long long seed;
    unsigned int first_replica, first_agent, n_rows, step_offset;
};

__device__ inline WarpDraw warp_row_draw(const WarpSampleArrays& a, const WarpSampleRows& rows,
                                         unsigned int row, unsigned int purpose) {
    unsigned int replica = rows.first_replica + row / WARP_SAMPLE_AGENTS;
    unsigned int agent = rows.first_agent + row % WARP_SAMPLE_AGENTS;
    WarpDraw draw = warp_draw(rows.seed, replica, *a.run_step + rows.step_offset, purpose);
    return warp_draw_agent(&draw, agent);
}

// Remembers the first row at fault: the largest of what counts down from its number.
__device__ inline void warp_fault(const WarpSampleArrays& a, unsigned int row) {
    atomicMax(a.fault, 0xffffffffu - row);
}

// Starts the copy of 4 or 16 bytes into shared memory.
template <int bytes>
__device__ inline void warp_fetch(float* to, const float* from) {
    unsigned int address = (unsigned int)__cvta_generic_to_shared(to);
    if (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(from));
}

// Where number `i` of a tile's rows lies in it.
__device__ inline float* warp_place(float* tile, int i) {
    return tile + (STRIDE == WIDTH ? i : i / WIDTH * STRIDE + i % WIDTH);
}

// Copies the numbers of `n_rows` rows, or of all 32 of a tile, into the warp's tile.
template <bool whole>
__device__ inline void warp_fetch_rows(float* tile, const float* from, unsigned int n_rows) {
    int lane = (int)(threadIdx.x % 32u), words = (whole ? 32 : (int)n_rows) * WIDTH;
    if (whole && ((unsigned long long)from & 15u) == 0u) {
        // From a constant to a constant, so that it unrolls.
#pragma unroll
        for (int first = 0; first < 32 * WIDTH; first += 128) {
            int i = first + 4 * lane;
            if (i < 32 * WIDTH) warp_fetch<16>(warp_place(tile, i), from + i);
        }
    } else {
#pragma unroll 4
        for (int i = lane; i < words; i += 32) warp_fetch<4>(warp_place(tile, i), from + i);
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
}

// The numbers of this thread's row.
__device__ inline const float* warp_row(const WarpSampleArrays& a, const WarpSampleRows& rows,
                                        unsigned int row) {
    if constexpr (TILED) {
        __shared__ __align__(16) float tiles[WARPS][32 * STRIDE];
        float* tile = tiles[threadIdx.x / 32u];
        unsigned int first = row & ~31u;
        unsigned int n = first < rows.n_rows ? rows.n_rows - first : 0u;
        const float* from = a.outputs + (unsigned long long)first * WIDTH;
        if (n >= 32u)
            warp_fetch_rows<true>(tile, from, 32u);
        else
            warp_fetch_rows<false>(tile, from, n);
        return tile + row % 32u * STRIDE;
    } else {
        return a.outputs + (unsigned long long)row * WIDTH;
    }
}

template <bool greedy>
__device__ inline void warp_sample_row(const WarpSampleArrays& a, const WarpSampleRows& rows) {
    unsigned int row = blockIdx.x * blockDim.x + threadIdx.x;
    // The step is read while the tile comes.
    WarpDraw draw = warp_row_draw(a, rows, row, WARP_PURPOSE_ACTION);
    const float* outputs = warp_row(a, rows, row);
    if (row >= rows.n_rows) return;
    unsigned long long at = (unsigned long long)row * Policy::actions;
    WarpSampled sampled;
    if constexpr (Policy::boxed) {
        const float* log_std = WARP_SAMPLE_SHARED_STD ? a.log_std : outputs + Policy::actions;
        sampled = warp_sample_box<Policy, greedy>(outputs, log_std, draw, a.raw + at, a.bounded + at);
    } else {
        const unsigned char* mask =
            Policy::masked ? a.mask + (unsigned long long)row * Policy::width : nullptr;
        sampled =
            warp_sample_heads<Policy, greedy, true>(outputs, mask, draw, a.discrete + at);
    }
    a.log_probs[row] = sampled.log_prob;
    a.entropies[row] = sampled.entropy;
    if (!sampled.sound) warp_fault(a, row);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT)
    warp_sample(WarpSampleArrays a, WarpSampleRows rows) {
    warp_sample_row<false>(a, rows);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    warp_greedy(WarpSampleArrays a, WarpSampleRows rows) {
    warp_sample_row<true>(a, rows);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    warp_random(WarpSampleArrays a, WarpSampleRows rows) {
    unsigned int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows.n_rows) return;
    WarpDraw draw = warp_row_draw(a, rows, row, WARP_PURPOSE_RANDOM_ACTION);
    unsigned long long at = (unsigned long long)row * Policy::actions;
    if constexpr (Policy::boxed) {
        warp_random_box<Policy>(draw, a.bounded + at);
    } else {
        const unsigned char* mask =
            Policy::masked ? a.mask + (unsigned long long)row * Policy::width : nullptr;
        if (!warp_random_heads<Policy>(mask, draw, a.discrete + at)) warp_fault(a, row);
    }
}

#if WARP_SAMPLE_BOXED
// Means plus noise, which starts anew where the replica's episode ended in the step before.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    warp_noisy(WarpSampleArrays a, WarpSampleRows rows, WarpNoise by) {
    unsigned int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows.n_rows) return;
    unsigned int replica = row / WARP_SAMPLE_AGENTS;
    unsigned long long at = (unsigned long long)row * Policy::actions;
    if (a.terminated[replica] | a.truncated[replica])
        for (int i = 0; i < Policy::actions; ++i) a.noise[at + i] = 0.0f;
    WarpDraw draw = warp_row_draw(a, rows, row, WARP_PURPOSE_NOISE);
    warp_noisy_box<Policy>(a.outputs + at, by, draw, a.noise + at, a.bounded + at);
}
#endif

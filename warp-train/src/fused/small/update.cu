// A whole update in one cooperative launch: values, advantages, and every epoch's minibatches.
//
// Blocks 0 .. actor_blocks take the policy's network, the others the value's (all of them take the
// shared one). Gradients of a minibatch: each block adds up its tiles, writes them out, adds up one
// slice over all blocks in a fixed order, and after a second barrier every block makes the same step
// on its own copy of the weights; or, where that does not fit into registers, the step of its slice, and after a third
// barrier takes the others'. Sums have one order, so the same launch gives the same bits.
//
// Needs, beside advantages.cuh's and descent.cuh's: BLOCKS (of a multiprocessor), BETA_1, BETA_2.
#include "advantages.cuh"
#include "descent.cuh"

// Sums this block's slice of the gradients over the network's blocks; returns its squares' sum. `summed(quad, x)`
// makes of a sum here the sum of all GPUs.
template <typename Summed>
__device__ __forceinline__ float reduce_slice(UpdateShared& shared, const float4* partials,
                                              float4* reduced, u32 first_block, u32 n_blocks,
                                              float factor, Summed summed) {
    constexpr u32 quads = OWN_TILES * GROUP_THREADS;
    u32 own = blockIdx.x - first_block, per_block = (quads + n_blocks - 1) / n_blocks;
    u32 wide = per_block < GROUP_THREADS ? per_block : GROUP_THREADS;
    u32 n_parts = GROUP_THREADS / wide, part = threadIdx.x / wide, column = threadIdx.x % wide;
    // Loads under way at once: all where a slice leaves few threads for each part of it.
    constexpr int at_once = OWN_TILES > 8 ? 24 : 8;
    float squares = 0.0f;
    for (u32 base = 0; base < per_block; base += wide) {
        u32 quad = own * per_block + base + column;
        bool mine = part < n_parts && base + column < per_block && quad < quads;
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        for (u32 b = part; b < n_blocks && mine; b += at_once * n_parts) {
            float4 x[at_once];
#pragma unroll
            for (int i = 0; i < at_once; ++i) {
                u32 block = b + i * n_parts;
                x[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (block < n_blocks) x[i] = __ldcg(partials + (first_block + block) * quads + quad);
            }
#pragma unroll
            for (int i = 0; i < at_once; ++i) {
                sum.x += x[i].x;
                sum.y += x[i].y;
                sum.z += x[i].z;
                sum.w += x[i].w;
            }
        }
        shared.parts[threadIdx.x] = sum;
        __syncthreads();
        if (part == 0 && mine) {
            for (u32 p = 1; p < n_parts; ++p) {
                float4 x = shared.parts[p * wide + column];
                sum.x += x.x;
                sum.y += x.y;
                sum.z += x.z;
                sum.w += x.w;
            }
            sum = summed(quad, sum);
            sum.x *= factor;
            sum.y *= factor;
            sum.z *= factor;
            sum.w *= factor;
            squares += sum.x * sum.x + sum.y * sum.y + sum.z * sum.z + sum.w * sum.w;
            __stcg(reduced + quad, sum);
        }
        __syncthreads();
    }
    return squares;
}

// The step of this block's slice, whose weights and moments lie in `state` as gradients do in `reduced`.
__device__ __forceinline__ void step_slice(float4* state, const float4* reduced, NetworkBlocks blocks, float clip,
                                           DescentStep along) {
    constexpr u32 quads = OWN_TILES * GROUP_THREADS;
    u32 per_block = (quads + blocks.n - 1) / blocks.n, first = blocks.own * per_block;
    u32 end = first + per_block < quads ? first + per_block : quads;
    for (u32 quad = first + threadIdx.x; quad < end; quad += GROUP_THREADS) {
        float4 g = __ldcg(reduced + quad), w = __ldcg(state + quad);
        float4 m = __ldcg(state + quads + quad), v = __ldcg(state + 2 * quads + quad);
        descend(g.x * clip, along, w.x, m.x, v.x);
        descend(g.y * clip, along, w.y, m.y, v.y);
        descend(g.z * clip, along, w.z, m.z, v.z);
        descend(g.w * clip, along, w.w, m.w, v.w);
        __stcg(state + quad, w);
        __stcg(state + quads + quad, m);
        __stcg(state + 2 * quads + quad, v);
    }
}

// What this block's threads have of the squares of gradients, for all blocks.
__device__ __forceinline__ void write_norm(UpdateShared& shared, float squares, float* norms) {
    squares = warp_sum(squares);
    if ((threadIdx.x & 31) == 0) shared.norms[threadIdx.x / 32] = squares;
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = 0.0f;
        for (int i = 0; i < 8; ++i) sum += shared.norms[i];
        __stcg(norms + blockIdx.x, sum);
    }
}

// The norm of all gradients, from the blocks' sums of squares; by every warp alike.
__device__ __forceinline__ float whole_norm(const float* norms) {
    float sum = 0.0f;
    u32 lane = threadIdx.x & 31;
    for (u32 first = 0; first < gridDim.x; first += 256) {
        float x[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            u32 b = first + 32 * k + lane;
            x[k] = b < gridDim.x ? __ldcg(norms + b) : 0.0f;
        }
#pragma unroll
        for (int k = 0; k < 8; ++k) sum += x[k];
    }
    return sqrtf(warp_sum(sum));
}

// What blocks tell each other.
struct Exchange {
    float4* partials;
    float4* reduced;  // of this block's network
    float* norms;
    double* totals;
    u32* barrier;
    u32 target;
};

// Makes sums of all GPUs of those here; nothing to do for one alone.
#if RANKS > 1
struct AllRanks {
    Ranks ranks;
    unsigned long long iteration;
    u32 first_quad;

    __device__ __forceinline__ float4 operator()(int update, u32 quad, float4 x) const {
        unsigned long long count = iteration * N_UPDATES + update;
        // Two blocks of a multiprocessor have half of the registers each.
        return BLOCKS > 1 ? ranks.sum_in_turn(x, first_quad + quad, count) : ranks.sum(x, first_quad + quad, count);
    }
    // Moments lie behind all quads. Block 0 sends what all blocks know, and all of them receive.
    __device__ __forceinline__ double operator()(int entry, double x) const {
        u32 at = 4u * N_NETS * OWN_TILES * GROUP_THREADS + 2u * (u32)entry;
        if (blockIdx.x == 0u) ranks.send_double(x, at, iteration);
        return ranks.sum_double(x, at, iteration);
    }
};
#else
struct AllRanks {
    __device__ __forceinline__ float4 operator()(int, u32, float4 x) const { return x; }
    __device__ __forceinline__ double operator()(int, double x) const { return x; }
};
#endif

#if TARGET_KL
// The factors of all steps, whose numbers depend on how many minibatches the launch's earlier iterations learned from.
__device__ __forceinline__ void write_steps(UpdateShared& shared, const Schedule& now, u32 steps_before,
                                            const Figures* figures, u32 iterations_before) {
    double before = 0.0;
    for (u32 i = threadIdx.x & 31; i < iterations_before; i += 32) before += __ldcg(&figures[i].n_updates);
    before = warp_sum(before) + steps_before;
    for (int i = threadIdx.x; i < RATES * N_UPDATES; i += GROUP_THREADS) {
        StepFactors factors = now.steps[i / N_UPDATES][i % N_UPDATES];
        double step = before + (i % N_UPDATES + 1);
        if (!RMSPROP) {
            factors.step_size = (float)(factors.step_size / (1.0 - pow(BETA_1, step)));
            factors.inverse_bias_correction2_sqrt = (float)(1.0 / sqrt(1.0 - pow(BETA_2, step)));
        }
        shared.steps[i / N_UPDATES][i % N_UPDATES] = factors;
    }
}
#endif

// Step `u` of network `net`.
__device__ __forceinline__ DescentStep step_of(const UpdateShared& shared, const Schedule& now, int net, int u) {
#if TARGET_KL
    return now.step(net, shared.steps[now.rate_of(net)][u]);
#else
    return now.step(net, u);
#endif
}

// How far the policy has moved in an epoch, in the mean over its minibatches.
struct Divergence {
    double target, before;

    // Whether that was too far; to be asked once at every epoch's end, when all blocks have written their losses.
    __device__ __forceinline__ bool ends_epochs(const double* totals) {
        double sum = over_blocks(totals, FIGURE(approx_kl), gridDim.x), own = sum - before;
        before = sum;
        return !(own / MINIBATCHES <= target);
    }
};

// All minibatches of network `net`.
__device__ __forceinline__ void learn(int net, UpdateShared& shared, const SmallRun& run, const u32* records, NetworkBlocks blocks,
                      u32 first_block, const Memory& memory, const Schedule& now, Exchange& all,
                      const AllRanks& ranks, Divergence divergence, Figures* figures) {
    Own mine;
    mine.load(net, shared, memory, !STEPS_SLICES || blocks.own == 0);
#if KEEPS_KEYS
    const WarpWords* keys = shared.keys;
#else
    const WarpWords* keys = nullptr;
#endif
    Minibatches minibatches(net, run, records, blocks, now, keys);
    float norms = 0.0f, non_finite = 0.0f;
    int end = N_UPDATES;
#pragma unroll 1
    for (int u = 0; u < end; ++u) {
        OwnTiles own = {};
        float one = minibatches.add(shared, u, own);
#pragma unroll
        for (int t = 0; t < OWN_TILES; ++t)
            __stcg(all.partials + (blockIdx.x * OWN_TILES + t) * GROUP_THREADS + threadIdx.x,
                   mine.gradient(own, t));
        bool ends_epoch = TARGET_KL && (u + 1) % MINIBATCHES == 0;
        if (ends_epoch || u + 1 == N_UPDATES)
            write_losses(shared, minibatches.sums, all.totals, {blockIdx.x, gridDim.x});
        grid_wait(all.barrier, all.target);
        if (ends_epoch && divergence.ends_epochs(all.totals)) end = u + 1;
        float squares =
            reduce_slice(shared, all.partials, all.reduced, first_block, blocks.n, one,
                         [&](u32 quad, float4 x) { return ranks(u, quad, x); });
        write_norm(shared, squares, all.norms);
        grid_wait(all.barrier, all.target);
        float4 g[OWN_TILES];
#pragma unroll
        for (int t = 0; t < (STEPS_SLICES ? 0 : OWN_TILES); ++t)
            g[t] = __ldcg(all.reduced + t * GROUP_THREADS + threadIdx.x);
        float norm = whole_norm(all.norms), clip = clip_of(norm, now.max_grad_norm);
        norms += norm;
        if (!(norm < 3.0e38f))
            non_finite = 1.0f;
        else if (STEPS_SLICES)
            step_slice(memory.state, all.reduced, blocks, clip, step_of(shared, now, net, u));
        else
            mine.step(shared.net, g, clip, step_of(shared, now, net, u));
        if (STEPS_SLICES) {
            grid_wait(all.barrier, all.target);
            mine.show_all(shared.net);
        }
        publish();
        __syncthreads();
    }
    if (blocks.own == 0) mine.store(net, memory);
    if (blockIdx.x == 0 && threadIdx.x < 32)
        write_metrics(all.totals, gridDim.x, norms, non_finite, figures, end);
}

// Values and advantages of the rollout at hand.
__device__ __forceinline__ void prepare(UpdateShared& shared, const UpdateArgs& a, const Schedule& now,
                                        Exchange& all) {
    const SmallRun& run = a.run;
    NetworkBlocks everybody = {blockIdx.x, gridDim.x};
    constexpr int value_net = SHARED_TRUNK ? 0 : 1;
    clear_inputs(shared.value_rows.x, 8 * 32 * LDX);
    load_net(shared.net, a.parameters + value_net * N_PARAMETERS, threadIdx.x, GROUP_THREADS);
    learn_factors(a.normaliser, (double)N_STEPS * run.n_rows, everybody.own, everybody.n);
    __syncthreads();
    write_values(shared, shared.net, a.records, run, everybody, StoredRows::without_values(run.n_rows));
    grid_wait(a.barrier, all.target);
    write_advantages(shared, a.records, a.episodes, a.totals, run, {now, reward_factor(a.normaliser)},
                     everybody);
    grid_wait(a.barrier, all.target);
}

__device__ __forceinline__ void update(const UpdateArgs& a, AllRanks& ranks) {
    const SmallRun& run = a.run;
    extern __shared__ __align__(1024) unsigned char memory[];
    UpdateShared& shared = *(UpdateShared*)memory;
    const Schedule& now = a.schedule[run.index];
    Exchange all = {(float4*)a.partials, (float4*)a.reduced, a.norms, a.totals, a.barrier, 0u};
    prepare(shared, a, now, all);
    if (NORM_ADV)
        read_moments(shared, a.totals, run, gridDim.x,
                     [&](int entry, double x) { return ranks(entry, x); });
#if TARGET_KL
    write_steps(shared, now, a.optimiser_steps, a.figures, run.index);
#endif
    __syncthreads();
    for (int s = 0; s < N_STAGES; ++s) clear_inputs(shared.stage[s].x, TILE_INPUTS);
#if KEEPS_KEYS
    if (threadIdx.x < EPOCHS) shared.keys[threadIdx.x] = Order::key_of(run, threadIdx.x);
#endif
    bool actor = SHARED_TRUNK || blockIdx.x < run.actor_blocks;
    u32 first = actor ? 0u : run.actor_blocks, offset = actor ? 0u : N_PARAMETERS;
    NetworkBlocks blocks = {blockIdx.x - first, SHARED_TRUNK ? gridDim.x
                                          : actor      ? run.actor_blocks
                                                       : gridDim.x - run.actor_blocks};
    Memory own = {a.parameters + offset, a.exp_avg + offset, a.exp_avg_sq + offset,
                  (float4*)a.state + (STEPS_SLICES ? first : blockIdx.x) * 3ull * OWN_TILES * GROUP_THREADS};
    Figures* out = a.figures + run.index;
    if (!actor) all.reduced += OWN_TILES * GROUP_THREADS;
#if RANKS > 1
    if (!actor) ranks.first_quad = OWN_TILES * GROUP_THREADS;
#endif
    if (actor && !SHARED_TRUNK) load_net(shared.net, a.parameters, threadIdx.x, GROUP_THREADS);
    publish();
    __syncthreads();
    learn(actor ? 0 : 1, shared, run, a.records, blocks, first, own, now, all, ranks, {a.target_kl, 0.0},
          out);
}

#if RANKS > 1 && RELAYED
#include "pieces.cuh"
#elif RANKS > 1
extern "C" __global__ void __launch_bounds__(256, BLOCKS)
    small_update_linked(const UpdateArgs a, const LinkArgs link) {
    AllRanks ranks = {Ranks(link), a.run.iteration, 0u};
    update(a, ranks);
}
#else
extern "C" __global__ void __launch_bounds__(256, BLOCKS) small_update(const UpdateArgs a) {
    AllRanks ranks;
    update(a, ranks);
}
#endif

extern "C" __global__ void small_sizes(const SizesArgs a) {
    write_sizes(a.sizes, sizeof(UpdateShared));
}

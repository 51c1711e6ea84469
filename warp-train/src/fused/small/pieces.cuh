// An update in pieces, between which the GPUs gather what each has, where they do not reach each other's memory: a
// kernel per minibatch, which begins with the step of the one before. Moments and sums of losses are in memory
// meanwhile, and so are weights, by thread: the policy's own arrays get them from the last piece.
//
// Piece -1 makes values, advantages and this GPU's moments of them; piece `u` the step of minibatch u - 1, if there is
// one, and this GPU's gradient of minibatch u; the last one only a step. Sums are those of `learn`, in the same order.
//
// All but the first are recorded and replayed (pieces.rs), with arguments of the iteration that recorded them: where
// the one at hand is, they read from memory.
//
// Needs what update.cu has before it includes this.
#pragma once

// Waits for all blocks before piece `u` since the counter was 0.
#define WAITS_BEFORE(u) (u32)((u) < 0 ? 0 : (u) == 0 ? 2 : 2 * (u) + 1)
#define MOMENT_ENTRIES (MINIBATCHES == 1 ? 2 : 2 * N_UPDATES)

// One over the samples of minibatch `u` on all GPUs.
__device__ __forceinline__ float one_of(const SmallRun& run, int u) {
    u32 n = N_STEPS * run.n_rows, part = (u32)u % MINIBATCHES;
    return 1.0f / (float)((minibatch_start(n, part + 1) - minibatch_start(n, part)) * RANKS);
}

// This GPU's sums for the moments of advantages, by the first block.
__device__ __forceinline__ void write_own_moments(const double* totals, u32 n_blocks, double* moments) {
    constexpr int entries = MOMENT_ENTRIES;
    if (blockIdx.x != 0u) return;
    for (int first = 0; first < entries; first += GROUP_THREADS / 8) {
        int i = first + group_thread() / 8;
        double sum = over_blocks(totals, (MINIBATCHES == 1 ? FIGURE(residuals) : N_PARTS) + (i < entries ? i : 0), n_blocks);
        if ((threadIdx.x & 7) == 0 && i < entries) __stcg(moments + i, sum);
    }
}

// Mean and deviation of minibatch `u` over all GPUs, from what they have gathered; by a thread that waits for no block.
__device__ __forceinline__ void read_all_moments(UpdateShared& shared, const SmallRun& run, const double* moments, int u) {
    if (!NORM_ADV || threadIdx.x != GROUP_THREADS - 1) return;
    double sums[2];
    for (int i = 0; i < 2; ++i) {
        for (int rank = 0; rank < RANKS; ++rank) {
            double x = __ldcg(moments + rank * MOMENT_ENTRIES + (MINIBATCHES == 1 ? 0 : 2 * u) + i);
            sums[i] = rank == 0 ? x : sums[i] + x;
        }
    }
    u32 n = N_STEPS * run.n_rows, part = (u32)u % MINIBATCHES;
    u32 count = minibatch_start(n, part + 1) - minibatch_start(n, part);
    write_moments(shared, u, count * RANKS, sums[0], sums[1]);
}

// Sums this block's slice of the gradients over all GPUs, as `reduce_slice` does; returns its squares' sum.
__device__ __forceinline__ float rank_slice(const float4* gradients, float4* reduced, NetworkBlocks blocks, float factor) {
    constexpr u32 quads = OWN_TILES * GROUP_THREADS;
    u32 per_block = (quads + blocks.n - 1) / blocks.n;
    u32 wide = per_block < GROUP_THREADS ? per_block : GROUP_THREADS;
    u32 part = threadIdx.x / wide, column = threadIdx.x % wide;
    float squares = 0.0f;
    for (u32 base = 0; base < per_block; base += wide) {
        u32 quad = blocks.own * per_block + base + column;
        if (part != 0u || base + column >= per_block || quad >= quads) continue;
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (u32 rank = 0; rank < RANKS; ++rank) {
            float4 x = __ldcg(gradients + (unsigned long long)rank * N_NETS * quads + quad);
            sum.x = rank == 0u ? x.x : sum.x + x.x;
            sum.y = rank == 0u ? x.y : sum.y + x.y;
            sum.z = rank == 0u ? x.z : sum.z + x.z;
            sum.w = rank == 0u ? x.w : sum.w + x.w;
        }
        sum.x *= factor;
        sum.y *= factor;
        sum.z *= factor;
        sum.w *= factor;
        squares += sum.x * sum.x + sum.y * sum.y + sum.z * sum.z + sum.w * sum.w;
        __stcg(reduced + quad, sum);
    }
    return squares;
}

// A thread's sums of losses, from piece to piece.
__device__ __forceinline__ void load_losses(LossSums& sums, const float* losses) {
    const float* own = losses + 5ull * (blockIdx.x * GROUP_THREADS + threadIdx.x);
    sums.policy = __ldcg(own);
    sums.value = __ldcg(own + 1);
    sums.entropy = __ldcg(own + 2);
    sums.kl = __ldcg(own + 3);
    sums.clipped = __ldcg(own + 4);
}
__device__ __forceinline__ void store_losses(const LossSums& sums, float* losses) {
    float* own = losses + 5ull * (blockIdx.x * GROUP_THREADS + threadIdx.x);
    __stcg(own, (float)sums.policy);
    __stcg(own + 1, (float)sums.value);
    __stcg(own + 2, (float)sums.entropy);
    __stcg(own + 3, (float)sums.kl);
    __stcg(own + 4, (float)sums.clipped);
}

// What a block knows of itself in a piece.
struct Piece {
    int net;
    SmallRun run;
    const Schedule& now;
    NetworkBlocks blocks;
    u32 first_block, first_quad;
    Memory memory;
};

// The first half of the step of minibatch `u`: this block's slice of the gradient, and what it adds to the norm.
__device__ __forceinline__ void begin_step(UpdateShared& shared, const PieceArgs& p, const Piece& here, Exchange& all, int u) {
    const float4* gradients = (const float4*)p.gradients + here.first_quad;
    float squares = rank_slice(gradients, all.reduced, here.blocks, one_of(here.run, u));
    write_norm(shared, squares, all.norms);
    grid_arrive(all.barrier, all.target);
}

// The second half, when all blocks have made the first, and what the figures say of norms.
__device__ __forceinline__ void end_step(UpdateShared& shared, const PieceArgs& p, const Piece& here, Exchange& all,
                                         Own& mine, int u, Figures* figures) {
    grid_await(all.barrier, all.target);
    float4 g[OWN_TILES];
#pragma unroll
    for (int t = 0; t < OWN_TILES; ++t) g[t] = __ldcg(all.reduced + t * GROUP_THREADS + threadIdx.x);
    float norm = whole_norm(all.norms);
    bool finite = norm < 3.0e38f;
    if (finite) {
        mine.step(shared.net, g, clip_of(norm, here.now.max_grad_norm), here.now.step(here.net, u));
    } else {
#pragma unroll
        for (int t = 0; t < OWN_TILES; ++t) mine.show(shared.net, t, mine.get(0, t));
    }
    if (blockIdx.x != 0u || threadIdx.x >= 32u) return;
    // The first warp keeps both; of all its lanes the same.
    float norms = norm, non_finite = finite ? 0.0f : 1.0f;
    if (u > 0) {
        norms = __ldcg(p.norms) + norm;
        non_finite = finite ? __ldcg(p.norms + 1) : 1.0f;
    }
    __syncwarp();
    if (threadIdx.x == 0u) {
        __stcg(p.norms, norms);
        __stcg(p.norms + 1, non_finite);
    }
    if (u + 1 == N_UPDATES) write_metrics(all.totals, gridDim.x, norms, non_finite, figures);
}

__device__ __forceinline__ void learn_piece(UpdateShared& shared, const UpdateArgs& a, const PieceArgs& p, const Piece& here, Exchange& all) {
    int u = p.update;
    bool learns = u < N_UPDATES;
    if (u > 0) begin_step(shared, p, here, all, u - 1);
    // What depends on no other block is loaded while those arrive: the network as it was before the update, of which the
    // step replaces all that is learned, and the first rows. The last piece needs no rows, but loads them like all others.
    Own mine;
    if (u == 0)
        mine.load(here.net, shared, here.memory, true);
    else
        mine.find(here.net, shared, here.memory);
    if (learns) {
        load_net(shared.net, here.memory.parameters, threadIdx.x, GROUP_THREADS);
        for (int s = 0; s < N_STAGES; ++s) clear_inputs(shared.stage[s].x, TILE_INPUTS);
        read_all_moments(shared, here.run, p.all_moments, u);
    }
    Minibatches minibatches(here.net, here.run, a.records, here.blocks, here.now, nullptr, learns ? u : 0);
    if (u > 0) {
        load_losses(minibatches.sums, p.losses);
        end_step(shared, p, here, all, mine, u - 1, a.figures + here.run.index);
    }
    if (!learns) {
        if (here.blocks.own == 0) mine.store(here.net, here.memory);
        return;
    }
    publish();
    __syncthreads();
    OwnTiles own = {};
    minibatches.add(shared, u, own);
#pragma unroll
    for (int t = 0; t < OWN_TILES; ++t)
        __stcg(all.partials + (blockIdx.x * OWN_TILES + t) * GROUP_THREADS + threadIdx.x, mine.gradient(own, t));
    if (u + 1 == N_UPDATES)
        write_losses(shared, minibatches.sums, all.totals, {blockIdx.x, gridDim.x});
    else
        store_losses(minibatches.sums, p.losses);
    grid_wait(all.barrier, all.target);
    reduce_slice(shared, all.partials, (float4*)p.gradient + here.first_quad, here.first_block, here.blocks.n, 1.0f,
                 [](u32, float4 x) { return x; });
}

extern "C" __global__ void __launch_bounds__(256, BLOCKS) small_piece(const UpdateArgs a, const PieceArgs p) {
    extern __shared__ __align__(1024) unsigned char memory[];
    UpdateShared& shared = *(UpdateShared*)memory;
    u32 target = WAITS_BEFORE(p.update) * gridDim.x;
    Exchange all = {(float4*)a.partials, (float4*)a.reduced, a.norms, a.totals, a.barrier, target};
    if (p.update < 0) {
        if (blockIdx.x == 0u && threadIdx.x == 0u) *p.place = a.run;
        prepare(shared, a, a.schedule[a.run.index], all);
        if (NORM_ADV) write_own_moments(a.totals, gridDim.x, p.moments);
        return;
    }
    // All else of it is the same in every iteration.
    SmallRun run = a.run;
    run.seed = p.place->seed;
    run.iteration = p.place->iteration;
    run.index = p.place->index;
    bool actor = SHARED_TRUNK || blockIdx.x < run.actor_blocks;
    u32 first = actor ? 0u : run.actor_blocks, offset = actor ? 0u : N_PARAMETERS;
    u32 first_quad = actor ? 0u : OWN_TILES * GROUP_THREADS;
    NetworkBlocks blocks = {blockIdx.x - first, SHARED_TRUNK ? gridDim.x
                                          : actor      ? run.actor_blocks
                                                       : gridDim.x - run.actor_blocks};
    Memory own = {a.parameters + offset, a.exp_avg + offset, a.exp_avg_sq + offset,
                  (float4*)a.state + (unsigned long long)blockIdx.x * 3 * OWN_TILES * GROUP_THREADS};
    Piece here = {actor ? 0 : 1, run, a.schedule[run.index], blocks, first, first_quad, own};
    all.reduced += first_quad;
    learn_piece(shared, a, p, here, all);
}

// Whole runs of few replicas in one launch: a block has one run or two, as many runs side by side as the
// device holds.
//
// A block's groups learn, one per network; a few warps more collect. With two runs they take turns: while
// the groups learn from one run's rollout, the collectors, which mostly wait for one result after the
// other, are at the other run's. Weights and moments of the run that learns lie in shared memory, those of
// the other one in memory; the collectors have their weights in registers.
//
// Nothing is summed over more than a run's own groups, so a run does not depend on how many others there
// are, nor on which of them shares its block. All that one iteration leaves to the next is in the run's
// own arrays; the host is needed when the schedule ends.
//
// With SPREAD each of a run's two networks has a block and a multiprocessor to itself, for runs that are
// few; the two tell each other sums of squares and that they are done, the critic's works out values while
// the other one's collectors go on, and all else is the same, to the last bit.
//
// Needs what collect_few.cu, advantages.cuh and descent.cuh need; MOST_TILES. Collectors take eight of a run's replicas at a time.
static_assert(!TARGET_KL, "epochs do not end early here");
#define GROUPS (SPREAD ? 1 : N_NETS)
#include "collect_few.cu"
#include "advantages.cuh"
#include "cluster_peer.cuh"
#include "weights.cuh"

#define FEW_REPLICAS_LEARNERS (GROUPS * GROUP_THREADS)
// Blocks of a run.
#define FEW_REPLICAS_BLOCKS (N_NETS / GROUPS)
#define FEW_REPLICAS_THREADS (FEW_REPLICAS_LEARNERS + FEW_THREADS)
// Steps of a part of a rollout. With SPREAD, the critic works out a part's values when all of it is collected; else a
// rollout is one part.
#define PART_STEPS (SPREAD ? 16 : N_STEPS)
#define ROLLOUT_PARTS ((N_STEPS + PART_STEPS - 1) / PART_STEPS)
static_assert(!SPREAD || PART_STEPS % 4 == 0, "actions are drawn four steps ahead");

struct FewReplicasShared {
    UpdateShared nets[GROUPS];
    FewShared place;
    WarpWords keys[EPOCHS];  // of the epochs' orders, of a lone shard
    float factors[N_SUMMED > 0 ? N_FACTORS : 1];  // what the run that collects is normalised by
    // Of gradients, by warp; two minibatches take turns.
    float squares[2][N_NETS * GROUP_THREADS / 32];
    ClusterPeer peer;
};
// What a block of this architecture may have.
static_assert(sizeof(FewReplicasShared) <= 227 * 1024, "a run has more minibatches than there is room for");

extern __shared__ __align__(1024) unsigned char few_replicas_shared[];

// Where a run's numbers lie.
__device__ __forceinline__ u32* records_of(const FewReplicasArgs& a, u32 run) {
    unsigned long long rows = (N_STEPS + 1 + CUTS) * a.run.n_envs;
    return a.records + run * rows * (RECORD_UNITS * 4);
}
__device__ __forceinline__ float* episodes_of(const FewReplicasArgs& a, u32 run) {
    return a.episodes + run * EPISODE_FIGURES * a.run.n_envs;
}
__device__ __forceinline__ Memory memory_of(const FewReplicasArgs& a, u32 run, int net) {
    unsigned long long number = run * N_NETS + net, at = number * N_PARAMETERS;
    return {a.parameters + at, a.exp_avg + at, a.exp_avg_sq + at,
            (float4*)a.state + number * 3 * OWN_TILES * GROUP_THREADS};
}
__device__ __forceinline__ NormaliserArgs normaliser_of(const FewReplicasArgs& a, u32 run) {
    NormaliserArgs of = a.normaliser;
    of.factors += run * N_FACTORS;
    of.known += run * (3 * NORM_COLUMNS + 1);
    of.parts += run * 2 * N_SUMMED * of.n_parts;
    of.running += run * (NORM_REWARD ? a.run.n_envs : 0u);
    return of;
}

// The groups of this block wait for each other.
__device__ __forceinline__ void block_learners_wait() {
    asm volatile("bar.sync 4, %0;" ::"n"(FEW_REPLICAS_LEARNERS) : "memory");
}
// All groups of a run wait for each other; collectors don't take part.
__device__ __forceinline__ void learners_wait() {
    block_learners_wait();
    if (!SPREAD) return;
    if (threadIdx.x == 0) ((FewReplicasShared*)few_replicas_shared)->peer.meet();
    block_learners_wait();
}
// From when on the collectors have the policy's weights in registers.
__device__ __forceinline__ void weights_are_taken() {
    asm volatile("bar.arrive 5, %0;" ::"n"(FEW_REPLICAS_THREADS) : "memory");
}
__device__ __forceinline__ void wait_until_weights_are_taken() {
    asm volatile("bar.sync 5, %0;" ::"n"(FEW_REPLICAS_THREADS) : "memory");
}

// The network of this thread's block, where each has one.
__device__ __forceinline__ int own_net() { return (int)(blockIdx.x % FEW_REPLICAS_BLOCKS); }

// The norm over all networks from this thread's sum of squares.
__device__ __forceinline__ float run_norm(FewReplicasShared& all, float squares, u32 turn) {
    float(&of_warps)[N_NETS * 8] = all.squares[turn & 1u];
    squares = warp_sum(squares);
    if ((threadIdx.x & 31) == 0) {
        float& place = of_warps[(SPREAD ? own_net() * 8 : 0) + threadIdx.x / 32];
        place = squares;
        if (threadIdx.x == 0) all.peer.expect(turn, 8u);
        all.peer.tell(place, squares, turn);
    }
    block_learners_wait();
    all.peer.hear(turn);
    float sum = 0.0f;
#pragma unroll
    for (int net = 0; net < N_NETS; ++net) {
        float of_net = 0.0f;
#pragma unroll
        for (int i = 0; i < GROUP_THREADS / 32; ++i) of_net += of_warps[net * 8 + i];
        sum += of_net;
    }
    return sqrtf(sum);
}

// Says that so many parts, of all iterations of this launch, are collected: the first collecting warp has stored all rows,
// and its first thread says so.
__device__ __forceinline__ void few_replicas_publish(FewReplicasShared& all, u32 parts) {
    if (!SPREAD) return;
    __syncwarp();
    if (threadIdx.x == FEW_REPLICAS_LEARNERS) all.peer.publish(parts);
}

// The rollouts of iteration `index` of run `number`.
__device__ __forceinline__ void few_replicas_collect(FewReplicasShared& all, const FewReplicasArgs& few_replicas, const WarpRun& launch,
                                             const WarpArrays& arrays, const WarpTables& tables,
                                             const FewNet& net, u32 number, u32 index) {
    u32 lane = net.lane, warp = net.warp;
    u32 n = few_replicas.run.n_envs, first = (few_replicas.run.first_run + number) * n;
    u32 before = *arrays.run_step + few_replicas.run.steps_before + index * N_STEPS;
    u32* records = records_of(few_replicas, number);
    NormaliserArgs normaliser = normaliser_of(few_replicas, number);
    load_factors(all.factors, normaliser, threadIdx.x - FEW_REPLICAS_LEARNERS, FEW_THREADS);
    few_wait();
    // Its replicas draw as if there were no others.
    WarpRun world = launch;
    world.seed = world.start_seed = few_replicas.seeds[number];
    world.first_replica = 0u - first;
    Env env = warp_env(tables);
#pragma unroll 1
    for (u32 eight = 0; eight < n; eight += FEW_REPLICAS) {
        u32 row = eight + lane / 4;
        bool writes = row < n && warp == 0 && (lane & 3) == 0;
        row = row < n ? row : n - 1;
        Replica replica;
        replica.begin(env, arrays, before, first + row, row);
        if (few_replicas.run.begins && index == 0) {
            warp_begin(env, world, arrays, first + row, before, replica.state);
            replica.length = 0u;
            replica.total = 0.0f;
        }
        replica.normaliser.begin(all.factors, normaliser, row);
        replica.look(env);
#pragma unroll 1
        for (u32 part = 0; part < ROLLOUT_PARTS; ++part) {
            u32 from = part * PART_STEPS, to = min(from + PART_STEPS, (u32)N_STEPS);
            collect_few(replica, env, world, arrays, net, all.place, records, n, writes, from, to);
            // The last eight replicas complete a part; the last part also has what follows the rollout.
            if (eight + FEW_REPLICAS >= n && to < N_STEPS) few_replicas_publish(all, index * ROLLOUT_PARTS + part + 1);
        }
        if (warp == 0) replica.normaliser.write(normaliser, eight / FEW_REPLICAS, writes);
        if (!writes) continue;
        replica.normaliser.finish(normaliser, row);
        replica.finish(env, arrays, records, episodes_of(few_replicas, number), n);
    }
    few_replicas_publish(all, (index + 1) * ROLLOUT_PARTS);
}

// What the groups do while rollout `index` of their run is collected, if each has a block: the policy's, whose block
// collects, tells the other how far that is, and the critic's works out values of what is there.
__device__ __forceinline__ void few_replicas_during_rollout(FewReplicasShared& all, const FewReplicasArgs& few_replicas, int net,
                                                    u32 number, u32 index) {
    u32 parts_before = index * ROLLOUT_PARTS;
    if (net == 0) {
        if (threadIdx.x > 0) return;
#pragma unroll 1
        for (u32 part = 0; part < ROLLOUT_PARTS; ++part) all.peer.relay(parts_before + part + 1);
        return;
    }
    UpdateShared& shared = all.nets[0];
    SmallRun run = {};
    run.n_rows = few_replicas.run.n_envs;  // all that is asked for here
    clear_inputs(shared.value_rows.x, 8 * 32 * LDX);
#pragma unroll 1
    for (u32 part = 0; part < ROLLOUT_PARTS; ++part) {
        if (threadIdx.x == 0) all.peer.wait_for_parts(parts_before + part + 1);
        block_learners_wait();
        // The last part has all that follows the rollout, too.
        StoredRows rows = StoredRows::from_step(part * PART_STEPS, run.n_rows);
        if (part + 1 < ROLLOUT_PARTS) rows.end = rows.first + PART_STEPS * run.n_rows;
        write_values(shared, shared.net, records_of(few_replicas, number), run, {0u, 1u}, rows);
    }
}

// Means and deviations of all minibatches' advantages, each by a warp.
__device__ __forceinline__ void minibatch_moments(FewReplicasShared& all, const u32* records, const SmallRun& run) {
    constexpr int AT_ONCE = 4;
    u32 n = N_STEPS * run.n_rows;
    for (int u = threadIdx.x / 32; u < N_UPDATES; u += FEW_REPLICAS_LEARNERS / 32) {
        EpochOrder order = order_of(run, n, u / MINIBATCHES, all.keys);
        u32 start = minibatch_start(n, u % MINIBATCHES), end = minibatch_start(n, u % MINIBATCHES + 1);
        float sum = 0.0f, squares = 0.0f;
#pragma unroll 1
        for (u32 first = start + (threadIdx.x & 31); first < end; first += 32 * AT_ONCE) {
            float x[AT_ONCE];
            // All are asked for before one is waited for; behind the end, the last one again.
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
                u32 sample = order.at(min(first + 32 * i, end - 1u));
                x[i] = __ldcg((const float*)rest_at(records, run.n_rows, sample) + 3);
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
                if (first + 32 * i >= end) break;
                sum += x[i];
                squares += x[i] * x[i];
            }
        }
        double total = warp_sum((double)sum), total_squares = warp_sum((double)squares);
        if ((threadIdx.x & 31) < GROUPS)
            write_moments(all.nets[threadIdx.x & 31], u, end - start, total, total_squares);
    }
}

// One group's part in an update of run `number` after its rollout of iteration `index`.
template <int OUTPUTS>
__device__ __forceinline__ void few_replicas_update(FewReplicasShared& all, const FewReplicasArgs& few_replicas,
                                            Weights<OUTPUTS>& mine, u32 number, u32 index) {
    int net = mine.net, group = SPREAD ? 0 : net;
    NetworkBlocks blocks = {(u32)net, N_NETS};
    UpdateShared& shared = all.nets[group];
    SmallRun run = {few_replicas.seeds[number], few_replicas.run.n_envs, few_replicas.run.n_envs, few_replicas.run.iteration + index, 0u,
                    FIRST_AGENT, 0u, 0u};
    u32* records = records_of(few_replicas, number);
    double* totals = few_replicas.totals + number * N_TOTALS * N_NETS;
    NormaliserArgs normaliser = normaliser_of(few_replicas, number);
    // In the block that collects, which is the first with SPREAD.
    if (net == 0) learn_factors(normaliser, (double)N_STEPS * run.n_rows, 0u, 1u);
    if (KEEPS_KEYS && threadIdx.x < EPOCHS) all.keys[threadIdx.x] = Order::key_of(run, threadIdx.x);
    if (!SPREAD) {
        clear_inputs(shared.value_rows.x, 8 * 32 * LDX);
        // Every network is in its place.
        learners_wait();
        write_values(shared, all.nets[GROUPS - 1].net, records, run, blocks, StoredRows::without_values(run.n_rows));
    }
    // Values, keys and factors are there.
    learners_wait();
    const Schedule& now = few_replicas.schedule[number * few_replicas.run.schedules + index];
    write_advantages(shared, records, episodes_of(few_replicas, number), totals, run,
                     {now, reward_factor(normaliser)}, blocks);
    learners_wait();
    if (NORM_ADV) minibatch_moments(all, records, run);
    block_learners_wait();
    Minibatches minibatches(net, run, records, {0u, 1u}, now, all.keys);
    float norms = 0.0f, non_finite = 0.0f;
    mine.has_taken();
    float4* raw = SPREAD ? shared.raw : (float4*)shared.stage[0].h(1);
    typename Weights<OUTPUTS>::Ahead ahead;
    if (SPREAD) mine.fetch(ahead);
#pragma unroll 1
    for (int u = 0; u < N_UPDATES; ++u) {
        OwnTiles own = {};
        float one = minibatches.add(shared, u, own);
        if (!SPREAD) mine.fetch(ahead);
        DescentStep along = now.step(net, u);
        float norm = one * run_norm(all, mine.squares(raw, own), index * N_UPDATES + u);
        norms += norm;
        // It is infinite as soon as a square is, so what squares are blended into stays finite.
        if (norm < 3.0e38f)
            mine.step(shared.net, raw, ahead, own, one * clip_of(norm, now.max_grad_norm), along);
        else
            non_finite = 1.0f;
        publish();
        group_wait(group);
    }
    if (SPREAD) mine.keep(ahead);
    LossSums sums = minibatches.sums;
    write_losses(shared, sums, totals, blocks);
    learners_wait();
    if (net == 0 && threadIdx.x < 32) {
        Figures* figures = few_replicas.figures + ((unsigned long long)number * few_replicas.run.n_figures + index);
        write_metrics(totals, N_NETS, norms, non_finite, figures);
    }
}

// At turn t the collectors are at run t % 2 of the block's and its iteration t / 2, and the groups at
// what the turn before collected. With SPREAD a cluster has one run, so that in even turns there is nothing to learn.
template <int OUTPUTS>
__device__ __forceinline__ void few_replicas_learn(int net, FewReplicasShared& all, const FewReplicasArgs& few_replicas) {
    int group = SPREAD ? 0 : net;
    UpdateShared& shared = all.nets[group];
    Weights<OUTPUTS> mine(net, shared);
    u32 n_blocks = gridDim.x / FEW_REPLICAS_BLOCKS, own = blockIdx.x / FEW_REPLICAS_BLOCKS, other = own + n_blocks;
    u32 held = own;
    clear_inputs(shared.stage[0].x, TILE_INPUTS);
    load_net(shared.net, memory_of(few_replicas, own, net).parameters, group_thread(), GROUP_THREADS);
#pragma unroll 1
    for (u32 number = own; number < few_replicas.run.n_runs; number += n_blocks)
        mine.bring(memory_of(few_replicas, number, net));
    group_wait(group);
    mine.take(memory_of(few_replicas, own, net), shared.net);
    __syncthreads();
#pragma unroll 1
    for (u32 turn = 0; turn <= 2 * few_replicas.run.n_iterations; ++turn) {
        u32 number = turn & 1 ? own : other;
        wait_until_weights_are_taken();
        if (number < few_replicas.run.n_runs) {
            if (number != held) {
                mine.put_away();
                mine.take(memory_of(few_replicas, number, net), shared.net);
                held = number;
            }
            if (turn > 0)
                few_replicas_update(all, few_replicas, mine, number, (turn - 1) / 2);
        } else if (SPREAD && turn < 2 * few_replicas.run.n_iterations) {
            few_replicas_during_rollout(all, few_replicas, net, own, turn / 2);
        }
        __syncthreads();
    }
    mine.put_away();
#pragma unroll 1
    for (u32 number = own; number < few_replicas.run.n_runs; number += n_blocks)
        mine.give_back(memory_of(few_replicas, number, net));
}

#if SPREAD
#define FEW_REPLICAS_CLUSTER __cluster_dims__(FEW_REPLICAS_BLOCKS, 1, 1)
#else
#define FEW_REPLICAS_CLUSTER
#endif

extern "C" __global__ void FEW_REPLICAS_CLUSTER __launch_bounds__(FEW_REPLICAS_THREADS, 1)
    small_few_replicas(WarpRun world, WarpArrays arrays, WarpTables tables,
               const FewReplicasArgs few_replicas) {
    FewReplicasShared& all = *(FewReplicasShared*)few_replicas_shared;
    if (SPREAD) all.peer.begin();
    if (threadIdx.x < FEW_REPLICAS_LEARNERS) {
        // Blocks of both networks share their code; groups of a block, whose registers are few, have their own.
        constexpr int outputs = Role<0>::outputs, of_last = Role<N_NETS - 1>::outputs;
        if (SPREAD) return few_replicas_learn<outputs>(own_net(), all, few_replicas);
        if (threadIdx.x < GROUP_THREADS) return few_replicas_learn<outputs>(0, all, few_replicas);
        return few_replicas_learn<of_last>(N_NETS - 1, all, few_replicas);
    }
    __syncthreads();
#pragma unroll 1
    for (u32 turn = 0; turn <= 2 * few_replicas.run.n_iterations; ++turn) {
        u32 number = blockIdx.x / FEW_REPLICAS_BLOCKS + (turn & 1) * (gridDim.x / FEW_REPLICAS_BLOCKS);
        bool collects = turn < 2 * few_replicas.run.n_iterations && number < few_replicas.run.n_runs && own_net() == 0;
        FewNet net;
        if (collects) net.load(all.nets[0].net, threadIdx.x - FEW_REPLICAS_LEARNERS);
        weights_are_taken();
        if (collects) few_replicas_collect(all, few_replicas, world, arrays, tables, net, number, turn / 2);
        __syncthreads();
    }
}

// Sizes that the host needs to know.
extern "C" __global__ void small_sizes(const SizesArgs a) {
    write_sizes(a.sizes, sizeof(FewReplicasShared));
}

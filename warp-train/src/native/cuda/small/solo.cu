// Whole runs of few replicas in one launch: a block per network, the blocks of a run as a cluster, as
// many runs side by side as the device holds.
//
// Nothing is summed over more than a run's one or two blocks, so a run does not depend on how many
// others there are. All that one iteration leaves to the next is in shared memory, registers and arrays
// of the run's own; the host is needed when the schedule ends.
//
// Needs what collect_few.cu, advantages.cuh and descent.cuh need. For up to eight replicas
// a run.
#include "collect_few.cu"
#include "advantages.cuh"
#include "descent.cuh"

extern __shared__ __align__(128) unsigned char solo_shared[];

// Which runs a launch takes, and how far.
struct SoloRun {
    u32 n_envs;        // of one run
    u32 iteration;     // iterations done
    u32 n_iterations;  // to do
    u32 begins;        // whether episodes begin with the launch
    u32 schedules;     // rows from one run's schedule to the next's; 0: all have the same
    u32 n_metrics;     // rows of figures of a run
};

// Waits for the run's other block, whose writes are seen from then on.
__device__ __forceinline__ void run_wait() {
    if (N_NETS == 1) {
        __syncthreads();
        return;
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\n barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

// The norm over both networks from this block's sum of squares, `turn` by turn in another place.
__device__ __forceinline__ float run_norm(UpdateShared& shared, float squares, u32 rank, int turn) {
    squares = warp_sum(squares);
    if ((threadIdx.x & 31) == 0) shared.norms[threadIdx.x / 32] = squares;
    __syncthreads();
    if (threadIdx.x < N_NETS) {
        float sum = 0.0f;
        for (int i = 0; i < 8; ++i) sum += shared.norms[i];
        u32 place = shared_address(&shared.pair[turn][rank]), there;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(place), "r"(threadIdx.x));
        asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(sum) : "memory");
    }
    run_wait();
    float sum = shared.pair[turn][0];
    if (N_NETS == 2) sum += shared.pair[turn][1];
    return sqrtf(sum);
}

// The rollout of all of a run's replicas; a function of its own, as its loop needs the registers.
__device__ __noinline__ void solo_collect(const SoloRun& solo, const WarpRun& world,
                                          const WarpArrays& arrays, const WarpTables& tables,
                                          u32* records, float* episodes, u32 first, u32 index) {
    UpdateShared& shared = *(UpdateShared*)solo_shared;
    if (threadIdx.x >= FEW_THREADS) return;
    FewShared& place = *(FewShared*)shared.stage[0].h(1);
    u32 row = (threadIdx.x & 31) / 4, before = *arrays.run_step + index * N_STEPS;
    bool writes = row < solo.n_envs && threadIdx.x < 32 && (threadIdx.x & 3) == 0;
    row = row < solo.n_envs ? row : solo.n_envs - 1;
    Env env = warp_env(tables);
    Replica replica;
    replica.begin(env, arrays, before, first + row, row);
    if (solo.begins && index == 0) {
        warp_begin(env, world, arrays, first + row, before, replica.state);
        replica.length = 0u;
        replica.total = 0.0f;
        replica.seen.look(env, replica.state, nullptr);
    }
    collect_few(replica, env, world, arrays, shared.net, place, records, solo.n_envs, writes);
    if (writes) replica.finish(env, arrays, records, episodes, solo.n_envs);
}

// Memory of one run, and its place among the launch's.
struct SoloMemory {
    u32* records;
    float* episodes;
    const float* schedule;
    double* totals;
    double* metrics;
    u32 first;  // of its replicas in the environment's arrays
};

template <int NET>
__device__ void solo_run(UpdateShared& shared, const SoloRun& solo, const WarpRun& world,
                         const WarpArrays& arrays, const WarpTables& tables,
                         const SoloMemory& run_memory, const Memory& memory, u32 rank) {
    Own<NET> mine;
    mine.load(shared, memory);
    SmallRun run = {world.seed, solo.n_envs, solo.n_envs, 0u, 0u, FIRST_AGENT, 0u, 0u, 0u};
    Fellows blocks = {rank, N_NETS};
    const SoloMemory& at = run_memory;
    int turn = 0;
#pragma unroll 1
    for (u32 index = 0; index < solo.n_iterations; ++index) {
        run.iteration = solo.iteration + index;
        if (Role<NET>::policy)
            solo_collect(solo, world, arrays, tables, at.records, at.episodes, at.first, index);
        run_wait();
        if (Role<NET>::value) {
            clear_inputs(shared.value_rows.x, 8 * 32);
            __syncthreads();
            write_values(shared, at.records, run, {0u, 1u});
        }
        run_wait();
        write_advantages(shared, at.records, at.episodes, at.totals, run, blocks);
        run_wait();
        if (NORM_ADV) read_moments(shared, at.totals, run, N_NETS);
        __syncthreads();
        const float* row = at.schedule + (unsigned long long)index * SCHEDULE_WIDTH;
        Minibatches<NET> minibatches(run, at.records, {0u, 1u}, row);
        float norms = 0.0f, broken = 0.0f;
#pragma unroll 1
        for (int u = 0; u < N_UPDATES; ++u) {
            OwnTiles own = {};
            float one = minibatches.add(shared, u, own), squares = 0.0f;
            float4 g[OWN_TILES];
#pragma unroll
            for (int t = 0; t < OWN_TILES; ++t) {
                float4 x = mine.gradient(own, t);
                g[t] = make_float4(x.x * one, x.y * one, x.z * one, x.w * one);
                squares += g[t].x * g[t].x + g[t].y * g[t].y + g[t].z * g[t].z + g[t].w * g[t].w;
            }
            typename Own<NET>::Ahead ahead;
            mine.fetch(ahead);
            float norm = run_norm(shared, squares, rank, turn);
            turn = 1 - turn;
            norms += norm;
            if (norm < 3.0e38f)
                mine.step(shared.net, ahead, g, clip_of(norm), row[2 + 2 * u], row[3 + 2 * u]);
            else
                broken = 1.0f;
            __syncthreads();
        }
        write_losses(shared, minibatches.sums, at.totals, blocks);
        run_wait();
        if (rank == 0 && threadIdx.x < 32)
            write_metrics(at.totals, N_NETS, norms, broken, at.metrics + index * N_METRICS);
        __syncthreads();
    }
    mine.store(memory);
}

extern "C" __global__ void __cluster_dims__(N_NETS, 1, 1) __launch_bounds__(256, BLOCKS)
    small_solo(SoloRun solo, WarpRun world, WarpArrays arrays, WarpTables tables,
               const unsigned long long* seeds, float* parameters, float* exp_avg,
               float* exp_avg_sq, u32* records, const float* schedule, float* episodes,
               float* state, double* totals, double* metrics) {
    UpdateShared& shared = *(UpdateShared*)solo_shared;
    u32 number = blockIdx.x / N_NETS, rank = blockIdx.x % N_NETS;
    unsigned long long n = number, words = RECORD_UNITS * 4;
    u32 offset = number * N_NETS * N_PARAMETERS + rank * N_PARAMETERS;
    Memory own = {parameters + offset, exp_avg + offset, exp_avg_sq + offset,
                  (float4*)state + (unsigned long long)blockIdx.x * 3 * OWN_TILES * GROUP_THREADS};
    SoloMemory at = {records + n * (N_STEPS + 1 + CUTS) * solo.n_envs * words,
                     episodes + n * 7 * solo.n_envs,
                     schedule + n * solo.schedules * SCHEDULE_WIDTH,
                     totals + n * N_TOTALS * N_NETS,
                     metrics + n * solo.n_metrics * N_METRICS,
                     number * solo.n_envs};
    // Its replicas draw as if there were no others.
    world.seed = world.start_seed = seeds[number];
    world.first_replica = 0u - at.first;
    for (int s = 0; s < N_STAGES; ++s) clear_inputs(shared.stage[s].x, TILE_ROWS);
    load_net(shared.net, own.parameters, threadIdx.x, GROUP_THREADS);
    __syncthreads();
    if (rank == 0)
        solo_run<0>(shared, solo, world, arrays, tables, at, own, rank);
    else
        solo_run<SHARED_TRUNK ? 0 : 1>(shared, solo, world, arrays, tables, at, own, rank);
}

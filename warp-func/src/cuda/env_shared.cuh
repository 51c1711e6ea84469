// What the framework's kernels share, whatever the layout of threads: counting episodes, random
// actions, and the sums over ended episodes. The twin of executor/shard.rs, with env_thread.cu or
// env_team.cu. Kernels are divided into units by the macros WARP_HAS_*, one of which a unit defines.
//
// Before this file stand the declarations and the body; see env_kernels.rs.

__device__ inline void warp_count_episode(const WarpArrays& a, unsigned int r, unsigned int length,
                                          const float* returns, const float* statistics) {
    bool first = a.ended[r] == 0u;
    a.ended[r] += 1u;
    a.ended_length[r] += (float)length;
    float len = (float)length;
    if (first || len < a.ended_length_min[r]) a.ended_length_min[r] = len;
    if (first || len > a.ended_length_max[r]) a.ended_length_max[r] = len;
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        float value = returns[g];
        a.ended_return[g][r] += value;
        if (first || value < a.ended_return_min[g][r]) a.ended_return_min[g][r] = value;
        if (first || value > a.ended_return_max[g][r]) a.ended_return_max[g][r] = value;
    }
    for (int i = 0; i < WARP_N_STATISTICS; ++i) {
        a.ended_statistic[r * WARP_N_STATISTICS + i] += statistics[i];
        a.final_statistic[r * WARP_N_STATISTICS + i] = statistics[i];
    }
}

// A random action of each head or element of `agent`, within the masks: the twin of
// warp-sample's random_actions.
__device__ inline void warp_random_action(const WarpRun& run, const WarpArrays& a, unsigned int r,
                                          unsigned int step, int g, int agent, int* discrete,
                                          float* continuous) {
    WarpDraw replica = warp_draw(run.seed, run.first_replica + r, step, WARP_PURPOSE_RANDOM_ACTION);
    WarpDraw draw = warp_draw_agent(&replica, (unsigned int)(warp_first_agent(g) + agent));
    int width = warp_action_width(g);
    if (warp_continuous(g)) {
        for (int i = 0; i < width; ++i) {
            float low = warp_low(g, i), high = warp_high(g, i);
            bool below = low > -__int_as_float(0x7f800000), above = high < __int_as_float(0x7f800000);
            float value;
            if (below && above) {
                value = warp_draw_uniform_in(&draw, low, high);
                value = value < low ? low : value;
                value = value > high ? high : value;
            } else if (!below && !above) {
                value = warp_draw_normal(&draw);
            } else if (below) {
                value = low - warp_ln(1.0f - warp_draw_uniform(&draw));
            } else {
                value = high + warp_ln(1.0f - warp_draw_uniform(&draw));
            }
            continuous[i] = value;
        }
        return;
    }
    int first = (int)((r * warp_agents(g) + agent) * warp_mask_width(g));
    for (int head = 0; head < width; ++head) {
        int size = warp_head(g, head);
        if (warp_mask_width(g) == 0) {
            discrete[head] = (int)warp_draw_below(&draw, (unsigned int)size);
            continue;
        }
        const unsigned char* mask = a.action_mask[g] + first;
        unsigned int allowed = 0u;
        for (int i = 0; i < size; ++i) allowed += mask[i] != 0 ? 1u : 0u;
        unsigned int nth = warp_draw_below(&draw, allowed);
        int choice = 0;
        for (int i = 0; i < size; ++i) {
            if (mask[i] == 0) continue;
            if (nth == 0u) choice = i;
            nth -= 1u;
        }
        discrete[head] = choice;
        first += size;
    }
}

// Counts what the only block has done.
__device__ inline void warp_count(const WarpArrays& a, unsigned int steps) {
    if (steps == 0u) return;
    __syncthreads();
    if (threadIdx.x == 0) *a.run_step += steps;
}

#if WARP_HAS_STEP
extern "C" __global__ void warp_tick(WarpArrays a, unsigned int steps) { *a.run_step += steps; }
#endif

// What kernels get of one of several runs.
struct WarpOfRun {
    WarpTables tables;
    WarpArrays a;
    WarpRun run;
};

#if WARP_HAS_RUNS
extern "C" __global__ void warp_tick_runs(const WarpOfRun* runs, unsigned int n, unsigned int steps) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) *runs[i].a.run_step += steps;
}
#endif

// ---- Ended episodes: sums over replicas, in an order that depends on nothing but their number ----

// Per block: count, then sum, minimum and maximum of the length and of each group's return, then
// the sums of the statistics.
#define WARP_TOTALS (1 + 3 * (1 + N_GROUPS) + WARP_N_STATISTICS)

__device__ inline void warp_merge(double* into, const double* from) {
    into[0] += from[0];
    for (int i = 0; i < 1 + N_GROUPS; ++i) {
        int at = 1 + 3 * i;
        into[at] += from[at];
        if (from[0] > 0.0) {
            into[at + 1] = from[at + 1] < into[at + 1] ? from[at + 1] : into[at + 1];
            into[at + 2] = from[at + 2] > into[at + 2] ? from[at + 2] : into[at + 2];
        }
    }
    for (int i = 1 + 3 * (1 + N_GROUPS); i < WARP_TOTALS; ++i) into[i] += from[i];
}

__device__ inline void warp_no_totals(double* totals) {
    for (int i = 0; i < WARP_TOTALS; ++i) totals[i] = 0.0;
    for (int i = 0; i < 1 + N_GROUPS; ++i) {
        totals[2 + 3 * i] = 1e300;
        totals[3 + 3 * i] = -1e300;
    }
}

// Takes the totals of this thread's replicas and starts them anew.
__device__ inline void warp_take(const WarpArrays& a, unsigned int r, double* into) {
    if (a.ended[r] == 0u) return;
    double own[WARP_TOTALS];
    own[0] = (double)a.ended[r];
    own[1] = (double)a.ended_length[r];
    own[2] = (double)a.ended_length_min[r];
    own[3] = (double)a.ended_length_max[r];
    a.ended[r] = 0u;
    a.ended_length[r] = 0.0f;
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        own[4 + 3 * g] = (double)a.ended_return[g][r];
        own[5 + 3 * g] = (double)a.ended_return_min[g][r];
        own[6 + 3 * g] = (double)a.ended_return_max[g][r];
        a.ended_return[g][r] = 0.0f;
    }
    for (int i = 0; i < WARP_N_STATISTICS; ++i) {
        own[1 + 3 * (1 + N_GROUPS) + i] = (double)a.ended_statistic[r * WARP_N_STATISTICS + i];
        a.ended_statistic[r * WARP_N_STATISTICS + i] = 0.0f;
    }
    warp_merge(into, own);
}

#if WARP_HAS_STEP || WARP_HAS_RUNS
#define WARP_TOTALS_THREADS 64

__device__ inline void warp_merge_block(double* own, double* out) {
    __shared__ double all[WARP_TOTALS_THREADS][WARP_TOTALS];
    for (int i = 0; i < WARP_TOTALS; ++i) all[threadIdx.x][i] = own[i];
    for (int half = WARP_TOTALS_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half) warp_merge(all[threadIdx.x], all[threadIdx.x + half]);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < WARP_TOTALS; i += WARP_TOTALS_THREADS) out[i] = all[0][i];
}

// Takes what replicas of block number `block` of so many have.
__device__ inline void warp_take_block(const WarpArrays& a, const WarpRun& run, unsigned int block,
                                       unsigned int blocks, double* partial) {
    double own[WARP_TOTALS];
    warp_no_totals(own);
    for (unsigned int r = block * blockDim.x + threadIdx.x; r < run.n_envs; r += blocks * blockDim.x)
        warp_take(a, r, own);
    warp_merge_block(own, partial);
}
#endif

#if WARP_HAS_STEP
extern "C" __global__ void __launch_bounds__(WARP_TOTALS_THREADS)
    warp_take_episodes(WarpArrays a, WarpRun run, double* partial) {
    warp_take_block(a, run, blockIdx.x, gridDim.x, partial + blockIdx.x * WARP_TOTALS);
}

// A block for each run, whose partial sums and totals lie behind those of the runs before it.
extern "C" __global__ void __launch_bounds__(WARP_TOTALS_THREADS)
    warp_merge_episodes(const double* partial, unsigned int n_partials, double* totals) {
    double own[WARP_TOTALS];
    warp_no_totals(own);
    partial += blockIdx.x * n_partials * WARP_TOTALS;
    for (unsigned int i = threadIdx.x; i < n_partials; i += blockDim.x)
        warp_merge(own, partial + i * WARP_TOTALS);
    warp_merge_block(own, totals + blockIdx.x * WARP_TOTALS);
}
#endif

#if WARP_HAS_RUNS
// `blocks` for each run.
extern "C" __global__ void __launch_bounds__(WARP_TOTALS_THREADS)
    warp_take_episodes_runs(const WarpOfRun* runs, unsigned int blocks, double* partial) {
    const WarpOfRun& one = runs[blockIdx.x / blocks];
    warp_take_block(one.a, one.run, blockIdx.x % blocks, blocks, partial + blockIdx.x * WARP_TOTALS);
}
#endif

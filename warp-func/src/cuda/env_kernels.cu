// The framework's kernels around an environment's body: reset, observe, step, and a cycle of many
// steps with random actions. The twin of executor/shard.rs.
//
// Before this file stand the declarations and the body; see env_kernels.rs.

// ---- What both layouts share ----

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

extern "C" __global__ void warp_tick(WarpArrays a, unsigned int steps) { *a.run_step += steps; }

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

extern "C" __global__ void __launch_bounds__(WARP_TOTALS_THREADS)
    warp_take_episodes(WarpArrays a, WarpRun run, double* partial) {
    double own[WARP_TOTALS];
    warp_no_totals(own);
    for (unsigned int r = blockIdx.x * blockDim.x + threadIdx.x; r < run.n_envs;
         r += gridDim.x * blockDim.x)
        warp_take(a, r, own);
    warp_merge_block(own, partial + blockIdx.x * WARP_TOTALS);
}

extern "C" __global__ void __launch_bounds__(WARP_TOTALS_THREADS)
    warp_merge_episodes(const double* partial, unsigned int n_partials, double* totals) {
    double own[WARP_TOTALS];
    warp_no_totals(own);
    for (unsigned int i = threadIdx.x; i < n_partials; i += blockDim.x)
        warp_merge(own, partial + i * WARP_TOTALS);
    warp_merge_block(own, totals);
}

#if WARP_SCALARS
// ---- One thread per replica, its state in registers ----

// What a replica carries from step to step.
struct WarpReplica {
    State state;
    unsigned int length;
    float returns[N_GROUPS];
    float statistics[WARP_N_STATISTICS > 0 ? WARP_N_STATISTICS : 1];
};

template <int width>
__device__ inline void warp_write_row(float* to, const float* from) {
    if (width % 4 == 0) {
#pragma unroll
        for (int i = 0; i < width / 4; ++i)
            ((float4*)to)[i] =
                make_float4(from[4 * i], from[4 * i + 1], from[4 * i + 2], from[4 * i + 3]);
    } else if (width % 2 == 0) {
#pragma unroll
        for (int i = 0; i < width / 2; ++i)
            ((float2*)to)[i] = make_float2(from[2 * i], from[2 * i + 1]);
    } else {
#pragma unroll
        for (int i = 0; i < width; ++i) to[i] = from[i];
    }
}

// Room for what one replica's agents see, group after group.
struct WarpSeen {
    float obs[WARP_OBS_TOTAL];
    unsigned char mask[WARP_MASK_TOTAL > 0 ? WARP_MASK_TOTAL : 1];
    float global[WARP_GLOBAL_WIDTH > 0 ? WARP_GLOBAL_WIDTH : 1];
};

// What group `g` sees, to the replica's row.
template <int g>
__device__ inline void warp_write_obs(float* const* to, unsigned int r, const WarpSeen& seen) {
    constexpr int width = warp_agents(g) * warp_obs_width(g);
    warp_write_row<width>(to[g] + (unsigned long long)r * width, seen.obs + warp_obs_offset(g));
}

__device__ inline void warp_see(const Env& env, const State& state, WarpSeen& seen) {
    Observation out;
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        out.obs[g] = seen.obs + warp_obs_offset(g);
        out.action_mask[g] = seen.mask + warp_mask_offset(g);
    }
    out.global = seen.global;
    observe(env, state, out);
}

// Writes what is seen to the replica's rows of `obs`, masks and global observation included.
__device__ inline void warp_write_seen(const WarpArrays& a, unsigned int r, const WarpSeen& seen) {
    WARP_EACH_GROUP(warp_write_obs, a.obs, r, seen)
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        const int width = warp_agents(g) * warp_mask_width(g);
        for (int i = 0; i < width; ++i)
            a.action_mask[g][r * width + i] = seen.mask[warp_mask_offset(g) + i];
    }
    for (int i = 0; i < WARP_GLOBAL_WIDTH; ++i)
        a.global_obs[r * WARP_GLOBAL_WIDTH + i] = seen.global[i];
}

__device__ inline WarpReplica warp_load_replica(const WarpArrays& a, unsigned int r) {
    WarpReplica replica;
    replica.state = warp_load(a, r);
    replica.length = a.episode_length[r];
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) replica.returns[g] = a.episode_return[g][r];
    for (int i = 0; i < WARP_N_STATISTICS; ++i)
        replica.statistics[i] = a.statistic[r * WARP_N_STATISTICS + i];
    return replica;
}

__device__ inline void warp_save_replica(const WarpArrays& a, unsigned int r,
                                         const WarpReplica& replica) {
    warp_save(a, r, replica.state);
    a.episode_length[r] = replica.length;
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) a.episode_return[g][r] = replica.returns[g];
    for (int i = 0; i < WARP_N_STATISTICS; ++i)
        a.statistic[r * WARP_N_STATISTICS + i] = replica.statistics[i];
}

__device__ inline void warp_begin_replica(const Env& env, const WarpRun& run, const WarpArrays& a,
                                          unsigned int r, unsigned int step, WarpReplica& replica) {
    warp_begin(env, run, a, r, step, replica.state);
    replica.length = 0u;
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        replica.returns[g] = 0.0f;
        for (int i = 0; i < (warp_mortal(g) ? warp_agents(g) : 0); ++i)
            a.alive[g][r * warp_agents(g) + i] = 1;
    }
    for (int i = 0; i < WARP_N_STATISTICS; ++i) replica.statistics[i] = 0.0f;
}

// One step of one replica, everything that a learner would read written.
__device__ inline void warp_advance(const Env& env, const WarpRun& run, const WarpArrays& a,
                                    unsigned int r, unsigned int step, const Actions& actions,
                                    WarpReplica& replica) {
    float reward[WARP_AGENTS_TOTAL];
    StepOut out;
#pragma unroll
    for (int i = 0; i < WARP_AGENTS_TOTAL; ++i) reward[i] = 0.0f;
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        out.reward[g] = reward + warp_first_agent(g);
        out.alive[g] = warp_mortal(g) ? a.alive[g] + r * warp_agents(g) : 0;
        for (int i = 0; i < (warp_mortal(g) ? warp_agents(g) : 0); ++i)
            a.agent_terminated[g][r * warp_agents(g) + i] = out.alive[g][i];
    }
    out.terminated = false;
    out.statistics = replica.statistics;
    WarpDraw draw = warp_draw(run.seed, run.first_replica + r, step, WARP_PURPOSE_STEP);
    ::step(env, replica.state, actions, draw, out);
    replica.length += 1u;
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        // From -0 as Rust's sum: 0 + -0 would be 0.
        float total = -0.0f;
        for (int i = 0; i < warp_agents(g); ++i) {
            float value = reward[warp_first_agent(g) + i];
            a.reward[g][r * warp_agents(g) + i] = value;
            total += value;
        }
        replica.returns[g] += total;
    }
    bool over = replica.length >= WARP_TIME_LIMIT;
    bool terminated = out.terminated || (WARP_LIMIT_TERMINATES && over);
    bool truncated = !WARP_LIMIT_TERMINATES && over && !terminated;
    a.terminated[r] = terminated;
    a.truncated[r] = truncated;
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        for (int i = 0; i < (warp_mortal(g) ? warp_agents(g) : 0); ++i) {
            unsigned char* left = a.agent_terminated[g] + r * warp_agents(g) + i;
            *left = *left & ((terminated ? 1 : 0) | (1 - out.alive[g][i]));
        }
    }
    WarpSeen seen;
    warp_see(env, replica.state, seen);
    if (terminated || truncated) {
        WARP_EACH_GROUP(warp_write_obs, a.final_obs, r, seen)
        warp_count_episode(a, r, replica.length, replica.returns, replica.statistics);
        if (run.auto_reset) {
            warp_begin_replica(env, run, a, r, step, replica);
            warp_see(env, replica.state, seen);
        }
    }
    warp_write_seen(a, r, seen);
}

extern "C" __global__ void warp_reset(WarpTables tables, WarpArrays a, WarpRun run) {
    unsigned int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= run.n_envs) return;
    Env env = warp_env(tables);
    WarpReplica replica;
    WarpSeen seen;
    warp_begin_replica(env, run, a, r, *a.run_step, replica);
    warp_see(env, replica.state, seen);
    warp_write_seen(a, r, seen);
    warp_save_replica(a, r, replica);
    a.terminated[r] = 0;
    a.truncated[r] = 0;
}

extern "C" __global__ void warp_observe(WarpTables tables, WarpArrays a, WarpRun run) {
    unsigned int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= run.n_envs) return;
    Env env = warp_env(tables);
    State state = warp_load(a, r);
    WarpSeen seen;
    warp_see(env, state, seen);
    warp_write_seen(a, r, seen);
}

__device__ inline Actions warp_actions(const WarpArrays& a, unsigned int r) {
    Actions actions;
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        int width = warp_agents(g) * warp_action_width(g);
        actions.discrete[g] = warp_continuous(g) ? 0 : a.discrete[g] + r * width;
        actions.continuous[g] = warp_continuous(g) ? a.continuous[g] + r * width : 0;
    }
    return actions;
}

extern "C" __global__ void warp_step(WarpTables tables, WarpArrays a, WarpRun run) {
    unsigned int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= run.n_envs) return;
    Env env = warp_env(tables);
    WarpReplica replica = warp_load_replica(a, r);
    warp_advance(env, run, a, r, *a.run_step + 1u, warp_actions(a, r), replica);
    warp_save_replica(a, r, replica);
}

extern "C" __global__ void warp_cycle(WarpTables tables, WarpArrays a, WarpRun run,
                                      unsigned int steps) {
    unsigned int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= run.n_envs) return;
    Env env = warp_env(tables);
    WarpReplica replica = warp_load_replica(a, r);
    unsigned int first = *a.run_step;
    for (unsigned int t = 0; t < steps; ++t) {
        int discrete[WARP_ACTIONS_TOTAL];
        float continuous[WARP_ACTIONS_TOTAL];
        Actions actions;
#pragma unroll
        for (int g = 0; g < N_GROUPS; ++g) {
            int offset = warp_action_offset(g), width = warp_action_width(g);
            actions.discrete[g] = discrete + offset;
            actions.continuous[g] = continuous + offset;
            for (int i = 0; i < warp_agents(g); ++i) {
                int at = offset + i * width;
                warp_random_action(run, a, r, first + t, g, i, discrete + at, continuous + at);
                for (int d = 0; d < width; ++d) {
                    unsigned int place = (r * warp_agents(g) + i) * width + d;
                    if (warp_continuous(g)) a.continuous[g][place] = continuous[at + d];
                    else a.discrete[g][place] = discrete[at + d];
                }
            }
        }
        warp_advance(env, run, a, r, first + t + 1u, actions, replica);
    }
    warp_save_replica(a, r, replica);
}

#else
// ---- A team of threads per replica, its state in rows ----

// The replica of this thread's team. Teams share a block only if they are part of a warp each, so a
// team without a replica may leave.
__device__ inline unsigned int warp_replica() {
    return blockIdx.x * WARP_TEAMS + threadIdx.x / WARP_TEAM;
}

extern __shared__ __align__(16) unsigned int warp_words[];

// The replica's state: in shared memory if it fits there, else its rows.
__device__ inline State warp_team_state(const WarpArrays& a, unsigned int r) {
#if WARP_STATE_IN_SHARED
    return warp_view_words(warp_words + threadIdx.x / WARP_TEAM * WARP_STATE_WORDS);
#else
    return warp_view(a, r);
#endif
}

__device__ inline void warp_team_load(const WarpArrays& a, unsigned int r, State& state) {
#if WARP_STATE_IN_SHARED
    State rows = warp_view(a, r);
    warp_copy_state(state, rows);
    warp_sync();
#endif
}

__device__ inline void warp_team_save(const WarpArrays& a, unsigned int r, State& state) {
#if WARP_STATE_IN_SHARED
    warp_sync();
    State rows = warp_view(a, r);
    warp_copy_state(rows, state);
#endif
}

__device__ inline Observation warp_place(const WarpArrays& a, float* const* obs, unsigned int r) {
    Observation out;
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        out.obs[g] = obs[g] + (unsigned long long)r * warp_agents(g) * warp_obs_width(g);
        out.action_mask[g] =
            warp_mask_width(g) ? a.action_mask[g] + r * warp_agents(g) * warp_mask_width(g) : 0;
    }
    out.global = WARP_GLOBAL_WIDTH ? a.global_obs + r * WARP_GLOBAL_WIDTH : 0;
    return out;
}

// What a replica carries from step to step beside its state.
struct WarpEpisode {
    unsigned int length;
    float returns[N_GROUPS];
    float statistics[WARP_N_STATISTICS > 0 ? WARP_N_STATISTICS : 1];
};

// Small enough, a step's inputs and outputs pass through shared memory: threads that read what
// others wrote do not wait for global memory, and rewards are written to it once.
#define WARP_STAGED ((WARP_AGENTS_TOTAL * 6 + WARP_ACTIONS_TOTAL * 4) * WARP_TEAMS <= 16384)
#define WARP_STAGED_AGENTS (WARP_STAGED ? WARP_AGENTS_TOTAL : 1)
#define WARP_STAGED_ACTIONS (WARP_STAGED ? WARP_ACTIONS_TOTAL : 1)

struct WarpStage {
    WarpEpisode episode;
    float reward[WARP_STAGED_AGENTS];
    int actions[WARP_STAGED_ACTIONS];
    unsigned char alive[WARP_STAGED_AGENTS];
    unsigned char left[WARP_STAGED_AGENTS];
};

// Where one team finds and leaves what belongs to its replica.
struct WarpPlace {
    WarpEpisode* episode;
    float* reward[N_GROUPS];
    unsigned char* alive[N_GROUPS];
    unsigned char* left[N_GROUPS];
    int* discrete[N_GROUPS];
    float* continuous[N_GROUPS];
};

__device__ inline WarpPlace warp_team_place(const WarpArrays& a, unsigned int r) {
    __shared__ WarpStage stages[WARP_TEAMS];
    WarpStage& stage = stages[warp_team()];
    WarpPlace place;
    place.episode = &stage.episode;
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        unsigned int agents = r * warp_agents(g), actions = agents * warp_action_width(g);
        if (WARP_STAGED) {
            int first = warp_first_agent(g);
            place.reward[g] = stage.reward + first;
            place.alive[g] = stage.alive + first;
            place.left[g] = stage.left + first;
            place.discrete[g] = stage.actions + warp_action_offset(g);
            place.continuous[g] = (float*)(stage.actions + warp_action_offset(g));
        } else {
            place.reward[g] = a.reward[g] + agents;
            place.alive[g] = warp_mortal(g) ? a.alive[g] + agents : 0;
            place.left[g] = warp_mortal(g) ? a.agent_terminated[g] + agents : 0;
            place.discrete[g] = warp_continuous(g) ? 0 : a.discrete[g] + actions;
            place.continuous[g] = warp_continuous(g) ? a.continuous[g] + actions : 0;
        }
    }
    return place;
}

__device__ inline void warp_load_place(const WarpArrays& a, unsigned int r, const WarpPlace& at) {
    if (warp_first() == 0) {
        at.episode->length = a.episode_length[r];
#pragma unroll
        for (int g = 0; g < N_GROUPS; ++g) at.episode->returns[g] = a.episode_return[g][r];
        for (int i = 0; i < WARP_N_STATISTICS; ++i)
            at.episode->statistics[i] = a.statistic[r * WARP_N_STATISTICS + i];
    }
    if (!WARP_STAGED) return;
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        if (!warp_mortal(g)) continue;
        for (int i = warp_first(); i < warp_agents(g); i += warp_stride())
            at.alive[g][i] = a.alive[g][r * warp_agents(g) + i];
    }
}

__device__ inline void warp_save_place(const WarpArrays& a, unsigned int r, const WarpPlace& at) {
    if (warp_first() == 0) {
        a.episode_length[r] = at.episode->length;
#pragma unroll
        for (int g = 0; g < N_GROUPS; ++g) a.episode_return[g][r] = at.episode->returns[g];
        for (int i = 0; i < WARP_N_STATISTICS; ++i)
            a.statistic[r * WARP_N_STATISTICS + i] = at.episode->statistics[i];
    }
    if (!WARP_STAGED) return;
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        if (!warp_mortal(g)) continue;
        for (int i = warp_first(); i < warp_agents(g); i += warp_stride())
            a.alive[g][r * warp_agents(g) + i] = at.alive[g][i];
    }
}

// Takes the actions that lie in the arrays.
__device__ inline void warp_load_actions(const WarpArrays& a, unsigned int r, const WarpPlace& at) {
    if (!WARP_STAGED) return;
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        const int n = warp_agents(g) * warp_action_width(g);
        for (int i = warp_first(); i < n; i += warp_stride()) {
            if (warp_continuous(g)) at.continuous[g][i] = a.continuous[g][r * n + i];
            else at.discrete[g][i] = a.discrete[g][r * n + i];
        }
    }
}

// Draws actions and leaves them in the arrays, too.
__device__ inline void warp_draw_actions(const WarpRun& run, const WarpArrays& a, unsigned int r,
                                         unsigned int step, const WarpPlace& at) {
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        const int width = warp_action_width(g);
        for (int i = warp_first(); i < warp_agents(g); i += warp_stride()) {
            int* discrete = warp_continuous(g) ? 0 : at.discrete[g] + i * width;
            float* continuous = warp_continuous(g) ? at.continuous[g] + i * width : 0;
            warp_random_action(run, a, r, step, g, i, discrete, continuous);
            if (!WARP_STAGED) continue;
            unsigned int place = (r * warp_agents(g) + i) * width;
            for (int d = 0; d < width; ++d) {
                if (warp_continuous(g)) a.continuous[g][place + d] = continuous[d];
                else a.discrete[g][place + d] = discrete[d];
            }
        }
    }
}

// A fresh state with its counters; ends with a barrier.
__device__ inline void warp_team_begin(const Env& env, const WarpRun& run, const WarpArrays& a,
                                       unsigned int r, unsigned int step, State& state,
                                       const WarpPlace& at) {
    if (run.start == 2u) {
        WarpDraw draw = warp_draw(run.seed, run.first_replica + r, step, WARP_PURPOSE_RESET);
        State row = warp_view_of(a.pool, warp_draw_below(&draw, run.pool_rows));
        warp_copy_state(state, row);
    } else {
        WarpDraw draw = run.start == 1u
            ? warp_draw(run.start_seed, 0u, 0u, WARP_PURPOSE_RESET)
            : warp_draw(run.seed, run.first_replica + r, step, WARP_PURPOSE_RESET);
        reset(env, state, draw);
    }
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        if (!warp_mortal(g)) continue;
        for (int i = warp_first(); i < warp_agents(g); i += warp_stride()) at.alive[g][i] = 1;
    }
    if (warp_first() == 0) {
        at.episode->length = 0u;
#pragma unroll
        for (int g = 0; g < N_GROUPS; ++g) at.episode->returns[g] = 0.0f;
        for (int i = 0; i < WARP_N_STATISTICS; ++i) at.episode->statistics[i] = 0.0f;
    }
    warp_sync();
}

__device__ inline void warp_team_before(const WarpPlace& at) {
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        for (int i = warp_first(); i < warp_agents(g); i += warp_stride()) {
            at.reward[g][i] = 0.0f;
            if (warp_mortal(g)) at.left[g][i] = at.alive[g][i];
        }
    }
}

// Adds the step's rewards to the episode's and finds out whether it ended: 1 terminated, 2
// truncated. Called by all threads of the team.
__device__ inline int warp_team_account(const WarpArrays& a, unsigned int r, bool terminated,
                                        const WarpPlace& at) {
    int ends = 0;
    for (int g = warp_first(); g < N_GROUPS; g += warp_stride()) {
        // From -0 as Rust's sum: 0 + -0 would be 0.
        float total = -0.0f;
        for (int i = 0; i < warp_agents(g); ++i) total += at.reward[g][i];
        at.episode->returns[g] += total;
    }
    if (warp_first() == 0) {
        unsigned int length = at.episode->length + 1u;
        at.episode->length = length;
        bool over = length >= WARP_TIME_LIMIT;
        terminated = terminated || (WARP_LIMIT_TERMINATES && over);
        bool truncated = !WARP_LIMIT_TERMINATES && over && !terminated;
        a.terminated[r] = terminated;
        a.truncated[r] = truncated;
        ends = terminated ? 1 : truncated ? 2 : 0;
    }
    return warp_team_sum(ends);
}

// Writes the step's rewards, and who left in it.
__device__ inline void warp_team_after(const WarpArrays& a, unsigned int r, int over,
                                       const WarpPlace& at) {
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        for (int i = warp_first(); i < warp_agents(g); i += warp_stride()) {
            unsigned int place = r * warp_agents(g) + i;
            if (WARP_STAGED) a.reward[g][place] = at.reward[g][i];
            if (warp_mortal(g))
                a.agent_terminated[g][place] = at.left[g][i] & (over | (1 - at.alive[g][i]));
            if (WARP_STAGED && warp_mortal(g)) a.alive[g][place] = at.alive[g][i];
        }
    }
}

// One step of one replica, everything that a learner would read written.
__device__ inline void warp_team_advance(const Env& env, const WarpRun& run, const WarpArrays& a,
                                         unsigned int r, unsigned int step, State& state,
                                         const WarpPlace& at) {
    Actions actions;
    StepOut out;
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        actions.discrete[g] = at.discrete[g];
        actions.continuous[g] = at.continuous[g];
        out.reward[g] = at.reward[g];
        out.alive[g] = at.alive[g];
    }
    out.terminated = false;
    out.statistics = at.episode->statistics;
    warp_team_before(at);
    warp_sync();
    WarpDraw draw = warp_draw(run.seed, run.first_replica + r, step, WARP_PURPOSE_STEP);
    ::step(env, state, actions, draw, out);
    warp_sync();
    int ends = warp_team_account(a, r, out.terminated, at);
    warp_team_after(a, r, ends & 1, at);
    if (ends == 0) {
        Observation seen = warp_place(a, a.obs, r);
        observe(env, state, seen);
        warp_sync();
        return;
    }
    Observation last = warp_place(a, a.final_obs, r);
    observe(env, state, last);
    warp_sync();
    if (warp_first() == 0)
        warp_count_episode(a, r, at.episode->length, at.episode->returns, at.episode->statistics);
    warp_sync();
    if (!run.auto_reset) {
        Observation seen = warp_place(a, a.obs, r);
        observe(env, state, seen);
        warp_sync();
        return;
    }
    warp_team_begin(env, run, a, r, step, state, at);
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        if (!warp_mortal(g) || !WARP_STAGED) continue;
        for (int i = warp_first(); i < warp_agents(g); i += warp_stride())
            a.alive[g][r * warp_agents(g) + i] = 1;
    }
    Observation seen = warp_place(a, a.obs, r);
    observe(env, state, seen);
    warp_sync();
}

#define WARP_TEAM_BOUNDS __launch_bounds__(WARP_TEAM * WARP_TEAMS)

extern "C" __global__ void WARP_TEAM_BOUNDS warp_reset(WarpTables tables, WarpArrays a,
                                                       WarpRun run) {
    unsigned int r = warp_replica();
    if (r >= run.n_envs) return;
    Env env = warp_env(tables);
    State state = warp_team_state(a, r);
    WarpPlace at = warp_team_place(a, r);
    warp_team_begin(env, run, a, r, *a.run_step, state, at);
    Observation seen = warp_place(a, a.obs, r);
    observe(env, state, seen);
    warp_team_save(a, r, state);
    warp_save_place(a, r, at);
    if (warp_first() == 0) {
        a.terminated[r] = 0;
        a.truncated[r] = 0;
    }
}

extern "C" __global__ void WARP_TEAM_BOUNDS warp_observe(WarpTables tables, WarpArrays a,
                                                         WarpRun run) {
    unsigned int r = warp_replica();
    if (r >= run.n_envs) return;
    Env env = warp_env(tables);
    State state = warp_team_state(a, r);
    warp_team_load(a, r, state);
    Observation seen = warp_place(a, a.obs, r);
    observe(env, state, seen);
}

extern "C" __global__ void WARP_TEAM_BOUNDS warp_step(WarpTables tables, WarpArrays a,
                                                      WarpRun run) {
    unsigned int r = warp_replica();
    if (r >= run.n_envs) return;
    Env env = warp_env(tables);
    State state = warp_team_state(a, r);
    WarpPlace at = warp_team_place(a, r);
    warp_team_load(a, r, state);
    warp_load_place(a, r, at);
    warp_load_actions(a, r, at);
    warp_sync();
    warp_team_advance(env, run, a, r, *a.run_step + 1u, state, at);
    warp_team_save(a, r, state);
    warp_save_place(a, r, at);
}

extern "C" __global__ void WARP_TEAM_BOUNDS warp_cycle(WarpTables tables, WarpArrays a,
                                                       WarpRun run, unsigned int steps) {
    unsigned int r = warp_replica();
    if (r >= run.n_envs) return;
    Env env = warp_env(tables);
    State state = warp_team_state(a, r);
    WarpPlace at = warp_team_place(a, r);
    warp_team_load(a, r, state);
    warp_load_place(a, r, at);
    warp_sync();
    unsigned int first = *a.run_step;
    for (unsigned int t = 0; t < steps; ++t) {
        warp_draw_actions(run, a, r, first + t, at);
        warp_team_advance(env, run, a, r, first + t + 1u, state, at);
    }
    warp_team_save(a, r, state);
    warp_save_place(a, r, at);
}

#endif

// Reset, observe, step, and a cycle of many steps with random actions: one thread per replica, its
// state in registers.

// What a replica carries from step to step.
struct WarpReplica {
    State state;
    unsigned int length;
    float returns[N_GROUPS];
    float statistics[WARP_N_STATISTICS > 0 ? WARP_N_STATISTICS : 1];
#if WARP_ONE_HOT
    // The number that its row of `obs` shows; -1 if that is not known.
    int shown;
#endif
};

#if WARP_ONE_HOT
// What one replica's agent sees: a number.
struct WarpSeen {
    int number;
    unsigned char mask[WARP_MASK_TOTAL > 0 ? WARP_MASK_TOTAL : 1];
};

__device__ inline void warp_see(const Env&, const State& state, WarpSeen& seen) {
    seen.number = shown_number(state);
#if WARP_MASK_TOTAL > 0
    shown_mask(state, warp_slice(seen.mask, WARP_LEN_action_mask_0));
#endif
}

// It as the replica's row, one-hot.
template <int g>
__device__ inline void warp_write_obs(float* const* to, unsigned int r, const WarpSeen& seen) {
    constexpr int width = warp_obs_width(g), wide = width % 4 == 0 ? width / 4 : 0;
    float* row = to[g] + (unsigned long long)r * width;
#pragma unroll 4
    for (int i = 0; i < wide; ++i) ((float4*)row)[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 4
    for (int i = 4 * wide; i < width; ++i) row[i] = 0.0f;
    if ((unsigned int)seen.number < (unsigned int)width) row[seen.number] = 1.0f;
}

// Of a row that shows another number already, two elements change. A number out of range is shown by none.
__device__ inline void warp_show(const WarpArrays& a, unsigned int r, const WarpSeen& seen, WarpReplica& replica) {
    constexpr unsigned int width = warp_obs_width(0);
    float* row = a.obs[0] + (unsigned long long)r * width;
    bool exists = (unsigned int)seen.number < width;
    if (replica.shown < 0 || !exists) {
        warp_write_obs<0>(a.obs, r, seen);
    } else {
        row[replica.shown] = 0.0f;
        row[seen.number] = 1.0f;
    }
    replica.shown = exists ? seen.number : -1;
}
#else
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

__device__ inline void warp_show(const WarpArrays& a, unsigned int r, const WarpSeen& seen, WarpReplica&) {
    WARP_EACH_GROUP(warp_write_obs, a.obs, r, seen)
}
#endif

// Writes masks to the replica's rows of `to`.
__device__ inline void warp_write_masks(unsigned char* const* to, unsigned int r, const WarpSeen& seen) {
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        const int width = warp_agents(g) * warp_mask_width(g);
        for (int i = 0; i < width; ++i) to[g][r * width + i] = seen.mask[warp_mask_offset(g) + i];
    }
}

// Writes masks and the global observation to the replica's rows.
__device__ inline void warp_write_rest(const WarpArrays& a, unsigned int r, const WarpSeen& seen) {
    warp_write_masks(a.action_mask, r, seen);
#if WARP_GLOBAL_WIDTH > 0
    for (int i = 0; i < WARP_GLOBAL_WIDTH; ++i)
        a.global_obs[r * WARP_GLOBAL_WIDTH + i] = seen.global[i];
#endif
}

// Writes all that is seen to the replica's rows.
__device__ inline void warp_write_seen(const WarpArrays& a, unsigned int r, const WarpSeen& seen) {
    WARP_EACH_GROUP(warp_write_obs, a.obs, r, seen)
    warp_write_rest(a, r, seen);
}

__device__ inline WarpReplica warp_load_replica(const WarpArrays& a, unsigned int r) {
    WarpReplica replica;
    replica.state = warp_load(a, r);
    replica.length = a.episode_length[r];
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) replica.returns[g] = a.episode_return[g][r];
    for (int i = 0; i < WARP_N_STATISTICS; ++i)
        replica.statistics[i] = a.statistic[r * WARP_N_STATISTICS + i];
#if WARP_ONE_HOT
    replica.shown = -1;
#endif
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
        warp_write_masks(a.final_action_mask, r, seen);
        warp_count_episode(a, r, replica.length, replica.returns, replica.statistics);
        if (run.auto_reset) {
            warp_begin_replica(env, run, a, r, step, replica);
            warp_see(env, replica.state, seen);
        }
    }
    warp_show(a, r, seen, replica);
    warp_write_rest(a, r, seen);
}

#if WARP_HAS_RESET
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
#endif

#if WARP_HAS_OBSERVE
extern "C" __global__ void warp_observe(WarpTables tables, WarpArrays a, WarpRun run) {
    unsigned int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= run.n_envs) return;
    Env env = warp_env(tables);
    State state = warp_load(a, r);
    WarpSeen seen;
    warp_see(env, state, seen);
    warp_write_seen(a, r, seen);
}
#endif

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

__device__ inline void warp_step_block(const WarpTables& tables, const WarpArrays& a, const WarpRun& run,
                                       unsigned int block) {
    unsigned int r = block * blockDim.x + threadIdx.x;
    if (r >= run.n_envs) return;
    Env env = warp_env(tables);
    WarpReplica replica = warp_load_replica(a, r);
    warp_advance(env, run, a, r, *a.run_step + 1u, warp_actions(a, r), replica);
    warp_save_replica(a, r, replica);
}

#if WARP_HAS_STEP
// `counts`: steps that a block by itself counts.
extern "C" __global__ void warp_step(WarpTables tables, WarpArrays a, WarpRun run, unsigned int counts) {
    allow_next_kernel();
    wait_for_previous_kernel();
    warp_step_block(tables, a, run, blockIdx.x);
    warp_count(a, counts);
}
#endif

#if WARP_HAS_RUNS
// `blocks` for each run; `counts`: steps that the block of a run counts, if it is the only one.
extern "C" __global__ void warp_step_runs(const WarpOfRun* runs, unsigned int blocks, unsigned int counts) {
    allow_next_kernel();
    wait_for_previous_kernel();
    const WarpOfRun& one = runs[blockIdx.x / blocks];
    warp_step_block(one.tables, one.a, one.run, blockIdx.x % blocks);
    warp_count(one.a, counts);
}
#endif

#if WARP_HAS_CYCLE
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
#endif

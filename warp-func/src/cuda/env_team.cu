// Reset, observe, step, and a cycle of many steps with random actions: a team of threads per
// replica, its state in rows.

// The replica of this thread's team. Teams share a block only if they are part of a warp each, so a
// team without a replica may leave.
__device__ inline unsigned int warp_replica_of(unsigned int block) {
    return block * WARP_TEAMS + threadIdx.x / WARP_TEAM;
}

__device__ inline unsigned int warp_replica() { return warp_replica_of(blockIdx.x); }

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

// Where a replica's observation goes, or the last one of an episode.
__device__ inline Observation warp_place(const WarpArrays& a, unsigned int r, bool last) {
    Observation out;
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        float* obs = last ? a.final_obs[g] : a.obs[g];
        out.obs[g] = obs + (unsigned long long)r * warp_agents(g) * warp_obs_width(g);
        unsigned char* mask = last ? a.final_action_mask[g] : a.action_mask[g];
        out.action_mask[g] = warp_mask_width(g) ? mask + r * warp_agents(g) * warp_mask_width(g) : 0;
    }
    out.global = WARP_GLOBAL_WIDTH ? a.global_obs + r * WARP_GLOBAL_WIDTH : 0;
    return out;
}

// What a replica carries from step to step beside its state.
struct WarpEpisode {
    unsigned int length;
    int ends;  // how the last step left it: 1 terminated, 2 truncated
    float returns[N_GROUPS];
    float statistics[WARP_N_STATISTICS > 0 ? WARP_N_STATISTICS : 1];
};

// Small enough, a step's inputs and outputs pass through shared memory: threads that read what
// others wrote do not wait for global memory, and rewards are written to it once.
#define WARP_STAGED ((WARP_AGENTS_TOTAL * 6 + WARP_ACTIONS_TOTAL * 4) * WARP_TEAMS <= 16384)
#define WARP_STAGED_AGENTS (WARP_STAGED ? WARP_AGENTS_TOTAL : 1)
#define WARP_STAGED_ACTIONS (WARP_STAGED ? WARP_ACTIONS_TOTAL : 1)

#define WARP_STAGE_WORDS                                                          \
    ((int)sizeof(WarpEpisode) / 4 + WARP_STAGED_AGENTS + WARP_STAGED_ACTIONS +     \
     (2 * WARP_STAGED_AGENTS + 3) / 4)

struct WarpStage {
    WarpEpisode episode;
    float reward[WARP_STAGED_AGENTS];
    int actions[WARP_STAGED_ACTIONS];
    unsigned char alive[WARP_STAGED_AGENTS];
    unsigned char left[WARP_STAGED_AGENTS];
    // An odd number of words, so that the teams of a warp meet different banks.
    unsigned int apart[1 + WARP_STAGE_WORDS % 2];
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

__device__ constexpr bool warp_any_box() {
    for (int g = 0; g < N_GROUPS; ++g)
        if (warp_continuous(g)) return true;
    return false;
}

// Discrete actions without masks: the agents of all groups at once, so that threads draw together.
__device__ inline void warp_draw_choices(const WarpRun& run, const WarpArrays& a, unsigned int r,
                                         unsigned int step, int* choices) {
    WarpDraw replica = warp_draw(run.seed, run.first_replica + r, step, WARP_PURPOSE_RANDOM_ACTION);
    for (int n = warp_first(); n < WARP_AGENTS_TOTAL; n += warp_stride()) {
        WarpDraw draw = warp_draw_agent(&replica, (unsigned int)n);
        int group = 0;
#pragma unroll
        for (int g = 1; g < N_GROUPS; ++g) group = n >= warp_first_agent(g) ? g : group;
        int width = warp_action_width(group), own = (n - warp_first_agent(group)) * width;
        for (int head = 0; head < width; ++head) {
            int choice = (int)warp_draw_below(&draw, (unsigned int)warp_head(group, head));
            choices[warp_action_offset(group) + own + head] = choice;
#pragma unroll
            for (int g = 0; g < N_GROUPS; ++g) {
                unsigned int first = r * warp_agents(g) * warp_action_width(g);
                if (g == group) a.discrete[g][first + own + head] = choice;
            }
        }
    }
}

// Draws actions and leaves them in the arrays, too.
__device__ inline void warp_draw_actions(const WarpRun& run, const WarpArrays& a, unsigned int r,
                                         unsigned int step, const WarpPlace& at) {
    if (WARP_STAGED && WARP_MASK_TOTAL == 0 && !warp_any_box()) {
        warp_draw_choices(run, a, r, step, at.discrete[0]);
        return;
    }
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

// Adds the step's rewards to the episode's returns and notes whether it ended. Followed by a barrier.
__device__ inline void warp_team_account(const WarpArrays& a, unsigned int r, bool terminated,
                                         const WarpPlace& at) {
    // Places indexed by a constant stay in registers.
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        if (warp_first() != g % warp_stride()) continue;
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
        at.episode->ends = terminated ? 1 : truncated ? 2 : 0;
    }
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
    warp_team_account(a, r, out.terminated, at);
    warp_sync();
    int ends = at.episode->ends;
    warp_team_after(a, r, ends & 1, at);
    // A body's observe can be long: the text has one place that calls it, which at the end of an
    // episode is passed again for the first observation of the next.
    bool last = ends != 0;
#pragma unroll 1
    for (;;) {
        Observation seen = warp_place(a, r, last);
        observe(env, state, seen);
        warp_sync();
        if (!last) return;
        last = false;
        if (warp_first() == 0)
            warp_count_episode(a, r, at.episode->length, at.episode->returns,
                               at.episode->statistics);
        warp_sync();
        if (!run.auto_reset) continue;
        warp_team_begin(env, run, a, r, step, state, at);
#pragma unroll
        for (int g = 0; g < N_GROUPS; ++g) {
            if (!warp_mortal(g) || !WARP_STAGED) continue;
            for (int i = warp_first(); i < warp_agents(g); i += warp_stride())
                a.alive[g][r * warp_agents(g) + i] = 1;
        }
    }
}

// 64 registers: without a limit the compiler keeps addresses in twice as many, and half the replicas
// find room on a multiprocessor.
#define WARP_TEAM_THREADS (WARP_TEAM * WARP_TEAMS)
#define WARP_TEAM_BOUNDS __launch_bounds__(WARP_TEAM_THREADS, 1024 / WARP_TEAM_THREADS)

#if WARP_HAS_RESET
extern "C" __global__ void WARP_TEAM_BOUNDS warp_reset(WarpTables tables, WarpArrays a,
                                                       WarpRun run) {
    unsigned int r = warp_replica();
    if (r >= run.n_envs) return;
    Env env = warp_env(tables);
    State state = warp_team_state(a, r);
    WarpPlace at = warp_team_place(a, r);
    warp_team_begin(env, run, a, r, *a.run_step, state, at);
    Observation seen = warp_place(a, r, false);
    observe(env, state, seen);
    warp_team_save(a, r, state);
    warp_save_place(a, r, at);
    if (warp_first() == 0) {
        a.terminated[r] = 0;
        a.truncated[r] = 0;
    }
}
#endif

#if WARP_HAS_OBSERVE
extern "C" __global__ void WARP_TEAM_BOUNDS warp_observe(WarpTables tables, WarpArrays a,
                                                         WarpRun run) {
    unsigned int r = warp_replica();
    if (r >= run.n_envs) return;
    Env env = warp_env(tables);
    State state = warp_team_state(a, r);
    warp_team_load(a, r, state);
    Observation seen = warp_place(a, r, false);
    observe(env, state, seen);
}
#endif

__device__ inline void warp_step_block(const WarpTables& tables, const WarpArrays& a, const WarpRun& run,
                                       unsigned int block) {
    unsigned int r = warp_replica_of(block);
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

#if WARP_HAS_STEP
// `counts`: steps that a block by itself counts.
extern "C" __global__ void WARP_TEAM_BOUNDS warp_step(WarpTables tables, WarpArrays a,
                                                      WarpRun run, unsigned int counts) {
    allow_next_kernel();
    wait_for_previous_kernel();
    warp_step_block(tables, a, run, blockIdx.x);
    warp_count(a, counts);
}
#endif

#if WARP_HAS_RUNS
// `blocks` for each run; `counts`: steps that the block of a run counts, if it is the only one.
extern "C" __global__ void WARP_TEAM_BOUNDS warp_step_runs(const WarpOfRun* runs, unsigned int blocks,
                                                           unsigned int counts) {
    allow_next_kernel();
    wait_for_previous_kernel();
    const WarpOfRun& one = runs[blockIdx.x / blocks];
    warp_step_block(one.tables, one.a, one.run, blockIdx.x % blocks);
    warp_count(one.a, counts);
}
#endif

#if WARP_HAS_CYCLE
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

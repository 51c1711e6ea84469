// A whole rollout of several agents and policies in one launch: a warp takes TOGETHER replicas through
// networks, sampler and body, step by step, with everything but the stored rows in registers and shared
// memory.
//
// The body is compiled for a team of one thread. Lane l has replica l % TOGETHER, so that several lanes
// mirror each other there; what is done once per agent they share. A slot is an agent of TOGETHER
// replicas, slots are ordered by policy, and every tile of 16 rows goes through one policy's network.
//
// Needs, beside order.cuh's: TOGETHER (8 or 16), N_POLICIES, POLICY_AGENTS (how many each has) and
// AGENT_PLACES (where they are among the environment's). For discrete actions without masks.
#include "choice.cuh"

// Lanes that have the same replica.
#define COPIES (32 / TOGETHER)
#define TILE_SLOTS (16 / TOGETHER)
// Floats of a row of outputs: eight, and apart so that rows meet different banks.
#define LDZ 12

__device__ constexpr int policy_agents(int policy) {
    constexpr int agents[] = POLICY_AGENTS;
    return agents[policy];
}
__device__ constexpr int place_of_agent(int agent) {
    constexpr int places[] = AGENT_PLACES;
    return places[agent];
}
__device__ constexpr int first_agent(int policy) {
    int n = 0;
    for (int p = 0; p < policy; ++p) n += policy_agents(p);
    return n;
}
__device__ constexpr int first_slot(int policy) {
    int n = 0;
    for (int p = 0; p < policy; ++p)
        n += (policy_agents(p) + TILE_SLOTS - 1) / TILE_SLOTS * TILE_SLOTS;
    return n;
}
#define N_SLOTS (first_slot(N_POLICIES))
// Rounds in which each lane has one row.
#define ROUNDS ((N_SLOTS + COPIES - 1) / COPIES)

// The agent of a slot, numbered policy by policy; none: -1.
__device__ constexpr int agent_of_slot(int slot) {
    int agent = -1;
    for (int p = 0; p < N_POLICIES; ++p) {
        int own = slot - first_slot(p);
        agent = own >= 0 && own < policy_agents(p) ? first_agent(p) + own : agent;
    }
    return agent;
}
__device__ constexpr int slot_of_agent(int agent) {
    int slot = 0;
    for (int s = 0; s < N_SLOTS; ++s) slot = agent_of_slot(s) == agent ? s : slot;
    return slot;
}

// Weights and records of each policy, and the counter that its update's blocks wait with.
struct TeamPolicies {
    const float* parameters[N_POLICIES];
    u32* records[N_POLICIES];
    u32* barrier[N_POLICIES];
};

// A warp's rows: stored observations, with what else is stored of a row in its padding, and outputs.
struct TeamRows {
    unsigned short x[32 * ROUNDS * LDX];
    float z[32 * ROUNDS * LDZ];
};
static_assert(sizeof(NetShared) % 16 == 0, "rows behind the networks begin at multiples of 16 bytes");

// Of ended episodes: their number, the sum of lengths, the longest, minus the shortest; per group the sum
// of returns, the largest, minus the smallest; the sums of statistics.
#define TEAM_FIGURES (4 + 3 * N_GROUPS + WARP_N_STATISTICS)
__device__ constexpr bool is_most(int figure) {
    int group = figure - 4;
    return figure == 2 || figure == 3 || (group >= 0 && group < 3 * N_GROUPS && group % 3 > 0);
}

// A replica on its way through the rollout.
struct TeamReplica {
    u32 words[WARP_STATE_WORDS];
    float returns[N_GROUPS], reward[WARP_AGENTS_TOTAL], statistics[WARP_N_STATISTICS + 1];
    float figures[TEAM_FIGURES];
    u32 number, before, length, cuts;

    __device__ __forceinline__ void begin(const WarpArrays& arrays, u32 steps_done, u32 replica) {
        number = replica;
        before = steps_done;
        cuts = 0u;
        length = arrays.episode_length[number];
#pragma unroll
        for (int g = 0; g < N_GROUPS; ++g) returns[g] = arrays.episode_return[g][number];
#pragma unroll
        for (int i = 0; i < WARP_N_STATISTICS; ++i)
            statistics[i] = arrays.statistic[number * WARP_N_STATISTICS + i];
#pragma unroll
        for (int i = 0; i < TEAM_FIGURES; ++i) figures[i] = is_most(i) ? -3e38f : 0.0f;
        State state = warp_view_words(words), row = warp_view(arrays, number);
        warp_copy_state(state, row);
    }

    // Has the body write what agents see, then hands over the units of the agents that are this lane's:
    // `put(slot, q, unit)`.
    template <class Put> __device__ __forceinline__ void look(const Env& env, Put put) {
        float obs[WARP_OBS_TOTAL];
        State state = warp_view_words(words);
        Observation out;
#pragma unroll
        for (int g = 0; g < N_GROUPS; ++g) {
            out.obs[g] = obs + warp_obs_offset(g);
            out.action_mask[g] = nullptr;
        }
        out.global = nullptr;
        observe(env, state, out);
        int own = (threadIdx.x & 31) / TOGETHER;
#pragma unroll
        for (int copy = 0; copy < COPIES; ++copy) {
            if (own != copy) continue;
#pragma unroll
            for (int slot = copy; slot < N_SLOTS; slot += COPIES) {
                int agent = agent_of_slot(slot);
                const float* seen = obs + place_of_agent(agent < 0 ? 0 : agent) * OBS;
#pragma unroll
                for (int q = 0; q < X_UNITS; ++q)
                    if (agent >= 0) put(slot, q, observed_unit(seen, q));
            }
        }
    }

    // One step; returns the bits that say how it ended.
    __device__ __forceinline__ u32 advance(const Env& env, const WarpRun& world, const int* chosen,
                                           u32 t) {
        State state = warp_view_words(words);
        Actions actions;
        StepOut out;
#pragma unroll
        for (int g = 0; g < N_GROUPS; ++g) {
            actions.discrete[g] = chosen + warp_action_offset(g);
            actions.continuous[g] = nullptr;
            out.reward[g] = reward + warp_first_agent(g);
            out.alive[g] = nullptr;
        }
        out.terminated = false;
        out.statistics = statistics;
#pragma unroll
        for (int i = 0; i < WARP_AGENTS_TOTAL; ++i) reward[i] = 0.0f;
        WarpDraw draw =
            warp_draw(world.seed, world.first_replica + number, before + 1u + t, WARP_PURPOSE_STEP);
        ::step(env, state, actions, draw, out);
#pragma unroll
        for (int g = 0; g < N_GROUPS; ++g) {
            // From -0 as Rust's sum: 0 + -0 would be 0.
            float total = -0.0f;
#pragma unroll
            for (int i = 0; i < warp_agents(g); ++i) total += reward[warp_first_agent(g) + i];
            returns[g] += total;
        }
        length += 1u;
        bool limit = length >= WARP_TIME_LIMIT;
        bool truncated = limit && !out.terminated && !WARP_LIMIT_TERMINATES;
        return (out.terminated || limit ? ROW_ENDED : 0u) |
               (truncated ? ROW_TRUNCATED | cuts << 26 : 0u);
    }

    // Notes the episode that ended and begins the next.
    __device__ __forceinline__ void start_again(const Env& env, const WarpRun& world,
                                                const WarpArrays& arrays, u32 t) {
        auto add = [&](int figure, float sum) {
            figures[figure] = is_most(figure) ? fmaxf(figures[figure], sum) : figures[figure] + sum;
        };
        add(0, 1.0f);
        add(1, (float)length);
        add(2, (float)length);
        add(3, -(float)length);
#pragma unroll
        for (int g = 0; g < N_GROUPS; ++g) {
            add(4 + 3 * g, returns[g]);
            add(5 + 3 * g, returns[g]);
            add(6 + 3 * g, -returns[g]);
            returns[g] = 0.0f;
        }
#pragma unroll
        for (int i = 0; i < WARP_N_STATISTICS; ++i) {
            add(4 + 3 * N_GROUPS + i, statistics[i]);
            statistics[i] = 0.0f;
        }
        length = 0u;
        State state = warp_view_words(words);
        u32 replica = world.first_replica + number, step_number = before + 1u + t;
        WarpDraw draw = world.start == 1u
                            ? warp_draw(world.start_seed, 0u, 0u, WARP_PURPOSE_RESET)
                            : warp_draw(world.seed, replica, step_number, WARP_PURPOSE_RESET);
        if (world.start == 2u) {
            State row = warp_view_of(arrays.pool, warp_draw_below(&draw, world.pool_rows));
            warp_copy_state(state, row);
        } else {
            reset(env, state, draw);
        }
    }

    // Puts everything back where the environment's own kernels look for it.
    __device__ __forceinline__ void finish(const Env& env, const WarpArrays& arrays) {
        arrays.episode_length[number] = length;
#pragma unroll
        for (int g = 0; g < N_GROUPS; ++g) arrays.episode_return[g][number] = returns[g];
#pragma unroll
        for (int i = 0; i < WARP_N_STATISTICS; ++i)
            arrays.statistic[number * WARP_N_STATISTICS + i] = statistics[i];
        State state = warp_view_words(words), row = warp_view(arrays, number);
        warp_copy_state(row, state);
        Observation out;
#pragma unroll
        for (int g = 0; g < N_GROUPS; ++g) {
            out.obs[g] = arrays.obs[g] + (unsigned long long)number * warp_agents(g) * OBS;
            out.action_mask[g] = nullptr;
        }
        out.global = nullptr;
        observe(env, state, out);
    }
};

// One or two tiles through a network, from a warp's rows to its outputs.
template <int R>
__device__ __forceinline__ void team_forward(const NetShared& net, TeamRows& rows, int tile) {
    int lane = threadIdx.x & 31;
    u32 inputs[R][KX / 16][4];
    Hidden h1[R], h2[R];
    float out[R][4];
    load_inputs<R>(inputs, rows.x + tile * 16 * LDX);
    first_layer<R>(net, inputs, h1);
    second_layer<R>(net, h1, h2);
    last_layer<0, R>(net, h2, out);
#pragma unroll
    for (int r = 0; r < R; ++r) {
        float* to = rows.z + ((tile + r) * 16 + lane / 4) * LDZ + 2 * (lane & 3);
        *(float2*)to = make_float2(out[r][0], out[r][1]);
        *(float2*)(to + 8 * LDZ) = make_float2(out[r][2], out[r][3]);
    }
}

// All tiles of policy P and of those behind it.
template <int P> __device__ __forceinline__ void team_act(const NetShared* nets, TeamRows& rows) {
    constexpr int first = first_slot(P) * TOGETHER / 16, end = first_slot(P + 1) * TOGETHER / 16;
#pragma unroll
    for (int tile = first; tile + 1 < end; tile += 2) team_forward<2>(nets[P], rows, tile);
    if ((end - first) % 2 == 1) team_forward<1>(nets[P], rows, end - 1);
    if constexpr (P + 1 < N_POLICIES) team_act<P + 1>(nets, rows);
}

// Where the row of `replica` for the agent of `slot` begins at step `t` of the records.
__device__ __forceinline__ uint4* team_record(const TeamPolicies& policies, const SmallRun& run,
                                              int slot, u32 t, u32 replica) {
    int policy = 0;
#pragma unroll
    for (int p = 1; p < N_POLICIES; ++p) policy = slot >= first_slot(p) ? p : policy;
    u32 row = (slot - first_slot(policy)) * run.n_envs + replica;
    return stored(policies.records[policy], policy_agents(policy) * run.n_envs, t, row);
}

// Copies the first `units` of every row to step `t` of the records; `n` of the replicas count. Rows of a
// slot lie one after the other there.
__device__ __forceinline__ void team_store(const TeamPolicies& policies, const SmallRun& run,
                                           const TeamRows& rows, u32 t, u32 first, u32 n, int units) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int slot = 0; slot < N_SLOTS; ++slot) {
        if (agent_of_slot(slot) < 0) continue;
        uint4* to = team_record(policies, run, slot, t, first);
#pragma unroll
        for (int base = 0; base < TOGETHER * RECORD_UNITS; base += 32) {
            int at = base + lane, row = at / RECORD_UNITS, q = at % RECORD_UNITS;
            const unsigned short* from = rows.x + (slot * TOGETHER + row) * LDX;
            if (row < (int)n && q < units)
                to[at] = *(const uint4*)(from + (q < X_UNITS ? q * 8 : KX));
        }
    }
}

// Chosen actions of this lane's rows, a round each.
struct TeamChoices {
    Choice of[ROUNDS];
    float value[ROUNDS];

    __device__ __forceinline__ void draw(const TeamRows& rows, Ready (&ready)[ROUNDS]) {
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
            const float4* from = (const float4*)(rows.z + (32 * round + (threadIdx.x & 31)) * LDZ);
            float4 low = from[0], high = from[1];
            float z[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
            of[round].draw(z, 0u, ready[round]);
            value[round] = Role<0>::value ? z[Role<0>::value_column] : 0.0f;
        }
    }
    // The actions of all agents of this lane's replica, in the environment's order.
    __device__ __forceinline__ void gather(int (&actions)[WARP_ACTIONS_TOTAL]) const {
        int lane = threadIdx.x & 31;
#pragma unroll
        for (int agent = 0; agent < WARP_AGENTS_TOTAL; ++agent) {
            int slot = slot_of_agent(agent), at = place_of_agent(agent) * ACTION_WIDTH;
            u32 what = __shfl_sync(0xffffffffu, of[slot / COPIES].what,
                                   slot % COPIES * TOGETHER + lane % TOGETHER);
#pragma unroll
            for (int head = 0; head < ACTION_WIDTH; ++head)
                actions[at + head] = (int)(what >> (4 * head) & 15u);
        }
    }
    // What is stored of this lane's rows beside the observations.
    __device__ __forceinline__ void put(TeamRows& rows, const float* reward, u32 ends) const {
        int lane = threadIdx.x & 31, copy = lane / TOGETHER;
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
            float own = 0.0f;
#pragma unroll
            for (int c = 0; c < COPIES; ++c) {
                int slot = round * COPIES + c, agent = slot < N_SLOTS ? agent_of_slot(slot) : -1;
                own = copy == c && agent >= 0 ? reward[place_of_agent(agent < 0 ? 0 : agent)] : own;
            }
            *(uint4*)(rows.x + (32 * round + lane) * LDX + KX) =
                make_uint4(of[round].what | ends, __float_as_uint(of[round].log_prob),
                           __float_as_uint(value[round]), __float_as_uint(own));
        }
    }
};

// The uniform numbers of a step for this lane's rows.
__device__ __forceinline__ void team_uniforms(const WarpRun& world, const TeamReplica& replica, u32 t,
                                              Ready (&ready)[ROUNDS]) {
    int copy = (threadIdx.x & 31) / TOGETHER;
    WarpDraw stream = warp_draw(world.seed, world.first_replica + replica.number, replica.before + t,
                                WARP_PURPOSE_ACTION);
#pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        int agent = 0;
#pragma unroll
        for (int c = 0; c < COPIES; ++c) {
            int slot = round * COPIES + c;
            agent = copy == c && slot < N_SLOTS ? agent_of_slot(slot) : agent;
        }
        WarpDraw own = warp_draw_agent(&stream, (u32)agent);
        ready[round].next = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) ready[round].u[i] = i < ACTION_WIDTH ? warp_draw_uniform(&own) : 0.0f;
    }
}

// This warp's figures of ended episodes.
__device__ __forceinline__ void write_figures(const TeamReplica& replica, bool counts, double* to) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < TEAM_FIGURES; ++i) {
        if (is_most(i)) {
            float most = counts ? replica.figures[i] : -3e38f;
            for (int d = 16; d > 0; d >>= 1) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, d));
            if (lane == 0) to[i] = most;
        } else {
            double sum = warp_sum(counts ? (double)replica.figures[i] : 0.0);
            if (lane == 0) to[i] = sum;
        }
    }
}

extern "C" __global__ void __launch_bounds__(128)
    small_collect_team(SmallRun run, WarpRun world, WarpArrays arrays, WarpTables tables,
                       TeamPolicies policies, double* figures) {
    extern __shared__ __align__(128) unsigned char memory[];
    NetShared* nets = (NetShared*)memory;
    TeamRows& rows = ((TeamRows*)(nets + N_POLICIES))[threadIdx.x / 32];
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int p = 0; p < N_POLICIES; ++p) {
        if (blockIdx.x == 0 && threadIdx.x == 0) *policies.barrier[p] = 0u;
        load_net(nets[p], policies.parameters[p], threadIdx.x, blockDim.x);
    }
    for (int i = lane; i < (int)(sizeof(rows) / 4); i += 32) ((u32*)&rows)[i] = 0u;
    __syncthreads();
    u32 warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, first = warp * TOGETHER;
    if (first >= run.n_envs) return;
    u32 n = run.n_envs - first < TOGETHER ? run.n_envs - first : TOGETHER, own = lane % TOGETHER;
    u32 n_warps = (run.n_envs + TOGETHER - 1) / TOGETHER;
    Env env = warp_env(tables);
    TeamReplica replica;
    replica.begin(arrays, *arrays.run_step + run.steps_before, first + (own < n ? own : n - 1));
    auto to_rows = [&](int slot, int q, uint4 unit) {
        *(uint4*)(rows.x + (slot * TOGETHER + own) * LDX + q * 8) = unit;
    };
#pragma unroll 1
    for (u32 t = 0;; ++t) {
        replica.look(env, to_rows);
        __syncwarp();
        if (t == N_STEPS) break;
        Ready ready[ROUNDS];
        TeamChoices choices;
        int actions[WARP_ACTIONS_TOTAL];
        team_uniforms(world, replica, t, ready);
        team_act<0>(nets, rows);
        __syncwarp();
        choices.draw(rows, ready);
        choices.gather(actions);
        u32 ends = replica.advance(env, world, actions, t);
        choices.put(rows, replica.reward, ends);
        __syncwarp();
        team_store(policies, run, rows, t, first, n, RECORD_UNITS);
        __syncwarp();
        if (CUTS > 0 && ends & ROW_TRUNCATED) {
            u32 at = N_STEPS + 1 + replica.cuts++, number = replica.number;
            replica.look(env, [&](int slot, int q, uint4 unit) {
                if (own < n) team_record(policies, run, slot, at, number)[q] = unit;
            });
        }
        if (ends) replica.start_again(env, world, arrays, t);
    }
    team_store(policies, run, rows, N_STEPS, first, n, X_UNITS);
    bool writes = lane < (int)n && lane < TOGETHER;
    write_figures(replica, writes, figures + ((unsigned long long)run.index * n_warps + warp) * TEAM_FIGURES);
    if (writes) replica.finish(env, arrays);
}

// The figures of an iteration's warps together, a block per iteration; `out` is [iterations, figures].
extern "C" __global__ void __launch_bounds__(256)
    small_team_figures(const double* figures, unsigned int n_warps, double* out) {
    int lane = threadIdx.x & 31;
    figures += (unsigned long long)blockIdx.x * n_warps * TEAM_FIGURES;
    for (int i = threadIdx.x / 32; i < TEAM_FIGURES; i += 8) {
        double sum = 0.0, most = -3e38;
        for (u32 warp = lane; warp < n_warps; warp += 32) {
            double x = figures[warp * TEAM_FIGURES + i];
            sum += x;
            most = x > most ? x : most;
        }
        for (int d = 16; d > 0; d >>= 1) {
            double other = __shfl_xor_sync(0xffffffffu, most, d);
            most = other > most ? other : most;
        }
        sum = warp_sum(sum);
        if (lane == 0) out[blockIdx.x * TEAM_FIGURES + i] = is_most(i) ? most : sum;
    }
}

// Sizes that the host needs to know: bytes of all networks, bytes of a warp's rows, figures.
extern "C" __global__ void small_team_sizes(u32* sizes) {
    sizes[0] = N_POLICIES * (u32)sizeof(NetShared);
    sizes[1] = (u32)sizeof(TeamRows);
    sizes[2] = TEAM_FIGURES;
}

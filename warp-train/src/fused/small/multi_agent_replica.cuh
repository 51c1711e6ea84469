// A replica of several agents with a thread of its own: its state and counters, what its agents see, its
// steps and its episodes.
//
// The body is compiled for a team of one thread. Lane l has replica l % TOGETHER of its warp, so that
// several lanes mirror each other; what is done once per agent they share. A slot is an agent of
// TOGETHER replicas; slots are ordered by policy, and a tile of 16 rows has those of one policy.
//
// Needs, beside choice.cuh's: TOGETHER (4, 8 or 16), N_POLICIES, POLICY_AGENTS (how many each has) and
// AGENT_PLACES (where they are among the environment's). For discrete actions without masks.
#pragma once
#include "choice.cuh"

// Lanes that have the same replica.
#define COPIES (32 / TOGETHER)
#define TILE_SLOTS (16 / TOGETHER)

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
// The policy of a slot; the last one's behind all.
__device__ constexpr int policy_of_slot(int slot) {
    int policy = 0;
    for (int p = 1; p < N_POLICIES; ++p) policy = slot >= first_slot(p) ? p : policy;
    return policy;
}
__device__ constexpr int slot_of_agent(int agent) {
    int slot = 0;
    for (int s = 0; s < N_SLOTS; ++s) slot = agent_of_slot(s) == agent ? s : slot;
    return slot;
}

// Of ended episodes: their number, the sum of lengths, the longest, minus the shortest; per group the sum
// of returns, the largest, minus the smallest; the sums of statistics.
#define MULTI_AGENT_FIGURES (4 + 3 * N_GROUPS + WARP_N_STATISTICS)
__device__ constexpr bool is_most(int figure) {
    int group = figure - 4;
    return figure == 2 || figure == 3 || (group >= 0 && group < 3 * N_GROUPS && group % 3 > 0);
}

// A replica on its way through the rollout.
struct MultiAgentReplica {
    u32 words[WARP_STATE_WORDS];
    float returns[N_GROUPS], reward[WARP_AGENTS_TOTAL], statistics[WARP_N_STATISTICS + 1];
    float figures[MULTI_AGENT_FIGURES];
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
        for (int i = 0; i < MULTI_AGENT_FIGURES; ++i) figures[i] = is_most(i) ? -3e38f : 0.0f;
        State state = warp_view_words(words), row = warp_view(arrays, number);
        warp_copy_state(state, row);
    }

    // Has the body write what agents see, then hands over the units of this lane's rows, which `seen` has:
    // `put(round, q, unit)`, zeros where there is no agent.
    template <class Seen, class Put>
    __device__ __forceinline__ void look(const Env& env, Seen& seen, Put put) {
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
        int copy = (threadIdx.x & 31) / TOGETHER;
        if (NORM_OBS) {
#pragma unroll
            for (int round = 0; round < ROUNDS; ++round) {
                float own[OBS] = {};
#pragma unroll
                for (int c = 0; c < COPIES; ++c) {
                    int slot = round * COPIES + c, agent = slot < N_SLOTS ? agent_of_slot(slot) : -1;
                    if (agent < 0) continue;
#pragma unroll
                    for (int k = 0; k < OBS; ++k)
                        own[k] = copy == c ? obs[place_of_agent(agent) * OBS + k] : own[k];
                }
                seen.look(round, own);
#pragma unroll
                for (int q = 0; q < X_UNITS; ++q) put(round, q, observed_unit(own, q));
            }
            return;
        }
#pragma unroll
        for (int i = 0; i < ROUNDS * X_UNITS; ++i) {
            int round = i / X_UNITS, q = i % X_UNITS;
            uint4 own = make_uint4(0u, 0u, 0u, 0u);
            // Selected and not indexed, as what is indexed leaves the registers.
#pragma unroll
            for (int c = 0; c < COPIES; ++c) {
                int slot = round * COPIES + c, agent = slot < N_SLOTS ? agent_of_slot(slot) : -1;
                if (agent < 0) continue;
                uint4 unit = observed_unit(obs + place_of_agent(agent) * OBS, q);
                own.x = copy == c ? unit.x : own.x;
                own.y = copy == c ? unit.y : own.y;
                own.z = copy == c ? unit.z : own.z;
                own.w = copy == c ? unit.w : own.w;
            }
            put(round, q, own);
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

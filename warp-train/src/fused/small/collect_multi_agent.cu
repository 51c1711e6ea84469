// A whole rollout of several agents and policies in one launch: a warp takes TOGETHER replicas through
// networks, sampler and body, step by step, with everything but the stored rows in registers and shared
// memory.
//
// Needs what multi_agent_replica.cuh needs.
#include "multi_agent_normalise.cuh"
#include "multi_agent_replica.cuh"

// Floats of a row of outputs: eight, and apart so that rows meet different banks.
#define LDZ 12

// Weights and records of each policy, and the counter that its update's blocks wait with.
struct MultiAgentPolicies {
    const float* parameters[N_POLICIES];
    u32* records[N_POLICIES];
    u32* barrier[N_POLICIES];
    MultiAgentFactors normalise;
};

// A warp's rows: observations as they are stored, outputs, and observations before they are normalised.
struct __align__(16) MultiAgentRows {
    unsigned short x[32 * ROUNDS * LDX];
    float z[32 * ROUNDS * LDZ];
    MultiAgentRaw raw;
};
static_assert(sizeof(NetShared) % 16 == 0, "rows behind the networks begin at multiples of 16 bytes");

// Puts the outputs of a tile into a warp's rows.
__device__ __forceinline__ void put_outputs(MultiAgentRows& rows, int tile, const float (&out)[4]) {
    int lane = threadIdx.x & 31;
    float* to = rows.z + (tile * 16 + lane / 4) * LDZ + 2 * (lane & 3);
    *(float2*)to = make_float2(out[0], out[1]);
    *(float2*)(to + 8 * LDZ) = make_float2(out[2], out[3]);
}

// One or two tiles through a network, from a warp's rows to its outputs.
template <int R>
__device__ __forceinline__ void multi_agent_forward(const NetShared& net, MultiAgentRows& rows, int tile) {
    u32 inputs[R][KX / 16][4];
    Hidden h1[R], h2[R];
    float out[R][4];
    load_inputs<R>(inputs, rows.x + tile * 16 * LDX);
    hidden_layers<R>(net, inputs, h1, h2);
    last_layer<0, R>(net, h2, out);
#pragma unroll
    for (int r = 0; r < R; ++r) put_outputs(rows, tile + r, out[r]);
}

// Two tiles through a network each, side by side: a layer of one waits while the other's is worked on.
__device__ __forceinline__ void multi_agent_forward(const NetShared& first, const NetShared& second,
                                                    MultiAgentRows& rows, int tile) {
    u32 inputs[2][1][KX / 16][4];
    Hidden h1[2][1], h2[2][1];
    Normed normed[2][1];
    float out[2][1][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) load_inputs<1>(inputs[i], rows.x + (tile + i) * 16 * LDX);
#pragma unroll
    for (int i = 0; i < 2; ++i) first_layer<1>(i ? second : first, inputs[i], h1[i], normed[i]);
#pragma unroll
    for (int i = 0; i < 2; ++i) second_layer<1>(i ? second : first, h1[i], h2[i], normed[i]);
#pragma unroll
    for (int i = 0; i < 2; ++i) last_layer<0, 1>(i ? second : first, h2[i], out[i]);
#pragma unroll
    for (int i = 0; i < 2; ++i) put_outputs(rows, tile + i, out[i][0]);
}

// Tile T and those behind it.
template <int T> __device__ __forceinline__ void multi_agent_act(const NetShared* nets, MultiAgentRows& rows) {
    constexpr int tiles = N_SLOTS / TILE_SLOTS, policy = policy_of_slot(T * TILE_SLOTS);
    if constexpr (T + 1 < tiles) {
        constexpr int next = policy_of_slot((T + 1) * TILE_SLOTS);
        if constexpr (policy == next)
            multi_agent_forward<2>(nets[policy], rows, T);
        else
            multi_agent_forward(nets[policy], nets[next], rows, T);
        if constexpr (T + 2 < tiles) multi_agent_act<T + 2>(nets, rows);
    } else {
        multi_agent_forward<1>(nets[policy], rows, T);
    }
}

// Units of observations that a lane stores in a step.
#define KEPT_UNITS ((N_SLOTS * TOGETHER * X_UNITS + 31) / 32)

// The row of `replica` for the agent of `slot` at step `t` of the records; `exists` says whether there is
// such an agent.
struct MultiAgentRow {
    u32* records;
    u32 n_rows, number;
    bool exists;

    __device__ __forceinline__ MultiAgentRow(const MultiAgentPolicies& policies, const SmallRun& run, int slot, u32 t,
                                       u32 replica) {
        exists = false;
        records = policies.records[0];
        n_rows = number = 0u;
#pragma unroll
        for (int p = 0; p < N_POLICIES; ++p) {
            int own = slot - first_slot(p);
            bool here = own >= 0 && own < policy_agents(p);
            exists |= here;
            records = here ? policies.records[p] : records;
            n_rows = here ? policy_agents(p) * run.n_envs : n_rows;
            number = here ? t * n_rows + own * run.n_envs + replica : number;
        }
    }
    __device__ __forceinline__ uint4* seen() const { return (uint4*)record_at(records, number); }
    __device__ __forceinline__ uint4* rest() const { return (uint4*)rest_at(records, n_rows, number); }
};

// Where this lane stores its part of a step: units of observations, dealt out so that neighbours have
// neighbouring ones, and what belongs to its own rows beside them.
struct MultiAgentPlaces {
    uint4* seen[KEPT_UNITS];
    uint4* rest[ROUNDS];
    u32 seen_rows[KEPT_UNITS], rest_rows[ROUNDS];  // rows from step to step
    u32 exist;                                     // a bit each, the rows' first

    __device__ __forceinline__ MultiAgentPlaces(const MultiAgentPolicies& policies, const SmallRun& run, u32 first,
                                          u32 n) {
        int lane = threadIdx.x & 31;
        exist = 0u;
#pragma unroll
        for (int i = 0; i < ROUNDS; ++i) {
            u32 own = lane % TOGETHER;
            MultiAgentRow row(policies, run, i * COPIES + lane / TOGETHER, 0u, first + own);
            rest[i] = row.rest();
            rest_rows[i] = row.n_rows;
            exist |= row.exists && own < n ? 1u << i : 0u;
        }
#pragma unroll
        for (int i = 0; i < KEPT_UNITS; ++i) {
            u32 at = i * 32 + lane, own = at / X_UNITS % TOGETHER;
            MultiAgentRow row(policies, run, at / X_UNITS / TOGETHER, 0u, first + own);
            seen[i] = row.seen() + at % X_UNITS;
            seen_rows[i] = row.n_rows;
            exist |= row.exists && own < n ? 1u << (ROUNDS + i) : 0u;
        }
    }
    // Stores a step's observations.
    __device__ __forceinline__ void keep_seen(const MultiAgentRows& rows) {
        int lane = threadIdx.x & 31;
        uint4 units[KEPT_UNITS];
#pragma unroll
        for (int i = 0; i < KEPT_UNITS; ++i) {
            int at = i * 32 + lane;
            units[i] = *(const uint4*)(rows.x + at / X_UNITS * LDX + at % X_UNITS * 8);
        }
#pragma unroll
        for (int i = 0; i < KEPT_UNITS; ++i) {
            if (exist >> (ROUNDS + i) & 1u) *seen[i] = units[i];
            seen[i] += (unsigned long long)seen_rows[i] * (APART ? X_UNITS : RECORD_UNITS);
        }
    }
    __device__ __forceinline__ void keep_rest(int round, uint4 words) {
        if (exist >> round & 1u) *rest[round] = words;
        rest[round] += (unsigned long long)rest_rows[round] * (APART ? 1 : RECORD_UNITS);
    }
};
static_assert(ROUNDS + KEPT_UNITS <= 32, "more rows and units than there are bits");

// Chosen actions of this lane's rows, a round each.
struct MultiAgentChoices {
    Choice of[ROUNDS];
    float value[ROUNDS];

    __device__ __forceinline__ void draw(const MultiAgentRows& rows, Ready (&ready)[ROUNDS]) {
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
    // Stores what belongs to this lane's rows beside the observations.
    __device__ __forceinline__ void keep(MultiAgentPlaces& places, MultiAgentNormaliser& normaliser,
                                         const float* reward, u32 ends) const {
        int copy = (threadIdx.x & 31) / TOGETHER;
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
            float own = 0.0f;
#pragma unroll
            for (int c = 0; c < COPIES; ++c) {
                int slot = round * COPIES + c, agent = slot < N_SLOTS ? agent_of_slot(slot) : -1;
                own = copy == c && agent >= 0 ? reward[place_of_agent(agent < 0 ? 0 : agent)] : own;
            }
            normaliser.reward(round, own, ends & ROW_ENDED);
            places.keep_rest(round,
                             make_uint4(of[round].what | ends, __float_as_uint(of[round].log_prob),
                                        __float_as_uint(value[round]), __float_as_uint(own)));
        }
    }
};

// The uniform numbers of a step for this lane's rows.
__device__ __forceinline__ void multi_agent_uniforms(const WarpRun& world, const MultiAgentReplica& replica, u32 t,
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
        // Drawn here, where it waits for less, and not behind the networks.
#pragma unroll
        for (int i = 0; i < ACTION_WIDTH; ++i) asm volatile("" : "+f"(ready[round].u[i]));
    }
}

// This warp's figures of ended episodes.
__device__ __forceinline__ void write_figures(const MultiAgentReplica& replica, bool counts, double* to) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < MULTI_AGENT_FIGURES; ++i) {
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

extern "C" __global__ void __launch_bounds__(32 * MOST_WARPS, 2)
    small_collect_multi_agent(WarpRun world, WarpArrays arrays, WarpTables tables, MultiAgentPolicies policies,
                       const CollectMultiAgentArgs a) {
    const SmallRun& run = a.run;
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ MultiAgentNear near;
    NetShared* nets = (NetShared*)memory;
    MultiAgentRows& rows = ((MultiAgentRows*)(nets + N_POLICIES))[threadIdx.x / 32];
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int p = 0; p < N_POLICIES; ++p) {
        if (blockIdx.x == 0 && threadIdx.x == 0) *policies.barrier[p] = 0u;
        load_net<ONE_WARP_AT_ONCE>(nets[p], policies.parameters[p], threadIdx.x, blockDim.x);
    }
    MultiAgentNormaliser::load(near, policies.normalise);
    for (int i = lane; i < (int)(sizeof(rows) / 4); i += 32) ((u32*)&rows)[i] = 0u;
    __syncthreads();
    u32 warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, first = warp * TOGETHER;
    if (first >= run.n_envs) return;
    u32 n = run.n_envs - first < TOGETHER ? run.n_envs - first : TOGETHER, own = lane % TOGETHER;
    u32 n_warps = (run.n_envs + TOGETHER - 1) / TOGETHER;
    Env env = warp_env(tables);
    MultiAgentReplica replica;
    replica.begin(arrays, *arrays.run_step + run.steps_before, first + (own < n ? own : n - 1));
    auto to_rows = [&](int round, int q, uint4 unit) {
        *(uint4*)(rows.x + (round * 32 + lane) * LDX + q * 8) = unit;
    };
    MultiAgentPlaces places(policies, run, first, n);
    MultiAgentNormaliser normaliser(near, rows.raw, policies.normalise, first, n);
#pragma unroll 1
    for (u32 t = 0; t < N_STEPS; ++t) {
        Ready ready[ROUNDS];
        MultiAgentChoices choices;
        int actions[WARP_ACTIONS_TOTAL];
        replica.look(env, normaliser, to_rows);
        __syncwarp();
        normaliser.count(n);
        multi_agent_uniforms(world, replica, t, ready);
        places.keep_seen(rows);
        multi_agent_act<0>(nets, rows);
        __syncwarp();
        choices.draw(rows, ready);
        choices.gather(actions);
        u32 ends = replica.advance(env, world, actions, t);
        choices.keep(places, normaliser, replica.reward, ends);
        if (CUTS > 0 && ends & ROW_TRUNCATED) {
            u32 at = N_STEPS + 1 + replica.cuts++, number = replica.number;
            replica.look(env, normaliser, [&](int round, int q, uint4 unit) {
                MultiAgentRow row(policies, run, round * COPIES + lane / TOGETHER, at, number);
                if (row.exists && own < n) row.seen()[q] = unit;
            });
        }
        if (ends) replica.start_again(env, world, arrays, t);
    }
    replica.look(env, normaliser, to_rows);
    __syncwarp();
    places.keep_seen(rows);
    normaliser.finish(policies.normalise, first, warp, n_warps);
    bool writes = lane < (int)n && lane < TOGETHER;
    write_figures(replica, writes, a.figures + ((unsigned long long)run.index * n_warps + warp) * MULTI_AGENT_FIGURES);
    if (writes) replica.finish(env, arrays);
}

// The figures of an iteration's warps together, a block per iteration; `out` is [iterations, figures].
extern "C" __global__ void __launch_bounds__(256)
    small_multi_agent_figures(const MultiAgentFiguresArgs a) {
    int lane = threadIdx.x & 31;
    const double* figures = a.figures + (unsigned long long)blockIdx.x * a.n_warps * MULTI_AGENT_FIGURES;
    for (int i = threadIdx.x / 32; i < MULTI_AGENT_FIGURES; i += 8) {
        double sum = 0.0, most = -3e38;
        for (u32 warp = lane; warp < a.n_warps; warp += 32) {
            double x = figures[warp * MULTI_AGENT_FIGURES + i];
            sum += x;
            most = x > most ? x : most;
        }
        for (int d = 16; d > 0; d >>= 1) {
            double other = __shfl_xor_sync(0xffffffffu, most, d);
            most = other > most ? other : most;
        }
        sum = warp_sum(sum);
        if (lane == 0) a.out[blockIdx.x * MULTI_AGENT_FIGURES + i] = is_most(i) ? most : sum;
    }
}

// Sizes that the host needs to know.
extern "C" __global__ void small_multi_agent_sizes(const MultiAgentSizesArgs a) {
    a.sizes->networks = N_POLICIES * (u32)sizeof(NetShared);
    a.sizes->rows = (u32)sizeof(MultiAgentRows);
    a.sizes->n_figures = MULTI_AGENT_FIGURES;
}

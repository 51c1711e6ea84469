// A whole rollout in one launch: a warp takes 16 or 32 replicas through network, sampler and body, step
// by step, with everything but the stored rows in registers and shared memory.
//
// Lane l has the replica whose outputs end up in its registers: row l / 4 of the eight rows that
// accumulator half l % 4 holds. With 16 replicas half of the lanes mirror the other half.
//
// Needs, beside order.cuh's: FIRST_AGENT. For environments of one group of one agent.
#pragma once
#include "choice.cuh"
#include "normalise.cuh"

// What a policy sees of one replica: halves with a one behind them, and the mask's bits.
struct Seen {
    uint4 units[X_UNITS];
    u32 mask;

    // `kept`, if it is there, gets the observation as the environment gives it.
    __device__ __forceinline__ void look(const Env& env, const State& state, Normaliser& normaliser,
                                         float* kept) {
        float obs[OBS];
        unsigned char allowed[MASKED ? OUT : 1];
        float global[1];
        Observation out;
        out.obs[0] = obs;
        out.action_mask[0] = allowed;
        out.global = global;
        observe(env, state, out);
        if (kept) {
#pragma unroll
            for (int i = 0; i < OBS; ++i) kept[i] = obs[i];
        }
        normaliser.look(obs);
#pragma unroll
        for (int q = 0; q < X_UNITS; ++q) units[q] = observed_unit(obs, q);
        mask = 0u;
        if (MASKED) {
#pragma unroll
            for (int i = 0; i < OUT; ++i) mask |= allowed[i] ? 1u << i : 0u;
        }
    }
};

// Figures of a replica's ended episodes.
struct Ended : EpisodeFigures {
    __device__ __forceinline__ void add(float length, float total) {
        count += 1.0f;
        lengths += length;
        returns += total;
        longest = fmaxf(longest, length);
        largest = fmaxf(largest, total);
        minus_shortest = fmaxf(minus_shortest, -length);
        minus_smallest = fmaxf(minus_smallest, -total);
    }
    __device__ __forceinline__ void write(float* episodes, u32 n, u32 replica) const {
        float values[EPISODE_FIGURES] = {count,   lengths,        returns,       longest,
                                         largest, minus_shortest, minus_smallest};
#pragma unroll
        for (int i = 0; i < EPISODE_FIGURES; ++i) episodes[i * n + replica] = values[i];
    }
};

// A replica on its way through the rollout.
struct Replica {
    State state;
    Seen seen;
    Ended ended;
    Normaliser normaliser;
    u32 number;  // among the arrays' replicas
    u32 row;     // among the rollout's
    u32 length, cuts, before;
    float total;

    __device__ __forceinline__ void begin(const Env& env, const WarpArrays& arrays, u32 steps_done,
                                          u32 replica, u32 row_of_rollout) {
        number = replica;
        row = row_of_rollout;
        state = warp_load(arrays, replica);
        length = arrays.episode_length[replica];
        total = arrays.episode_return[0][replica];
        before = steps_done;
        cuts = 0u;
        ended = {{0.0f, 0.0f, 0.0f, -3e38f, -3e38f, -3e38f, -3e38f}};
    }
    // The first observation of the rollout.
    __device__ __forceinline__ void look(const Env& env) {
        seen.look(env, state, normaliser, nullptr);
        normaliser.count();
    }

    // One step with what was chosen; stores the row if this thread `writes`.
    __device__ __forceinline__ void advance(const Env& env, const WarpRun& world,
                                            const WarpArrays& arrays, u32* records, u32 n, u32 t,
                                            Choice& choice, float value, bool writes) {
        Actions actions;
        float reward = 0.0f;
        StepOut out;
#if CONTINUOUS
        actions.continuous[0] = choice.bounded;
#else
        actions.discrete[0] = choice.actions;
#endif
        out.reward[0] = &reward;
        out.alive[0] = nullptr;
        out.terminated = false;
        out.statistics = nullptr;
        u32 step_number = before + 1u + t;
        WarpDraw draw =
            warp_draw(world.seed, world.first_replica + number, step_number, WARP_PURPOSE_STEP);
        step(env, state, actions, draw, out);
        length += 1u;
        total += reward;
        bool limit = length >= WARP_TIME_LIMIT, over = out.terminated || limit;
        normaliser.reward(reward, over);
        bool truncated = limit && !out.terminated && !WARP_LIMIT_TERMINATES;
        u32 what = choice.what | (over ? ROW_ENDED : 0u) |
                   (truncated ? ROW_TRUNCATED | cuts << 26 : 0u);
        if (writes) {
            uint4* to = stored(records, n, t, row);
#pragma unroll
            for (int q = 0; q < X_UNITS; ++q) to[q] = seen.units[q];
            to[X_UNITS] = make_uint4(what, __float_as_uint(choice.log_prob),
                                      __float_as_uint(value), __float_as_uint(reward));
#if CONTINUOUS
#pragma unroll
            for (int i = 0; i < ACTION_WIDTH; ++i) ((float*)(to + X_UNITS + 1))[i] = choice.raw[i];
#endif
        }
        seen.look(env, state, normaliser, nullptr);
        if (over) start_again(env, world, arrays, records, n, step_number, truncated, writes);
        if (t + 1 < N_STEPS) normaliser.count();
    }

    __device__ __forceinline__ void start_again(const Env& env, const WarpRun& world,
                                                const WarpArrays& arrays, u32* records, u32 n,
                                                u32 step_number, bool truncated, bool writes) {
        ended.add((float)length, total);
        if (truncated && writes) {
            uint4* last = stored(records, n, N_STEPS + 1 + cuts, row);
#pragma unroll
            for (int q = 0; q < X_UNITS; ++q) last[q] = seen.units[q];
        }
        cuts += truncated ? 1u : 0u;
        warp_begin(env, world, arrays, number, step_number, state);
        length = 0u;
        total = 0.0f;
        seen.look(env, state, normaliser, nullptr);
    }

    __device__ __forceinline__ void finish(const Env& env, const WarpArrays& arrays, u32* records,
                                           float* episodes, u32 n) {
        uint4* last = stored(records, n, N_STEPS, row);
#pragma unroll
        for (int q = 0; q < X_UNITS; ++q) last[q] = seen.units[q];
        warp_save(arrays, number, state);
        seen.look(env, state, normaliser, arrays.obs[0] + (unsigned long long)number * OBS);
        arrays.episode_length[number] = length;
        arrays.episode_return[0][number] = total;
        ended.write(episodes, n, row);
    }
};

template <int TILES>
__device__ __forceinline__ void collect(const CollectArgs& a, const WarpRun& world,
                                        const WarpArrays& arrays, const WarpTables& tables,
                                        const NetShared& net, const float* factors, unsigned short* x) {
    int lane = threadIdx.x & 31, j = lane & 3;
    int slot = (j * 8 + lane / 4) % (16 * TILES);
    u32 n = a.run.n_rows, warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    u32 number = warp * 16 * TILES + slot;
    bool writes = j < 2 * TILES && number < n;
    Env env = warp_env(tables);
    Replica replica;
    u32 replica_number = number < n ? number : n - 1;
    replica.begin(env, arrays, *arrays.run_step + a.run.steps_before, replica_number, replica_number);
    replica.normaliser.begin(factors, a.normaliser, replica_number);
    replica.look(env);
    unsigned short* own = x + slot * LDX;
#pragma unroll 1
    for (u32 t = 0; t < N_STEPS; ++t) {
        // Here and not once before the loop as well: ptxas 13.0 then moves the constant half of a unit
        // behind its first store.
        __syncwarp();
#pragma unroll
        for (int q = 0; q < X_UNITS; ++q) {
            // Lanes that mirror others leave the row to them.
            if (j < 2 * TILES) *(uint4*)(own + q * 8) = replica.seen.units[q];
        }
        __syncwarp();
        float z[Role<0>::outputs], out[TILES][4];
        u32 inputs[TILES][KX / 16][4];
        Hidden h1[TILES], h2[TILES];
        load_inputs<TILES>(inputs, x);
        hidden_layers<TILES>(net, inputs, h1, h2);
        last_layer<0, TILES>(net, h2, out);
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
            float low[Role<0>::outputs], high[Role<0>::outputs];
            gather_outputs<0>(out[tile], low, high);
#pragma unroll
            for (int o = 0; o < Role<0>::outputs; ++o) {
                float mine = j & 1 ? high[o] : low[o];
                z[o] = tile == 0 || j / 2 == tile ? mine : z[o];
            }
        }
        WarpDraw stream = warp_draw(world.seed, world.first_replica + replica.number,
                                    replica.before + t, WARP_PURPOSE_ACTION);
        Choice choice;
        choice.draw(z, replica.seen.mask, warp_draw_agent(&stream, FIRST_AGENT));
        replica.advance(env, world, arrays, a.records, n, t, choice,
                        Role<0>::value ? z[Role<0>::outputs - 1] : 0.0f, writes);
    }
    replica.normaliser.write(a.normaliser, warp, writes);
    if (!writes) return;
    replica.normaliser.finish(a.normaliser, replica.row);
    replica.finish(env, arrays, a.records, a.episodes, n);
}

// What a block shares that collects: in memory of the host's, where a kernel may not declare as much.
template <class Shared> __device__ __forceinline__ Shared& collect_shared() {
#if COLLECT_BYTES > 0
    static_assert(sizeof(Shared) <= COLLECT_BYTES, "more than the host gives a block");
    extern __shared__ __align__(1024) unsigned char memory[];
    return *(Shared*)memory;
#else
    __shared__ Shared shared;
    return shared;
#endif
}

template <int TILES> struct BlockShared {
    NetShared net;
    __align__(16) unsigned short x[4][16 * TILES * LDX];
    float factors[N_FACTORS];
};

template <int TILES>
__device__ __forceinline__ void collect_block(const CollectArgs& a, const WarpRun& world,
                                              const WarpArrays& arrays, const WarpTables& tables) {
    auto& [net, x, factors] = collect_shared<BlockShared<TILES>>();
    if (blockIdx.x == 0 && threadIdx.x == 0) *a.barrier = 0u;
    for (int i = threadIdx.x; i < (int)(sizeof(x) / 4); i += blockDim.x) ((u32*)x)[i] = 0u;
    load_net(net, a.parameters, threadIdx.x, blockDim.x);
    load_factors(factors, a.normaliser, threadIdx.x, blockDim.x);
    __syncthreads();
    collect<TILES>(a, world, arrays, tables, net, factors, x[threadIdx.x / 32]);
}

#if TOGETHER >= 16
// Blocks of up to 4 warps. With 32 replicas a warp no lane is idle in the body.
extern "C" __global__ void __launch_bounds__(128)
    small_collect(WarpRun world, WarpArrays arrays, WarpTables tables,
                  const CollectArgs a) {
    collect_block<TOGETHER / 16>(a, world, arrays, tables);
}
#endif

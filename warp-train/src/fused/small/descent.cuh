// From minibatches to gradients, and from those to new weights.
//
// Needs, beside order.cuh's: BLEND_1, BLEND_2, RMSPROP (instead of Adam).
#pragma once
#include "order.cuh"

// Tiles of a minibatch at most, where it is known that there is one; 0 where it is not.
#ifndef MOST_TILES
#define MOST_TILES 0
#endif

// Where an element of a small tile goes in the network: its offset in bytes, and whether it stays f32;
// NO_ROW for none.
#define PLACE_FLOAT (1u << 20)

__device__ __forceinline__ u32 place_of(const NetShared& net, int at) {
    u32 base = shared_address(&net), w3 = (u32)(at - AT_W3);
    u32 in_w1 = shared_address(net.w1) - base + ((u32)at / KX * LDX + (u32)at % KX) * 2;
    u32 in_w3 = shared_address(net.w3) - base + (w3 / HID * LDH + w3 % HID) * 2;
    u32 in_b2 = (shared_address(net.b2) - base + (u32)(at - AT_B2) * 4) | PLACE_FLOAT;
    u32 in_b3 = (shared_address(net.b3) - base + (u32)(at - AT_B3) * 4) | PLACE_FLOAT;
    u32 place = at < AT_W2 ? in_w1 : at < AT_W3 ? in_b2 : at < AT_B3 ? in_w3 : in_b3;
    return at < 0 ? NO_ROW : place;
}

__device__ __forceinline__ void write_place(NetShared& net, u32 place, float w) {
    if (place == NO_ROW) return;
    char* to = (char*)&net + (place & (PLACE_FLOAT - 1u));
    if (place & PLACE_FLOAT)
        *(float*)to = w;
    else
        *(unsigned short*)to = half_bits(w);
}

// Four weights of wide tile `t` as the network has them.
__device__ __forceinline__ void write_wide(NetShared& net, int t, float4 w) {
    int lane = threadIdx.x & 31;
    WidePlace at = wide_place(group_warp(), t);
    u32* to = (u32*)(net.w2 + at_w2(at.row + lane / 4, at.column + 2 * (lane & 3)));
    to[0] = pack_halves(w.x, w.y);
    to[8 * LDM / 2] = pack_halves(w.z, w.w);
}

// One step of Adam or RMSprop on one parameter, in as few instructions as possible. Subnormal numbers count
// as 0, as they do beside epsilon.
__device__ __forceinline__ void descend(float g, DescentStep step, float& w, float& m, float& v) {
    float root, inverse, direction = g;
    if (!RMSPROP) direction = m = fmaf(g - m, BLEND_1, m);
    v = fmaf(fmaf(g, g, -v), BLEND_2, v);
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(v));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(fmaf(root, step.inverse_bias_correction2_sqrt, step.epsilon)));
    if (DECAYS) w *= step.keep;
    w = fmaf(-step.step_size, direction * inverse, w);
}

// Where a network's parameters lie in memory, and where its optimiser's state is kept while it learns,
// if not in registers.
struct Memory {
    float* parameters;
    float* exp_avg;
    float* exp_avg_sq;
    float4* state;
};

// Parameters of a network that this thread alone updates, in its order.
struct Own {
    static constexpr u32 quads = OWN_TILES * GROUP_THREADS;
    static constexpr int kept = KEEPS_STATE ? OWN_TILES : 1;
    float4 values[3][kept];  // weights and both moments
    u32 place[SMALL_TILES][4];
    float4* memory;

    // Elements of a small tile that exist.
    __device__ __forceinline__ bool exists(int tile) const {
        if (tile < WIDE_TILES) return true;
        const u32(&p)[4] = place[tile - WIDE_TILES];
        return p[0] != NO_ROW || p[1] != NO_ROW || p[2] != NO_ROW || p[3] != NO_ROW;
    }
    __device__ __forceinline__ float4 get(int kind, int tile) const {
        if (KEEPS_STATE) return values[kind][KEEPS_STATE ? tile : 0];
        return __ldcg(memory + kind * quads + tile * GROUP_THREADS);
    }
    __device__ __forceinline__ void put(int kind, int tile, float4 x) {
        if (KEEPS_STATE)
            values[kind][KEEPS_STATE ? tile : 0] = x;
        else
            __stcg(memory + kind * quads + tile * GROUP_THREADS, x);
    }

    // Where the elements of own tile `t` of network `net` and a group's thread `thread` lie in memory.
    struct Places {
        int at[4];

        __device__ __forceinline__ Places(int net, int t, u32 thread) {
#pragma unroll
            for (int i = 0; i < 4; ++i) at[i] = own_parameter(net, (int)thread / 32, (int)thread % 32, t, i);
        }
        // Of a wide tile all are there, two by two.
        __device__ __forceinline__ float4 read_wide(const float* from) const {
            float2 low = __ldcg((const float2*)(from + at[0])), high = __ldcg((const float2*)(from + at[2]));
            return make_float4(low.x, low.y, high.x, high.y);
        }
        __device__ __forceinline__ void write_wide(float* to, float4 x) const {
            __stcg((float2*)(to + at[0]), make_float2(x.x, x.y));
            __stcg((float2*)(to + at[2]), make_float2(x.z, x.w));
        }
        // Of a small tile 0 is read where there is no parameter.
        __device__ __forceinline__ float4 read_small(const float* from) const {
            float x[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) x[i] = at[i] < 0 ? 0.0f : __ldcg(from + at[i]);
            return make_float4(x[0], x[1], x[2], x[3]);
        }
        __device__ __forceinline__ void write_small(float* to, float4 x) const {
            float xs[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (at[i] >= 0) __stcg(to + at[i], xs[i]);
        }
    };

    // Finds the places, and with `reads` brings weights and moments from memory.
    __device__ __forceinline__ void load(int net, UpdateShared& shared, const Memory& from, bool reads) {
        const float* arrays[3] = {from.parameters, from.exp_avg, from.exp_avg_sq};
        memory = from.state + group_thread();
#pragma unroll
        for (int t = 0; t < OWN_TILES; ++t) {
            Places places(net, t, group_thread());
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (t >= WIDE_TILES) place[t - WIDE_TILES][i] = place_of(shared.net, places.at[i]);
            if (!reads) continue;
#pragma unroll
            for (int kind = 0; kind < 3; ++kind)
                put(kind, t,
                    t < WIDE_TILES ? places.read_wide(arrays[kind]) : places.read_small(arrays[kind]));
        }
    }

    // The same for those whose values an earlier launch has left in memory.
    __device__ __forceinline__ void find(int net, const UpdateShared& shared, const Memory& from) {
        memory = from.state + group_thread();
#pragma unroll
        for (int t = 0; t < SMALL_TILES; ++t) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                place[t][i] = place_of(
                    shared.net, own_parameter(net, group_warp(), threadIdx.x & 31, WIDE_TILES + t, i));
        }
    }

    __device__ __forceinline__ void store(int net, const Memory& to) const {
        float* arrays[3] = {to.parameters, to.exp_avg, to.exp_avg_sq};
        // Places are found again: what load() knew of them would take registers meanwhile.
        u32 thread = group_thread();
        asm volatile("" : "+r"(thread));
#pragma unroll
        for (int t = 0; t < OWN_TILES; ++t) {
            Places places(net, t, thread);
#pragma unroll
            for (int kind = 0; kind < 3; ++kind) {
                if (t < WIDE_TILES)
                    places.write_wide(arrays[kind], get(kind, t));
                else
                    places.write_small(arrays[kind], get(kind, t));
            }
        }
    }

    // What a tile's accumulators say of parameters; 0 for what is none.
    __device__ __forceinline__ float4 gradient(const OwnTiles& own, int tile) const {
        float4 g = make_float4(own[tile][0], own[tile][1], own[tile][2], own[tile][3]);
        if (tile < WIDE_TILES) return g;
        const u32(&p)[4] = place[tile - WIDE_TILES];
        return make_float4(p[0] == NO_ROW ? 0.0f : g.x, p[1] == NO_ROW ? 0.0f : g.y,
                           p[2] == NO_ROW ? 0.0f : g.z, p[3] == NO_ROW ? 0.0f : g.w);
    }

    // A step along `g`; the network gets the new weights.
    __device__ __forceinline__ void step(NetShared& net, const float4 (&g)[OWN_TILES], float clip,
                                         DescentStep along) {
#pragma unroll
        for (int t = 0; t < OWN_TILES; ++t) {
            if (!exists(t)) continue;
            float4 w = get(0, t), m = get(1, t), v = get(2, t);
            descend(g[t].x * clip, along, w.x, m.x, v.x);
            descend(g[t].y * clip, along, w.y, m.y, v.y);
            descend(g[t].z * clip, along, w.z, m.z, v.z);
            descend(g[t].w * clip, along, w.w, m.w, v.w);
            put(0, t, w);
            put(1, t, m);
            put(2, t, v);
            show(net, t, w);
        }
    }

    // Gives the network the weights that all blocks have made.
    __device__ __forceinline__ void show_all(NetShared& net) const {
        float4 w[OWN_TILES];
#pragma unroll
        for (int t = 0; t < OWN_TILES; ++t) w[t] = get(0, t);
#pragma unroll
        for (int t = 0; t < OWN_TILES; ++t) show(net, t, w[t]);
    }

    // Gives the network the weights of tile `t`.
    __device__ __forceinline__ void show(NetShared& net, int t, float4 w) const {
        if (t < WIDE_TILES) {
            write_wide(net, t, w);
            return;
        }
        const u32(&p)[4] = place[t - WIDE_TILES];
        write_place(net, p[0], w.x);
        write_place(net, p[1], w.y);
        write_place(net, p[2], w.z);
        write_place(net, p[3], w.w);
    }
};

// The place in an epoch of the row that this lane looks up, of a warp's from place `first` on. Where there are no more, it
// is the minibatch's last one: such copies' losses do not count.
__device__ __forceinline__ u32 place_of_lane(u32 first, u32 end) {
    u32 lane = threadIdx.x & 31, place = first + (LANE_UNITS > 1 ? lane % WARP_ROWS : lane / RECORD_UNITS);
    return place < end ? place : end - 1u;
}

// Loads a lane's part of its warp's rows of a tile, of `n` samples; `found` is the row that the lane has looked up.
__device__ __forceinline__ void load_rows(const u32* records, u32 n, u32 found, uint4 (&loaded)[LANE_UNITS]) {
    constexpr u32 units = WARP_ROWS * RECORD_UNITS;
#pragma unroll
    for (int i = 0; i < LANE_UNITS; ++i) {
        u32 unit = (threadIdx.x & 31) + 32 * i;
        if (units % 32 != 0 && unit >= units) unit = units - 1;
        u32 part = unit % RECORD_UNITS, row = found;
        if (LANE_UNITS > 1) row = __shfl_sync(0xffffffffu, found, unit / RECORD_UNITS % 32);
        const uint4* from = record_at(records, row) + part;
        if (APART && part >= X_UNITS) from = rest_at(records, n / N_STEPS, row) + part - X_UNITS;
        loaded[i] = __ldcg(from);
    }
}

// A block's way through the minibatches of an update of network `net`.
struct Minibatches {
    int net;
    const SmallRun& run;
    u32 n;  // samples
    const u32* records;
    NetworkBlocks blocks;           // that share its network
    const WarpWords* keys;    // of the epochs' orders, if they are kept
    Coefficients k;
    LossSums sums;
    uint4 loaded[LANE_UNITS];
    u32 ahead;  // the permuted place of this lane's row of the tile behind the one that is loaded
    int stage;

    __device__ __forceinline__ Minibatches(int net, const SmallRun& run, const u32* records, NetworkBlocks blocks,
                                           const Schedule& now, const WarpWords* keys = nullptr,
                                           int begin = 0)
        : net(net), run(run), n(N_STEPS * run.n_rows), records(records), blocks(blocks), keys(keys), sums(), stage(0) {
#pragma unroll
        for (int i = 0; i < MOST_CELLS; ++i) k.cells[i] = now.cells[i];
        k.value = now.vf_coef;
        k.entropy = now.ent_coef;
        load_first(begin);
    }

    __device__ __forceinline__ EpochOrder order(int epoch) const { return order_of(run, n, epoch, keys); }

    // Where this warp's rows of the block's first tile of minibatch `u` begin.
    __device__ __forceinline__ u32 first_place(int u) const {
        return minibatch_start(n, u % MINIBATCHES) + blocks.own * TILE_ROWS + group_warp() * WARP_ROWS;
    }
    // Loads what this warp needs of minibatch `u` first.
    __device__ __forceinline__ void load_first(int u) {
        EpochOrder of = order(u / MINIBATCHES);
        u32 first = first_place(u), end = minibatch_start(n, u % MINIBATCHES + 1);
        load_rows(records, n, of.at(place_of_lane(first, end)), loaded);
        if (MOST_TILES != 1) ahead = of.permute(place_of_lane(first + blocks.n * TILE_ROWS, end));
    }

    // Adds this block's tiles of minibatch `u` to `own`; returns one over the number of samples.
    __device__ __forceinline__ float add(UpdateShared& shared, int u, OwnTiles& own) {
        int warp = group_warp();
        u32 end = minibatch_start(n, u % MINIBATCHES + 1), step = blocks.n * TILE_ROWS;
        float one = 1.0f / (float)((end - minibatch_start(n, u % MINIBATCHES)) * RANKS);
        k.mean = NORM_ADV ? shared.mean[u] : 0.0f;
        k.scale = NORM_ADV ? shared.scale[u] : 1.0f;
        NormSums norms = {};
        EpochOrder of = order(u / MINIBATCHES);
#pragma unroll 1
        for (u32 at = first_place(u); at - warp * WARP_ROWS < end; at += step) {
            Stage& to = shared.stage[stage];
            if (N_STAGES == 1 && MOST_TILES != 1) group_wait();
            stage_rows(to, warp, loaded);
            // Behind the last tile as well, where it is of no use: a branch would cost every tile more.
            if (MOST_TILES != 1) load_rows(records, n, of.cycle_walk(ahead), loaded);
            __syncwarp();
            add_tile(net, shared.net, to, warp, (int)(end - at), k, one, sums, own, norms, [&] {
                if (MOST_TILES != 1) ahead = of.permute(place_of_lane(at + 2 * step, end));
            });
            if (MOST_TILES == 1) break;
            stage = N_STAGES == 1 ? 0 : 1 - stage;
        }
#if LAYER_NORM
        add_norms(net, (float*)shared.stage, warp, norms, own);
#endif
        if (u + 1 < N_UPDATES && !RELAYED) load_first(u + 1);
        return one;
    }
};

// Scale by which a gradient of this norm is cut to the largest allowed; 0 allows all.
__device__ __forceinline__ float clip_of(float norm, float max_grad_norm) {
    return max_grad_norm > 0.0f ? fminf(max_grad_norm / (norm + 1e-6f), 1.0f) : 1.0f;
}

// Weights and moments of a network of which a block's group has all gradients by itself.
//
// A thread updates those elements of the second layer whose gradients it accumulates, and a few of all
// the others, whose gradients pass through shared memory: few of a small tile's elements are parameters.
//
// Needs what descent.cuh needs.
#pragma once
#include "descent.cuh"

// Where the gradients of the small tiles pass through: the first layer's activations are done with.
#define RAW_FLOATS (SMALL_TILES * GROUP_THREADS * 4)
static_assert(RAW_FLOATS * 4 <= TILE_ROWS * LDM * 2, "the stage is too small for the small gradients");

static_assert(sizeof(NetShared) <= 1 << 14, "places in the network have 14 bits");

// A parameter outside of the second layer's matrix.
struct SmallParameter {
    int at;   // its place in memory; negative if there is none
    int raw;  // its gradient's place among those of the small tiles
};

// With room for OUTPUTS outputs, of which a network may have fewer.
template <int OUTPUTS> struct Weights {
    static constexpr int most_small = HID * (OBS + 2 + NORM_ROWS) + OUTPUTS * (HID + 1);
    static constexpr int own_small = (most_small + GROUP_THREADS - 1) / GROUP_THREADS;
    static constexpr u32 quads = OWN_TILES * GROUP_THREADS;
    int net;
    float4* memory;  // weights and moments
    float4* near;    // of the wide tiles the moments, in shared memory, if they have a place there
    u32 where[own_small];  // bits 0 to 13: place in the network, 14: of an f32, 15 to 30: of the gradient, 31: none
    u32 real;              // a bit per element of the small tiles that is a parameter

    // Of weights and both moments of the wide tiles so many are far away.
    static constexpr int far_kinds = NEAR ? 1 : 3;
    // What is far away and needed after the next barrier.
    struct Ahead {
        float4 wide[far_kinds][WIDE_TILES];
        float small[3][own_small];
    };

    // Parameter `i` of those outside of the second layer's matrix.
    __device__ __forceinline__ SmallParameter small_parameter(int i) const {
        int job, row, column, at, outputs = outputs_of(net);
        int first = HID * (OBS + 1), second = first + HID * (1 + NORM_ROWS), third = second + outputs * HID;
        if (i < first) {
            row = i / (OBS + 1), column = i % (OBS + 1);
            at = AT_W1 + row * KX + column;
            job = column / 8 * M_TILES + row / 16;
        } else if (i < second) {
            // Biases, and behind them the rows of gains and shifts.
            int behind = NORM_ROWS > 0 ? (i - first) / HID : 0;
            row = i - first - behind * HID, column = OBS + behind;
            at = AT_B2 + i - first;
            job = X_TILES * M_TILES + row / 16;
        } else if (i < third) {
            row = (i - second) % HID, column = (i - second) / HID;
            at = AT_W3 + column * HID + row;
            job = (X_TILES + 1) * M_TILES + row / 16;
        } else {
            row = OBS, column = i - third;
            at = AT_B3 + column;
            job = (X_TILES + 2) * M_TILES;
        }
        int lane = row % 8 * 4 + column % 8 / 2, element = row / 8 % 2 * 2 + column % 2;
        int tile = job / 8, warp = job % 8;
        // What own_parameter() does not know is not learned.
        bool exists = i < third + outputs && own_parameter(net, warp, lane, WIDE_TILES + tile, element) == at;
        return {exists ? at : -1, ((tile * 8 + warp) * 32 + lane) * 4 + element};
    }

    __device__ __forceinline__ float* small(int kind) const {
        return (float*)(memory - group_thread() + kind * quads + WIDE_TILES * GROUP_THREADS) + group_thread();
    }
    // Four numbers of wide tile `t` in memory.
    __device__ __forceinline__ float4* wide(int kind, int t) const {
        return memory + kind * quads + t * GROUP_THREADS;
    }

    // The places of this thread's parameters.
    __device__ __forceinline__ Weights(int net, UpdateShared& shared) : net(net) {
        near = shared.wide + (NEAR ? group_thread() : 0);
        memory = nullptr;
#pragma unroll
        for (int j = 0; j < own_small; ++j) {
            SmallParameter p = small_parameter(group_thread() + j * GROUP_THREADS);
            u32 to = place_of(shared.net, p.at);
            u32 place = (to & (PLACE_FLOAT - 1u)) | (to & PLACE_FLOAT ? 1u << 14 : 0u);
            where[j] = p.at < 0 ? 1u << 31 : place | (u32)p.raw << 15;
        }
        real = 0u;
#pragma unroll
        for (int i = 0; i < 4 * SMALL_TILES; ++i) {
            int at = own_parameter(net, group_warp(), threadIdx.x & 31, WIDE_TILES + i / 4, i % 4);
            real |= at < 0 ? 0u : 1u << i;
        }
    }

    // Copies parameters and moments to where they lie while a run is trained.
    __device__ __forceinline__ void bring(const Memory& from) {
        const float* arrays[3] = {from.parameters, from.exp_avg, from.exp_avg_sq};
        memory = from.state + group_thread();
#pragma unroll
        for (int kind = 0; kind < 3; ++kind) {
#pragma unroll
            for (int t = 0; t < WIDE_TILES; ++t) {
                const float* at = arrays[kind] + wide_at(t);
                float2 low = __ldcg((const float2*)at), high = __ldcg((const float2*)(at + 8 * HID));
                __stcg(wide(kind, t), make_float4(low.x, low.y, high.x, high.y));
            }
#pragma unroll
            for (int j = 0; j < own_small; ++j) {
                int at = small_parameter(group_thread() + j * GROUP_THREADS).at;
                if (at >= 0) __stcg(small(kind) + j * GROUP_THREADS, __ldcg(arrays[kind] + at));
            }
        }
    }
    // Copies them back.
    __device__ __forceinline__ void give_back(const Memory& to) {
        memory = to.state + group_thread();
        float* arrays[3] = {to.parameters, to.exp_avg, to.exp_avg_sq};
#pragma unroll
        for (int kind = 0; kind < 3; ++kind) {
#pragma unroll
            for (int t = 0; t < WIDE_TILES; ++t) {
                float* at = arrays[kind] + wide_at(t);
                float4 x = __ldcg(wide(kind, t));
                __stcg((float2*)at, make_float2(x.x, x.y));
                __stcg((float2*)(at + 8 * HID), make_float2(x.z, x.w));
            }
#pragma unroll
            for (int j = 0; j < own_small; ++j) {
                int at = small_parameter(group_thread() + j * GROUP_THREADS).at;
                if (at >= 0) __stcg(arrays[kind] + at, __ldcg(small(kind) + j * GROUP_THREADS));
            }
        }
    }
    __device__ __forceinline__ int wide_at(int t) const {
        return own_parameter(net, group_warp(), threadIdx.x & 31, t, 0);
    }

    // Puts into memory what is near.
    __device__ __forceinline__ void put_away() const {
        has_taken();
#pragma unroll
        for (int i = 0; i < (NEAR ? 2 * WIDE_TILES : 0); ++i)
            __stcg(wide(1 + i / WIDE_TILES, i % WIDE_TILES), near[i * GROUP_THREADS]);
    }
    // Takes it from there, until has_taken(); the network gets the weights.
    __device__ __forceinline__ void take(const Memory& from, NetShared& net) {
        memory = from.state + group_thread();
        Ahead ahead;
        fetch(ahead);
#pragma unroll
        for (int i = 0; i < (NEAR ? 2 * WIDE_TILES : 0); ++i)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                             shared_address(near + i * GROUP_THREADS)),
                         "l"(wide(1 + i / WIDE_TILES, i % WIDE_TILES))
                         : "memory");
#pragma unroll
        for (int t = 0; t < WIDE_TILES; ++t) write_wide(net, t, ahead.wide[0][t]);
#pragma unroll
        for (int j = 0; j < own_small; ++j) write_small(net, j, ahead.small[0][j]);
        publish();
    }

    static __device__ __forceinline__ void has_taken() { asm volatile("cp.async.wait_all;" ::: "memory"); }

    __device__ __forceinline__ void fetch(Ahead& ahead) const {
#pragma unroll
        for (int kind = 0; kind < far_kinds; ++kind) {
#pragma unroll
            for (int t = 0; t < WIDE_TILES; ++t) ahead.wide[kind][t] = __ldcg(wide(kind, t));
        }
#pragma unroll
        for (int j = 0; j < own_small; ++j) {
#pragma unroll
            for (int kind = 0; kind < 3; ++kind)
                ahead.small[kind][j] = __ldcg(small(kind) + j * GROUP_THREADS);
        }
    }
    // The reverse of fetch(), for those whom step() leaves everything.
    __device__ __forceinline__ void keep(const Ahead& ahead) const {
#pragma unroll
        for (int kind = 0; kind < far_kinds; ++kind) {
#pragma unroll
            for (int t = 0; t < WIDE_TILES; ++t) __stcg(wide(kind, t), ahead.wide[kind][t]);
        }
#pragma unroll
        for (int j = 0; j < own_small; ++j) {
#pragma unroll
            for (int kind = 0; kind < 3; ++kind)
                __stcg(small(kind) + j * GROUP_THREADS, ahead.small[kind][j]);
        }
    }
    __device__ __forceinline__ void write_small(NetShared& net, int j, float w) const {
        if (where[j] >> 31) return;
        char* to = (char*)&net + (where[j] & 0x3fffu);
        if (where[j] & 1u << 14)
            *(float*)to = w;
        else
            *(unsigned short*)to = half_bits(w);
    }

    // The sum of squares of this thread's gradients; leaves those of the small tiles for whom they belong
    // to.
    __device__ __forceinline__ float squares(float4* raw, const OwnTiles& own) const {
        float sum = 0.0f;
#pragma unroll
        for (int t = 0; t < OWN_TILES; ++t) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                bool counts = t < WIDE_TILES || (real >> (4 * (t - WIDE_TILES) + i) & 1u);
                float x = counts ? own[t][i] : 0.0f;
                sum += x * x;
            }
        }
#pragma unroll
        for (int t = 0; t < SMALL_TILES; ++t) {
            const float(&x)[4] = own[WIDE_TILES + t];
            raw[t * GROUP_THREADS + group_thread()] = make_float4(x[0], x[1], x[2], x[3]);
        }
        return sum;
    }

    // Moments of wide tile `t`.
    __device__ __forceinline__ void moments(const Ahead& ahead, int t, float4& m, float4& v) const {
        m = NEAR ? near[t * GROUP_THREADS] : ahead.wide[NEAR ? 0 : 1][t];
        v = NEAR ? near[(WIDE_TILES + t) * GROUP_THREADS] : ahead.wide[NEAR ? 0 : 2][t];
    }

    // A step along `scale` times the gradients; the network gets the new weights.
    __device__ __forceinline__ void step(NetShared& net, const float4* gradients, Ahead& ahead,
                                         const OwnTiles& own, float scale, DescentStep along) {
        const float* raw = (const float*)gradients;
        float4 m, v, next_m, next_v;
        moments(ahead, 0, m, v);
#pragma unroll
        for (int j = 0; j < own_small; ++j) {
            float g = raw[where[j] >> 15 & 0xffffu] * scale;
            descend(g, along, ahead.small[0][j], ahead.small[1][j], ahead.small[2][j]);
        }
#pragma unroll
        for (int t = 0; t < WIDE_TILES; ++t) {
            // Asked for before anything is stored, as it might be the same place for all the compiler knows.
            if (t + 1 < WIDE_TILES) moments(ahead, t + 1, next_m, next_v);
            float4 w = ahead.wide[0][t];
            descend(own[t][0] * scale, along, w.x, m.x, v.x);
            descend(own[t][1] * scale, along, w.y, m.y, v.y);
            descend(own[t][2] * scale, along, w.z, m.z, v.z);
            descend(own[t][3] * scale, along, w.w, m.w, v.w);
            write_wide(net, t, w);
            if (SPREAD) {
                ahead.wide[0][t] = w;
                ahead.wide[SPREAD][t] = m;
                ahead.wide[2 * SPREAD][t] = v;
            } else {
                __stcg(wide(0, t), w);
            }
            if (NEAR) {
                near[t * GROUP_THREADS] = m;
                near[(WIDE_TILES + t) * GROUP_THREADS] = v;
            } else if (!SPREAD) {
                __stcg(wide(1, t), m);
                __stcg(wide(2, t), v);
            }
            m = next_m;
            v = next_v;
        }
#pragma unroll
        for (int j = 0; j < own_small; ++j) {
            if (where[j] >> 31) continue;
#pragma unroll
            for (int kind = 0; kind < (SPREAD ? 0 : 3); ++kind)
                __stcg(small(kind) + j * GROUP_THREADS, ahead.small[kind][j]);
            write_small(net, j, ahead.small[0][j]);
        }
    }
};

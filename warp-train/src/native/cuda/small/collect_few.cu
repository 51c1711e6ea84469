// A whole rollout of few replicas in one launch, as fast as one of them can go: a warp per replica.
//
// A lane has HID / 32 features of each layer and their weights in registers; products are plain ones in
// f32, of operands rounded to halves, so that outputs are those of the tensor cores but for the order of
// sums. All lanes step the same replica; two warps that share one do, too. What an action is drawn with is drawn 32 steps ahead, a step a
// lane.
//
// For HID of 32 and 64 and up to 15 inputs; see collect.cu.
#pragma once
#include "collect.cu"

__device__ __forceinline__ float rounded(float x) {
    float low, high;
    unpack_halves(pack_halves(x, x), low, high);
    return low;
}

#if HID <= 64 && OBS <= 15
#define FEW_OUTPUTS Role<0>::outputs

// What the warps of one replica exchange.
struct LaneShared {
    float h[HID];
    float z[2][8];
};

// The acting network, spread over the lanes of WARPS warps; they are number `part` of the replica's.
template <int WARPS> struct LaneNet {
    static constexpr int features = HID / 32 / WARPS;
    float w1[features][OBS + 1], w2[features][HID], b2[features];
    float w3[features][FEW_OUTPUTS], b3[FEW_OUTPUTS];

    __device__ __forceinline__ void load(const NetShared& net, int part) {
        int first = (part * 32 + (threadIdx.x & 31)) * features;
#pragma unroll
        for (int f = 0; f < features; ++f) {
            read_row<OBS + 1>(net.w1 + (first + f) * LDX, w1[f]);
            read_row<HID>(net.w2 + (first + f) * LDH, w2[f]);
            b2[f] = net.b2[first + f];
#pragma unroll
            for (int o = 0; o < FEW_OUTPUTS; ++o) {
                float one[1];
                read_row<1>(net.w3 + o * LDH + first + f, one);
                w3[f][o] = one[0];
            }
        }
#pragma unroll
        for (int o = 0; o < FEW_OUTPUTS; ++o) b3[o] = net.b3[o];
    }
    template <int N>
    static __device__ __forceinline__ void read_row(const unsigned short* row, float (&to)[N]) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            float high;
            unpack_halves((u32)row[i], to[i], high);
        }
    }

    // Waits for the replica's other warp.
    static __device__ __forceinline__ void wait(int pair) {
        if (WARPS == 1)
            __syncwarp();
        else
            asm volatile("bar.sync %0, 64;" ::"r"(pair + 2) : "memory");
    }

    // All outputs, in all lanes of all the replica's warps.
    __device__ __forceinline__ void forward(const Seen& seen, LaneShared& place, int pair, int part,
                                            float (&z)[FEW_OUTPUTS]) {
        int first = (part * 32 + (threadIdx.x & 31)) * features;
        float x[X_HALVES], sum[features][4];
#pragma unroll
        for (int q = 0; q < X_UNITS; ++q) {
            u32 words[4] = {seen.units[q].x, seen.units[q].y, seen.units[q].z, seen.units[q].w};
#pragma unroll
            for (int i = 0; i < 4; ++i) unpack_halves(words[i], x[8 * q + 2 * i], x[8 * q + 2 * i + 1]);
        }
#pragma unroll
        for (int f = 0; f < features; ++f) {
            sum[f][0] = w1[f][OBS];
#pragma unroll
            for (int i = 0; i < OBS; ++i) sum[f][0] += w1[f][i] * x[i];
            place.h[first + f] = rounded(activate(sum[f][0]));
        }
        wait(pair);
#pragma unroll
        for (int f = 0; f < features; ++f) {
            sum[f][0] = b2[f];
            sum[f][1] = sum[f][2] = sum[f][3] = 0.0f;
        }
#pragma unroll
        for (int i = 0; i < HID / 4; ++i) {
            float4 four = *(const float4*)&place.h[4 * i];
#pragma unroll
            for (int f = 0; f < features; ++f) {
                sum[f][0] += w2[f][4 * i] * four.x;
                sum[f][1] += w2[f][4 * i + 1] * four.y;
                sum[f][2] += w2[f][4 * i + 2] * four.z;
                sum[f][3] += w2[f][4 * i + 3] * four.w;
            }
        }
#pragma unroll
        for (int o = 0; o < FEW_OUTPUTS; ++o) z[o] = 0.0f;
#pragma unroll
        for (int f = 0; f < features; ++f) {
            float out = rounded(activate((sum[f][0] + sum[f][1]) + (sum[f][2] + sum[f][3])));
#pragma unroll
            for (int o = 0; o < FEW_OUTPUTS; ++o) z[o] += w3[f][o] * out;
        }
#pragma unroll
        for (int d = 16; d > 0; d >>= 1) {
#pragma unroll
            for (int o = 0; o < FEW_OUTPUTS; ++o) z[o] += __shfl_xor_sync(0xffffffffu, z[o], d);
        }
        if (WARPS == 2) {
#pragma unroll
            for (int o = 0; o < FEW_OUTPUTS; ++o)
                if ((threadIdx.x & 31) == 0) place.z[part][o] = z[o];
            wait(pair);
#pragma unroll
            for (int o = 0; o < FEW_OUTPUTS; ++o) z[o] = place.z[0][o] + place.z[1][o];
        }
#pragma unroll
        for (int o = 0; o < FEW_OUTPUTS; ++o) z[o] += b3[o];
    }
};

// Numbers that one action takes from its stream.
#define DRAWS (CONTINUOUS ? 2 * ACTION_WIDTH : ACTION_WIDTH)

__device__ __forceinline__ WarpDraw action_stream(const WarpRun& world, const Replica& replica, u32 t) {
    WarpDraw stream = warp_draw(world.seed, world.first_replica + replica.number,
                                replica.before + t, WARP_PURPOSE_ACTION);
    return warp_draw_agent(&stream, FIRST_AGENT);
}

// The rollout of one replica, by WARPS warps of which this is number `part`.
template <int WARPS>
__device__ __forceinline__ void collect_one(Replica& replica, const Env& env, const WarpRun& world,
                                            const WarpArrays& arrays, const NetShared& shared,
                                            LaneShared& place, int pair, int part, u32* records,
                                            u32 n) {
    int lane = threadIdx.x & 31;
    LaneNet<WARPS> net;
    net.load(shared, part);
    float ahead[4] = {};
#pragma unroll 1
    for (u32 t = 0; t < N_STEPS; ++t) {
        Choice choice;
        float z[FEW_OUTPUTS];
        if (DRAWS <= 4 && t % 32 == 0) {
            WarpDraw stream = action_stream(world, replica, t + lane);
#pragma unroll
            for (int i = 0; i < DRAWS && i < 4; ++i) ahead[i] = warp_draw_uniform(&stream);
        }
        net.forward(replica.seen, place, pair, part, z);
        if (DRAWS <= 4) {
            Ready ready;
            ready.next = 0;
#pragma unroll
            for (int i = 0; i < 4; ++i)
                ready.u[i] = i < DRAWS ? __shfl_sync(0xffffffffu, ahead[i], t % 32) : 0.0f;
            choice.draw(z, replica.seen.mask, ready);
        } else {
            choice.draw(z, replica.seen.mask, action_stream(world, replica, t));
        }
        replica.advance(env, world, arrays, records, n, t, choice,
                        Role<0>::value ? z[FEW_OUTPUTS - 1] : 0.0f, lane == 0 && part == 0);
    }
}

// One warp per replica. Blocks of up to 4 warps.
extern "C" __global__ void __launch_bounds__(128)
    small_collect_1(SmallRun run, WarpRun world, WarpArrays arrays, WarpTables tables,
                    const float* parameters, u32* records, float* episodes, u32* barrier) {
    __shared__ NetShared net;
    __shared__ __align__(16) LaneShared places[4];
    if (blockIdx.x == 0 && threadIdx.x == 0) *barrier = 0u;
    load_net(net, parameters, threadIdx.x, blockDim.x);
    __syncthreads();
    int warp = threadIdx.x / 32;
    u32 number = blockIdx.x * (blockDim.x / 32) + warp;
    if (number >= run.n_rows) return;
    Env env = warp_env(tables);
    Replica replica;
    replica.begin(env, arrays, *arrays.run_step + run.steps_before, number, number);
    collect_one<1>(replica, env, world, arrays, net, places[warp], 0, 0, records, run.n_rows);
    if ((threadIdx.x & 31) == 0) replica.finish(env, arrays, records, episodes, run.n_rows);
}
#endif

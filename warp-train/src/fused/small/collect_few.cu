// A whole rollout of few replicas in one launch, as fast as one of them can go: eight replicas per block.
//
// Everything is turned around: weights are the left operand and stay in registers, replicas are columns.
// Each of HID / 16 warps has 16 features of both hidden layers; the layers' outputs meet in shared memory,
// and from there on every warp does the same: the last layer, the choice, the step. The four lanes of
// column c have replica c. What an action is drawn with is drawn four steps ahead, a step a lane.
//
// See collect.cu.
#pragma once
#include "collect.cu"

#define FEW_THREADS (HID * 2)
#define FEW_REPLICAS 8
#define FEW_OUTPUTS Role<0>::outputs

// Activations of eight replicas, a row each.
struct FewShared {
    unsigned short h1[FEW_REPLICAS * LDH];
    unsigned short h2[FEW_REPLICAS * LDH];
#if LAYER_NORM
    // Of each warp and replica: sums over the warp's features, and of their squares. Between two layers' moments all warps
    // wait for activations.
    float2 moments[HID / 16][FEW_REPLICAS];
#endif
};

// The block's warps that collect; the others of a larger block don't wait.
__device__ __forceinline__ void few_wait() {
    asm volatile("bar.sync 3, %0;" ::"n"(FEW_THREADS) : "memory");
}

// The same number, kept in a register: the assembler has a thread's index read anew wherever it is used, and every step
// waits for that several times. It cannot see through a shuffle, in which all lanes of the warp take part.
__device__ __forceinline__ int kept(int x) { return __shfl_sync(0xffffffffu, x, threadIdx.x & 31); }

// A warp's part of the acting network.
struct FewNet {
    int lane, warp;  // this thread's, among those that collect
    u32 w1[KX / 16][4], w2[M_TILES][4], w3[M_TILES][2];
    float b2[2], b3;
#if LAYER_NORM
    float gain[2][2], shift[2][2];
#endif

    // For the collecting thread of this number.
    __device__ __forceinline__ void load(const NetShared& net, u32 thread) {
        lane = kept((int)thread & 31);
        warp = kept((int)thread / 32);
        u32 one = shared_address(net.w1 + (warp * 16 + (lane & 15)) * LDX + (lane >> 4) * 8);
        u32 two = shared_address(net.w2) + unit_at(warp * 16 + (lane & 15), lane >> 4);
        u32 three = shared_address(net.w3 + (lane & 7) * LDH + (lane >> 3) * 8);
#pragma unroll
        for (int k = 0; k < KX / 16; ++k) load_4(w1[k], one + k * 32);
#pragma unroll
        for (int k = 0; k < M_TILES; ++k) load_4(w2[k], along_row(two, k * 32));
#pragma unroll
        for (int k = 0; k < M_TILES; k += 2) {
            u32 b[4];
            load_4(b, three + k * 32);
            w3[k][0] = b[0];
            w3[k][1] = b[1];
            w3[k + 1][0] = b[2];
            w3[k + 1][1] = b[3];
        }
        b2[0] = net.b2[warp * 16 + lane / 4];
        b2[1] = net.b2[warp * 16 + lane / 4 + 8];
        b3 = net.b3[lane / 4];
#if LAYER_NORM
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float* gains = net.gains(1 + i / 2) + warp * 16 + lane / 4 + i % 2 * 8;
            gain[i / 2][i % 2] = gains[0];
            shift[i / 2][i % 2] = gains[HID];
        }
#endif
    }

#if LAYER_NORM
    // Normalises this warp's features of replicas 2 (lane & 3) and the next, whose moments the warps tell each other.
    __device__ __forceinline__ void normalise(int layer, FewShared& place, float (&c)[4]) const {
        float of[4] = {c[0] + c[2], c[1] + c[3], c[0] * c[0] + c[2] * c[2], c[1] * c[1] + c[3] * c[3]};
        // Eight lanes have a column.
#pragma unroll
        for (int d = 4; d <= 16; d <<= 1) {
#pragma unroll
            for (int i = 0; i < 4; ++i) of[i] += __shfl_xor_sync(0xffffffffu, of[i], d);
        }
        if (lane < 4) {
            place.moments[warp][2 * lane] = make_float2(of[0], of[2]);
            place.moments[warp][2 * lane + 1] = make_float2(of[1], of[3]);
        }
        few_wait();
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float sum = 0.0f, squares = 0.0f;
#pragma unroll
            for (int w = 0; w < HID / 16; ++w) {
                float2 part = place.moments[w][2 * (lane & 3) + i];
                sum += part.x;
                squares += part.y;
            }
            float mean = sum / HID, inverse = inverse_deviation(mean, squares / HID);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float& x = c[2 * half + i];
                x = fmaf(fmaf(x, inverse, -mean * inverse), gain[layer - 1][half], shift[layer - 1][half]);
            }
        }
    }
#else
    __device__ __forceinline__ void normalise(int, FewShared&, float (&)[4]) const {}
#endif

    // Puts this warp's features of all replicas into their rows.
    __device__ __forceinline__ void put(unsigned short* rows, const float (&c)[4]) const {
        u32 x[2];
        pack_active(c, x);
        store_2_turned(
            shared_address(rows + (lane & 7) * LDH + warp * 16 + ((lane >> 3) & 1) * 8), x[0], x[1]);
    }
    // All features of all replicas as right operands.
    __device__ __forceinline__ void get(const unsigned short* rows, u32 (&b)[M_TILES][2]) const {
        u32 address = shared_address(rows + (lane & 7) * LDH + (lane >> 3) * 8);
#pragma unroll
        for (int k = 0; k < M_TILES; k += 2) {
            u32 four[4];
            load_4(four, address + k * 32);
            b[k][0] = four[0];
            b[k][1] = four[1];
            b[k + 1][0] = four[2];
            b[k + 1][1] = four[3];
        }
    }
    // Word `j` of a unit.
    static __device__ __forceinline__ u32 word(const uint4& unit, int j) {
        u32 low = j & 1 ? unit.y : unit.x, high = j & 1 ? unit.w : unit.z;
        return j & 2 ? high : low;
    }

    // All outputs of the replica of this lane's column.
    __device__ __forceinline__ void forward(const Seen& seen, FewShared& place, float (&z)[FEW_OUTPUTS]) const {
        int j = lane & 3;
        float c[4] = {}, odd[4] = {};
        u32 b[M_TILES][2];
#pragma unroll
        for (int k = 0; k < KX / 16; ++k) {
            u32 second = 2 * k + 1 < X_UNITS ? word(seen.units[2 * k + 1 < X_UNITS ? 2 * k + 1 : 0], j) : 0u;
            mma16(c, w1[k][0], w1[k][1], w1[k][2], w1[k][3],
                  2 * k < X_UNITS ? word(seen.units[2 * k < X_UNITS ? 2 * k : 0], j) : 0u, second);
        }
        normalise(1, place, c);
        put(place.h1, c);
        few_wait();
        get(place.h1, b);
        c[0] = c[1] = b2[0];
        c[2] = c[3] = b2[1];
#pragma unroll
        for (int k = 0; k < M_TILES; k += 2) {
            mma16(c, w2[k][0], w2[k][1], w2[k][2], w2[k][3], b[k][0], b[k][1]);
            mma16(odd, w2[k + 1][0], w2[k + 1][1], w2[k + 1][2], w2[k + 1][3], b[k + 1][0],
                  b[k + 1][1]);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) c[i] += odd[i];
        normalise(2, place, c);
        put(place.h2, c);
        few_wait();
        get(place.h2, b);
        c[0] = c[1] = b3;
        c[2] = c[3] = odd[0] = odd[1] = odd[2] = odd[3] = 0.0f;
#pragma unroll
        for (int k = 0; k < M_TILES; k += 2) {
            mma16(c, w3[k][0], 0u, w3[k][1], 0u, b[k][0], b[k][1]);
            mma16(odd, w3[k + 1][0], 0u, w3[k + 1][1], 0u, b[k + 1][0], b[k + 1][1]);
        }
        int column = lane / 4;
#pragma unroll
        for (int o = 0; o < FEW_OUTPUTS; ++o) {
            float even = __shfl_sync(0xffffffffu, c[0] + odd[0], 4 * o + column / 2);
            float other = __shfl_sync(0xffffffffu, c[1] + odd[1], 4 * o + column / 2);
            z[o] = column & 1 ? other : even;
        }
    }
};

// Numbers that one action takes from its stream.
#define DRAWS (CONTINUOUS ? 2 * ACTION_WIDTH : ACTION_WIDTH)

__device__ __forceinline__ WarpDraw action_stream(const WarpRun& world, const Replica& replica, u32 t) {
    WarpDraw stream = warp_draw(world.seed, world.first_replica + replica.number,
                                replica.before + t, WARP_PURPOSE_ACTION);
    return warp_draw_agent(&stream, FIRST_AGENT);
}

// Steps from `from` on, a multiple of four, up to `to` of the rollout of up to eight replicas, by FEW_THREADS threads; of a
// column's lanes one `writes`.
__device__ __forceinline__ void collect_few(Replica& replica, const Env& env, const WarpRun& world,
                                            const WarpArrays& arrays, const FewNet& net, FewShared& place,
                                            u32* records, u32 n, bool writes, u32 from, u32 to) {
    int lane = net.lane;
    float ahead[4] = {};
#pragma unroll 1
    for (u32 t = from; t < to; ++t) {
        Choice choice;
        float z[FEW_OUTPUTS];
        if (DRAWS <= 4 && t % 4 == 0) {
            WarpDraw stream = action_stream(world, replica, t + (lane & 3));
#pragma unroll
            for (int i = 0; i < DRAWS && i < 4; ++i) ahead[i] = warp_draw_uniform(&stream);
        }
        net.forward(replica.seen, place, z);
        if (DRAWS <= 4) {
            Ready ready;
            ready.next = 0;
#pragma unroll
            for (int i = 0; i < 4; ++i)
                ready.u[i] = i < DRAWS ? __shfl_sync(0xffffffffu, ahead[i], (lane & ~3) + t % 4) : 0.0f;
            choice.draw(z, replica.seen.mask, ready);
        } else {
            choice.draw(z, replica.seen.mask, action_stream(world, replica, t));
        }
        replica.advance(env, world, arrays, records, n, t, choice,
                        Role<0>::value ? z[FEW_OUTPUTS - 1] : 0.0f, writes);
    }
}

#if TOGETHER == FEW_REPLICAS
// Two blocks of eight warps find room on a multiprocessor, as those of fewer do by themselves.
#if HID > 64
#define FEW_BOUNDS __launch_bounds__(FEW_THREADS, 2)
#else
#define FEW_BOUNDS __launch_bounds__(FEW_THREADS)
#endif
struct FewBlockShared {
    NetShared net;
    __align__(16) FewShared place;
    float factors[N_FACTORS];
};

extern "C" __global__ void FEW_BOUNDS
    small_collect(WarpRun world, WarpArrays arrays, WarpTables tables,
                  const CollectArgs a) {
    auto& [net, place, factors] = collect_shared<FewBlockShared>();
    if (blockIdx.x == 0 && threadIdx.x == 0) *a.barrier = 0u;
    load_net(net, a.parameters, threadIdx.x, blockDim.x);
    load_factors(factors, a.normaliser, threadIdx.x, blockDim.x);
    __syncthreads();
    FewNet own;
    own.load(net, threadIdx.x);
    u32 number = blockIdx.x * FEW_REPLICAS + own.lane / 4;
    bool writes = number < a.run.n_rows && own.warp == 0 && (own.lane & 3) == 0;
    number = number < a.run.n_rows ? number : a.run.n_rows - 1;
    Env env = warp_env(tables);
    Replica replica;
    replica.begin(env, arrays, *arrays.run_step + a.run.steps_before, number, number);
    replica.normaliser.begin(factors, a.normaliser, number);
    replica.look(env);
    collect_few(replica, env, world, arrays, own, place, a.records, a.run.n_rows, writes, 0u, N_STEPS);
    if (threadIdx.x < 32) replica.normaliser.write(a.normaliser, blockIdx.x, writes);
    if (!writes) return;
    replica.normaliser.finish(a.normaliser, replica.row);
    replica.finish(env, arrays, a.records, a.episodes, a.run.n_rows);
}
#endif

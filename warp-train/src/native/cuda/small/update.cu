// A whole update in one cooperative launch: values, advantages, and every epoch's minibatches.
//
// Blocks 0 .. actor_blocks take the policy's network, the others the value's (all of them take the
// shared one). Gradients of a minibatch: each block adds up its tiles, writes them out, adds up one
// slice over all blocks in a fixed order, and after a second barrier every block makes the same step
// of Adam on its own copy of the weights. Sums have one order, so the same launch gives the same bits.
//
// Needs, beside advantages.cuh's and descent.cuh's: CLIP, MAX_GRAD_NORM.
#include "advantages.cuh"
#include "descent.cuh"

// Loads a lane's part of its warp's rows of a tile; rows beyond the minibatch are zeros.
__device__ __forceinline__ void load_rows(const u32* records, const Order& order, u32 first, u32 end,
                                          uint4 (&loaded)[LANE_UNITS]) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < LANE_UNITS; ++i) {
        int unit = lane + 32 * i;
        u32 at = first + unit / RECORD_UNITS;
        loaded[i] = make_uint4(0u, 0u, 0u, 0u);
        if (unit < WARP_ROWS * RECORD_UNITS && at < end)
            loaded[i] = __ldcg(record_at(records, order.at(at)) + unit % RECORD_UNITS);
    }
}

// What a block knows of its network and its fellows.
struct Share {
    u32 first_block, n_blocks, own;
    float* parameters;
    float* exp_avg;
    float* exp_avg_sq;
};

template <int NET>
__device__ void learn(UpdateShared& shared, const SmallRun& run, const Share& share, u32* records,
                      const float* schedule, float4* partials, float4* reduced, float* norms,
                      float* state, double* totals, double* metrics, u32* barrier, u32& target) {
    constexpr u32 quads = OWN_TILES * GROUP_THREADS;
    int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    u32 n = N_STEPS * run.n_rows;
    float4* mine = (float4*)state + (unsigned long long)blockIdx.x * 3 * quads + threadIdx.x;
    float w[KEEPS_STATE ? OWN_TILES : 1][4], m[KEEPS_STATE ? OWN_TILES : 1][4],
        v[KEEPS_STATE ? OWN_TILES : 1][4];
    u32 place[SMALL_TILES][4];
#pragma unroll
    for (int t = 0; t < OWN_TILES; ++t) {
        float first[3][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int at = own_parameter<NET>(warp, lane, t, i);
            if (t >= WIDE_TILES) place[t - WIDE_TILES][i] = place_of<NET>(shared.net, at);
            first[0][i] = at < 0 ? 0.0f : share.parameters[at];
            first[1][i] = at < 0 ? 0.0f : share.exp_avg[at];
            first[2][i] = at < 0 ? 0.0f : share.exp_avg_sq[at];
            if (KEEPS_STATE) {
                w[t][i] = first[0][i];
                m[t][i] = first[1][i];
                v[t][i] = first[2][i];
            }
        }
        if (!KEEPS_STATE) {
#pragma unroll
            for (int kind = 0; kind < 3; ++kind)
                mine[kind * quads + t * GROUP_THREADS] =
                    make_float4(first[kind][0], first[kind][1], first[kind][2], first[kind][3]);
        }
    }
    Coefficients k;
    k.clip = CLIP;
    const float* row = schedule + (unsigned long long)run.index * (2 + 2 * N_UPDATES);
    k.value = row[0];
    k.entropy = row[1];
    LossSums sums = {};
    float norm_sum = 0.0f, broken = 0.0f;
    uint4 loaded[LANE_UNITS];
    int s = 0;
    {
        Order order(run, n, 0);
        load_rows(records, order, share.own * TILE_ROWS + warp * WARP_ROWS, minibatch_start(n, 1), loaded);
    }
#pragma unroll 1
    for (int u = 0; u < N_UPDATES; ++u) {
        Order order(run, n, u / MINIBATCHES);
        u32 start = minibatch_start(n, u % MINIBATCHES), end = minibatch_start(n, u % MINIBATCHES + 1);
        float one = 1.0f / (float)(end - start);
        k.mean = NORM_ADV ? shared.mean[u] : 0.0f;
        k.scale = NORM_ADV ? shared.scale[u] : 1.0f;
        OwnTiles own = {};
#pragma unroll 1
        for (u32 at = start + share.own * TILE_ROWS; at < end; at += share.n_blocks * TILE_ROWS) {
            Stage& stage = shared.stage[s];
            if (N_STAGES == 1) __syncthreads();
            stage_rows(stage, warp, loaded);
            u32 following = at + share.n_blocks * TILE_ROWS;
            if (following < end) load_rows(records, order, following + warp * WARP_ROWS, end, loaded);
            __syncwarp();
            warp_rows<NET>(shared.net, stage, warp, (int)(end - at) - warp * WARP_ROWS, k, one, sums);
            group_wait(0);
            add_gradients(stage, warp, own);
            s = N_STAGES == 1 ? 0 : 1 - s;
        }
        if (u + 1 < N_UPDATES) {
            Order next(run, n, (u + 1) / MINIBATCHES);
            u32 from = minibatch_start(n, (u + 1) % MINIBATCHES);
            load_rows(records, next, from + share.own * TILE_ROWS + warp * WARP_ROWS,
                      minibatch_start(n, (u + 1) % MINIBATCHES + 1), loaded);
        }
#pragma unroll
        for (int t = 0; t < OWN_TILES; ++t) {
            float4 out = make_float4(own[t][0], own[t][1], own[t][2], own[t][3]);
            if (t >= WIDE_TILES) {
                const u32(&valid)[4] = place[t - WIDE_TILES];
                out.x = valid[0] == NO_ROW ? 0.0f : out.x;
                out.y = valid[1] == NO_ROW ? 0.0f : out.y;
                out.z = valid[2] == NO_ROW ? 0.0f : out.z;
                out.w = valid[3] == NO_ROW ? 0.0f : out.w;
            }
            __stcg(partials + blockIdx.x * quads + t * GROUP_THREADS + threadIdx.x, out);
        }
        if (u + 1 == N_UPDATES) {
            float figures[5] = {sums.policy, sums.value, sums.entropy, sums.kl, sums.clipped};
            for (int i = 0; i < 5; ++i) {
                double sum = block_sum((double)figures[i], shared.totals);
                if (threadIdx.x == 0) totals[blockIdx.x * N_TOTALS + 11 + i] = sum;
            }
        }
        grid_wait(barrier, target);
        float squares =
            reduce_slice(shared, partials, reduced, share.first_block, share.n_blocks, one);
        squares = warp_sum(squares);
        if (lane == 0) shared.norms[warp] = squares;
        __syncthreads();
        if (threadIdx.x == 0) {
            float sum = 0.0f;
            for (int i = 0; i < 8; ++i) sum += shared.norms[i];
            __stcg(norms + blockIdx.x, sum);
        }
        grid_wait(barrier, target);
        float4 g[OWN_TILES];
#pragma unroll
        for (int t = 0; t < OWN_TILES; ++t)
            g[t] = __ldcg(reduced + t * GROUP_THREADS + threadIdx.x);
        float norm = 0.0f;
        for (u32 b = lane; b < gridDim.x; b += 32) norm += __ldcg(norms + b);
        norm = sqrtf(warp_sum(norm));
        norm_sum += norm;
        bool sound = norm < 3.0e38f;
        broken = sound ? broken : 1.0f;
        float clip = MAX_GRAD_NORM > 0.0f ? fminf(MAX_GRAD_NORM / (norm + 1e-6f), 1.0f) : 1.0f;
        float step_size = row[2 + 2 * u], inverse_root = row[3 + 2 * u];
        if (!sound) continue;
#pragma unroll
        for (int t = 0; t < OWN_TILES; ++t) {
            float gs[4] = {g[t].x, g[t].y, g[t].z, g[t].w}, ws[4];
            float4 kept[3];
            if (!KEEPS_STATE) {
#pragma unroll
                for (int kind = 0; kind < 3; ++kind)
                    kept[kind] = mine[kind * quads + t * GROUP_THREADS];
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (KEEPS_STATE) {
                    adam(gs[i] * clip, step_size, inverse_root, w[t][i], m[t][i], v[t][i]);
                    ws[i] = w[t][i];
                } else {
                    adam(gs[i] * clip, step_size, inverse_root, ((float*)&kept[0])[i],
                         ((float*)&kept[1])[i], ((float*)&kept[2])[i]);
                    ws[i] = ((float*)&kept[0])[i];
                }
            }
            if (!KEEPS_STATE) {
#pragma unroll
                for (int kind = 0; kind < 3; ++kind)
                    mine[kind * quads + t * GROUP_THREADS] = kept[kind];
            }
            if (t < WIDE_TILES) {
                int number = warp * WIDE_TILES + t;
                u32* to = (u32*)(shared.net.w2 + (number / N_TILES * 16 + lane / 4) * LDH +
                                 number % N_TILES * 8 + 2 * (lane & 3));
                to[0] = pack_halves(ws[0], ws[1]);
                to[8 * LDH / 2] = pack_halves(ws[2], ws[3]);
            } else {
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    write_place<NET>(shared.net, place[t - WIDE_TILES][i], ws[i]);
            }
        }
        __syncthreads();
    }
    if (share.own == 0) {
#pragma unroll
        for (int t = 0; t < OWN_TILES; ++t) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                int at = own_parameter<NET>(warp, lane, t, i);
                if (at < 0) continue;
                float* kept = (float*)(mine + t * GROUP_THREADS) + i;
                share.parameters[at] = KEEPS_STATE ? w[KEEPS_STATE ? t : 0][i] : kept[0];
                share.exp_avg[at] = KEEPS_STATE ? m[KEEPS_STATE ? t : 0][i] : kept[4 * quads];
                share.exp_avg_sq[at] = KEEPS_STATE ? v[KEEPS_STATE ? t : 0][i] : kept[8 * quads];
            }
        }
    }
    if (blockIdx.x == 0 && warp == 0) {
        double* out = metrics + (unsigned long long)run.index * N_METRICS;
        for (int i = 0; i < 16; ++i) {
            if (i >= 7 && i < 11) continue;
            double sum = over_blocks(totals, i);
            if (lane == 0) out[i] = i < 11 ? sum : sum / N_UPDATES;
        }
        for (int i = 7; i < 11; ++i) {
            double most = -1e300;
            for (u32 b = lane; b < gridDim.x; b += 32) {
                double x = __ldcg(totals + b * N_TOTALS + i);
                most = x > most ? x : most;
            }
            for (int d = 16; d > 0; d >>= 1) {
                double other = __shfl_xor_sync(0xffffffffu, most, d);
                most = other > most ? other : most;
            }
            if (lane == 0) out[i] = most;
        }
        if (lane == 0) {
            out[16] = norm_sum / N_UPDATES;
            out[17] = broken;
        }
    }
}

// Sizes that the host needs to know.
extern "C" __global__ void small_sizes(u32* sizes) {
    sizes[0] = (u32)sizeof(UpdateShared);
    sizes[1] = N_NETS * N_PARAMETERS;
    sizes[2] = RECORD_UNITS;
    sizes[3] = OWN_TILES * GROUP_THREADS * 4;
    sizes[4] = N_TOTALS;
    sizes[5] = N_METRICS;
}

extern "C" __global__ void __launch_bounds__(256, 1)
    small_update(SmallRun run, float* parameters, float* exp_avg, float* exp_avg_sq, u32* records,
                 const float* schedule, const float* episodes, float* partials, float* reduced,
                 float* norms, float* state, double* totals, double* metrics, u32* barrier) {
    extern __shared__ __align__(128) unsigned char memory[];
    UpdateShared& shared = *(UpdateShared*)memory;
    u32 target = 0;
    u32* words = (u32*)memory;
    for (int i = threadIdx.x; i < (int)(sizeof(UpdateShared) / 4); i += GROUP_THREADS) words[i] = 0u;
    __syncthreads();
    constexpr int value_net = SHARED_TRUNK ? 0 : 1;
    load_net<value_net>(shared.net, parameters + value_net * N_PARAMETERS, threadIdx.x,
                        GROUP_THREADS);
    __syncthreads();
    write_values(shared, records, run);
    grid_wait(barrier, target);
    double* own_totals = totals + blockIdx.x * N_TOTALS;
    write_advantages(shared, records, episodes, own_totals, run);
    grid_wait(barrier, target);
    if (NORM_ADV) read_moments(shared, totals, run);
    bool actor = SHARED_TRUNK || blockIdx.x < run.actor_blocks;
    u32 first = actor ? 0u : run.actor_blocks;
    u32 offset = actor ? 0u : N_PARAMETERS;
    Share share = {first,
                   SHARED_TRUNK ? gridDim.x : actor ? run.actor_blocks : gridDim.x - run.actor_blocks,
                   blockIdx.x - first, parameters + offset, exp_avg + offset, exp_avg_sq + offset};
    float4* sums = (float4*)reduced + (actor ? 0 : OWN_TILES * GROUP_THREADS);
    __syncthreads();
    if (actor) {
        if (!SHARED_TRUNK) load_net<0>(shared.net, share.parameters, threadIdx.x, GROUP_THREADS);
        __syncthreads();
        learn<0>(shared, run, share, records, schedule, (float4*)partials, sums, norms, state,
                 totals, metrics, barrier, target);
    } else {
        learn<SHARED_TRUNK ? 0 : 1>(shared, run, share, records, schedule, (float4*)partials, sums,
                                    norms, state, totals, metrics, barrier, target);
    }
}

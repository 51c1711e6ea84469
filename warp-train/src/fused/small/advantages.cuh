// What an update needs to know before its first minibatch: values, advantages, and the moments by
// which each minibatch's advantages are normalised.
//
// Needs, beside order.cuh's: COMPAT.
#pragma once
#include "order.cuh"
#include "normalise.cuh"

// Whether there are enough rows for a thread each.
#ifndef MANY_ROWS
#define MANY_ROWS 0
#endif

// Phases of a kernel that is short of registers are functions of their own.
#if TIGHT
#define PHASE __noinline__
#else
#define PHASE
#endif

// Rows that a warp takes through the network together, in sixteens: one with LEAN, where registers or rows are few.
#define VALUE_ROWS (LEAN ? 1 : 2)
// Loads the observations of a warp's rows from `row` on, up to so many units per lane.
#define VALUE_UNITS ((VALUE_ROWS * X_UNITS + 1) / 2)
__device__ __forceinline__ void load_observations(const u32* records, u32 row, u32 end,
                                                  uint4 (&parts)[VALUE_UNITS]) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < VALUE_UNITS; ++i) {
        u32 unit = lane + 32 * i, r = row + unit / X_UNITS;
        parts[i] = make_uint4(0u, 0u, 0u, 0u);
        if (r < end && unit < 16 * VALUE_ROWS * X_UNITS)
            parts[i] = __ldcg(record_at(records, r) + unit % X_UNITS);
    }
}

// Rows of stored observations.
struct StoredRows {
    u32 first, end;

    // Those from a step of the rollout on, and those that follow it.
    static __device__ __forceinline__ StoredRows from_step(u32 step, u32 n_rows) {
        return {step * n_rows, (N_STEPS + 1 + CUTS) * n_rows};
    }
    // With a shared trunk, the rollout has given its own rows their values.
    static __device__ __forceinline__ StoredRows without_values(u32 n_rows) {
        return from_step(SHARED_TRUNK ? N_STEPS : 0, n_rows);
    }
};

// Values of stored observations.
__device__ PHASE void write_values(UpdateShared& shared, const NetShared& critic, u32* records,
                                   const SmallRun& run, NetworkBlocks blocks, StoredRows of) {
    constexpr int net = SHARED_TRUNK ? 0 : 1;
    int lane = threadIdx.x & 31, warp = group_warp();
    u32 end = of.end;
    unsigned short* rows = shared.value_rows.x + warp * 32 * LDX;
    constexpr int R = VALUE_ROWS;
    u32 stride = blocks.n * (GROUP_THREADS / 32) * 16 * R;
    u32 row = of.first + (blocks.own * (GROUP_THREADS / 32) + warp) * 16 * R;
    uint4 parts[VALUE_UNITS];
    load_observations(records, row, end, parts);
    for (; row < end; row += stride) {
#pragma unroll
        for (int i = 0; i < VALUE_UNITS; ++i) {
            int unit = lane + 32 * i;
            if (unit >= 16 * R * X_UNITS) break;
            *(uint4*)(rows + unit / X_UNITS * LDX + unit % X_UNITS * 8) = parts[i];
        }
        load_observations(records, row + stride, end, parts);
        __syncwarp();
        u32 x[R][KX / 16][4];
        Hidden h1[R], h2[R];
        float out[R][4];
        load_inputs<R>(x, rows);
        hidden_layers<R>(critic, x, h1, h2);
        last_layer<net, R>(critic, h2, out);
        // Lane by lane the rows that it and its three neighbours share.
        float value = 0.0f;
        int j = lane & 3;
#pragma unroll
        for (int t = 0; t < R; ++t) {
            float low[Role<net>::outputs], high[Role<net>::outputs];
            gather_outputs<net>(out[t], low, high);
            value = j == 2 * t ? low[Role<net>::value_column] : value;
            value = j == 2 * t + 1 ? high[Role<net>::value_column] : value;
        }
        u32 r = row + j * 8 + lane / 4;
        if (r < end && j < 2 * R) __stcg((float*)rest_at(records, run.n_rows, r) + 2, value);
        __syncwarp();
    }
}

// Whether sums for the minibatches' moments are taken where advantages are made, by the inverse of the
// order; with LEAN a block has all samples, and takes them minibatch by minibatch.
#define MOMENTS_HERE (NORM_ADV && MINIBATCHES > 1 && !LEAN)

// Sums over a thread's samples: of returns and advantages, and of each minibatch's advantages.
struct Moments {
    double returns[2], advantages[2];
    float parts[N_UPDATES][2];
};

// Adds a sample's advantage to the minibatch of each epoch that will have it.
__device__ __forceinline__ void add_to_minibatches(Moments& sums, const Orders& orders, u32 sample,
                                                   float advantage) {
    u32 n = orders.n;
#pragma unroll (EPOCHS > 8 ? 1 : EPOCHS)
    for (int epoch = 0; epoch < EPOCHS; ++epoch) {
        u32 place = orders.of(epoch).place(sample);
        if (N_UPDATES > 32) {
            // Too many for registers.
            int part = (int)((unsigned long long)place * MINIBATCHES / n);
            part += place >= minibatch_start(n, part + 1) ? 1 : 0;
            sums.parts[epoch * MINIBATCHES + part][0] += advantage;
            sums.parts[epoch * MINIBATCHES + part][1] += advantage * advantage;
            continue;
        }
#pragma unroll
        for (int part = 0; part < (N_UPDATES > 32 ? 0 : MINIBATCHES); ++part) {
            bool inside = place >= minibatch_start(n, part) && place < minibatch_start(n, part + 1);
            float one = inside ? advantage : 0.0f;
            sums.parts[epoch * MINIBATCHES + part][0] += one;
            sums.parts[epoch * MINIBATCHES + part][1] += one * one;
        }
    }
}

// Factors from one step to the next, of values and of advantages; and of rewards, where they are normalised.
struct Discount {
    float gamma, decay, scale;

    __device__ __forceinline__ Discount(const Schedule& now, float scale)
        : gamma(now.gamma), decay(COMPAT ? now.gamma : now.gamma * now.gae_lambda), scale(scale) {}

    __device__ __forceinline__ float reward(u32 stored) const {
        float reward = __uint_as_float(stored);
        return NORM_REWARD ? norm_clip(reward * scale, NORM_CLIP) : reward;
    }
};

// Stores a sample's advantage, and adds it and the return to all sums.
__device__ __forceinline__ void put_advantage(u32* records, const SmallRun& run, const Orders& orders, u32 sample,
                                              float advantage, float value, Moments& sums) {
    __stcg((float*)rest_at(records, run.n_rows, sample) + 3, advantage);
    double target = advantage + value;
    sums.returns[0] += target;
    sums.returns[1] += target * target;
    sums.advantages[0] += advantage;
    sums.advantages[1] += (double)advantage * advantage;
    if (MOMENTS_HERE) add_to_minibatches(sums, orders, sample, advantage);
}

// Generalised advantages of one row, by a warp whose lanes are steps: chunks of 32, from the last to the first. With LEAN,
// where rows are few, up to four chunks go side by side, so that their loads and sums do not wait for each other.
__device__ __forceinline__ void row_advantages(u32* records, const SmallRun& run, Discount discount,
                                               const Orders& orders, u32 row, Moments& sums) {
    constexpr int CHUNKS = (N_STEPS + 31) / 32, AT_ONCE = !LEAN ? 1 : CHUNKS < 4 ? CHUNKS : 4;
    int lane = threadIdx.x & 31;
    auto rest = [&](u32 t) { return rest_at(records, run.n_rows, t * run.n_rows + row); };
    auto load = [&](int t) {
        return t >= 0 && t < N_STEPS ? __ldcg(rest((u32)t)) : make_uint4(0u, 0u, 0u, 0u);
    };
    float following = __ldcg((const float*)rest(N_STEPS) + 2), carry = 0.0f;
    int first = (N_STEPS - 1) / 32 * 32;
    uint4 words[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) words[i] = load(first - 32 * i + lane);
#pragma unroll 1
    for (; first >= 0; first -= 32 * AT_ONCE) {
        uint4 now[AT_ONCE];
        float b[AT_ONCE], c[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            int t = first - 32 * i + lane;
            now[i] = words[i];
            if (CHUNKS > AT_ONCE) words[i] = load(t - 32 * AT_ONCE);
            bool exists = t >= 0 && t < N_STEPS;
            float value = __uint_as_float(now[i].z), reward = discount.reward(now[i].w);
            float next = __shfl_down_sync(0xffffffffu, value, 1);
            next = lane == 31 || t == N_STEPS - 1 ? following : next;
            bool ended = now[i].x & ROW_ENDED;
            if (ended)
                next = now[i].x & ROW_TRUNCATED
                           ? __ldcg((const float*)rest(N_STEPS + 1 + (now[i].x >> 26)) + 2)
                           : 0.0f;
            bool stops = ended || !exists || (COMPAT && t == N_STEPS - 1);
            c[i] = stops ? 0.0f : discount.decay;
            b[i] = reward + discount.gamma * next - value;
            if (COMPAT) b[i] = !ended && t == N_STEPS - 1 ? value : reward;
            b[i] = exists ? b[i] : 0.0f;
            following = __shfl_sync(0xffffffffu, value, 0);
        }
#pragma unroll
        for (int d = 1; d < 32; d <<= 1) {
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
                float later = __shfl_down_sync(0xffffffffu, b[i], d);
                float factor = __shfl_down_sync(0xffffffffu, c[i], d);
                b[i] = lane + d < 32 ? b[i] + c[i] * later : b[i];
                c[i] = lane + d < 32 ? c[i] * factor : c[i];
            }
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            int t = first - 32 * i + lane;
            float value = __uint_as_float(now[i].z), sum = b[i] + c[i] * carry;
            carry = __shfl_sync(0xffffffffu, sum, 0);
            float advantage = COMPAT ? sum - value : sum;
            if (t >= 0 && t < N_STEPS) put_advantage(records, run, orders, (u32)t * run.n_rows + row, advantage, value, sums);
        }
    }
}

// The same of 32 rows from `first` on, by a thread each, from the last step to the first: where rows are
// many, neighbours read what lies side by side.
__device__ __forceinline__ void rows_advantages(u32* records, const SmallRun& run, Discount discount,
                                                const Orders& orders, u32 first, Moments& sums) {
    constexpr int ahead = N_STEPS < 8 ? N_STEPS : 8;
    u32 row = first + (threadIdx.x & 31);
    if (row >= run.n_rows) return;
    auto rest = [&](u32 t) { return rest_at(records, run.n_rows, t * run.n_rows + row); };
    float following = __ldcg((const float*)rest(N_STEPS) + 2), carry = 0.0f;
#pragma unroll 1
    for (int last = N_STEPS - 1; last >= 0; last -= ahead) {
        uint4 words[ahead];
#pragma unroll
        for (int i = 0; i < ahead; ++i) words[i] = __ldcg(rest((u32)(last > i ? last - i : 0)));
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            int t = last - i;
            if (t < 0) break;
            uint4 now = words[i];
            float value = __uint_as_float(now.z), reward = discount.reward(now.w);
            bool ended = now.x & ROW_ENDED, end = COMPAT && t == N_STEPS - 1;
            float next = following;
            if (ended)
                next = now.x & ROW_TRUNCATED
                           ? __ldcg((const float*)rest(N_STEPS + 1 + (now.x >> 26)) + 2)
                           : 0.0f;
            float b = reward + discount.gamma * next - value;
            if (COMPAT) b = !ended && end ? value : reward;
            carry = ended || end ? b : b + discount.decay * carry;
            following = value;
            float advantage = COMPAT ? carry - value : carry;
            put_advantage(records, run, orders, (u32)t * run.n_rows + row, advantage, value, sums);
        }
    }
}

// Per warp: sums over its lanes, or what is largest among them, as entries from `first` on. To be called behind a barrier,
// and lane 0 stores when all are known: after a loop or a branch the compiler does not know that all lanes are here, and
// has every exchange twice.
struct WarpSums {
    UpdateShared& shared;
    template <int N> __device__ __forceinline__ void add(int first, double (&x)[N]) const {
#pragma unroll
        for (int i = 0; i < N; ++i) x[i] = warp_sum(x[i]);
        store(first, x);
    }
    template <int N> __device__ __forceinline__ void most(int first, float (&x)[N]) const {
#pragma unroll
        for (int i = 0; i < N; ++i) {
#pragma unroll
            for (int d = 16; d > 0; d >>= 1) x[i] = fmaxf(x[i], __shfl_xor_sync(0xffffffffu, x[i], d));
        }
        store(first, x);
    }
    template <typename T, int N> __device__ __forceinline__ void store(int first, const T (&x)[N]) const {
        if ((threadIdx.x & 31) != 0) return;
#pragma unroll
        for (int i = 0; i < N; ++i) shared.sums[first + i][group_warp()] = x[i];
    }
};

// Whether a figure is the largest of the blocks', not their sum.
__device__ __forceinline__ bool is_largest(int figure) {
    return figure >= FIGURE(longest) && figure < FIGURE(policy_loss);
}

// What this block's replicas say of the episodes that ended: count, sums of lengths and returns; then
// what is largest of lengths, returns and their negatives.
__device__ __forceinline__ void add_episodes(const WarpSums& sums, const float* episodes,
                                             const SmallRun& run, NetworkBlocks blocks) {
    double counts[3] = {};
    float most[4] = {-3e38f, -3e38f, -3e38f, -3e38f};
    for (u32 env = blocks.own * GROUP_THREADS + group_thread(); env < run.n_envs;
         env += blocks.n * GROUP_THREADS) {
        float of[EPISODE_FIGURES];
#pragma unroll
        for (int i = 0; i < EPISODE_FIGURES; ++i) of[i] = __ldcg(episodes + i * run.n_envs + env);
        if (of[0] == 0.0f) continue;
#pragma unroll
        for (int i = 0; i < 3; ++i) counts[i] += of[i];
#pragma unroll
        for (int i = 0; i < 4; ++i) most[i] = fmaxf(most[i], of[3 + i]);
    }
    group_wait();
    sums.add(FIGURE(n_episodes), counts);
    sums.most(FIGURE(longest), most);
}

// A warp's sums for the minibatches' moments: 32 of them at a time where they are in registers, and one at a time where
// two blocks share a multiprocessor, which leaves too few registers for 32 more.
__device__ __forceinline__ void write_parts(UpdateShared& shared, const Moments& sums) {
    constexpr int n = 2 * N_UPDATES;
    int lane = threadIdx.x & 31, warp = group_warp();
    if (BLOCKS > 1) {
#pragma unroll (N_UPDATES > 32 ? 1 : n)
        for (int i = 0; i < n; ++i) {
            float sum = warp_sum(sums.parts[i / 2][i % 2]);
            if (lane == 0) shared.sums[N_PARTS + i][warp] = sum;
        }
        return;
    }
    // Sums in registers have constant numbers; more of them lie in memory.
#pragma unroll (N_UPDATES > 32 ? 1 : (n + 31) / 32)
    for (int first = 0; first < n; first += 32) {
        float x[32];
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            int at = first + i;
            x[i] = at < n ? sums.parts[at / 2][at % 2] : 0.0f;
        }
        // All lanes are here: the compiler, which does not know it, would have every exchange twice.
        __syncwarp();
        float sum = warp_sums(x);
        if (first + lane < n) shared.sums[N_PARTS + first + lane][warp] = sum;
    }
}

// Advantages of all rows, and this block's part of all that is summed over samples and replicas.
__device__ PHASE void write_advantages(UpdateShared& shared, u32* records, const float* episodes,
                                 double* totals, const SmallRun& run, Discount discount, NetworkBlocks blocks) {
    int warp = group_warp();
    WarpSums over{shared};
    add_episodes(over, episodes, run, blocks);
    Moments sums = {};
    Orders orders(run, N_STEPS * run.n_rows);
    // Without MANY_ROWS a warp has a row, else 32 of them, dealt out so that all blocks have as many.
    for (u32 row = blocks.own * (GROUP_THREADS / 32) + warp; row < run.n_rows && !MANY_ROWS;
         row += blocks.n * (GROUP_THREADS / 32))
        row_advantages(records, run, discount, orders, row, sums);
    for (u32 row = (warp * blocks.n + blocks.own) * 32; row < run.n_rows && MANY_ROWS;
         row += blocks.n * GROUP_THREADS)
        rows_advantages(records, run, discount, orders, row, sums);
    group_wait();
    over.add(FIGURE(returns), sums.returns);
    over.add(FIGURE(residuals), sums.advantages);
    if (MOMENTS_HERE) write_parts(shared, sums);
    group_wait();
    for (int i = group_thread(); i < N_TOTALS; i += GROUP_THREADS) {
        double sum = shared.sums[i][0];
        for (int w = 1; w < GROUP_THREADS / 32; ++w) {
            double x = shared.sums[i][w];
            sum = is_largest(i) ? (x > sum ? x : sum) : sum + x;
        }
        if (i < FIGURE(policy_loss) || (MOMENTS_HERE && i >= N_PARTS)) __stcg(totals + i * blocks.n + blocks.own, sum);
    }
}

// Entry `i` of all blocks, summed by eight neighbouring lanes.
__device__ __forceinline__ double over_blocks(const double* totals, int i, u32 n) {
    double sum = 0.0;
    for (u32 first = threadIdx.x & 7; first < n; first += 8 * 18) {
        double x[18];
#pragma unroll
        for (int k = 0; k < 18; ++k) {
            u32 b = first + 8 * k;
            x[k] = b < n ? __ldcg(totals + i * n + b) : 0.0;
        }
#pragma unroll
        for (int k = 0; k < 18; ++k) sum += x[k];
    }
#pragma unroll
    for (int d = 4; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    return sum;
}

// Mean and deviation of a minibatch's `count` advantages from their sum and that of their squares.
__device__ __forceinline__ void write_moments(UpdateShared& shared, int u, u32 count, double sum,
                                              double squares) {
    double mean = sum / count, spread = squares - sum * mean;
    float deviation = sqrtf((float)((spread > 0.0 ? spread : 0.0) / (count - 1.0)));
    bool lone = count < 2u;
    shared.mean[u] = lone ? 0.0f : (float)mean;
    shared.scale[u] = lone ? 1.0f : 1.0f / (deviation + 1e-8f);
}

// Means and deviations of all minibatches' advantages. `summed(i, x)` makes of a sum here the sum of all GPUs.
template <typename Summed>
__device__ PHASE void read_moments(UpdateShared& shared, const double* totals, const SmallRun& run,
                             u32 n_blocks, Summed summed) {
    u32 n = N_STEPS * run.n_rows;
    constexpr int entries = MINIBATCHES == 1 ? 2 : 2 * N_UPDATES;
    for (int first = 0; first < entries; first += GROUP_THREADS / 8) {
        int i = first + group_thread() / 8;
        double sum = over_blocks(totals, (MINIBATCHES == 1 ? FIGURE(residuals) : N_PARTS) + (i < entries ? i : 0), n_blocks);
        if ((threadIdx.x & 7) == 0 && i < entries) shared.sums[i][0] = summed(i, sum);
    }
    group_wait();
    for (int u = group_thread(); u < N_UPDATES; u += GROUP_THREADS) {
        u32 count = minibatch_start(n, u % MINIBATCHES + 1) - minibatch_start(n, u % MINIBATCHES);
        int at = MINIBATCHES == 1 ? 0 : 2 * u;
        write_moments(shared, u, count * RANKS, shared.sums[at][0], shared.sums[at + 1][0]);
    }
    group_wait();
}

// This block's part of the losses' figures.
__device__ PHASE void write_losses(UpdateShared& shared, const LossSums& sums,
                                             double* totals, NetworkBlocks blocks) {
    double figures[5] = {sums.policy, sums.value, sums.entropy, sums.kl, sums.clipped};
    group_wait();
    WarpSums{shared}.add(0, figures);
    group_wait();
    u32 i = group_thread();
    if (i < 5) {
        double sum = 0.0;
        for (int w = 0; w < GROUP_THREADS / 32; ++w) sum += shared.sums[i][w];
        __stcg(totals + (FIGURE(policy_loss) + i) * blocks.n + blocks.own, sum);
    }
}

// An iteration's figures, from those of `n` blocks and of so many updates; by one warp, of which two lanes have an entry.
__device__ PHASE void write_metrics(const double* totals, u32 n, float norm, float non_finite,
                                    Figures* out, int n_updates = N_UPDATES) {
    int lane = threadIdx.x & 31, i = lane / 2;
    double sum = 0.0, most = -1e300;
    for (u32 first = lane & 1; first < n; first += 16) {
        double x[8];
#pragma unroll
        for (int k = 0; k < 8; ++k)
            x[k] = first + 2 * k < n ? __ldcg(totals + i * n + first + 2 * k) : is_largest(i) ? -1e300 : 0.0;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            sum += x[k];
            most = x[k] > most ? x[k] : most;
        }
    }
    double other = __shfl_xor_sync(0xffffffffu, sum, 1);
    sum = lane & 1 ? other + sum : sum + other;
    other = __shfl_xor_sync(0xffffffffu, most, 1);
    most = other > most ? other : most;
    if ((lane & 1) == 0)
        ((double*)out)[i] = i < FIGURE(longest) ? sum : is_largest(i) ? most : sum / n_updates;
    if (lane == 0) {
        out->grad_norm = norm / n_updates;
        out->non_finite = non_finite;
        out->n_updates = n_updates;
    }
}

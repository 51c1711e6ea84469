// The second pass: gradients of weights and biases from what the first one kept. A block makes some
// rows of one layer's gradient from its share of the samples; tensor cores read both operands from
// shared memory, whose next parts the copy engine fetches meanwhile. Two groups of four warps multiply, and a thread
// of another warp has the copy engine fetch.

// Blocks of 64 outputs that one group of four warps works on, and what a block of two groups loads.
__host__ __device__ constexpr int t_least(int a, int b) { return a < b ? a : b; }
__host__ __device__ constexpr int t_group(int l) {
    return t_least(t_in(l) > 128 ? 1 : 2, (t_out(l) + 127) / 128);
}
__host__ __device__ constexpr int t_jobs(int l) {
    return t_keeps(l) ? (t_blocks(t_out(l)) + 2 * t_group(l) - 1) / (2 * t_group(l)) : 0;
}
__host__ __device__ constexpr int t_jobs_before(int l) {
    return l == 0 ? 0 : t_jobs_before(l - 1) + t_jobs(l - 1);
}
__host__ __device__ constexpr unsigned int t_stage(int l) {
    return t_keeps(l) ? (2 * t_group(l) + t_blocks(t_in(l))) * 8192 : 0;
}
__host__ __device__ constexpr unsigned int t_largest_stage(int l) {
    return l == 0 ? t_stage(0)
                  : t_stage(l) > t_largest_stage(l - 1) ? t_stage(l) : t_largest_stage(l - 1);
}
#define T_JOBS t_jobs_before(T_DEPTH + 1)
#define T_STAGE t_largest_stage(T_DEPTH)
#define T_STAGES (T_EDGES ? t_least(6, 196608 / T_STAGE) : 4)
// Blocks of a cluster: where one layer's outputs are two jobs, those of a copy fetch a half of the inputs each, for
// both.
#define T_CLUSTER (T_JOBS == 2 && t_jobs(1) == 2 ? 2 : 1)
#define T_MULTIPLY_THREADS 256

struct TWeights {
    const unsigned char* kept;
    TPartial partial;
    unsigned char* shared;
    // Barriers of each stage: whether it is whole, and whether all blocks of the cluster have read theirs.
    unsigned int whole, read;
    unsigned int from, to;
};

// Starts to fetch the part of tile `tile` that outputs from block m0 on need.
template <int L>
__device__ inline void t_fetch(const TWeights& a, unsigned int tile, int m0) {
    constexpr unsigned int inputs = t_blocks(t_in(L)) * 8192, own = inputs / T_CLUSTER;
    unsigned int stage = (tile - a.from) % T_STAGES, at = blockIdx.x % T_CLUSTER * own;
    unsigned int barrier = a.whole + stage * 8, to = t_shared(a.shared) + stage * T_STAGE;
    unsigned int outputs = t_least(2 * t_group(L), t_blocks(t_out(L)) - m0) * 8192;
    const unsigned char* from = a.kept + (unsigned long long)tile * T_KEPT;
    t_expect(barrier, outputs + inputs);
    t_bulk(to, from + t_outputs_at(L) + m0 * 8192, outputs, barrier);
    to += 2 * t_group(L) * 8192 + at;
    from += t_inputs_at(L) + at;
    if (T_CLUSTER == 1) t_bulk(to, from, own, barrier);
    else t_bulk_to_pair(to, from, own, barrier);
}

// Says to all blocks that fill a stage that this warp has read it.
__device__ inline void t_release(const TWeights& a, unsigned int stage) {
    __syncwarp();
    if (threadIdx.x % 32 < T_CLUSTER) t_arrive_at(a.read + stage * 8, threadIdx.x % 32);
}

// The sums of two columns over the warp's 16 rows of a block.
__device__ inline void t_add_bias(float2& sums, const unsigned char* block) {
    int lane = threadIdx.x % 32;
    const unsigned char* rows = block + threadIdx.x % 128 / 32 * 2048 + lane % 4 * 4;
    #pragma unroll
    for (int row = 0; row < 16; ++row) {
        unsigned int two = *(const unsigned int*)(rows + row * 128 + ((lane / 4 ^ row) % 8) * 16);
        sums.x += t_low(two);
        sums.y += t_high(two);
    }
}

// This group's room for them, which the jobs of all layers share.
__device__ inline float* t_bias_room() {
    __shared__ float room[2][256];
    return room[threadIdx.x / 128];
}

// Gradients of biases, from what the warps of this group have for them.
template <int L>
__device__ inline void t_write_biases(const TPartial& partial, float2 sums, int block) {
    int t = threadIdx.x % 128;
    float* room = t_bias_room();
    t_meet(threadIdx.x / 128);
    *(float2*)(room + t / 32 * 64 + t % 32 * 2) = sums;
    t_meet(threadIdx.x / 128);
    if (t >= 64) return;
    float sum = (room[t] + room[t + 64]) + (room[t + 128] + room[t + 192]);
    t_write_bias<L>(partial, block * 64 + t, sum);
}

// Gradients of the weights of 64 outputs by way of the warp's part of shared memory, 16 rows an odd number of floats
// apart: in memory, neighbouring lanes then write neighbouring numbers.
template <int L, int N>
__device__ inline void t_write_lines(const TPartial& partial, const float (&sums)[N], int block, float* lines) {
    constexpr int columns = 2 * N, line = columns + 1;
    int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    // Another block's lines may lie there.
    __syncwarp();
    #pragma unroll
    for (int j = 0; j < N / 4; ++j) {
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
            int column = 8 * j + 2 * q + e % 2;
            column = L == 0 ? column : t_true(column);
            lines[(g + e / 2 * 8) * line + column] = sums[4 * j + e];
        }
    }
    __syncwarp();
    for (int row = 0; row < 16; ++row) {
        int o = t_output<L>(block * 64 + threadIdx.x % 128 / 32 * 16 + row);
        if (o < 0) continue;
        #pragma unroll
        for (int c = 0; c < (columns + 31) / 32; ++c) {
            int column = c * 32 + lane;
            if (column >= t_real_in(L)) continue;
            partial.put(t_weights(L) + o * t_real_in(L) + column, lines[row * line + column]);
        }
    }
}

template <int L>
__device__ inline void t_fetch_all(const TWeights& a, int m0) {
    for (unsigned int tile = a.from; tile < a.to; ++tile) {
        unsigned int count = tile - a.from, stage = count % T_STAGES;
        t_wait_barrier(a.read + stage * 8, (count / T_STAGES & 1) ^ 1);
        t_fetch<L>(a, tile, m0);
    }
}

template <int L>
__device__ inline void t_multiply_all(const TWeights& a, int m0) {
    constexpr int blocks = t_group(L), n = t_in(L);
    int group = threadIdx.x / 128;
    float sums[blocks][n / 2] = {};
    float2 bias[blocks] = {};
    // Else the compiler shares a register among zeros, and waits for products to separate them.
    #pragma unroll
    for (int b = 0; b < blocks; ++b) t_settle(sums[b]);
    for (unsigned int tile = a.from; tile < a.to; ++tile) {
        unsigned int count = tile - a.from, stage = count % T_STAGES;
        t_wait_barrier(a.whole + stage * 8, count / T_STAGES & 1);
        const unsigned char* own = a.shared + stage * T_STAGE + group * blocks * 8192;
        WideWord inputs = t_operand(t_shared(a.shared) + stage * T_STAGE + 2 * blocks * 8192, 8192, 1024, 1);
        t_fence();
        #pragma unroll
        for (int b = 0; b < blocks; ++b) {
            // A block beyond the last one makes numbers that nobody looks at.
            WideWord outputs = t_operand(t_shared(own) + b * 8192, 8192, 1024, 1);
            #pragma unroll
            for (int k = 0; k < 4; ++k) Mma<n>::shared(sums[b], outputs + k * 128, inputs + k * 128);
        }
        t_commit();
        #pragma unroll
        for (int b = 0; b < blocks; ++b) t_add_bias(bias[b], own + b * 8192);
        // The part before this one has been read by now.
        t_wait<1>();
        if (count > 0) t_release(a, (count - 1) % T_STAGES);
    }
    t_wait<0>();
    // Both groups have read what was fetched, and its place is free.
    asm volatile("bar.sync 3, %0;" ::"n"(T_MULTIPLY_THREADS) : "memory");
    float* lines = (float*)a.shared + threadIdx.x / 32 * 16 * (n + 1);
    #pragma unroll
    for (int b = 0; b < blocks; ++b) {
        t_settle(sums[b]);
        int block = m0 + group * blocks + b;
        if (block >= t_blocks(t_out(L))) continue;
        t_write_lines<L>(a.partial, sums[b], block, lines);
        t_write_biases<L>(a.partial, bias[b], block);
    }
}

template <int L>
__device__ inline void t_jobs_from(const TWeights& a, int job) {
    if constexpr (L <= T_DEPTH) {
        if (job >= t_jobs(L)) return t_jobs_from<L + 1>(a, job - t_jobs(L));
        if constexpr (t_keeps(L)) {
            int m0 = job * 2 * t_group(L);
            if (threadIdx.x < T_MULTIPLY_THREADS) t_multiply_all<L>(a, m0);
            else if (threadIdx.x == T_MULTIPLY_THREADS) t_fetch_all<L>(a, m0);
        }
    }
}

#if T_EDGES
// What groups of the first pass have for outer layers, those that are this copy's; the jobs share it.
__device__ inline void t_write_edges(const TensorWeightsArgs& args, float* to, unsigned int job,
                                     unsigned int copy) {
    for (unsigned int i = job * T_MULTIPLY_THREADS + threadIdx.x; i < T_EDGE_SUMS * 128; i += T_JOBS * T_MULTIPLY_THREADS) {
        float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        #pragma unroll 8
        for (unsigned int of = copy; of < args.groups; of += args.copies) {
            float4 x = ((const float4*)args.own_gradients)[of * T_EDGE_SUMS * 128 + i];
            sums[0] += x.x, sums[1] += x.y, sums[2] += x.z, sums[3] += x.w;
        }
        #pragma unroll
        for (int e = 0; e < 4; ++e) t_write_edge(to, i / 128, i % 128, e, sums[e]);
    }
}
#endif
#if T_NORMED
// The same for gains and shifts, which every warp has sums of.
__device__ inline void t_write_norms(const TensorWeightsArgs& args, float* to, unsigned int job,
                                     unsigned int copy) {
    for (unsigned int i = job * T_MULTIPLY_THREADS + threadIdx.x; i < T_NORMS; i += T_JOBS * T_MULTIPLY_THREADS) {
        int place = t_norm_place((int)i);
        float sum = 0.0f;
        #pragma unroll 8
        for (unsigned int of = copy; of < 4 * args.groups; of += args.copies) sum += args.own_gradients[of * T_NORMS + i];
        if (place >= 0) to[place] = sum;
    }
}
#endif

// Every job is done by `copies` blocks, each for its share of the rows and into its own copy of the
// parameters, [copies, n_parameters]; or added to what is there if these rows are not the first.
extern "C" __global__ __cluster_dims__(T_CLUSTER, 1, 1) __launch_bounds__(T_MULTIPLY_THREADS + 32, 1)
    void wide_tensor_weights(const TensorWeightsArgs args) {
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ WideWord whole[T_STAGES], read[T_STAGES];
    unsigned int tiles = (wide_present(args.state, 1, args.first, args.rows) + 63) / 64;
    if (tiles == 0 && args.first > 0) return;
    if (threadIdx.x == 0) {
        for (int i = 0; i < T_STAGES; ++i) {
            t_barrier(t_shared(&whole[i]), 1);
            t_barrier(t_shared(&read[i]), T_MULTIPLY_THREADS / 32 * T_CLUSTER);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    t_meet_cluster();
    // Jobs of a copy are neighbours.
    unsigned int job = blockIdx.x % T_JOBS, copy = blockIdx.x / T_JOBS;
    TPartial partial = {args.partial + (unsigned long long)copy * args.n_parameters, args.first == 0};
    TWeights a = {args.kept, partial, shared, t_shared(whole), t_shared(read),
                  (unsigned int)((unsigned long long)tiles * copy / args.copies),
                  (unsigned int)((unsigned long long)tiles * (copy + 1) / args.copies)};
#if T_EDGES
    if (threadIdx.x < T_MULTIPLY_THREADS) t_write_edges(args, partial.to, job, copy);
#elif T_NORMED
    if (threadIdx.x < T_MULTIPLY_THREADS) t_write_norms(args, partial.to, job, copy);
#endif
    t_jobs_from<0>(a, (int)job);
    // The other block may still say that it has read something, in shared memory of this one.
    t_meet_cluster();
}

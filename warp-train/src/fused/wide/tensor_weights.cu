// The second pass: gradients of weights and biases from what the first one kept. A block makes some
// rows of one layer's gradient from its share of the samples; tensor cores read both operands from
// shared memory, whose next parts the copy engine fetches meanwhile.

#define T_STAGES 4

// Blocks of 64 outputs that one group of four warps works on, and what a block of two groups loads.
__host__ __device__ constexpr int t_least(int a, int b) { return a < b ? a : b; }
__host__ __device__ constexpr int t_group(int l) {
    return t_least(t_in(l) > 128 ? 1 : 2, (t_out(l) + 127) / 128);
}
__host__ __device__ constexpr int t_jobs(int l) {
    return (t_blocks(t_out(l)) + 2 * t_group(l) - 1) / (2 * t_group(l));
}
__host__ __device__ constexpr int t_jobs_before(int l) {
    return l == 0 ? 0 : t_jobs_before(l - 1) + t_jobs(l - 1);
}
__host__ __device__ constexpr unsigned int t_stage(int l) {
    return (2 * t_group(l) + t_blocks(t_in(l))) * 8192;
}
__host__ __device__ constexpr unsigned int t_largest_stage(int l) {
    return l == 0 ? t_stage(0)
                  : t_stage(l) > t_largest_stage(l - 1) ? t_stage(l) : t_largest_stage(l - 1);
}
#define T_JOBS t_jobs_before(T_DEPTH + 1)
#define T_STAGE t_largest_stage(T_DEPTH)

struct TWeights {
    const unsigned char* kept;
    TPartial partial;
    unsigned char* shared;
    unsigned int barriers, ones;
    unsigned int from, to;
};

// Starts to fetch the part of tile `tile` that the job needs.
template <int L>
__device__ inline void t_fetch(const TWeights& a, unsigned int tile, int m0) {
    int stage = (tile - a.from) % T_STAGES;
    unsigned int barrier = a.barriers + stage * 8, to = t_shared(a.shared) + stage * T_STAGE;
    int left = t_least(2 * t_group(L), t_blocks(t_out(L)) - m0);
    const unsigned char* from = a.kept + (unsigned long long)tile * T_KEPT;
    t_expect(barrier, (left + t_blocks(t_in(L))) * 8192);
    t_bulk(to, from + t_outputs_at(L) + m0 * 8192, left * 8192, barrier);
    t_bulk(to + 2 * t_group(L) * 8192, from + t_inputs_at(L), t_blocks(t_in(L)) * 8192, barrier);
}

// The same as `t_write`, by way of the warp's part of shared memory, 16 rows an odd number of floats apart: in memory,
// neighbouring lanes then write neighbouring numbers.
template <int L, int N>
__device__ inline void t_write_lines(const TPartial& partial, const float (&sums)[N],
                                     const float (&bias)[4], int block, float* lines) {
    constexpr int line = t_in(L) + 1;
    int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    int first = block * 64 + threadIdx.x % 128 / 32 * 16;
    // Another block's lines may lie there.
    __syncwarp();
    #pragma unroll
    for (int e = 0; e < 2; ++e) {
        if (q == 0) t_write_bias<L>(partial, first + g + e * 8, bias[2 * e]);
        #pragma unroll
        for (int j = 0; j < N / 4; ++j) {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                int column = 8 * j + 2 * q + i;
                column = L == 0 ? column : t_true(column);
                lines[(g + e * 8) * line + column] = sums[4 * j + 2 * e + i];
            }
        }
    }
    __syncwarp();
    for (int row = 0; row < 16; ++row) {
        int o = t_output<L>(first + row);
        if (o < 0) continue;
        #pragma unroll
        for (int c = 0; c < (t_real_in(L) + 31) / 32; ++c) {
            int column = c * 32 + lane;
            if (column >= t_real_in(L)) continue;
            partial.put(t_weights(L) + o * t_real_in(L) + column, lines[row * line + column]);
        }
    }
}

template <int L>
__device__ inline void t_job(const TWeights& a, int m0) {
    constexpr int blocks = t_group(L), n = t_in(L);
    int group = threadIdx.x / 128;
    float sums[blocks][n / 2] = {}, bias[blocks][4] = {};
    // Else the compiler shares a register among zeros, and waits for products to separate them.
    #pragma unroll
    for (int b = 0; b < blocks; ++b) {
        t_settle(sums[b]);
        t_settle(bias[b]);
    }
    if (threadIdx.x == 0) {
        for (unsigned int tile = a.from; tile < a.to && tile < a.from + T_STAGES - 1; ++tile) {
            t_fetch<L>(a, tile, m0);
        }
    }
    WideWord ones = t_operand(a.ones, 128, 256, 0);
    for (unsigned int tile = a.from; tile < a.to; ++tile) {
        unsigned int count = tile - a.from, stage = count % T_STAGES;
        t_wait_barrier(a.barriers + stage * 8, count / T_STAGES & 1);
        unsigned int at = t_shared(a.shared) + stage * T_STAGE;
        WideWord inputs = t_operand(at + 2 * blocks * 8192, 8192, 1024, 1);
        t_fence();
        #pragma unroll
        for (int b = 0; b < blocks; ++b) {
            // A block beyond the last one makes numbers that nobody looks at.
            WideWord outputs = t_operand(at + (group * blocks + b) * 8192, 8192, 1024, 1);
            #pragma unroll
            for (int k = 0; k < 4; ++k) {
                Mma<n>::shared(sums[b], outputs + k * 128, inputs + k * 128);
                Mma<8>::shared(bias[b], outputs + k * 128, ones);
            }
        }
        t_commit();
        // The part before this one has been read by now.
        t_wait<1>();
        __syncthreads();
        if (threadIdx.x == 0 && tile + T_STAGES - 1 < a.to) t_fetch<L>(a, tile + T_STAGES - 1, m0);
    }
    t_wait<0>();
    // Both groups have read what was fetched, and its place is free.
    __syncthreads();
    float* lines = (float*)a.shared + threadIdx.x / 32 * 16 * (n + 1);
    #pragma unroll
    for (int b = 0; b < blocks; ++b) {
        t_settle(sums[b]);
        t_settle(bias[b]);
        int block = m0 + group * blocks + b;
        if (block < t_blocks(t_out(L))) t_write_lines<L>(a.partial, sums[b], bias[b], block, lines);
    }
}

template <int L>
__device__ inline void t_jobs_from(const TWeights& a, int job) {
    if constexpr (L <= T_DEPTH) {
        if (job < t_jobs(L)) {
            t_job<L>(a, job * 2 * t_group(L));
        } else {
            t_jobs_from<L + 1>(a, job - t_jobs(L));
        }
    }
}

// Every job is done by `copies` blocks, each for its share of the rows and into its own copy of the
// parameters, [copies, n_parameters]; or added to what is there if these rows are not the first.
extern "C" __global__ __launch_bounds__(256, 1) void wide_tensor_weights(
    const TensorWeightsArgs args) {
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ WideWord barriers[T_STAGES];
    __shared__ __align__(1024) unsigned short ones[512];
    for (int i = threadIdx.x; i < 512; i += 256) ones[i] = HALF_ONE;
    if (threadIdx.x == 0) {
        for (int i = 0; i < T_STAGES; ++i) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(t_shared(&barriers[i]))
                         : "memory");
        }
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    unsigned int tiles = (wide_present(args.state, 1, args.first, args.rows) + 63) / 64;
    unsigned int job = blockIdx.x / args.copies, copy = blockIdx.x % args.copies;
    if (tiles == 0 && args.first > 0) return;
    TPartial partial = {args.partial + (unsigned long long)copy * args.n_parameters, args.first == 0};
    TWeights a = {args.kept, partial, shared, t_shared(barriers), t_shared(ones),
                  (unsigned int)((unsigned long long)tiles * copy / args.copies),
                  (unsigned int)((unsigned long long)tiles * (copy + 1) / args.copies)};
    t_jobs_from<0>(a, (int)job);
}

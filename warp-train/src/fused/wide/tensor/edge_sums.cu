// Gradients of outer layers: what the first pass adds to its sums of them.

// The thread's number. What is computed from it is computed anew, where else it would fill the registers meanwhile.
__device__ inline unsigned int t_thread() {
    unsigned int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

// This group's room for 64 rows of a layer, in shared memory behind the weights at `image`.
__device__ inline unsigned int t_stage(unsigned int image) {
    return image + T_IMAGE + t_thread() / 128 * T_STAGE_BYTES;
}

// Where this thread's part of 8 columns of its two rows begins in such room, of an even number of 32 columns or an odd one.
__device__ inline unsigned int t_stage_at(unsigned int odd) {
    unsigned int thread = t_thread(), row = t_row(thread % 128 / 32 * 16 + thread % 32 / 4);
    return row * 128 + ((odd * 4 + thread % 4) ^ row % 8) * 16;
}

// What `t_keep` and `t_recall` do, there.
template <int K>
__device__ inline void t_stage_keep(const unsigned int (&h)[K], unsigned int stage) {
    unsigned int at[2] = {stage + t_stage_at(0), stage + t_stage_at(1)};
    #pragma unroll
    for (int t = 0; t < K / 8; ++t) {
        #pragma unroll
        for (int lower = 0; lower < 2; ++lower) {
            const unsigned int* from = &h[8 * t + lower];
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at[t % 2] + t / 2 * 8192 + lower * 1024),
                         "r"(from[0]), "r"(from[2]), "r"(from[4]), "r"(from[6]) : "memory");
        }
    }
}
template <int K>
__device__ inline void t_stage_recall(unsigned int (&h)[K], unsigned int stage) {
    unsigned int at[2] = {stage + t_stage_at(0), stage + t_stage_at(1)};
    #pragma unroll
    for (int t = 0; t < K / 8; ++t) {
        #pragma unroll
        for (int lower = 0; lower < 2; ++lower) {
            unsigned int* to = &h[8 * t + lower];
            asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(to[0]), "=r"(to[2]), "=r"(to[4]), "=r"(to[6])
                         : "r"(at[t % 2] + t / 2 * 8192 + lower * 1024) : "memory");
        }
    }
}

// sums += left (16 features of 16 rows) times right (8 columns of the same rows).
__device__ inline void t_edge_product(float4& sums, const unsigned int (&left)[4], const unsigned int (&right)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32." HALF_TYPE "." HALF_TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums.x), "+f"(sums.y), "+f"(sums.z), "+f"(sums.w)
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
}

// 16 features from number 16 `tile` on of rows 16 k.. of what a group has kept, turned.
__device__ inline void t_edge_features(unsigned int (&x)[4], unsigned int stage, int tile, int k) {
    int lane = threadIdx.x % 32, row = k * 16 + t_row(lane / 16 * 8 + lane % 8), eight = tile * 2 + lane / 8 % 2;
    unsigned int at = stage + eight / 8 * 8192 + row * 128 + ((eight ^ row) % 8) * 16;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at) : "memory");
}

// Where this thread's sums lie, of the output layer and then of the first.
__device__ inline float4* t_edges(float* edges) {
    unsigned int thread = t_thread(), group = blockIdx.x * 2 + thread / 128;
    return (float4*)edges + group * T_EDGE_SUMS * 128 + thread % 128;
}
__device__ inline float4* t_first_edges(float* edges) { return t_edges(edges) + T_FIRST_SUMS * 128; }

// This thread's sums of PRODUCTS products with EIGHTS columns by eight.
template <int PRODUCTS, int EIGHTS>
struct TEdgeSums {
    float4 own[PRODUCTS][EIGHTS];

    // Asks for them, long before they are needed.
    __device__ inline void load(const float4* sums) {
        #pragma unroll
        for (int m = 0; m < PRODUCTS; ++m) {
            #pragma unroll
            for (int n = 0; n < EIGHTS; ++n) own[m][n] = sums[(m * EIGHTS + n) * 128];
        }
    }

    // Adds products of features of this group's 64 rows with columns of them, and keeps the sums.
    __device__ inline void add(float4* sums, unsigned int stage, const unsigned int (&right)[4][EIGHTS][2]) {
        int first = t_thread() % 128 / 32 * PRODUCTS;
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            #pragma unroll
            for (int m = 0; m < PRODUCTS; ++m) {
                unsigned int left[4];
                t_edge_features(left, stage, first + m, k);
                #pragma unroll
                for (int n = 0; n < EIGHTS; ++n) t_edge_product(own[m][n], left, right[k][n]);
            }
        }
        #pragma unroll
        for (int m = 0; m < PRODUCTS; ++m) {
            #pragma unroll
            for (int n = 0; n < EIGHTS; ++n) sums[(m * EIGHTS + n) * 128] = own[m][n];
        }
    }
};
typedef TEdgeSums<T_OUT_PRODUCTS - 1, T_OUT_EIGHTS> TOutputSums;
typedef TEdgeSums<T_IN_PRODUCTS, T_IN_EIGHTS> TInputSums;

// Gradients of the output layer: of the group's activations and the gradients in `outs`, [64, T_STRIDE].
__device__ inline void t_edge_outputs(TOutputSums& own_sums, float4* sums, unsigned int stage, const float* outs) {
    int thread = t_thread(), g = thread % 32 / 4, q = thread % 4;
    unsigned int right[4][T_OUT_EIGHTS][2];
    #pragma unroll
    for (int k = 0; k < 4; ++k) {
        #pragma unroll
        for (int n = 0; n < T_OUT_EIGHTS; ++n) {
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float* from = outs + (k * 16 + half * 8 + 2 * q) * T_STRIDE + n * 8 + g;
                right[k][n][half] = t_halves(from[0], from[T_STRIDE]);
            }
        }
    }
    own_sums.add(sums, stage, right);
    if (thread % 128 / 32 != 0) return;
    unsigned int ones[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) ones[i] = HALF_ONE * 0x10001u;
    #pragma unroll
    for (int n = 0; n < T_OUT_EIGHTS; ++n) {
        float4* to = sums + ((T_OUT_PRODUCTS - 1) * T_OUT_EIGHTS + n) * 128;
        float4 own = *to;
        #pragma unroll
        for (int k = 0; k < 4; ++k) t_edge_product(own, ones, right[k][n]);
        *to = own;
    }
}

// Gradients of the first layer: of those of its outputs and the observations, [64, T_OBS_ROW bytes].
__device__ inline void t_edge_inputs(TInputSums& own_sums, float4* sums, unsigned int stage, const unsigned char* obs) {
    int thread = t_thread(), g = thread % 32 / 4, q = thread % 4;
    unsigned int right[4][T_IN_EIGHTS][2];
    #pragma unroll
    for (int k = 0; k < 4; ++k) {
        #pragma unroll
        for (int n = 0; n < T_IN_EIGHTS; ++n) {
            int column = n * 8 + g;
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                const unsigned char* from =
                    obs + (k * 16 + half * 8 + 2 * q) * T_OBS_ROW + (column < T_IN ? column : 0) * 2;
                unsigned int low = *(const unsigned short*)from, high = *(const unsigned short*)(from + T_OBS_ROW);
                unsigned int both = low | high << 16;
                right[k][n][half] = column < T_IN ? both : column == T_IN ? HALF_ONE * 0x10001u : 0;
            }
        }
    }
    own_sums.add(sums, stage, right);
}

// Starts to copy back there what this thread has kept of a layer's N inputs in `tile`.
template <int N>
__device__ inline void t_copy_back(unsigned int stage, const unsigned char* tile) {
    unsigned int at[2] = {t_stage_at(0), t_stage_at(1)};
    #pragma unroll
    for (int t = 0; t < N / 32; ++t) {
        #pragma unroll
        for (int lower = 0; lower < 2; ++lower) {
            unsigned int further = t / 2 * 8192 + lower * 1024;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(stage + at[t % 2] + further),
                         "l"(tile + at[t % 2] + further) : "memory");
        }
    }
}

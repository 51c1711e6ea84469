// A tile of rows, on which a team of blocks works together.
//
// Before this text stand TEAM (blocks of a team: a cluster), SHARE (those of them that share a pass), TILES_HIGH (16 rows
// each of a tile), BLOCKS (blocks of a run) and BLOCK (the number of this one among them).

#define TILE_ROWS (16 * TILES_HIGH)
#define N_THREADS 256
#define N_WARPS 8

extern __shared__ __align__(16) float shared[];

// Waits for all blocks of the team, whose writes are seen afterwards.
__device__ inline void team_sync() {
#if TEAM > 1
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
    __syncthreads();
#endif
}

// The barrier's highest bit before a round that this block has not come to yet.
__device__ inline unsigned int phase_of(const unsigned int* barrier) {
    unsigned int now;
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(now) : "l"(barrier) : "memory");
    return now & 0x80000000u;
}

// Waits for all blocks of the run. Every round turns the highest bit of `barrier` and leaves the others at 0; `phase` is
// what it was before.
__device__ inline void grid_sync(unsigned int* barrier, unsigned int& phase) {
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned int add = BLOCK == 0 ? 0x80000000u - (BLOCKS - 1u) : 1u, now;
        // Nothing waits for the sum: who sees it sees what all blocks wrote before.
        asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(barrier), "r"(add) : "memory");
        do {
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(barrier) : "memory");
        } while (((phase ^ now) & 0x80000000u) == 0u);
    }
    phase ^= 0x80000000u;
    __syncthreads();
}

// What becomes of a product.
enum Epilogue { LINEAR, TANH, RELU, PLAIN, TANH_SLOPE, RELU_SLOPE };

// Of a sum with its bias.
__device__ inline float activated(Epilogue epilogue, float x) {
    if (epilogue == TANH) return warp_tanh(x);
    // What is no number becomes 0.
    return epilogue == RELU ? fmaxf(x, 0.0f) : x;
}

// A derivative by an output y, as one by the sum that it was made of.
__device__ inline float sloped(Epilogue epilogue, float d, float y) {
    if (epilogue == TANH_SLOPE) return d * (1.0f - y * y);
    return y > 0.0f ? d : 0.0f;
}

__device__ inline float4 load_four(const float* at) { return *(const float4*)at; }

__device__ inline float part_of(const float4& four, int i) {
    return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
}

// The columns of 32 that a part of some numbers has, from where the part begins and up to where it ends.
__device__ inline int low_of(int begin) { return begin > 0 ? begin : 0; }
__device__ inline int high_of(int end) { return end < 32 ? end : 32; }

// Rows of a pass for a layer's gradient: inputs [rows, k] and derivatives [rows, n], from its 32 columns on.
template <class Number>
struct SlabOf {
    const Number* x;
    const Number* d;
    int k, n;
    // Rows, a multiple of 16.
    int rows;
};

// A thread's sums of a tile of weights: 32 of weights and 4 of biases.
#define SUMS 36

// Packed weights that stand near, in shared memory: where a block has a pass to itself and room beside its numbers, the
// first rounds of each layer are on their way there while the pass's inputs are put together.

typedef unsigned short Half;

// Counts the bytes that have come, by layer of a pass, and how many times they have been asked for.
__shared__ unsigned long long near_came[MOST_LAYERS];
__shared__ unsigned int near_round[MOST_LAYERS];

__device__ inline unsigned int shared_address(const void* at) {
    return (unsigned int)__cvta_generic_to_shared(at);
}

__device__ inline void begin_near() {
    if (threadIdx.x < MOST_LAYERS) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(near_came + threadIdx.x)) : "memory");
        near_round[threadIdx.x] = 0;
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
}

// A layer's packed weights: chunks of 32 columns, whose rounds of 16 terms are 1 kB each.
struct Weights {
    // Among all, and where the first rounds of each chunk are near, in bytes of shared memory.
    const Half* packed;
    unsigned int place;
    // Its number in the pass.
    int layer;

    // What a lane has of a chunk, far and near.
    __device__ inline const uint4* far(int chunk, int rounds) const {
        return (const uint4*)packed + (long long)chunk * rounds * 64 + threadIdx.x % 32;
    }
    __device__ inline const uint4* near(int chunk, int rounds) const {
        return (const uint4*)((const char*)shared + place) + chunk * rounds * 64 + threadIdx.x % 32;
    }

    // Starts to bring `rounds` of `all` rounds of each chunk; the block has met since it used what was there.
    __device__ inline void bring(int chunks, unsigned int rounds, unsigned int all) const {
        if (threadIdx.x != 0) return;
        if (rounds == all) {
            rounds *= chunks;
            chunks = 1;
        }
        unsigned int came = shared_address(near_came + layer), to = shared_address(shared) + place, bytes = rounds << 10;
        // Weights may have been written in this launch.
        asm volatile("fence.proxy.async;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(came), "r"(chunks * bytes) : "memory");
        for (int chunk = 0; chunk < chunks; ++chunk) {
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                             to + chunk * bytes),
                         "l"(packed + 512 * all * chunk), "r"(bytes), "r"(came)
                         : "memory");
        }
        ++near_round[layer];
    }
    // Waits until they have come; the block has met since they were asked for.
    __device__ inline void await() const {
        unsigned int came = shared_address(near_came + layer), round = near_round[layer] - 1, done;
        do {
            asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                         : "=r"(done)
                         : "r"(came), "r"(round % 2)
                         : "memory");
        } while (done == 0);
    }
};

// Blocks that share the layers of a pass: SHARE neighbours of a team, a cluster, each of which has the numbers of the tile
// in its own shared memory and makes some of the next layer's for all of them.

// The first unit of work of a warp among those of all of them.
__device__ inline int first_unit() { return threadIdx.x / 32 * SHARE + BLOCK % SHARE; }

#define SHARER (BLOCK % SHARE)

#if SHARE > 1
// Where something of this block's shared memory lies in that of sharer number i.
__device__ inline unsigned int at_sharer(const void* here, unsigned int i) {
    unsigned int there, block = BLOCK % TEAM - SHARER + i;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"((unsigned int)__cvta_generic_to_shared(here)), "r"(block));
    return there;
}

// Two numbers, for all sharers.
__device__ inline void put_word(void* to, unsigned int two) {
#pragma unroll
    for (unsigned int i = 0; i < SHARE; ++i) {
        asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(at_sharer(to, i)), "r"(two) : "memory");
    }
}

// Turns over when all sharers have come; its phase.
__shared__ unsigned long long shared_barrier;
__shared__ unsigned int shared_phase;

// Before any other sharer may come to the barrier.
__device__ inline void share_begin() {
    if (threadIdx.x == 0) {
        unsigned int barrier = (unsigned int)__cvta_generic_to_shared(&shared_barrier);
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(SHARE) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        shared_phase = 0;
    }
    team_sync();
}

// Waits for all sharers, whose writes are seen afterwards.
__device__ inline void share_sync() {
    __syncthreads();
    if (threadIdx.x < 32) {
        unsigned int phase = shared_phase;
        if (threadIdx.x < SHARE) {
            asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(
                             at_sharer(&shared_barrier, threadIdx.x))
                         : "memory");
        }
        unsigned int barrier = (unsigned int)__cvta_generic_to_shared(&shared_barrier);
        asm volatile(
            "{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n"
            "@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(barrier),
            "r"(phase)
            : "memory");
        __syncwarp();
        if (threadIdx.x == 0) shared_phase = phase ^ 1u;
    }
    __syncthreads();
}
#else
__device__ inline void put_word(void* to, unsigned int two) { *(unsigned int*)to = two; }
#endif

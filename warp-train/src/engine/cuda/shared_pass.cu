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

// Each turns over when all sharers have come. They are used in turn: a sharer that is ahead comes to the other one, and
// comes to this one again only when this block, too, has come to that.
__shared__ unsigned long long shared_barriers[2];
// How many times this block has waited.
__shared__ unsigned int shared_rounds;

// Before any other sharer may come to a barrier.
__device__ inline void share_begin() {
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) {
            unsigned int barrier = (unsigned int)__cvta_generic_to_shared(shared_barriers + i);
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(SHARE) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        shared_rounds = 0;
    }
    team_sync();
}

// Waits for all sharers, whose writes are seen afterwards.
__device__ inline void share_sync() {
    __syncthreads();
    if (threadIdx.x < 32) {
        unsigned int round = shared_rounds;
        const unsigned long long* here = shared_barriers + round % 2;
        if (threadIdx.x < SHARE) {
            asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(
                             at_sharer(here, threadIdx.x))
                         : "memory");
        }
        unsigned int barrier = (unsigned int)__cvta_generic_to_shared(here);
        asm volatile(
            "{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n"
            "@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(barrier),
            "r"(round / 2 % 2)
            : "memory");
        __syncwarp();
        if (threadIdx.x == 0) shared_rounds = round + 1;
    }
    __syncthreads();
}
#else
__device__ inline void put_word(void* to, unsigned int two) { *(unsigned int*)to = two; }
#endif

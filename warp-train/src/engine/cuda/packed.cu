// Weights in half precision, packed in the order in which lanes need them.

// Packed weights of 32 columns and 32 terms: where one of them lies.
__device__ inline int packed_place(int column, int term) {
    int lane = column % 8 * 4 + term % 8 / 2;
    return term / 16 * 512 + column / 16 * 256 + lane * 8 + column / 8 % 2 * 4 + term % 16 / 8 * 2 + term % 2;
}

#ifdef PACKED_STAY
// This part of them, by their addresses, is to stay in the second-level cache between a step and the passes after it,
// whatever streams through.
__device__ inline unsigned long long packed_policy() {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %0, " PACKED_STAY ";" : "=l"(policy));
    return policy;
}
__device__ inline uint4 load_packed(const uint4* from) {
    uint4 x;
    asm volatile("ld.global.cg.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(from), "l"(packed_policy()));
    return x;
}
__device__ inline void store_packed(uint4* to, uint4 x) {
    asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to), "r"(x.x), "r"(x.y), "r"(x.z),
                 "r"(x.w), "l"(packed_policy())
                 : "memory");
}
// Prefetches the next layer's weights into the second-level cache. The tiles that a run's blocks have at the moment need the
// same weights at about the same time, so each asks for a part.
__device__ inline void prefetch_packed(const void* packed, unsigned int bytes, unsigned int tile, unsigned int tiles) {
    unsigned int parts = tiles < BLOCKS / TEAM ? tiles : BLOCKS / TEAM;
    unsigned int part = (bytes / 16 + parts - 1) / parts * 16, begin = tile % parts * part;
    if (threadIdx.x != 0 || begin >= bytes) return;
    unsigned int size = part < bytes - begin ? part : bytes - begin;
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"((const char*)packed + begin), "r"(size));
}
#else
__device__ inline uint4 load_packed(const uint4* from) { return __ldcg(from); }
#endif

// A lane's packed weights of 32 columns and 16 terms.
struct RoundWeights {
    uint4 low, top;
    __device__ inline void load(const uint4* from) {
        low = load_packed(from);
        top = load_packed(from + 32);
    }
};

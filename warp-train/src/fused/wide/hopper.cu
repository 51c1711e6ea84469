// What kernels on the tensor cores of compute capability 9 are made of: halves, products that run by
// themselves, and the engine that copies between memory and shared memory.

// Two floats as halves, the first in the lower bits; beyond the range of halves the largest of them.
__device__ inline unsigned int t_halves(float low, float high) {
    unsigned int pair;
    asm("cvt.rn.satfinite." HALF_PAIR ".f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
__device__ inline unsigned int t_halves_relu(float low, float high) {
    unsigned int pair;
    asm("cvt.rn.relu.satfinite." HALF_PAIR ".f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
// Half by half, a b, a + b and a b + c.
__device__ inline unsigned int t_times(unsigned int a, unsigned int b) {
    unsigned int out;
    asm("mul.rn." HALF_PAIR " %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}
__device__ inline unsigned int t_plus(unsigned int a, unsigned int b) {
    unsigned int out;
    asm("add.rn." HALF_PAIR " %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}
__device__ inline unsigned int t_times_plus(unsigned int a, unsigned int b, unsigned int c) {
    unsigned int out;
    asm("fma.rn." HALF_PAIR " %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
    return out;
}
// x between -limit and limit, half by half; what is no number stays none.
__device__ inline unsigned int t_clamp(unsigned int x, unsigned int limit) {
    unsigned int out;
    asm("{.reg .b32 m; min.NaN." HALF_PAIR " m, %1, %2; max.NaN." HALF_PAIR " %0, m, %3;}"
        : "=r"(out) : "r"(x), "r"(limit), "r"(limit ^ 0x80008000u));
    return out;
}
#if BF16
__device__ inline float t_low(unsigned int pair) { return __uint_as_float(pair << 16); }
__device__ inline float t_high(unsigned int pair) { return __uint_as_float(pair & 0xffff0000u); }
#else
__device__ inline float t_low(unsigned int pair) {
    float x;
    asm("{.reg .f16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l;}" : "=f"(x) : "r"(pair));
    return x;
}
__device__ inline float t_high(unsigned int pair) {
    float x;
    asm("{.reg .f16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, h;}" : "=f"(x) : "r"(pair));
    return x;
}
#endif
__device__ inline float t_exp(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
    return y;
}
__device__ inline float t_ln(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y * 0.6931471806f;
}
__device__ inline float t_tanh(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ inline unsigned int t_shared(const void* p) {
    return (unsigned int)__cvta_generic_to_shared(p);
}
// Asks for a line that will be read soon.
__device__ inline void t_prefetch(const void* p) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}
__device__ inline void t_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void t_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT>
__device__ inline void t_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
// Keeps the compiler from moving reads of sums that are still being computed.
template <int N>
__device__ inline void t_settle(float (&sums)[N]) {
    #pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

// Where a product finds its right operand: address, strides in bytes, swizzle (1: 128 bytes, 3: 32).
__device__ inline WideWord t_operand(unsigned int address, unsigned int lead, unsigned int stride,
                                     WideWord swizzle) {
    return (WideWord)((address & 0x3ffffu) >> 4) | (WideWord)(lead >> 4) << 16 |
           (WideWord)(stride >> 4) << 32 | swizzle << 62;
}

__device__ inline void t_wait_barrier(unsigned int barrier, unsigned int phase) {
    asm volatile(
        "{\n.reg .pred p;\nAGAIN:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\nbra AGAIN;\nDONE:\n}"
        ::"r"(barrier), "r"(phase) : "memory");
}
__device__ inline void t_barrier(unsigned int barrier, unsigned int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ inline void t_expect(unsigned int barrier, unsigned int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}
__device__ inline void t_bulk(unsigned int to, const void* from, unsigned int bytes,
                              unsigned int barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
// All threads of a group of four warps.
__device__ inline void t_meet(int group) { asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory"); }

// Clusters of blocks. The same place in the shared memory of both blocks of a pair gets what is copied there, and the
// barrier of each is told.
__device__ inline void t_bulk_to_pair(unsigned int to, const void* from, unsigned int bytes, unsigned int barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
        ::"r"(to), "l"(from), "r"(bytes), "r"(barrier), "h"((unsigned short)3) : "memory");
}
// Arrives at what is this block's `barrier` in block `rank` of the cluster.
__device__ inline void t_arrive_at(unsigned int barrier, unsigned int rank) {
    asm volatile(
        "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier), "r"(rank) : "memory");
}
// All threads of all blocks.
__device__ inline void t_meet_cluster() {
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}

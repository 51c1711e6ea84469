// Tensor-core products of one warp, and the moves between registers and shared memory they need.
#pragma once
#include "halves.cuh"

typedef unsigned int u32;

// An address in shared memory as instructions take it.
__device__ __forceinline__ u32 shared_address(const void* p) {
    return (u32)__cvta_generic_to_shared(p);
}

// Two numbers as halves, whose type halves.cuh says, in one word, the first in the low half.
__device__ __forceinline__ u32 pack_halves(float low, float high) {
    u32 word;
    asm("cvt.rn." HALF_PAIR ".f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

// The same of what is above 0, else of 0.
__device__ __forceinline__ u32 pack_positive(float low, float high) {
    u32 word;
    asm("cvt.rn.relu." HALF_PAIR ".f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

__device__ __forceinline__ void unpack_halves(u32 word, float& low, float& high) {
#if BF16
    low = __uint_as_float(word << 16);
    high = __uint_as_float(word & 0xffff0000u);
#else
    asm("{.reg .f16 l, h;\n mov.b32 {l, h}, %2;\n cvt.f32.f16 %0, l;\n cvt.f32.f16 %1, h;}"
        : "=f"(low), "=f"(high)
        : "r"(word));
#endif
}

__device__ __forceinline__ float fast_tanh(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// As __expf, __logf and __fdividef, but that with LEAN subnormal numbers count as 0: half of the
// instructions.
__device__ __forceinline__ float fast_exp(float x) {
    if (!LEAN) return __expf(x);
    float y;
    asm("{.reg .f32 t;\n mul.f32 t, %1, 0f3FB8AA3B;\n ex2.approx.ftz.f32 %0, t;}" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float fast_log(float x) {
    if (!LEAN) return __logf(x);
    float y;
    asm("{.reg .f32 t;\n lg2.approx.ftz.f32 t, %1;\n mul.f32 %0, t, 0f3F317218;}" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float fast_divide(float x, float y) {
    if (!LEAN) return __fdividef(x, y);
    float q;
    asm("div.approx.ftz.f32 %0, %1, %2;" : "=f"(q) : "f"(x), "f"(y));
    return q;
}

// Half by half, a b, a + b and a b + c.
__device__ __forceinline__ u32 times_halves(u32 a, u32 b) {
    u32 out;
    asm("mul.rn." HALF_PAIR " %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}
__device__ __forceinline__ u32 add_halves(u32 a, u32 b) {
    u32 out;
    asm("add.rn." HALF_PAIR " %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}
__device__ __forceinline__ u32 times_halves_and(u32 a, u32 b, u32 c) {
    u32 out;
    asm("fma.rn." HALF_PAIR " %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
    return out;
}

// x between -limit and limit, half by half; what is no number stays none.
__device__ __forceinline__ u32 clamp_halves(u32 x, u32 limit) {
    u32 out;
    asm("{.reg .b32 m;\n min.NaN." HALF_PAIR " m, %1, %2;\n max.NaN." HALF_PAIR " %0, m, %3;}"
        : "=r"(out)
        : "r"(x), "r"(limit), "r"(limit ^ 0x80008000u));
    return out;
}

// d (1 - h h), half by half.
__device__ __forceinline__ u32 times_tanh_slope(u32 d, u32 h) {
    u32 out;
    asm("{.reg .b32 n, s;\n xor.b32 n, %2, 0x80008000;\n fma.rn." HALF_PAIR " s, n, %2, %3;\n"
        " mul.rn." HALF_PAIR " %0, %1, s;}"
        : "=r"(out)
        : "r"(d), "r"(h), "r"(HALF_ONE * 0x10001u));
    return out;
}

// d where h is above 0, else 0, half by half.
__device__ __forceinline__ u32 where_positive(u32 d, u32 h) {
    u32 out;
    asm("{.reg .b32 m;\n set.gt.u32." HALF_PAIR " m, %2, %3;\n and.b32 %0, %1, m;}"
        : "=r"(out)
        : "r"(d), "r"(h), "r"(0u));
    return out;
}

// c += a b: a is 16 x 16, b 16 x 8, c 16 x 8.
__device__ __forceinline__ void mma16(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0,
                                      u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32." HALF_TYPE "." HALF_TYPE ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// c += a b: a is 16 x 8, b 8 x 8.
__device__ __forceinline__ void mma8(float (&c)[4], u32 a0, u32 a1, u32 b0) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32." HALF_TYPE "." HALF_TYPE ".f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(b0));
}

// Four 8 x 8 matrices of halves; lane 8 i + r gives the address of row r of matrix i.
__device__ __forceinline__ void load_4(u32 (&m)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(address)
                 : "memory");
}
// The same, each transposed.
__device__ __forceinline__ void load_4_turned(u32 (&m)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(address)
                 : "memory");
}
// Two such matrices, the addresses in lanes 0 to 15.
__device__ __forceinline__ void load_2_turned(u32& a, u32& b, u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(a), "=r"(b)
                 : "r"(address)
                 : "memory");
}
__device__ __forceinline__ void store_4(u32 address, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address),
                 "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}

// Two, each transposed; the addresses in lanes 0 to 15.
__device__ __forceinline__ void store_2_turned(u32 address, u32 a, u32 b) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1,%2};" ::"r"(address), "r"(a),
                 "r"(b)
                 : "memory");
}

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}
__device__ __forceinline__ double warp_sum(double x) {
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

// Of 32 numbers their sums over the lanes of a warp: lane `i` gets that of number `i`, in the order of warp_sum(). Each
// step halves how many numbers a lane goes on with, so that there are 31 exchanges and not 160.
template <int HALF> __device__ __forceinline__ void halve_sums(float (&x)[32]) {
    bool upper = threadIdx.x & HALF;
#pragma unroll
    for (int i = 0; i < HALF; ++i) {
        float low = x[i], high = x[i + HALF];
        float other = __shfl_xor_sync(0xffffffffu, upper ? low : high, HALF);
        x[i] = (upper ? high : low) + other;
    }
}
__device__ __forceinline__ float warp_sums(float (&x)[32]) {
    halve_sums<16>(x);
    halve_sums<8>(x);
    halve_sums<4>(x);
    halve_sums<2>(x);
    halve_sums<1>(x);
    return x[0];
}

// Products of the second layer that four warps make together: 64 rows by 32 columns a time.
//
// They read the right operand from shared memory once for all four, where with mma16() every warp reads
// it, and run while the warps do other things. Rows are 128 bytes long, in the order that unit_at() says;
// what was written by ordinary stores is made known by publish() before the barrier ahead of the product.
//
// Needs FOUR_WARPS (for HID of 64 and a warp of 16 rows).
#pragma once
#include "net.cuh"

typedef unsigned long long Operand;

// Makes this thread's stores to shared memory known to the products of all who meet it at a barrier.
__device__ __forceinline__ void publish() {
    if (FOUR_WARPS) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#if FOUR_WARPS
// Columns 8 i + 2 (lane & 3) and the next of rows lane / 4 and lane / 4 + 8 of a warp's sixteen.
typedef float Sums32[4][4];
static_assert(HID == 64 && ROWS == 1, "rows of another length than the products take");

// A matrix at a multiple of 1,024 bytes whose groups of eight rows follow each other, swizzled by 128
// bytes.
__device__ __forceinline__ Operand operand(const void* matrix) {
    return (Operand)((shared_address(matrix) & 0x3ffffu) >> 4) | (Operand)1 << 16 |
           (Operand)(1024 >> 4) << 32 | (Operand)1 << 62;
}
// `bytes` further on.
__device__ __forceinline__ Operand further(Operand from, int bytes) { return from + (bytes >> 4); }

// Products between start_products() and end_products() run on behind the thread's back;
// wait_for_products() waits for all but the last `LEFT` such groups.
__device__ __forceinline__ void start_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void end_products() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int LEFT> __device__ __forceinline__ void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
// Sums that are added to behind the compiler's back are not moved across this.
__device__ __forceinline__ void settle(float (*c)[4]) {
#pragma unroll
    for (int i = 0; i < 16; ++i) asm volatile("" : "+f"(c[i / 4][i % 4])::"memory");
}

#define SUMS_32 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}"
#define SUMS_32_OF(c)                                                                              \
    "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]),      \
        "+f"(c[1][2]), "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]),  \
        "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3])

// c += a b (or with FIRST c = a b) for features 16 k to 16 k + 15 of a warp's rows `a`; b's rows are columns
// of the product, or with TURNED features.
template <bool TURNED, bool FIRST>
__device__ __forceinline__ void mma_rows(Sums32& c, const Hidden& a, int k, Operand b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32." HALF_TYPE "." HALF_TYPE " " SUMS_32
                 ", {%16,%17,%18,%19}, %20, %21, 1, 1, %22;"
                 : SUMS_32_OF(c)
                 : "r"(a[2 * k][0]), "r"(a[2 * k][1]), "r"(a[2 * k + 1][0]), "r"(a[2 * k + 1][1]),
                   "l"(b), "n"(FIRST ? 0 : 1), "n"(TURNED ? 1 : 0));
}
// c += a b where both operands' rows are what is summed over.
__device__ __forceinline__ void mma_turned(float (*c)[4], Operand a, Operand b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32." HALF_TYPE "." HALF_TYPE " " SUMS_32
                 ", %16, %17, 1, 1, 1, 1, 1;"
                 : SUMS_32_OF(c)
                 : "l"(a), "l"(b));
}

// Halves of the columns whose sums are held at once; one where two blocks share the registers.
#define HALVES (BLOCKS == 1 ? 2 : 1)

// What products take from registers stays there until here.
__device__ __forceinline__ void hold(const Hidden& a) {
#pragma unroll
    for (int i = 0; i < N_TILES; ++i) asm volatile("" ::"r"(a[i][0]), "r"(a[i][1]) : "memory");
}

// The product of a warp's rows and a matrix of 64 x 64: `begin` fills the sums of a half of the columns,
// which with TURNED begin with 0, and `end` takes them; while it takes those of one half, the other's go on.
template <bool TURNED, class Begin, class End>
__device__ __forceinline__ void times_matrix(const Hidden& a, const unsigned short* matrix, Begin begin,
                                             End end) {
    Operand b = operand(matrix);
    // A half of the columns is 32 rows, or 64 bytes of each; 16 features are 32 bytes, or 16 rows.
    constexpr int half_bytes = TURNED ? 64 : 32 * 128, step_bytes = TURNED ? 16 * 128 : 32;
#pragma unroll
    for (int first = 0; first < 2; first += HALVES) {
        Sums32 c[HALVES];
#pragma unroll
        for (int i = 0; i < HALVES; ++i) {
            begin(c[i], first + i);
            if (!TURNED) settle(c[i]);
        }
        start_products();
#pragma unroll
        for (int i = 0; i < HALVES; ++i) {
#pragma unroll
            for (int k = 0; k < M_TILES; ++k) {
                Operand part = further(b, (first + i) * half_bytes + k * step_bytes);
                if (TURNED && k == 0)
                    mma_rows<TURNED, true>(c[i], a, k, part);
                else
                    mma_rows<TURNED, false>(c[i], a, k, part);
            }
            end_products();
        }
#pragma unroll
        for (int i = 0; i < HALVES; ++i) {
            if (i + 1 < HALVES) {
                wait_for_products<1>();
            } else {
                wait_for_products<0>();
                hold(a);
            }
            settle(c[i]);
            end(c[i], first + i);
        }
    }
}

// As second_layer(), for 16 rows.
__device__ __forceinline__ void second_layer_together(const NetShared& net, const Hidden& h1, Hidden& h2) {
    auto begin = [&](Sums32& c, int half) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float2 bias = *(const float2*)&net.b2[half * 32 + i * 8 + 2 * (threadIdx.x & 3)];
            c[i][0] = c[i][2] = bias.x;
            c[i][1] = c[i][3] = bias.y;
        }
    };
    auto end = [&](const Sums32& c, int half) {
#pragma unroll
        for (int i = 0; i < 4; ++i) pack_active(c[i], h2[half * 4 + i]);
    };
    times_matrix<false>(h1, net.w2, begin, end);
}

// As back_to_first().
__device__ __forceinline__ void back_to_first_together(const NetShared& net, const Hidden& d2,
                                                       const Hidden& h1, Hidden& d1) {
    auto begin = [](Sums32&, int) {};
    auto end = [&](const Sums32& c, int half) {
#pragma unroll
        for (int i = 0; i < 4; ++i) through_activation(c[i], h1[half * 4 + i], d1[half * 4 + i]);
    };
    times_matrix<true>(d2, net.w2, begin, end);
}

// Adds the product of a tile's derivatives and activations to a group's gradients of the second layer,
// 32 of its columns by each four warps.
__device__ __forceinline__ void add_wide_together(const unsigned short* d2, const unsigned short* h1,
                                                  int n_rows, int warp, float (*own)[4]) {
    Operand a = operand(d2), b = further(operand(h1), warp / 4 * 64);
    settle(own);
    start_products();
#pragma unroll
    for (int k = 0; k < n_rows / 16; ++k)
        mma_turned(own, further(a, k * 16 * 128), further(b, k * 16 * 128));
    end_products();
}
#endif

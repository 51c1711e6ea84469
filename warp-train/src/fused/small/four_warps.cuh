// Products of the second layer that four warps make together: 64 rows by a half of the columns a time.
//
// They read the right operand from shared memory once for all four, where with mma16() every warp reads
// it, and run while the warps do other things. Rows lie in the order that unit_at() says;
// what was written by ordinary stores is made known by publish() before the barrier ahead of the product.
//
// Needs FOUR_WARPS (for HID of 64 or 128 and a warp of 16 rows).
#pragma once
#include "layers.cuh"

// Tiles of the second layer's gradients that one of eight warps owns.
#define WIDE_TILES (HID * HID / 1024)

// Where a product finds an operand in shared memory, as two words: adding to both as one takes the compiler many
// instructions more.
struct Operand {
    u32 low, high;
};

// Makes this thread's stores to shared memory known to the products of all who meet it at a barrier.
__device__ __forceinline__ void publish() {
    if (FOUR_WARPS) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#if FOUR_WARPS
static_assert((HID == 64 || HID == 128) && ROWS == 1, "rows of another length than the products take");
// Columns that are summed together, a half of them all: 8 i + 2 (lane & 3) and the next of rows lane / 4 and
// lane / 4 + 8 of a warp's sixteen.
#define HALF_TILES (HID / 16)
typedef float HalfSums[HALF_TILES][4];

// A matrix at a multiple of 1,024 bytes whose groups of eight rows follow each other, swizzled by 128
// bytes; `lead` bytes from one panel to the next, for what has its columns in more than one.
__device__ __forceinline__ Operand operand(const void* matrix, int lead = 16) {
    return {(shared_address(matrix) & 0x3ffffu) >> 4 | (u32)(lead >> 4) << 16, 1024u >> 4 | 1u << 30};
}
// `bytes` further on.
__device__ __forceinline__ Operand further(Operand from, int bytes) { return {from.low + (bytes >> 4), from.high}; }

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
template <int TILES> __device__ __forceinline__ void settle(float (*c)[4]) {
#pragma unroll
    for (int i = 0; i < 4 * TILES; ++i) asm volatile("" : "+f"(c[i / 4][i % 4])::"memory");
}

#define SUMS_OF_TILE(c, i) "+f"((c)[i][0]), "+f"((c)[i][1]), "+f"((c)[i][2]), "+f"((c)[i][3])
#define SUMS_OF_4(c) SUMS_OF_TILE(c, 0), SUMS_OF_TILE(c, 1), SUMS_OF_TILE(c, 2), SUMS_OF_TILE(c, 3)
#define SUMS_OF_8(c) SUMS_OF_4(c), SUMS_OF_4(c + 4)
#define SUMS_OF_16(c) SUMS_OF_8(c), SUMS_OF_8(c + 8)
#define PRODUCT(n) "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." HALF_TYPE "." HALF_TYPE " "
// The names a and b for operands whose words are these arguments of an instruction.
#define OPERAND_A(low, high) ".reg .b64 a; mov.b64 a, {%" #low ", %" #high "}; "
#define OPERAND_B(low, high) ".reg .b64 b; mov.b64 b, {%" #low ", %" #high "}; "
#define WORDS_OF(operand) "r"((operand).low), "r"((operand).high)
#define SUMS_8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define SUMS_12 SUMS_8 ",%8,%9,%10,%11"
#define SUMS_16 SUMS_12 ",%12,%13,%14,%15"
#define SUMS_32 SUMS_16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define SUMS_64                                                                                    \
    SUMS_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52" \
            ",%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"

// c += a b (or with FIRST c = a b) for features 16 k to 16 k + 15 of a warp's rows `a`; b's rows are columns
// of the product, or with TURNED features.
template <bool TURNED, bool FIRST>
__device__ __forceinline__ void mma_rows(HalfSums& c, const Hidden& a, int k, Operand b) {
#if HID == 64
    asm volatile("{" OPERAND_B(20, 21) PRODUCT(32) "{" SUMS_16 "}, {%16,%17,%18,%19}, b, %22, 1, 1, %23;}"
                 : SUMS_OF_4(c)
#else
    asm volatile("{" OPERAND_B(36, 37) PRODUCT(64) "{" SUMS_32 "}, {%32,%33,%34,%35}, b, %38, 1, 1, %39;}"
                 : SUMS_OF_8(c)
#endif
                 : "r"(a[2 * k][0]), "r"(a[2 * k][1]), "r"(a[2 * k + 1][0]), "r"(a[2 * k + 1][1]),
                   WORDS_OF(b), "n"(FIRST ? 0 : 1), "n"(TURNED ? 1 : 0));
}
// c += a b where both operands' rows are what is summed over: 64 columns of a by a half of b's, or by all where that
// is what a group of four warps owns.
__device__ __forceinline__ void mma_turned(float (*c)[4], Operand a, Operand b) {
#if HID == 64
    asm volatile("{" OPERAND_A(16, 17) OPERAND_B(18, 19) PRODUCT(32) "{" SUMS_16 "}, a, b, 1, 1, 1, 1, 1;}"
                 : SUMS_OF_4(c)
                 : WORDS_OF(a), WORDS_OF(b));
#else
    asm volatile("{" OPERAND_A(64, 65) OPERAND_B(66, 67) PRODUCT(128) "{" SUMS_64 "}, a, b, 1, 1, 1, 1, 1;}"
                 : SUMS_OF_16(c)
                 : WORDS_OF(a), WORDS_OF(b));
#endif
}

// The same for few columns of b, 8 TILES.
template <int TILES> __device__ __forceinline__ void mma_columns(float (*c)[4], Operand a, Operand b) {
    static_assert(TILES >= 1 && TILES <= 4, "more columns than there are products for");
    if constexpr (TILES == 1)
        asm volatile("{" OPERAND_A(4, 5) OPERAND_B(6, 7) PRODUCT(8) "{%0,%1,%2,%3}, a, b, 1, 1, 1, 1, 1;}"
                     : SUMS_OF_TILE(c, 0)
                     : WORDS_OF(a), WORDS_OF(b));
    else if constexpr (TILES == 2)
        asm volatile("{" OPERAND_A(8, 9) OPERAND_B(10, 11) PRODUCT(16) "{" SUMS_8 "}, a, b, 1, 1, 1, 1, 1;}"
                     : SUMS_OF_TILE(c, 0), SUMS_OF_TILE(c, 1)
                     : WORDS_OF(a), WORDS_OF(b));
    else if constexpr (TILES == 3)
        asm volatile("{" OPERAND_A(12, 13) OPERAND_B(14, 15) PRODUCT(24) "{" SUMS_12 "}, a, b, 1, 1, 1, 1, 1;}"
                     : SUMS_OF_TILE(c, 0), SUMS_OF_TILE(c, 1), SUMS_OF_TILE(c, 2)
                     : WORDS_OF(a), WORDS_OF(b));
    else
        asm volatile("{" OPERAND_A(16, 17) OPERAND_B(18, 19) PRODUCT(32) "{" SUMS_16 "}, a, b, 1, 1, 1, 1, 1;}"
                     : SUMS_OF_4(c)
                     : WORDS_OF(a), WORDS_OF(b));
}

// Halves of the columns whose sums are held at once; one where two blocks share the registers.
#define HALVES (BLOCKS == 1 ? 2 : 1)

// What products take from registers stays there until here.
__device__ __forceinline__ void hold(const Hidden& a) {
#pragma unroll
    for (int i = 0; i < N_TILES; ++i) asm volatile("" ::"r"(a[i][0]), "r"(a[i][1]) : "memory");
}

// Bytes from a matrix's beginning to what a product of a half of the columns takes for features 16 k to 16 k + 15: rows
// that are the half's columns, or, with TURNED, features.
template <bool TURNED> __device__ __forceinline__ constexpr int part_at(int half, int k) {
    constexpr int half_of_row = HID == 64 ? 64 : PANEL_BYTES;
    return TURNED ? half * half_of_row + k * 16 * 128
                  : half * (HID / 2) * 128 + k / 4 * PANEL_BYTES + k % 4 * 32;
}

// The product of a warp's rows and a matrix of HID x HID: `begin` fills the sums of a half of the columns,
// which with TURNED begin with 0, and `end` takes them; while it takes those of one half, the other's go on.
template <bool TURNED, class Begin, class End>
__device__ __forceinline__ void times_matrix(const Hidden& a, const unsigned short* matrix, Begin begin,
                                             End end) {
    Operand b = operand(matrix);
#pragma unroll
    for (int first = 0; first < 2; first += HALVES) {
        HalfSums c[HALVES];
#pragma unroll
        for (int i = 0; i < HALVES; ++i) {
            begin(c[i], first + i);
            if (!TURNED) settle<HALF_TILES>(c[i]);
        }
        start_products();
#pragma unroll
        for (int i = 0; i < HALVES; ++i) {
#pragma unroll
            for (int k = 0; k < M_TILES; ++k) {
                Operand part = further(b, part_at<TURNED>(first + i, k));
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
            settle<HALF_TILES>(c[i]);
            end(c[i], first + i);
        }
    }
}

// Writes a half of the columns of a warp's rows into the stage: before the other half's products are waited for, or the
// compiler waits for them first.
__device__ __forceinline__ void stage_half(unsigned short* where, const Hidden& h, int half) {
    int lane = threadIdx.x & 31;
    u32 address = shared_address(where) + unit_at(lane & 15, lane >> 4);
#pragma unroll
    for (int i = 0; i < M_TILES / 2; ++i) {
        int p = half * (M_TILES / 2) + i;
        store_4(along_row(address, p * 32), h[2 * p][0], h[2 * p][1], h[2 * p + 1][0], h[2 * p + 1][1]);
    }
}

// As second_layer(), for 16 rows; writes them into the stage, too.
__device__ __forceinline__ void second_layer_together(const NetShared& net, const Hidden& h1, Hidden& h2,
                                                      Normed& normed, unsigned short* stage) {
    auto begin = [&](HalfSums& c, int half) {
#pragma unroll
        for (int i = 0; i < HALF_TILES; ++i) {
            float2 bias = *(const float2*)&net.b2[(half * HALF_TILES + i) * 8 + 2 * (threadIdx.x & 3)];
            c[i][0] = c[i][2] = bias.x;
            c[i][1] = c[i][3] = bias.y;
        }
    };
#if LAYER_NORM
    LayerSums sums;
    auto keep = [&](const HalfSums& c, int half) {
#pragma unroll
        for (int i = 0; i < 4 * HALF_TILES; ++i) sums[half * HALF_TILES + i / 4][i % 4] = c[i / 4][i % 4];
    };
    times_matrix<false>(h1, net.w2, begin, keep);
    normalise(net.gains(2), sums, h2, normed);
    stage_half(stage, h2, 0);
    stage_half(stage, h2, 1);
#else
    auto end = [&](const HalfSums& c, int half) {
#pragma unroll
        for (int i = 0; i < HALF_TILES; ++i) pack_active(c[i], h2[half * HALF_TILES + i]);
        stage_half(stage, h2, half);
    };
    times_matrix<false>(h1, net.w2, begin, end);
#endif
}

// As back_to_first(); writes them into the stage, too, if there is a place.
__device__ __forceinline__ void back_to_first_together(const NetShared& net, const Hidden& d2, const Hidden& h1,
                                                       Hidden& d1, unsigned short* stage) {
    auto begin = [](HalfSums&, int) {};
    auto end = [&](const HalfSums& c, int half) {
#pragma unroll
        for (int i = 0; i < HALF_TILES; ++i)
            through_activation(c[i], h1[half * HALF_TILES + i], d1[half * HALF_TILES + i]);
        if (stage) stage_half(stage, d1, half);
    };
    times_matrix<true>(d2, net.w2, begin, end);
}

// Starts to add the product of a tile's derivatives and activations to a group's gradients of the second layer: by each
// four warps a half of its columns, or of its rows, where those are two panels.
__device__ __forceinline__ void add_wide_together(const unsigned short* d2, const unsigned short* h1,
                                                  int n_rows, int half, float (*own)[4]) {
    Operand a = further(operand(d2), HID == 64 ? 0 : half * PANEL_BYTES);
    Operand b = HID == 64 ? further(operand(h1), half * 64) : operand(h1, PANEL_BYTES);
#pragma unroll
    for (int k = 0; k < n_rows / 16; ++k)
        mma_turned(own, further(a, k * 16 * 128), further(b, k * 16 * 128));
}
#endif

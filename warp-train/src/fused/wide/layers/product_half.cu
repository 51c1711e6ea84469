// Products of matrices on tensor cores: half-precision operands, fp32 sums, in a fixed order.

#define TILE 64
#define SLAB 32
// Gradients of biases are those of weights of an input that is 1.
#define WIDE_ONES 1
// Numbers of shared memory that a kernel hands to its product.
#define WIDE_ROOM 1

// What a thread has of a tile.
template <int R, int C> struct WideSums {
    static_assert(R == TILE && C == TILE, "there is no other tile here");
    static constexpr int down = 4, right = 4;
    float at[down][right];
    float rows[down];
    __device__ static inline int row(int, int j) {
        return (int)(threadIdx.x / 64 * 16 + threadIdx.x % 32 / 4) + j / 2 * 8;
    }
    __device__ static inline int column(int i, int j) {
        return (int)(threadIdx.x / 32 % 2 * 32 + threadIdx.x % 4 * 2) + i * 8 + j % 2;
    }

    // Calls f(i, j, row, column) for every element, the last two counted in the tile.
    template <class F> __device__ static inline void each(F f) {
        #pragma unroll
        for (int i = 0; i < down; ++i) {
            #pragma unroll
            for (int j = 0; j < right; ++j) f(i, j, row(i, j), column(i, j));
        }
    }
};

__device__ inline unsigned short wide_half(float x) {
    unsigned short half;
    asm("cvt.rn.satfinite." HALF_TYPE ".f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
}

// Four blocks of 8 x 8 halves; each lane names a row.
__device__ inline void wide_blocks(const unsigned short* row, unsigned int (&x)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"((unsigned int)__cvta_generic_to_shared(row)));
}

__device__ inline void wide_multiply(float (&sums)[4], const unsigned int (&a)[4], unsigned int b0,
                                     unsigned int b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32." HALF_TYPE "." HALF_TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Sum over p of a(i, p) b(j, p) for the block's tile, each warp 16 x 32 elements of it.
template <bool A_BY_P, bool B_BY_P, bool, class A, class B>
__device__ inline void wide_product(float*, unsigned int k, A a, B b, WideSums<TILE, TILE>& sums) {
    __shared__ __align__(16) unsigned short as[TILE][SLAB + 8], bs[TILE][SLAB + 8];
    constexpr int parts = TILE * SLAB / 256;
    int lane = threadIdx.x % 32, top = threadIdx.x / 64 * 16, left = threadIdx.x / 32 % 2 * 32;
    for (unsigned int p0 = 0; p0 < k; p0 += SLAB) {
        float x[parts], y[parts];
        #pragma unroll
        for (int part = 0; part < parts; ++part) {
            int e = part * 256 + threadIdx.x;
            int p = A_BY_P ? e % SLAB : e / TILE, i = A_BY_P ? e / SLAB : e % TILE;
            x[part] = p0 + p < k ? a(i, p0 + p) : 0.0f;
            p = B_BY_P ? e % SLAB : e / TILE;
            i = B_BY_P ? e / SLAB : e % TILE;
            y[part] = p0 + p < k ? b(i, p0 + p) : 0.0f;
        }
        #pragma unroll
        for (int part = 0; part < parts; ++part) {
            int e = part * 256 + threadIdx.x;
            as[A_BY_P ? e / SLAB : e % TILE][A_BY_P ? e % SLAB : e / TILE] = wide_half(x[part]);
            bs[B_BY_P ? e / SLAB : e % TILE][B_BY_P ? e % SLAB : e / TILE] = wide_half(y[part]);
        }
        __syncthreads();
        #pragma unroll
        for (int step = 0; step < SLAB / 16; ++step) {
            unsigned int l[4], r[2][4];
            wide_blocks(&as[top + lane % 16][step * 16 + lane / 16 * 8], l);
            #pragma unroll
            for (int pair = 0; pair < 2; ++pair) {
                int row = left + pair * 16 + lane / 16 * 8 + lane % 8;
                wide_blocks(&bs[row][step * 16 + lane / 8 % 2 * 8], r[pair]);
            }
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                wide_multiply(sums.at[i], l, r[i / 2][i % 2 * 2], r[i / 2][i % 2 * 2 + 1]);
            }
        }
        __syncthreads();
    }
}

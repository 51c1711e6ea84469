// Products of matrices in fp32 with fused multiply-add; sums run in a fixed order.

#define SLAB 16
// Gradients of biases are sums of rows, which cost less than one more input.
#define WIDE_ONES 0
// Numbers of shared memory that a kernel hands to its product: two slabs of both operands.
#define WIDE_ROOM (2 * SLAB * (256 + 4 + 16 + 4))

// What a thread has of a tile of R by C elements: neighbouring rows and every 16th column.
template <int R, int C> struct WideSums {
    static constexpr int down = R / 16, right = C / 16;
    float at[down][right];
    // Sums of the left operand's rows, of every 16th element.
    float rows[down];
    __device__ static inline int row(int i, int) { return (int)(threadIdx.x / 16u) * down + i; }
    __device__ static inline int column(int, int j) { return (int)(threadIdx.x % 16u) + 16 * j; }

    // Calls f(i, j, row, column) for every element, the last two counted in the tile.
    template <class F> __device__ static inline void each(F f) {
        #pragma unroll
        for (int i = 0; i < down; ++i) {
            #pragma unroll
            for (int j = 0; j < right; ++j) f(i, j, row(i, j), column(i, j));
        }
    }
};

// N neighbours in shared memory, on a boundary of as many.
template <int N> __device__ inline void wide_read(float (&to)[N], const float* from) {
    if constexpr (N % 4 == 0) {
        #pragma unroll
        for (int i = 0; i < N; i += 4) *(float4*)&to[i] = *(const float4*)&from[i];
    } else {
        #pragma unroll
        for (int i = 0; i < N; ++i) to[i] = from[i];
    }
}

// A slab of an operand of N lines on its way into shared memory, [SLAB, N + 4]. With BY_P neighbouring
// threads take neighbouring places along the sum. What is beyond the operand is read from its beginning
// and left out afterwards, since the compiler waits for loads behind conditions one by one.
template <int N, bool BY_P> struct WideSlab {
    static constexpr int parts = N * SLAB / 256;
    float x[parts];
    unsigned int exist;
    __device__ static inline int place(int e) { return BY_P ? e % SLAB : e / N; }
    __device__ static inline int line(int e) { return BY_P ? e / SLAB : e % N; }

    template <class F>
    __device__ inline void fetch(unsigned int p0, unsigned int k, const WideOperand<F>& operand) {
        exist = 0u;
        #pragma unroll
        for (int part = 0; part < parts; ++part) {
            int e = part * 256 + (int)threadIdx.x;
            bool in = p0 + place(e) < k && line(e) < operand.lines;
            exist |= in ? 1u << part : 0u;
            x[part] = operand.from[in ? operand.at(line(e), p0 + place(e)) : 0u];
        }
    }
    __device__ inline void put(float* to) const {
        #pragma unroll
        for (int part = 0; part < parts; ++part) {
            int e = part * 256 + (int)threadIdx.x;
            to[place(e) * (N + 4) + line(e)] = exist >> part & 1u ? x[part] : 0.0f;
        }
    }
};

// Adds one slab's products, of which `left` are more than zeros.
template <int R, int C, bool ROW_SUMS>
__device__ inline void wide_add_slab(unsigned int left, const float* as, const float* bs,
                                     WideSums<R, C>& sums) {
    typedef WideSums<R, C> Sums;
    int x = threadIdx.x % 16, top = threadIdx.x / 16 * Sums::down;
    #pragma unroll
    for (int p = 0; p < SLAB; ++p) {
        if (p > 0 && p % 4 == 0 && p >= left) break;
        float l[Sums::down], r[Sums::right];
        wide_read(l, as + p * (R + 4) + top);
        #pragma unroll
        for (int j = 0; j < Sums::right; ++j) r[j] = bs[p * (C + 4) + x + 16 * j];
        #pragma unroll
        for (int i = 0; i < Sums::down; ++i) {
            #pragma unroll
            for (int j = 0; j < Sums::right; ++j) sums.at[i][j] = fmaf(l[i], r[j], sums.at[i][j]);
        }
    }
    if constexpr (ROW_SUMS) {
        #pragma unroll
        for (int i = 0; i < Sums::down; ++i) sums.rows[i] += as[x * (R + 4) + top + i];
    }
}

// Sum over p of a(i, p) b(j, p) for the block's tile. The next slab is fetched while one is added. With
// ROW_SUMS also the sums of a(i, p), in the first of 16 threads.
template <bool A_BY_P, bool B_BY_P, bool ROW_SUMS, class A, class B, int R, int C>
__device__ inline void wide_product(float* room, unsigned int k, const WideOperand<A>& a,
                                    const WideOperand<B>& b, WideSums<R, C>& sums) {
    constexpr int size = SLAB * (R + 4 + C + 4);
    static_assert(2 * size <= WIDE_ROOM, "a larger tile needs more room");
    WideSlab<R, A_BY_P> left;
    WideSlab<C, B_BY_P> right;
    float *now = room, *next = room + size;
    left.fetch(0, k, a);
    right.fetch(0, k, b);
    left.put(now);
    right.put(now + SLAB * (R + 4));
    __syncthreads();
    for (unsigned int p0 = 0; p0 < k; p0 += SLAB) {
        bool more = p0 + SLAB < k;
        if (more) {
            left.fetch(p0 + SLAB, k, a);
            right.fetch(p0 + SLAB, k, b);
        }
        wide_add_slab<R, C, ROW_SUMS>(k - p0, now, now + SLAB * (R + 4), sums);
        if (more) {
            left.put(next);
            right.put(next + SLAB * (R + 4));
        }
        __syncthreads();
        float* other = now;
        now = next;
        next = other;
    }
    if constexpr (ROW_SUMS) {
        #pragma unroll
        for (int i = 0; i < WideSums<R, C>::down; ++i) {
            #pragma unroll
            for (int d = 8; d > 0; d >>= 1)
                sums.rows[i] += __shfl_xor_sync(0xffffffffu, sums.rows[i], d);
        }
    }
}

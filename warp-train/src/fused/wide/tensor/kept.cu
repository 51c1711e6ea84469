// What threads keep of the 64 samples that their group learns from, and what they need back.

// Number t of the parts of 32 columns that this thread holds of its two rows, 16 bytes at a time.
__device__ inline void t_keep_part(const unsigned int* part, unsigned char* tile, int t) {
    int row = t_row(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4), q = threadIdx.x % 4;
    unsigned char* to = tile + t / 2 * 8192 + row * 128 + (((t % 2 * 4 + q) ^ (row % 8)) * 16);
    *(uint4*)to = make_uint4(part[0], part[2], part[4], part[6]);
    *(uint4*)(to + 1024) = make_uint4(part[1], part[3], part[5], part[7]);
}

// The same back.
__device__ inline void t_recall_part(unsigned int* part, const unsigned char* tile, int t) {
    int row = t_row(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4), q = threadIdx.x % 4;
    const unsigned char* from = tile + t / 2 * 8192 + row * 128 + (((t % 2 * 4 + q) ^ (row % 8)) * 16);
    uint4 upper = *(const uint4*)from, lower = *(const uint4*)(from + 1024);
    part[0] = upper.x, part[2] = upper.y, part[4] = upper.z, part[6] = upper.w;
    part[1] = lower.x, part[3] = lower.y, part[5] = lower.z, part[7] = lower.w;
}

// All parts.
template <int K>
__device__ inline void t_keep(const unsigned int (&h)[K], unsigned char* tile) {
    #pragma unroll
    for (int t = 0; t < K / 8; ++t) t_keep_part(&h[8 * t], tile, t);
}
template <int K>
__device__ inline void t_recall(unsigned int (&h)[K], const unsigned char* tile) {
    #pragma unroll
    for (int t = 0; t < K / 8; ++t) t_recall_part(&h[8 * t], tile, t);
}

// One bit per activation of a relu: whether it is positive. Bits 15 - i and 31 - i of word w are
// those of pair 16 w + i.
template <int K, int M>
__device__ inline void t_signs(const unsigned int (&h)[K], unsigned int (&positive)[M]) {
    #pragma unroll
    for (int i = 0; i < K; ++i) {
        // No half is above 0x7f80: sums stay within their halves.
        positive[i / 16] |= (h[i] + 0x7fff7fffu & 0x80008000u) >> i % 16;
    }
    // Else the compiler puts words together late, and their parts fill the registers meanwhile.
    #pragma unroll
    for (int i = 0; i < M; ++i) asm volatile("" : "+r"(positive[i]));
}

// Keeps what this thread holds in the columns' own order, 4 bytes at a time.
template <int K>
__device__ inline void t_keep_plain(const unsigned int (&x)[K], unsigned char* tile) {
    int row = t_row(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4), q = threadIdx.x % 4;
    #pragma unroll
    for (int k = 0; k < K / 4; ++k) {
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
            int chunk = (2 * k + half) % 8;
            unsigned char* to = tile + k / 4 * 8192 + row * 128 + (chunk ^ (row % 8)) * 16 + q * 4;
            *(unsigned int*)to = x[4 * k + 2 * half];
            *(unsigned int*)(to + 1024) = x[4 * k + 2 * half + 1];
        }
    }
}

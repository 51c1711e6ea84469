// Losses of samples whose outputs are in memory, and their gradients.

// Samples of a block of losses, and whether shared memory has room for their outputs and masks: each is read several
// times, by threads whose rows lie far apart. Of the 48 KB that a block has, sums take 10 where threads have one each, and
// hardly anything where each warp has one.
#define WIDE_OF_LOSSES (256 / P_LANES)
#define WIDE_LOSSES_NEAR (WIDE_OF_LOSSES * (4 * (P_OUT + 1) + P_MASK) <= (P_LANES == 32 ? 46 : 36) * 1024)

struct WideNearRows {
    float outs[WIDE_LOSSES_NEAR ? WIDE_OF_LOSSES * (P_OUT + 1) : 1];
    unsigned int cells[WIDE_OF_LOSSES];
    WideMaskWord masks[WIDE_LOSSES_NEAR ? WIDE_OF_LOSSES * P_MASK / sizeof(WideMaskWord) + 1 : 1];
};
static_assert(sizeof(WideNearRows) + 5 * sizeof(double) * (P_LANES == 32 ? 8 : 256) <= 48 * 1024, "no room for sums");

// Copies n numbers, MOST at most, of which number i comes from from(i), to a place that to(i) gives: all of a thread's loads are
// under way before it stores anything.
template <class Word, unsigned int MOST, class From, class To>
__device__ inline void wide_copy_rows(unsigned int n, From from, To to) {
    constexpr unsigned int of_thread = (MOST + 255) / 256;
    Word words[of_thread];
    #pragma unroll
    for (unsigned int k = 0; k < of_thread; ++k) {
        if (threadIdx.x + 256 * k < n) words[k] = from(threadIdx.x + 256 * k);
    }
    #pragma unroll
    for (unsigned int k = 0; k < of_thread; ++k) {
        if (threadIdx.x + 256 * k < n) to(threadIdx.x + 256 * k) = words[k];
    }
}

// Outputs of n rows, which lie behind each other and begin at a multiple of 16 bytes, as shared memory does.
__device__ inline void wide_copy_outs(const float* from, float* to, unsigned int n) {
    constexpr unsigned int most = WIDE_OF_LOSSES * (P_OUT + 1) / 4;
    unsigned int all = n * (P_OUT + 1), fours = all / 4, i = fours * 4 + threadIdx.x;
    wide_copy_rows<float4, most>(
        fours, [&](unsigned int e) { return ((const float4*)from)[e]; },
        [&](unsigned int e) -> float4& { return ((float4*)to)[e]; });
    if (i < all) to[i] = from[i];
}

// Outputs and cells of the block's `n` samples, the first of which is number `first` of the epoch, to shared memory.
__device__ inline void wide_fetch_rows(const LossesArgs& a, const float* outs, unsigned int first, unsigned int n,
                                       WideNearRows& to) {
    if (threadIdx.x < n) to.cells[threadIdx.x] = a.order[first + threadIdx.x];
    wide_copy_outs(outs, to.outs, n);
    __syncthreads();
}

// Their masks.
__device__ inline void wide_fetch_masks(const LossesArgs& a, unsigned int n, WideNearRows& to) {
    if (P_MASK == 0) return;
    constexpr unsigned int words = P_MASK / sizeof(WideMaskWord) + !P_MASK;
    const WideMaskWord* masks = (const WideMaskWord*)a.from.masks;
    wide_copy_rows<WideMaskWord, WIDE_OF_LOSSES * words>(
        n * words, [&](unsigned int e) { return masks[(unsigned long long)to.cells[e / words] * words + e % words]; },
        [&](unsigned int e) -> WideMaskWord& { return to.masks[e]; });
    __syncthreads();
}

// Sums over the block's samples, of which the first of P_LANES lanes has each one's; the results are thread 0's.
__device__ inline void wide_sum_samples(double (&sums)[5]) {
#if P_LANES == 32
    __shared__ double rows[8][5];
    if (threadIdx.x % 32 == 0) {
        #pragma unroll
        for (int k = 0; k < 5; ++k) rows[threadIdx.x / 32][k] = sums[k];
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    #pragma unroll
    for (int k = 0; k < 5; ++k) {
        // In the order of wide_block_sums.
        double even = (rows[0][k] + rows[4][k]) + (rows[2][k] + rows[6][k]);
        sums[k] = even + ((rows[1][k] + rows[5][k]) + (rows[3][k] + rows[7][k]));
    }
#else
    wide_block_sums(sums);
#endif
}

// Turns the outputs of the block's samples into their gradients, which `give` is told the place of, and leaves the sums of
// their losses.
template <class Give> __device__ inline void wide_block_losses(const LossesArgs& a, Give give) {
    __shared__ __align__(16) WideNearRows near;
    unsigned int first = blockIdx.x * WIDE_OF_LOSSES, own = threadIdx.x / P_LANES, i = first + own;
    int lane = threadIdx.x % P_LANES;
    double sums[5] = {0.0, 0.0, 0.0, 0.0, 0.0};
    unsigned int n = wide_present(a.state, 1, a.first, a.rows), from = a.state->begin + a.first;
    float* outs = a.outs + (unsigned long long)first * (P_OUT + 1);
    unsigned int here = n > first ? n - first : 0u;
    here = here < WIDE_OF_LOSSES ? here : WIDE_OF_LOSSES;
    if constexpr (WIDE_LOSSES_NEAR) wide_fetch_rows(a, outs, from + first, here, near);
    float* rows = WIDE_LOSSES_NEAR ? near.outs : outs;
    float* out = rows + own * (P_OUT + 1);
    unsigned int cell = 0;
    WideKnown known;
    if (i < n) {
        cell = WIDE_LOSSES_NEAR ? near.cells[own] : a.order[from + i];
        known = wide_known(a.from, a.state, cell);
    }
    if constexpr (WIDE_LOSSES_NEAR) wide_fetch_masks(a, here, near);
    if (i < n) {
        const unsigned char* mask =
            WIDE_LOSSES_NEAR ? (const unsigned char*)near.masks + own * P_MASK : wide_mask(a.from, cell);
        wide_sample_loss<true, true, P_LANES>(a.from, a.settings, known, cell, mask, out, a.parameters,
                                              sums, lane);
    } else if (i < a.rows) {
        // A tensor library takes all rows, and so do layers on tensor cores up to full tiles.
        for (int o = lane; o <= P_OUT; o += P_LANES) out[o] = 0.0f;
    }
    __syncthreads();
    give(first, rows);
    wide_sum_samples(sums);
    if (threadIdx.x != 0) return;
    #pragma unroll
    for (int k = 0; k < 5; ++k) {
        a.parts[(unsigned long long)(a.parts_at + blockIdx.x) * 5 + k] = sums[k];
    }
}

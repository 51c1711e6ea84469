// What ranks tell each other through memory that all of them reach: a kernel in the place of a gathering by NCCL, which
// leaves the same words behind.
//
// A block waits for the one of the same number on the other GPUs, so all blocks of all policies that gather side by
// side must fit on a GPU at a time: there are few (`most_blocks` in ranks.rs).
//
// Needs: exchange.cuh.

// Word `at` of what this rank has.
__device__ __forceinline__ u32 wide_told(const TellRanksArgs& a, u32 at) {
    return at < a.first_words ? a.first[at] : a.second[at - a.first_words];
}

// Words `at` and the one behind it are `x` and `y` on rank `rank`.
__device__ __forceinline__ void wide_heard(const TellRanksArgs& a, u32 rank, u32 at, u32 x, u32 y) {
    const u32 words[2] = {x, y};
#pragma unroll
    for (u32 i = 0; i < 2u; ++i) {
        u32 word = at + i;
        if (word < a.first_words)
            a.all_first[(unsigned long long)rank * a.first_words + word] = words[i];
        else if (word < a.first_words + a.second_words)
            a.all_second[(unsigned long long)rank * a.second_words + word - a.first_words] = words[i];
    }
}

// Tells the others one or two arrays, and hears theirs. `rounds` counts the calls; behind it lies the number of blocks
// that are done with this one.
extern "C" __global__ __launch_bounds__(256) void wide_tell_ranks(const TellRanksArgs a, const LinkArgs link) {
    Ranks ranks(link);
    unsigned long long count = a.rounds[0];
    u32 round = Ranks::round_of(count), n = a.first_words + a.second_words;
    u32 begin = 2u * (blockIdx.x * 256u + threadIdx.x), stride = 512u * gridDim.x;
    for (u32 at = begin; at < n; at += stride) {
        u32 x = wide_told(a, at), y = at + 1u < n ? wide_told(a, at + 1u) : 0u;
        for (u32 other = 0; other < RANKS; ++other) {
            if (other != link.rank) Ranks::tell(ranks.place(other, link.rank, count, at), x, y, round);
        }
        wide_heard(a, link.rank, at, x, y);
    }
    for (u32 at = begin; at < n; at += stride) {
        for (u32 rank = 0; rank < RANKS; ++rank) {
            if (rank == link.rank) continue;
            u32 x, y;
            ranks.hear(ranks.place(link.rank, rank, count, at), x, y, round);
            wide_heard(a, rank, at, x, y);
        }
    }
    // The last block counts the round, once all have read its number.
    __syncthreads();
    if (threadIdx.x != 0u || atomicAdd((u32*)(a.rounds + 1), 1u) != gridDim.x - 1u) return;
    a.rounds[1] = 0ull;
    a.rounds[0] = count + 1ull;
}

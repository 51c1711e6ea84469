// All-gather through memory that all ranks can access: a kernel in the place of NCCL's, which leaves the same words
// behind.
//
// A block waits for the one of the same number on the other GPUs, so all blocks of all policies that gather side by
// side must fit on a GPU at a time: there are few (gathering.rs).
//
// Needs: exchange.cuh.

// Words `at` and the one behind it of what this rank has.
__device__ __forceinline__ void own_words(const AllGatherArgs& a, u32 at, u32 (&words)[2]) {
#pragma unroll
    for (u32 i = 0; i < 2u; ++i) {
        u32 word = at + i, second = word - a.first_words, third = second - a.second_words;
        u32 fourth = third - a.third_words;
        words[i] = 0u;
        if (word < a.first_words)
            words[i] = a.first[word];
        else if (second < a.second_words)
            words[i] = a.second[second];
        else if (third < a.third_words)
            words[i] = a.third[third];
        else if (fourth < a.fourth_words)
            words[i] = a.fourth[fourth];
    }
}

// Stores words `at` and the one behind it of rank `rank`.
__device__ __forceinline__ void store_words(const AllGatherArgs& a, u32 rank, u32 at, const u32 (&words)[2]) {
#pragma unroll
    for (u32 i = 0; i < 2u; ++i) {
        u32 word = at + i, second = word - a.first_words, third = second - a.second_words;
        u32 fourth = third - a.third_words;
        if (word < a.first_words)
            a.all_first[(unsigned long long)rank * a.first_words + word] = words[i];
        else if (second < a.second_words)
            a.all_second[(unsigned long long)rank * a.second_words + second] = words[i];
        else if (third < a.third_words)
            a.all_third[(unsigned long long)rank * a.third_words + third] = words[i];
        else if (fourth < a.fourth_words)
            a.all_fourth[(unsigned long long)rank * a.fourth_words + fourth] = words[i];
    }
}

// Sends the other ranks up to four arrays, and receives theirs. `rounds` counts the calls; behind it lies the number of blocks
// that are done with this one.
extern "C" __global__ __launch_bounds__(P_PAIRS, 6) void all_gather(const AllGatherArgs a, const LinkArgs link) {
    Ranks ranks(link);
    unsigned long long count = a.rounds[0];
    u32 round = Ranks::round_of(count), n = a.first_words + a.second_words + a.third_words + a.fourth_words;
    u32 begin = 2u * (blockIdx.x * P_PAIRS + threadIdx.x), stride = 2u * P_PAIRS * gridDim.x, words[2];
    for (u32 at = begin; at < n; at += stride) {
        own_words(a, at, words);
        for (u32 other = 0; other < RANKS; ++other) {
            if (other != link.rank) Ranks::send(ranks.place(other, link.rank, count, at), words[0], words[1], round);
        }
        store_words(a, link.rank, at, words);
    }
    for (u32 at = begin; at < n; at += stride) {
        // What is here has been stored.
        const u32 own[2] = {};
        ranks.receive(own, at, count, [&](u32 rank, const u32 (&received)[2]) {
            if (rank != link.rank) store_words(a, rank, at, received);
        });
    }
    // The last block counts the round, once all have read its number.
    __syncthreads();
    if (threadIdx.x != 0u || atomicAdd((u32*)(a.rounds + 1), 1u) != gridDim.x - 1u) return;
    a.rounds[1] = 0ull;
    a.rounds[0] = count + 1ull;
}

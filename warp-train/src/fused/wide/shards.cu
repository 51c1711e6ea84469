// Samples of a GPU that has several shards: how many each has, and the order in which an epoch takes them.
//
// Needs: minibatches.cu.
//
// Samples that count lie shard by shard in `order`, and minibatch by minibatch in `shuffled`: first the first shard's
// part of it, then the second's. So minibatches have the samples that they would have with a GPU for each shard.

// The shard here of a cell.
__device__ inline unsigned int wide_shard_of(unsigned int cell, unsigned int rows) {
    return cell % rows / (rows / P_LOCAL_SHARDS);
}

// Where the samples of shard number `shard` begin in an order of `n`.
__device__ inline unsigned int wide_shard_begin(const unsigned int* order, unsigned int n, unsigned int rows,
                                                unsigned int shard) {
    unsigned int begin = 0, end = n;
    while (begin < end) {
        unsigned int middle = begin + (end - begin) / 2;
        if (wide_shard_of(order[middle], rows) < shard)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

// Counts the samples of each shard, in one block.
extern "C" __global__ void wide_count_shards(const CountShardsArgs a) {
    for (unsigned int shard = threadIdx.x; shard < P_LOCAL_SHARDS; shard += 256) {
        unsigned int begin = wide_shard_begin(a.order, a.state->n, a.rows, shard);
        a.n[shard] = wide_shard_begin(a.order, a.state->n, a.rows, shard + 1) - begin;
    }
    if (threadIdx.x == 0) a.state->first_shard = a.settings->shard;
}

// Puts the samples into the order of an epoch; without `shuffles` each shard's keep theirs. `ns` are the counts of all
// ranks' shards.
extern "C" __global__ void wide_shuffle_shards(const ShuffleShardsArgs a) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.state->n) return;
    const unsigned int* counts = a.ns + a.state->first_shard;
    unsigned int shard = 0, begin = 0, parts = wide_parts(a.ns);
    // Bounded, since counts of a rank that was lost are those of an earlier rollout.
    while (shard + 1 < P_LOCAL_SHARDS && i - begin >= counts[shard]) begin += counts[shard++];
    unsigned int n = counts[shard], place = i - begin, from = place;
    if (a.shuffles) {
        WidePermutation permutation(n, wide_shuffle_key(a.settings, a.settings->shard + shard, a.epoch));
        do from = permutation.next(from);
        while (from >= n);
    }
    // The part with this place; a shard with few samples has none in some parts.
    unsigned int part = (unsigned int)(((place + 1ull) * parts - 1ull) / n), to = place;
    // Behind the parts before this one of all shards, and behind this one of the shards before.
    for (unsigned int other = 0; other < P_LOCAL_SHARDS; ++other) {
        unsigned int first, last;
        wide_range(counts[other], part, parts, &first, &last);
        if (other != shard) to += other < shard ? last : first;
    }
    a.shuffled[to] = a.order[begin + from];
}

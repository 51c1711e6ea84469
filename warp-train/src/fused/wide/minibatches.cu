// Which samples a minibatch has: the order of an epoch, and where its parts begin.

// A permutation of 0..n by four rounds of a Feistel network over the next power of four; numbers
// beyond n are walked along their cycle until they come back below it.
__device__ inline unsigned int wide_permuted(unsigned int i, unsigned int n, const WarpWords& key) {
    unsigned int bits = 1;
    while (bits < 16 && (1u << (2 * bits)) < n) ++bits;
    unsigned int mask = (1u << bits) - 1u;
    do {
        unsigned int left = i >> bits, right = i & mask;
        #pragma unroll
        for (int round = 0; round < 4; ++round) {
            unsigned int k = round == 0 ? key.x : round == 1 ? key.y : round == 2 ? key.z : key.w;
            unsigned int h = (right ^ k) * 0x9E3779B1u;
            h = (h ^ (h >> 15)) * 0x85EBCA77u;
            unsigned int next = left ^ ((h ^ (h >> 13)) & mask);
            left = right;
            right = next;
        }
        i = (left << bits) | right;
    } while (i >= n);
    return i;
}

// Whether all cells count, in their own order.
#define WIDE_ALL_COUNT (!P_MORTAL && !P_SELECTS && P_LOCAL_SHARDS == 1)

// The samples in the order of an epoch.
extern "C" __global__ void wide_shuffle(const ShuffleArgs a) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.state->n) return;
    WarpWords counter = {P_FIRST_AGENT, a.settings->shard << 16 | a.epoch, a.settings->iteration, WARP_PURPOSE_SHUFFLE << 24};
    unsigned int key0 = (unsigned int)a.settings->seed, key1 = (unsigned int)(a.settings->seed >> 32);
    unsigned int from = wide_permuted(i, a.state->n, warp_philox4x32_10(counter, key0, key1));
    a.shuffled[i] = WIDE_ALL_COUNT ? from : a.order[from];
}

// How many minibatches there are, of shards with so many samples each.
__device__ inline unsigned int wide_parts(const unsigned int* ns) {
    unsigned int most = 0;
    for (int i = 0; i < P_COUNTS; ++i) most = ns[i] > most ? ns[i] : most;
    return most < P_MINIBATCHES ? most : P_MINIBATCHES;
}

// n * part / parts. A division of 64 bits takes long, and is rarely needed.
__device__ inline unsigned int wide_share(unsigned int n, unsigned int part, unsigned int parts) {
    unsigned long long product = (unsigned long long)n * part;
    return product >> 32 == 0 ? (unsigned int)product / parts : (unsigned int)(product / parts);
}

// Samples begin..end of minibatch `part` of `parts`, of a shard with `n`.
__device__ inline void wide_range(unsigned int n, unsigned int part, unsigned int parts,
                                  unsigned int* begin, unsigned int* end) {
    *begin = part < parts ? wide_share(n, part, parts) : 0u;
    *end = part < parts ? wide_share(n, part + 1, parts) : 0u;
}

// The same of all shards here, whose parts of a minibatch lie side by side.
__device__ inline void wide_range_here(const WideState* state, const unsigned int* ns, unsigned int part,
                                       unsigned int parts, unsigned int* begin, unsigned int* end) {
    if (P_LOCAL_SHARDS == 1) return wide_range(state->n, part, parts, begin, end);
    *begin = *end = 0u;
    for (int shard = 0; shard < P_LOCAL_SHARDS; ++shard) {
        unsigned int first, last;
        wide_range(ns[state->first_shard + shard], part, parts, &first, &last);
        *begin += first;
        *end += last;
    }
}

// Which samples a minibatch has: the order of an epoch, and where its parts begin.

// A permutation of 0..n by four rounds of a Feistel network over the next power of four; numbers
// beyond n are walked along their cycle until they come back below it.
struct WidePermutation {
    unsigned int n, bits, mask;
    WarpWords key;

    __device__ inline WidePermutation(unsigned int n, const WarpWords& key) : n(n), bits(1), key(key) {
        while (bits < 16 && (1u << (2 * bits)) < n) ++bits;
        mask = (1u << bits) - 1u;
    }

    // Mixes half of a number into the other one.
    __device__ inline unsigned int stirred(unsigned int half, int round) const {
        unsigned int k = round == 0 ? key.x : round == 1 ? key.y : round == 2 ? key.z : key.w;
        unsigned int h = (half ^ k) * 0x9E3779B1u;
        h = (h ^ (h >> 15)) * 0x85EBCA77u;
        return (h ^ (h >> 13)) & mask;
    }

    // The number after i on its cycle.
    __device__ inline unsigned int next(unsigned int i) const {
        unsigned int left = i >> bits, right = i & mask;
        #pragma unroll
        for (int round = 0; round < 4; ++round) {
            unsigned int other = left ^ stirred(right, round);
            left = right;
            right = other;
        }
        return (left << bits) | right;
    }

    // The number before i.
    __device__ inline unsigned int before(unsigned int i) const {
        unsigned int left = i >> bits, right = i & mask;
        #pragma unroll
        for (int round = 3; round >= 0; --round) {
            unsigned int other = right ^ stirred(left, round);
            right = left;
            left = other;
        }
        return (left << bits) | right;
    }
};

// Numbers that a thread permutes one after the other.
#define WIDE_PERMUTED 8

// Where the permutation brings `first` and the numbers that follow it, `step` apart, as far as there are any; or, BACK,
// what it brings there. A lane whose number has come back below n goes on with the next one, while others walk on.
template <bool BACK>
__device__ inline void wide_permute(const WidePermutation& permutation, unsigned int first, unsigned int step,
                                    unsigned int (&found)[WIDE_PERMUTED][256]) {
    unsigned int k = 0, start = first, i = first;
    while (k < WIDE_PERMUTED && start < permutation.n) {
        i = BACK ? permutation.before(i) : permutation.next(i);
        if (i >= permutation.n) continue;
        found[k++][threadIdx.x] = i;
        start += step;
        i = start;
    }
}

// What shuffles an epoch's samples of a shard.
__device__ inline WarpWords wide_shuffle_key(const WideSettings* settings, unsigned int shard, unsigned int epoch) {
    WarpWords counter = {P_FIRST_AGENT, shard << 16 | epoch, settings->iteration, WARP_PURPOSE_SHUFFLE << 24};
    return warp_philox4x32_10(counter, (unsigned int)settings->seed, (unsigned int)(settings->seed >> 32));
}

// Whether all cells count, in their own order.
#define WIDE_ALL_COUNT (!P_MORTAL && !P_SELECTS && P_LOCAL_SHARDS == 1)

// The samples in the order of an epoch.
extern "C" __global__ void wide_shuffle(const ShuffleArgs a) {
    __shared__ unsigned int found[WIDE_PERMUTED][256];
    unsigned int n = a.state->n, first = blockIdx.x * WIDE_PERMUTED * blockDim.x + threadIdx.x;
    if (first >= n) return;
    WidePermutation permutation(n, wide_shuffle_key(a.settings, a.settings->shard, a.epoch));
    wide_permute<false>(permutation, first, blockDim.x, found);
    #pragma unroll
    for (unsigned int k = 0; k < WIDE_PERMUTED; ++k) {
        unsigned int place = first + k * blockDim.x, from = found[k][threadIdx.x];
        if (place < n) a.shuffled[place] = WIDE_ALL_COUNT ? from : a.order[from];
    }
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

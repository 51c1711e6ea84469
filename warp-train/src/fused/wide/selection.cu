// Which replicas are learned from: those in which an episode reached its goal, and some in which none did; and returns
// by which all steps weigh alike.

// Looks at the environments before a rollout: how long their episodes have lasted.
extern "C" __global__ void wide_begin_goals(const BeginGoalsArgs a) {
    unsigned int replica = blockIdx.x * blockDim.x + threadIdx.x;
    if (replica >= a.n_envs) return;
    a.lengths[replica] = a.episode_length[replica];
    a.reached[replica] = 0;
}

// Takes in a step: a goal was reached where the statistic says so at an episode's end or, without one, where the
// episode was terminated before its limit.
extern "C" __global__ void wide_note_goals(const NoteGoalsArgs a) {
    unsigned int replica = blockIdx.x * blockDim.x + threadIdx.x;
    if (replica >= a.n_envs) return;
    bool terminated = a.terminated[replica] != 0, ended = terminated || a.truncated[replica] != 0;
    unsigned int length = a.lengths[replica] + 1u;
    bool reached = a.statistic < 0
                       ? terminated && length < a.limit
                       : ended && a.statistics[(unsigned long long)replica * a.width + a.statistic] > 0.0f;
    a.lengths[replica] = ended ? 0u : length;
    if (reached) a.reached[replica] = 1;
}

// The shard here that a block selects replicas of.
__device__ inline unsigned int wide_own_shard() { return P_LOCAL_SHARDS > 1 ? blockIdx.x : 0u; }

// What decides which replicas without a goal are taken: the smallest of these, which all differ.
__device__ inline unsigned long long wide_lot(const SelectArgs& a, unsigned int replica) {
    WarpWords counter = {replica, (a.settings->shard + wide_own_shard()) << 16 | P_FIRST_AGENT, a.settings->iteration,
                         WARP_PURPOSE_LEARN << 24};
    unsigned int key0 = (unsigned int)a.settings->seed, key1 = (unsigned int)(a.settings->seed >> 32);
    return (unsigned long long)warp_philox4x32_10(counter, key0, key1).x << 32 | replica;
}

// How many of a shard's `n` replicas without a goal have a lot below `bound`; every thread gets the number.
__device__ inline unsigned int wide_lots_below(const SelectArgs& a, const unsigned char* reached, unsigned int n,
                                               unsigned long long bound) {
    __shared__ unsigned int all;
    double own = 0.0;
    for (unsigned int i = threadIdx.x; i < n; i += 256)
        own += reached[i] == 0 && wide_lot(a, i) < bound ? 1.0 : 0.0;
    own = wide_block_sum(own);
    if (threadIdx.x == 0) all = (unsigned int)own;
    __syncthreads();
    unsigned int sum = all;
    __syncthreads();
    return sum;
}

// Selects the replicas that reached a goal, and `ratio` times as many of the others by lot; all of them if none
// reached one or there are not so many others. A block per shard.
extern "C" __global__ void wide_select(const SelectArgs a) {
    unsigned int shard = wide_own_shard(), n = a.n_envs / P_LOCAL_SHARDS;
    const unsigned char* reached = a.reached + shard * n;
    unsigned char* selected = a.selected + shard * n;
    unsigned int others = wide_lots_below(a, reached, n, ~0ull), positive = n - others;
    unsigned int wanted = (unsigned int)fmin(positive * a.ratio, 4294967295.0);
    bool all = positive == 0 || wanted >= others;
    // The largest bound below which there are as many as wanted, bit by bit.
    unsigned long long bound = 0ull;
    for (int bit = 63; bit >= 0 && !all; --bit) {
        unsigned long long larger = bound | 1ull << bit;
        if (wide_lots_below(a, reached, n, larger) <= wanted) bound = larger;
    }
    for (unsigned int i = threadIdx.x; i < n; i += 256)
        selected[i] = all || reached[i] != 0 || wide_lot(a, i) < bound;
    if (threadIdx.x == 0) {
        a.counts[2 * shard] = positive;
        a.counts[2 * shard + 1] = all ? others : wanted;
    }
}

// Brings the returns of each step to mean 0 and standard deviation 1 over the samples that count, and takes the
// advantages from them anew; a step with a lone sample is left as it is. A block per step and shard.
extern "C" __global__ void wide_normalise_returns(const NormaliseReturnsArgs a) {
    __shared__ double known[3];
    unsigned int rows = a.of.rows / P_LOCAL_SHARDS, first = blockIdx.x * rows, end = first + rows;
    double sums[2] = {0.0, 0.0}, squares = 0.0;
    for (unsigned int cell = first + threadIdx.x; cell < end; cell += 256) {
        if (!wide_counts(a.of, cell)) continue;
        sums[0] += 1.0;
        sums[1] += a.returns[cell];
    }
    wide_block_sums(sums);
    if (threadIdx.x == 0) {
        known[0] = sums[0];
        known[1] = sums[1] / (sums[0] > 0.0 ? sums[0] : 1.0);
    }
    __syncthreads();
    double n = known[0], mean = known[1];
    for (unsigned int cell = first + threadIdx.x; cell < end; cell += 256) {
        if (!wide_counts(a.of, cell)) continue;
        double off = a.returns[cell] - mean;
        squares += off * off;
    }
    squares = wide_block_sum(squares);
    if (threadIdx.x == 0) known[2] = 1.0 / (sqrt(squares / (n > 1.0 ? n - 1.0 : 1.0)) + 1e-8);
    __syncthreads();
    if (n < 2.0) return;
    for (unsigned int cell = first + threadIdx.x; cell < end; cell += 256) {
        if (!wide_counts(a.of, cell)) continue;
        float target = (float)((a.returns[cell] - mean) * known[2]), value = a.values[cell];
        a.returns[cell] = target;
        a.advantages[cell] = target - value;
        if (P_KNOWN) ((float4*)a.known)[cell] = make_float4(target - value, a.log_probs[cell], target, value);
    }
}

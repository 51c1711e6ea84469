// How far the actions of a rollout differ: standard deviations over the agents of a replica, over replicas and over steps,
// each averaged over all places that it has; those over replicas are over the replicas of a shard. Twin of spread.rs: differences are taken from the first number of a
// place, so that nothing is lost where all are alike. WIDE_SPREAD_BLOCKS blocks for each of the three.

// Threads that share the agents of a replica.
#define WIDE_SIDE (P_AGENTS >= 32u ? 32u : P_AGENTS >= 16u ? 16u : P_AGENTS >= 8u ? 8u : P_AGENTS >= 4u ? 4u : 2u)
// Actions of a replica at a step, and how many of them a block takes at a time, whose other threads are beside each other
// along the replicas.
#define WIDE_OF_REPLICA (P_AGENTS * (unsigned int)P_ACTION)
#define WIDE_ABREAST \
    (WIDE_OF_REPLICA >= 32u ? 32u : WIDE_OF_REPLICA >= 8u ? 8u : WIDE_OF_REPLICA >= 2u ? 2u : 1u)

__device__ inline double wide_action(const SpreadArgs& a, unsigned long long at) {
    return P_CONTINUOUS ? (double)a.raws[at] : (double)a.actions[at];
}

// The standard deviation of n numbers with this sum and this sum of squares.
__device__ inline double wide_deviation(unsigned int n, double sum, double squares) {
    if (n < 2u) return 0.0;
    double variance = (squares - sum * sum / n) / (n - 1u);
    return sqrt(variance > 0.0 ? variance : 0.0);
}

// Over the agents of a replica at a step, summed over a thread's share of replicas, steps and heads.
__device__ inline double wide_over_agents(const SpreadArgs& a, unsigned int block) {
    // A lone agent differs from nobody.
    if (P_AGENTS < 2u) return 0.0;
    unsigned int lane = threadIdx.x % WIDE_SIDE, together = 256u / WIDE_SIDE;
    unsigned int n = a.steps * (a.rows / P_AGENTS) * P_ACTION;
    double deviations = 0.0;
    for (unsigned int base = block * together; base < n; base += WIDE_SPREAD_BLOCKS * together) {
        unsigned int item = base + threadIdx.x / WIDE_SIDE;
        unsigned long long at = (unsigned long long)(item / P_ACTION) * WIDE_OF_REPLICA + item % P_ACTION;
        double sum = 0.0, squares = 0.0;
        if (item < n) {
            double first = wide_action(a, at);
            for (unsigned int agent = lane; agent < P_AGENTS; agent += WIDE_SIDE) {
                double x = wide_action(a, at + agent * P_ACTION) - first;
                sum += x;
                squares += x * x;
            }
        }
        #pragma unroll
        for (unsigned int half = WIDE_SIDE / 2; half > 0; half /= 2) {
            sum += __shfl_xor_sync(0xffffffffu, sum, half);
            squares += __shfl_xor_sync(0xffffffffu, squares, half);
        }
        if (lane == 0) deviations += wide_deviation(P_AGENTS, sum, squares);
    }
    return deviations;
}

// Over the replicas, summed over a thread's share of steps, agents and heads.
__device__ inline double wide_over_replicas(const SpreadArgs& a, unsigned int block) {
    __shared__ double parts[2][256];
    unsigned int column = threadIdx.x % WIDE_ABREAST, line = threadIdx.x / WIDE_ABREAST;
    unsigned int tiles = (WIDE_OF_REPLICA + WIDE_ABREAST - 1) / WIDE_ABREAST, rows = a.rows / P_LOCAL_SHARDS;
    unsigned int replicas = rows / P_AGENTS;
    double deviations = 0.0;
    for (unsigned int item = block; item < a.steps * P_LOCAL_SHARDS * tiles; item += WIDE_SPREAD_BLOCKS) {
        unsigned int place = item % tiles * WIDE_ABREAST + column;
        unsigned long long at = (unsigned long long)(item / tiles) * rows * P_ACTION + place;
        double sum = 0.0, squares = 0.0;
        if (place < WIDE_OF_REPLICA) {
            double first = wide_action(a, at);
            for (unsigned int replica = line; replica < replicas; replica += 256u / WIDE_ABREAST) {
                double x = wide_action(a, at + (unsigned long long)replica * WIDE_OF_REPLICA) - first;
                sum += x;
                squares += x * x;
            }
        }
        parts[0][threadIdx.x] = sum;
        parts[1][threadIdx.x] = squares;
        __syncthreads();
        for (unsigned int half = 128u; half >= WIDE_ABREAST; half /= 2) {
            if (threadIdx.x < half) {
                parts[0][threadIdx.x] += parts[0][threadIdx.x + half];
                parts[1][threadIdx.x] += parts[1][threadIdx.x + half];
            }
            __syncthreads();
        }
        if (line == 0 && place < WIDE_OF_REPLICA)
            deviations += wide_deviation(replicas, parts[0][column], parts[1][column]);
        __syncthreads();
    }
    return deviations;
}

// Over the steps, summed over a thread's share of replicas, agents and heads.
__device__ inline double wide_over_steps(const SpreadArgs& a, unsigned int block) {
    unsigned int n = a.rows * P_ACTION;
    double deviations = 0.0;
    for (unsigned int i = block * 256u + threadIdx.x; i < n; i += WIDE_SPREAD_BLOCKS * 256u) {
        double first = wide_action(a, i), sum = 0.0, squares = 0.0;
        for (unsigned int t = 1; t < a.steps; ++t) {
            double x = wide_action(a, (unsigned long long)t * n + i) - first;
            sum += x;
            squares += x * x;
        }
        deviations += wide_deviation(a.steps, sum, squares);
    }
    return deviations;
}

// Sums of deviations of every block: [3, WIDE_SPREAD_BLOCKS].
extern "C" __global__ __launch_bounds__(256) void wide_spread(const SpreadArgs a) {
    unsigned int kind = blockIdx.x / WIDE_SPREAD_BLOCKS, block = blockIdx.x % WIDE_SPREAD_BLOCKS;
    double own = kind == 0 ? wide_over_agents(a, block) : kind == 1 ? wide_over_replicas(a, block) : wide_over_steps(a, block);
    own = wide_block_sum(own);
    if (threadIdx.x == 0) a.parts[blockIdx.x] = own;
}

// The means, of all ranks: one block.
extern "C" __global__ __launch_bounds__(256) void wide_spread_means(const SpreadMeansArgs a) {
    double sums[3] = {0.0, 0.0, 0.0};
    for (unsigned int i = threadIdx.x; i < WIDE_SPREAD_BLOCKS; i += 256) {
        for (unsigned int rank = 0; rank < P_RANKS; ++rank) {
            for (unsigned int kind = 0; kind < 3; ++kind)
                sums[kind] += a.parts[(rank * 3 + kind) * WIDE_SPREAD_BLOCKS + i];
        }
    }
    wide_block_sums(sums);
    if (threadIdx.x != 0) return;
    double heads = (double)P_ACTION * P_RANKS, replicas = (double)a.rows / P_AGENTS;
    a.state->action_std[0] = sums[0] / (a.steps * replicas * heads);
    a.state->action_std[1] = sums[1] / (a.steps * (double)P_AGENTS * (heads * P_LOCAL_SHARDS));
    a.state->action_std[2] = sums[2] / (a.rows * heads);
}

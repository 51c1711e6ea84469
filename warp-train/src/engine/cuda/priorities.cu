// Priorities of transitions, in a tree of sums of LEAVES leaves: node k is the sum of nodes 2k and 2k + 1. Twin of
// memory/priorities.rs. Each piece of work is one block's.

__device__ inline float power(float x, float exponent) { return warp_exp(exponent * warp_ln(x)); }

// Makes all nodes above n leaves the sums of those below them, level by level.
template <class Leaf>
__device__ inline void sum_up(const Memory& m, unsigned int n, Leaf leaf) {
    for (unsigned int level = 1; LEAVES >> level > 0; ++level) {
        __syncthreads();
        for (unsigned int i = threadIdx.x; i < n; i += N_THREADS) {
            float* node = m.priorities + (LEAVES + leaf(i) >> level);
            const float* below = m.priorities + 2 * (node - m.priorities);
            __stcg(node, __ldcg(below) + __ldcg(below + 1));
        }
    }
}

// Gives the transitions of the step in the ring's place before the head the largest priority so far.
__device__ __noinline__ void add_priorities(const Memory& m) {
    unsigned int step = (m.counters[COUNTER_HEAD] + RING_STEPS - 1u) % RING_STEPS;
    auto leaf = [&](unsigned int row) { return step * N_ROWS + row; };
    float largest = *m.largest;
    for (unsigned int row = threadIdx.x; row < N_ROWS; row += N_THREADS) {
        __stcg(m.priorities + LEAVES + leaf(row), m.ring_alive[leaf(row)] != 0 ? largest : 0.0f);
    }
    sum_up(m, N_ROWS, leaf);
}

// The transition within whose priority `place`, between 0 and the total, lies.
__device__ inline unsigned int find(const Memory& m, float place) {
    unsigned int node = 1;
    while (node < LEAVES) {
        float left = __ldcg(m.priorities + 2 * node);
        // Never into a subtree of nothing, which rounding could lead to.
        bool goes_right = place >= left && __ldcg(m.priorities + 2 * node + 1) > 0.0f;
        if (goes_right) place -= left;
        node = 2 * node + (goes_right ? 1u : 0u);
    }
    return node - LEAVES;
}

// Samples a batch by priorities, and makes importance weights: the least likely row has weight 1.
__device__ __noinline__ void sample_by_priority(const Memory& m) {
    __shared__ unsigned int least;
    unsigned int head = m.counters[COUNTER_HEAD], size = m.counters[COUNTER_SIZE];
    if (size == 0) return;
    if (threadIdx.x == 0) least = __float_as_uint(WARP_INFINITY);
    __syncthreads();
    float slice = __ldcg(m.priorities + 1) / (float)BATCH;
    for (unsigned int row = threadIdx.x; row < BATCH; row += N_THREADS) {
        WarpDraw draw = warp_draw(seed_of(m), row, m.counters[COUNTER_UPDATES], WARP_PURPOSE_REPLAY);
        draw = warp_draw_agent(&draw, POLICY);
        unsigned int at = find(m, ((float)row + warp_draw_uniform(&draw)) * slice);
        unsigned int step = ring_step(head, size, at / N_ROWS);
        at = ring_place(head, size, step < size ? step : size - 1u) * N_ROWS + at % N_ROWS;
        m.sampled[row] = at;
        float priority = __ldcg(m.priorities + LEAVES + at);
        // Positive numbers have the order of their bits.
        if (priority > 0.0f) atomicMin(&least, __float_as_uint(priority));
    }
    __syncthreads();
    for (unsigned int row = threadIdx.x; row < BATCH; row += N_THREADS) {
        unsigned int at = m.sampled[row];
        float part = __ldcg(m.priorities + LEAVES + at) / __uint_as_float(least);
        m.column[COLUMN_WEIGHT][row] = m.ring_alive[at] != 0 ? power(part, -m.cells[CELL_BETA]) : 0.0f;
    }
}

// Makes new priorities of the batch's transitions from their errors: from that of the last row where a
// transition has several. What has left the game stays out of it.
__device__ __noinline__ void update_priorities(const Memory& m) {
    __shared__ unsigned int largest;
    if (threadIdx.x == 0) largest = __float_as_uint(*m.largest);
    for (unsigned int row = threadIdx.x; row < BATCH; row += N_THREADS) atomicMax(m.owner + m.sampled[row], row + 1u);
    __syncthreads();
    for (unsigned int row = threadIdx.x; row < BATCH; row += N_THREADS) {
        unsigned int at = m.sampled[row];
        if (m.ring_alive[at] == 0) continue;
        float priority = power(m.column[COLUMN_ERROR][row] + 1e-6f, m.cells[CELL_ALPHA]);
        atomicMax(&largest, __float_as_uint(priority));
        if (__ldcg(m.owner + at) == row + 1u) __stcg(m.priorities + LEAVES + at, priority);
    }
    __syncthreads();
    for (unsigned int row = threadIdx.x; row < BATCH; row += N_THREADS) __stcg(m.owner + m.sampled[row], 0u);
    if (threadIdx.x == 0) *m.largest = __uint_as_float(largest);
    sum_up(m, BATCH, [&](unsigned int row) { return m.sampled[row]; });
}

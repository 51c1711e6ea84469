// What a rank tells the others of the priorities of its transitions, and what it makes of theirs. Twin of
// memory/importance.rs. Each piece of work is one block's.
//
// Before this text stand RANKS, and EXCHANGED_PRIORITY_STATS and EXCHANGED_MAX_PRIORITY, the numbers of what is told.

// Tells the sum of all priorities, and the least one in the batch.
__device__ __noinline__ void tell_priority_stats(const Memory& m) {
    __shared__ unsigned int least;
    if (threadIdx.x == 0) least = __float_as_uint(WARP_INFINITY);
    __syncthreads();
    for (unsigned int row = threadIdx.x; row < BATCH; row += N_THREADS) {
        float priority = __ldcg(m.priorities + LEAVES + m.sampled[row]);
        // Positive numbers have the order of their bits.
        if (priority > 0.0f) atomicMin(&least, __float_as_uint(priority));
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    m.told[EXCHANGED_PRIORITY_STATS][0] = __ldcg(m.priorities + 1);
    m.told[EXCHANGED_PRIORITY_STATS][1] = __uint_as_float(least);
}

// Makes importance weights of the batch's rows: among those of all ranks, the least likely one has weight 1.
__device__ __noinline__ void importance_weights(const Memory& m) {
    const float* stats = m.heard[EXCHANGED_PRIORITY_STATS];
    float sum = 0.0f, least = WARP_INFINITY;
    for (int rank = 0; rank < RANKS; ++rank) sum += stats[2 * rank];
    float mean = sum / (float)RANKS;
    for (int rank = 0; rank < RANKS; ++rank) least = fminf(least, stats[2 * rank + 1] * (mean / stats[2 * rank]));
    float scale = mean / m.told[EXCHANGED_PRIORITY_STATS][0];
    for (unsigned int row = threadIdx.x; row < BATCH; row += N_THREADS) {
        unsigned int at = m.sampled[row];
        float part = __ldcg(m.priorities + LEAVES + at) * scale / least;
        m.column[COLUMN_WEIGHT][row] = m.ring_alive[at] != 0 ? power(part, -m.cells[CELL_BETA]) : 0.0f;
    }
}

// Gives new transitions the largest priority of all ranks; one thread's work.
__device__ inline void raise_max_priority(const Memory& m) {
    for (int rank = 0; rank < RANKS; ++rank) *m.largest = fmaxf(*m.largest, m.heard[EXCHANGED_MAX_PRIORITY][rank]);
}

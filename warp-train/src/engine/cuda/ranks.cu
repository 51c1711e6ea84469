// What a rank tells the others of the priorities of its transitions, and what it makes of theirs. Twin of
// memory/importance.rs. Each piece of work is one block's.
//
// Before this text stand RANKS, and TOLD_ODDS and TOLD_LARGEST, the numbers of what is told.

// Tells the sum of all priorities, and the least one in the batch.
__device__ __noinline__ void tell_odds(const Memory& m) {
    __shared__ unsigned int least;
    if (threadIdx.x == 0) least = __float_as_uint(WARP_INFINITY);
    __syncthreads();
    for (unsigned int row = threadIdx.x; row < BATCH; row += N_THREADS) {
        float priority = __ldcg(m.priorities + LEAVES + m.picked[row]);
        // Positive numbers have the order of their bits.
        if (priority > 0.0f) atomicMin(&least, __float_as_uint(priority));
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    m.told[TOLD_ODDS][0] = __ldcg(m.priorities + 1);
    m.told[TOLD_ODDS][1] = __uint_as_float(least);
}

// Weighs the batch's rows by how likely each was among those of all ranks: the least likely one counts for 1.
__device__ __noinline__ void weigh(const Memory& m) {
    const float* odds = m.heard[TOLD_ODDS];
    float sum = 0.0f, least = WARP_INFINITY;
    for (int rank = 0; rank < RANKS; ++rank) sum += odds[2 * rank];
    float mean = sum / (float)RANKS;
    for (int rank = 0; rank < RANKS; ++rank) least = fminf(least, odds[2 * rank + 1] * (mean / odds[2 * rank]));
    float worth = mean / m.told[TOLD_ODDS][0];
    for (unsigned int row = threadIdx.x; row < BATCH; row += N_THREADS) {
        unsigned int at = m.picked[row];
        float part = __ldcg(m.priorities + LEAVES + at) * worth / least;
        m.column[COLUMN_WEIGHT][row] = m.ring_alive[at] != 0 ? power(part, -m.cells[CELL_BETA]) : 0.0f;
    }
}

// Gives new transitions the largest priority of all ranks; one thread's work.
__device__ inline void raise_largest(const Memory& m) {
    for (int rank = 0; rank < RANKS; ++rank) *m.largest = fmaxf(*m.largest, m.heard[TOLD_LARGEST][rank]);
}

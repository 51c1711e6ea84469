// An update that keeps the step before it by itself. It begins while that step is still made, and only blocks that draw it
// wait for it.

// Keeps a step of few rows. Several blocks may do so, which write the same.
__device__ inline void store_now(const Memory& m) {
    wait_for_previous_kernel();
    for (unsigned int member = 0; member < TEAM; ++member) store(m, 0, member);
}

// Keeps it where a tile of the batch has it.
__device__ inline void store_if_drawn(const Memory& m, unsigned int tile, unsigned int) {
    unsigned int size = counter_now(m, COUNTER_SIZE);
    bool drawn = false;
    for (unsigned int i = threadIdx.x; i < TILE_ROWS && size > 0; i += N_THREADS) {
        unsigned int row = tile * TILE_ROWS + i;
        drawn |= row < BATCH && draw_row(m, row).step + N_STEP >= size;
    }
    if (__syncthreads_or(drawn)) store_now(m);
}

// An update that keeps the step before it by itself. It begins while that step is still made, and only blocks that draw it
// wait for it.

// Keeps a step of few rows. Several blocks may do so, which write the same.
__device__ inline void store_now(const Memory& m) {
    wait_for_previous_kernel();
    for (unsigned int member = 0; member < TEAM; ++member) store(m, 0, member);
}

// Whether a row draws a step that may still be made.
__device__ inline bool is_new(const Ring& ring, const Drawn& drawn) { return drawn.step + N_STEP >= ring.size; }

// Keeps it where a tile of the batch has it.
__device__ inline void store_if_drawn(const Memory& m, unsigned int tile, unsigned int) {
    Ring ring = ring_now(m);
    bool drawn = false;
    for (unsigned int i = threadIdx.x; i < TILE_ROWS && ring.size > 0; i += N_THREADS) {
        unsigned int row = tile * TILE_ROWS + i;
        drawn |= row < BATCH && is_new(ring, draw_row(m, ring, row));
    }
    if (__syncthreads_or(drawn)) store_now(m);
}

// Does both this and sample_by_all, so that every row draws once.
__device__ inline void sample_early(const Memory& m, unsigned int tile, unsigned int) {
    unsigned int i = threadIdx.x / SAMPLE_LANES, row = tile * TILE_ROWS + i;
    Ring ring = ring_now(m);
    bool has_row = i < TILE_ROWS && row < BATCH && ring.size > 0;
    Drawn drawn = {};
    if (has_row) drawn = draw_row(m, ring, row);
    if (__syncthreads_or(has_row && is_new(ring, drawn))) {
        store_now(m);
        __syncthreads();
    }
    if (has_row) put_drawn(m, ring, row, drawn);
}

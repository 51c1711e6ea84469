// The replay memory: a ring of steps [RING_STEPS, N_ROWS, ...], and batches drawn from it. Twin of
// memory/replay.rs.

#define GOES_ON 0
#define TERMINATED 1
#define TRUNCATED 2
#define MOST_DRAWS 16
// Lanes that put a transition into a batch: where it has few numbers, a warp waits for those of four rows at once.
#define SAMPLE_LANES (OBS > 64u ? 32u : 8u)

// Where step `step`, counted from the oldest, lies.
__device__ inline unsigned int ring_place(unsigned int head, unsigned int size, unsigned int step) {
    return (unsigned int)(((unsigned long long)head + RING_STEPS - size + step) % RING_STEPS);
}

// The reverse: the step, counted from the oldest, that lies there.
__device__ inline unsigned int ring_step(unsigned int head, unsigned int size, unsigned int place) {
    return (unsigned int)(((unsigned long long)place + RING_STEPS + size - head) % RING_STEPS);
}

__device__ inline void copy_row(float* to, const float* from, unsigned int n) {
    for (unsigned int i = threadIdx.x % SAMPLE_LANES; i < n; i += SAMPLE_LANES) to[i] = from[i];
}

__device__ inline void copy_flags(float* to, const unsigned char* from, unsigned int n) {
    for (unsigned int i = threadIdx.x % SAMPLE_LANES; i < n; i += SAMPLE_LANES) to[i] = from[i];
}

// What a row of the batch draws: a step, counted from the oldest, and an agent.
struct Drawn {
    unsigned int step, agent;
    // Whether anybody was found in the game.
    bool found;
};

// A counter that the kernel before has written, which may not have ended yet (early.cu): not from a cache that may have the
// number before.
__device__ inline unsigned int counter_now(const Memory& m, int number) { return __ldcg(m.counters + number); }

__device__ inline Drawn draw_row(const Memory& m, unsigned int row) {
    unsigned int head = counter_now(m, COUNTER_HEAD), size = counter_now(m, COUNTER_SIZE);
    WarpDraw draw = warp_draw(seed_of(m), row, counter_now(m, COUNTER_UPDATES), WARP_PURPOSE_REPLAY);
    draw = warp_draw_agent(&draw, POLICY);
    Drawn drawn = {};
#pragma unroll 1
    for (int i = 0; i < MOST_DRAWS && !drawn.found; ++i) {
        unsigned int at = warp_draw_below(&draw, size * N_ROWS);
        drawn.step = at / N_ROWS;
        drawn.agent = at % N_ROWS;
        // Nobody leaves where nobody can die.
        drawn.found = !MORTAL || m.ring_alive[(unsigned long long)ring_place(head, size, drawn.step) * N_ROWS + drawn.agent] != 0;
    }
    return drawn;
}

// Puts a drawn transition into row `row` of the batch; the work of SAMPLE_LANES.
__device__ inline void sample_row(const Memory& m, unsigned int row) {
    unsigned int head = counter_now(m, COUNTER_HEAD), size = counter_now(m, COUNTER_SIZE);
    if (size == 0) return;
#if PRIORITISED
    unsigned int step = ring_step(head, size, m.picked[row] / N_ROWS), agent = m.picked[row] % N_ROWS;
#else
    auto [step, agent, found] = draw_row(m, row);
    if (threadIdx.x % SAMPLE_LANES == 0) m.column[COLUMN_WEIGHT][row] = found ? 1.0f : 0.0f;
#endif
    unsigned long long first = (unsigned long long)ring_place(head, size, step) * N_ROWS + agent;
    unsigned long long last = first;
    float sum = 0.0f, factor = 1.0f;
    unsigned char ends = GOES_ON;
    for (unsigned int ahead = step; ahead < size && ahead < step + N_STEP && ends == GOES_ON; ++ahead) {
        last = (unsigned long long)ring_place(head, size, ahead) * N_ROWS + agent;
        sum += factor * m.ring_reward[last];
        factor *= m.cells[CELL_GAMMA];
        ends = m.ring_ends[last];
    }
    if (threadIdx.x % SAMPLE_LANES == 0) {
        m.column[COLUMN_REWARD][row] = sum;
        m.column[COLUMN_DISCOUNT][row] = ends == TERMINATED ? 0.0f : factor;
    }
    unsigned long long to = row;
    copy_row(m.column[COLUMN_OBS] + to * OBS, m.ring_obs + first * OBS, OBS);
    copy_row(m.column[COLUMN_ACTION] + to * ACTION, m.ring_action + first * ACTION, ACTION);
    copy_row(m.column[COLUMN_NEXT_OBS] + to * OBS, m.ring_next_obs + last * OBS, OBS);
#if MASK > 0
    copy_flags(m.column[COLUMN_MASK] + to * MASK, m.ring_mask + first * MASK, MASK);
    copy_flags(m.column[COLUMN_NEXT_MASK] + to * MASK, m.ring_next_mask + last * MASK, MASK);
#endif
}

// Rows `begin`, begin + step and so on of a tile, for a group of lanes each.
__device__ inline void sample_rows(const Memory& m, unsigned int tile, unsigned int begin, unsigned int step) {
    for (unsigned int i = begin; i < TILE_ROWS; i += step) {
        unsigned int row = tile * TILE_ROWS + i;
        if (row < BATCH) sample_row(m, row);
    }
}

// Rows of a tile, shared by the team.
__device__ inline void sample_tile(const Memory& m, unsigned int tile, unsigned int member) {
    constexpr unsigned int AT_ONCE = N_THREADS / SAMPLE_LANES;
    sample_rows(m, tile, threadIdx.x / SAMPLE_LANES * TEAM + member, AT_ONCE * TEAM);
}

// The same by every block for itself, so that none waits for another.
__device__ inline void sample_by_all(const Memory& m, unsigned int tile, unsigned int) {
    sample_rows(m, tile, threadIdx.x / SAMPLE_LANES, N_THREADS / SAMPLE_LANES);
}

// Makes place for the step that comes: the one before the head.
__device__ inline void turn_ring(const Memory& m) {
    m.counters[COUNTER_HEAD] = (m.counters[COUNTER_HEAD] + 1u) % RING_STEPS;
    if (m.counters[COUNTER_SIZE] < RING_STEPS) m.counters[COUNTER_SIZE] += 1u;
}

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

// A lane's part of N numbers, which are all read before any is written: a store may be to where the next ones are.
template <unsigned int N>
struct Numbers {
    static constexpr unsigned int OF_LANE = (N + SAMPLE_LANES - 1u) / SAMPLE_LANES;
    float numbers[OF_LANE];

    static __device__ inline unsigned int place(unsigned int i) { return threadIdx.x % SAMPLE_LANES + SAMPLE_LANES * i; }
    __device__ inline void load(const float* from) {
#pragma unroll
        for (unsigned int i = 0; i < OF_LANE; ++i) {
            if (place(i) < N) numbers[i] = from[place(i)];
        }
    }
    __device__ inline void store(float* to) const {
#pragma unroll
        for (unsigned int i = 0; i < OF_LANE; ++i) {
            if (place(i) < N) to[place(i)] = numbers[i];
        }
    }
};

template <unsigned int N>
__device__ inline void copy_two(float* to, const float* from, float* other_to, const float* other_from) {
    Numbers<N> one, other;
    one.load(from);
    other.load(other_from);
    one.store(to);
    other.store(other_to);
}

// Numbers that a group of lanes keeps at a time.
#define NUMBERS_AT_ONCE (8u * SAMPLE_LANES)

// Copies two rows of N numbers.
template <unsigned int N>
__device__ inline void copy_two_rows(float* to, const float* from, float* other_to, const float* other_from) {
    constexpr unsigned int REST = N % NUMBERS_AT_ONCE;
    unsigned int i = 0;
    for (; i < N - REST; i += NUMBERS_AT_ONCE) {
        copy_two<NUMBERS_AT_ONCE>(to + i, from + i, other_to + i, other_from + i);
    }
    if constexpr (REST > 0) copy_two<REST>(to + i, from + i, other_to + i, other_from + i);
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

// Where the ring's next step comes to, and how many it has.
struct Ring {
    unsigned int head, size;
};

__device__ inline Ring ring_now(const Memory& m) { return {counter_now(m, COUNTER_HEAD), counter_now(m, COUNTER_SIZE)}; }

__device__ inline Drawn draw_row(const Memory& m, const Ring& ring, unsigned int row) {
    WarpDraw draw = warp_draw(seed_of(m), row, counter_now(m, COUNTER_UPDATES), WARP_PURPOSE_REPLAY);
    draw = warp_draw_agent(&draw, POLICY);
    Drawn drawn = {};
#pragma unroll 1
    for (int i = 0; i < MOST_DRAWS && !drawn.found; ++i) {
        unsigned int at = warp_draw_below(&draw, ring.size * N_ROWS);
        drawn.step = at / N_ROWS;
        drawn.agent = at % N_ROWS;
        // Nobody leaves where nobody can die.
        drawn.found = !MORTAL || m.ring_alive[(unsigned long long)ring_place(ring.head, ring.size, drawn.step) * N_ROWS + drawn.agent] != 0;
    }
    return drawn;
}

// Puts the transition of `agent` from `step` on into row `row` of the batch; the work of SAMPLE_LANES.
__device__ inline void put_transition(const Memory& m, const Ring& ring, unsigned int row, unsigned int step, unsigned int agent) {
    unsigned long long first = (unsigned long long)ring_place(ring.head, ring.size, step) * N_ROWS + agent;
    unsigned long long last = first;
    float sum = 0.0f, factor = 1.0f;
    unsigned char ends = GOES_ON;
    for (unsigned int ahead = step; ahead < ring.size && ahead < step + N_STEP && ends == GOES_ON; ++ahead) {
        last = (unsigned long long)ring_place(ring.head, ring.size, ahead) * N_ROWS + agent;
        sum += factor * m.ring_reward[last];
        factor *= m.cells[CELL_GAMMA];
        ends = m.ring_ends[last];
    }
    unsigned long long to = row;
    Numbers<ACTION> action;
    action.load(m.ring_action + first * ACTION);
    copy_two_rows<OBS>(m.column[COLUMN_OBS] + to * OBS, m.ring_obs + first * OBS, m.column[COLUMN_NEXT_OBS] + to * OBS,
                       m.ring_next_obs + last * OBS);
    action.store(m.column[COLUMN_ACTION] + to * ACTION);
    if (threadIdx.x % SAMPLE_LANES == 0) {
        m.column[COLUMN_REWARD][row] = sum;
        m.column[COLUMN_DISCOUNT][row] = ends == TERMINATED ? 0.0f : factor;
    }
#if MASK > 0
    copy_flags(m.column[COLUMN_MASK] + to * MASK, m.ring_mask + first * MASK, MASK);
    copy_flags(m.column[COLUMN_NEXT_MASK] + to * MASK, m.ring_next_mask + last * MASK, MASK);
#endif
}

// What a row drew.
__device__ inline void put_drawn(const Memory& m, const Ring& ring, unsigned int row, const Drawn& drawn) {
    put_transition(m, ring, row, drawn.step, drawn.agent);
    if (threadIdx.x % SAMPLE_LANES == 0) m.column[COLUMN_WEIGHT][row] = drawn.found ? 1.0f : 0.0f;
}

// Puts a row into the batch.
__device__ inline void sample_row(const Memory& m, unsigned int row) {
    Ring ring = ring_now(m);
    if (ring.size == 0) return;
#if PRIORITISED
    unsigned int step = ring_step(ring.head, ring.size, m.sampled[row] / N_ROWS);
    put_transition(m, ring, row, step, m.sampled[row] % N_ROWS);
#else
    put_drawn(m, ring, row, draw_row(m, ring, row));
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
__device__ inline void advance_ring(const Memory& m) {
    m.counters[COUNTER_HEAD] = (m.counters[COUNTER_HEAD] + 1u) % RING_STEPS;
    if (m.counters[COUNTER_SIZE] < RING_STEPS) m.counters[COUNTER_SIZE] += 1u;
}

// What agents see, do and get, between the environment's arrays, the acting columns and the replay memory. A
// row is one agent of one replica.

__device__ const unsigned int group_first[] = GROUP_FIRST;
__device__ const unsigned int group_agents[] = GROUP_AGENTS;
// An agent's number in its group, less that in the policy.
__device__ const int group_shift[] = GROUP_SHIFT;

// Where an agent of the policy lies in its group's arrays.
struct Place {
    unsigned int group, replica;
    // Row of [n_envs, n_agents in the group].
    unsigned long long row;
};

__device__ inline Place place_of(unsigned int row) {
    unsigned int replica = row / N_AGENTS, agent = row % N_AGENTS, g = 0;
    while (g + 1 < N_GROUPS_HERE && agent >= group_first[g + 1]) ++g;
    return {g, replica, (unsigned long long)replica * group_agents[g] + agent + group_shift[g]};
}

// Calls what(row, column) for all numbers of a tile, `width` per row; the team shares them.
template <class What>
__device__ inline void each_number(unsigned int tile, unsigned int member, unsigned int width, What what) {
    unsigned int first = tile * TILE_ROWS;
    unsigned int rows = N_ROWS - first < TILE_ROWS ? N_ROWS - first : TILE_ROWS;
    for (unsigned int i = threadIdx.x * TEAM + member; i < rows * width; i += N_THREADS * TEAM) {
        what(first + i / width, i % width);
    }
}

// What the agents of a tile see before a step.
__device__ inline void load_observations(const Memory& m, unsigned int tile, unsigned int member) {
    each_number(tile, member, OBS, [&](unsigned int row, unsigned int i) {
        Place place = place_of(row);
        m.column[COLUMN_ACTING_OBS][(unsigned long long)row * OBS + i] =
            m.obs[place.group][place.row * OBS + i];
        if (i != 0) return;
        const unsigned char* alive = m.alive[place.group];
        m.alive_now[row] = alive ? alive[place.row] : 1;
#if MASK > 0
        bool any = false;
        for (unsigned int j = 0; j < MASK; ++j) {
            unsigned char allowed = m.action_mask[place.group][place.row * MASK + j];
            m.column[COLUMN_ACTING_MASK][(unsigned long long)row * MASK + j] = allowed;
            any = any || allowed;
        }
        if (!any) m.counters[COUNTER_FAULT] = NOTHING_ALLOWED | row;
#endif
    });
}

// Hands actions over.
__device__ inline void write_actions(const Memory& m, unsigned int tile, unsigned int member) {
    each_number(tile, member, ACTION, [&](unsigned int row, unsigned int i) {
        Place place = place_of(row);
        float value = m.column[COLUMN_ENV_ACTION][(unsigned long long)row * ACTION + i];
        void* to = m.action[place.group];
        if (DISCRETE) {
            ((int*)to)[place.row * ACTION + i] = (int)value;
        } else {
            ((float*)to)[place.row * ACTION + i] = value;
        }
    });
}

// What a step ends: the episode of a replica, and how that of an agent, who may have left before.
struct End {
    bool of_replica;
    unsigned char of_agent;
};

__device__ inline End end_of(const Memory& m, const Place& place) {
    bool terminated = m.terminated[place.replica] != 0, truncated = m.truncated[place.replica] != 0;
    const unsigned char* left = m.agent_terminated[place.group];
    bool gone = left && left[place.row] != 0;
    unsigned char of_agent = terminated || gone ? TERMINATED : truncated ? TRUNCATED : GOES_ON;
    return {terminated || truncated, of_agent};
}

// All that is needed of a step that is not kept.
__device__ inline void note_ends(const Memory& m, unsigned int tile, unsigned int member) {
    each_number(tile, member, 1u, [&](unsigned int row, unsigned int) {
        m.column[COLUMN_BEGINS][row] = end_of(m, place_of(row)).of_agent != GOES_ON ? 1.0f : 0.0f;
    });
}

// Keeps what came of a step in the ring's place before the head.
__device__ inline void store(const Memory& m, unsigned int tile, unsigned int member) {
    unsigned int head = m.counters[COUNTER_HEAD];
    unsigned long long step = (head + RING_STEPS - 1u) % RING_STEPS;
    each_number(tile, member, OBS, [&](unsigned int row, unsigned int i) {
        Place place = place_of(row);
        unsigned long long at = step * N_ROWS + row, from = (unsigned long long)row * OBS + i;
        End end = end_of(m, place);
        const float* next = end.of_replica ? m.final_obs[place.group] : m.obs[place.group];
        m.ring_obs[at * OBS + i] = m.column[COLUMN_ACTING_OBS][from];
        m.ring_next_obs[at * OBS + i] = next[place.row * OBS + i];
        if (i != 0) return;
        unsigned char ends = end.of_agent;
        m.ring_reward[at] = m.reward[place.group][place.row];
        m.ring_ends[at] = ends;
        m.ring_alive[at] = m.alive_now[row];
        m.column[COLUMN_BEGINS][row] = ends != GOES_ON ? 1.0f : 0.0f;
        for (unsigned int j = 0; j < ACTION; ++j) {
            m.ring_action[at * ACTION + j] =
                m.column[COLUMN_ACTING_ACTION][(unsigned long long)row * ACTION + j];
        }
#if MASK > 0
        const unsigned char* next_mask = end.of_replica ? m.final_action_mask[place.group] : m.action_mask[place.group];
        for (unsigned int j = 0; j < MASK; ++j) {
            float allowed = m.column[COLUMN_ACTING_MASK][(unsigned long long)row * MASK + j];
            m.ring_mask[at * MASK + j] = allowed != 0.0f;
            m.ring_next_mask[at * MASK + j] =
                ends == TERMINATED ? 1 : next_mask[place.row * MASK + j];
        }
#endif
    });
}

// What agents see: the twin of observe.rs, operation by operation, with the agents and their
// neighbours strided over the team.

static constexpr float ANGLE_SCALE = 0.15915494f;
// Numbers in one agent's observation.
static constexpr int WIDTH = 7 * n_shown + 1;

// The observation of an agent.
__device__ inline float* row_of(const Observation& out, int agent) {
    bool tagger = agent < n_taggers;
    return tagger ? out.obs[TAGGER] + agent * WIDTH : out.obs[RUNNER] + (agent - n_taggers) * WIDTH;
}

// What is seen of an agent as a difference.
struct Motion {
    float x, y, speed, acceleration, direction;
};

__device__ inline Motion motion_of(const State& state, int agent) {
    return {state.loc_x[agent], state.loc_y[agent], state.speed[agent], state.acceleration[agent],
            state.direction[agent]};
}

// Writes what `own` sees of `other` into the first of the blocks, which lie n_shown apart.
__device__ inline void show(float* to, const Motion& other, const Motion& own, float place_scale,
                            float motion_scale, float angle_scale) {
    to[0] = (other.x - own.x) * place_scale;
    to[n_shown] = (other.y - own.y) * place_scale;
    to[2 * n_shown] = (other.speed - own.speed) * motion_scale;
    to[3 * n_shown] = (other.acceleration - own.acceleration) * motion_scale;
    to[4 * n_shown] = (other.direction - own.direction) * angle_scale;
}

// Neighbouring threads write neighbouring places of the same row.
__device__ inline void observe_all(const Env& env, const State& state, float time,
                                   Observation& out) {
    for (int slot = warp_first(); slot < n_agents - 1; slot += warp_stride()) {
        // By whether the agent's own number leaves the slot to itself or to the next.
        Motion low = motion_of(state, slot), high = motion_of(state, slot + 1);
        float low_flag = (float)state.was_in_the_game[slot];
        float high_flag = (float)state.was_in_the_game[slot + 1];
        for (int agent = 0; agent < n_agents; ++agent) {
            bool before = slot < agent;
            bool in_game = state.was_in_the_game[agent] != 0;
            float* to = row_of(out, agent) + slot;
            show(to, before ? low : high, motion_of(state, agent),
                 in_game ? env.params.location_scale : 0.0f,
                 in_game ? env.params.speed_scale : 0.0f, in_game ? ANGLE_SCALE : 0.0f);
            to[5 * n_shown] = (before ? slot : slot + 1) < n_taggers ? 1.0f : 0.0f;
            to[6 * n_shown] = before ? low_flag : high_flag;
        }
    }
    for (int agent = warp_first(); agent < n_agents; agent += warp_stride()) {
        row_of(out, agent)[WIDTH - 1] = state.was_in_the_game[agent] != 0 ? time : 0.0f;
    }
}

// What each of some agents sees of the PASS agents found for it, from rank `slot` on.
__device__ inline void show_found(const Env& env, const State& state, int first, int slot,
                                  const Index* found, const Observation& out) {
    int count = n_agents - first < SEARCHERS ? n_agents - first : SEARCHERS;
    for (int i = warp_first(); i < count * PASS; i += warp_stride()) {
        int agent = first + i / PASS, rank = slot + i % PASS;
        if (rank >= n_nearest) continue;
        // An agent that found nobody has found itself.
        int other = found[i];
        bool seen = other != agent;
        float* to = row_of(out, agent) + rank;
        show(to, motion_of(state, other), motion_of(state, agent), env.params.location_scale,
             env.params.speed_scale, ANGLE_SCALE);
        to[5 * n_shown] = seen && other < n_taggers ? 1.0f : 0.0f;
        to[6 * n_shown] = seen ? 1.0f : 0.0f;
    }
}

__device__ inline void observe_nearest(const Env& env, const State& state, float time,
                                       Observation& out) {
    WARP_SHARED(Four, x, TILE / 4);
    WARP_SHARED(Four, y, TILE / 4);
    WARP_SHARED(Four, square, TILE / 4);
    WARP_SHARED(Index, candidates, SEARCHERS * SLOTS);
    for (int first = 0; first < n_agents; first += SEARCHERS) {
        int agent = first + warp_first();
        bool mine = warp_first() < SEARCHERS && agent < n_agents;
        bool searching = mine && state.was_in_the_game[agent] != 0;
        Neighbour next = 0;
        for (int slot = 0; slot < n_nearest; slot += PASS) {
            Nearest nearest;
            if (n_nearest == PASS) {
                search(env, state, agent, searching, {x, y, square}, {candidates}, nearest);
            } else if (searching) {
                next = search_all(state, agent, next, nearest);
            }
            // What was found takes the place of the candidates.
            warp_sync();
#pragma unroll
            for (int i = 0; i < PASS; ++i) {
                int other = searching ? nearest.agent[i] : agent;
                if (mine) candidates[warp_first() * PASS + i] = (Index)other;
            }
            warp_sync();
            show_found(env, state, first, slot, candidates, out);
            warp_sync();
        }
        if (mine) row_of(out, agent)[WIDTH - 1] = searching ? time : 0.0f;
    }
}

__device__ inline void observe(const Env& env, const State& state, Observation& out) {
    float time = (float)*state.timestep / (float)env.params.episode_length;
    if (env.params.use_full_observation == 0) {
        observe_nearest(env, state, time, out);
    } else {
        observe_all(env, state, time, out);
    }
}

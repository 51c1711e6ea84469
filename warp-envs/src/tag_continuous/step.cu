// Tag on a plane: the twin of step.rs, observe.rs and nearest.rs, with the agents strided over the
// team. Of a step and of a full observation every number is made by the same operations; of a
// partial one the neighbours are found in another way, but the same ones in the same order.

static constexpr int TAGGER = 0;
static constexpr int RUNNER = 1;
static constexpr int N_RUNNERS = n_agents - n_taggers;
static constexpr float TAU = 2.0f * WARP_PI;
static constexpr float QUARTER_TURN = 0.5f * WARP_PI;
static constexpr float ANGLE_SCALE = 0.15915494f;
// Numbers in the observation of a full or of a partial view; one of them is used.
static constexpr int FEATURES = 7;
static constexpr int WIDTH = FEATURES * n_shown + 1;

__device__ inline float infinity() { return warp_float(0x7f800000u); }

__device__ inline void reset(const Env& env, State& state, WarpDraw& draw) {
    for (int agent = warp_first(); agent < n_agents; agent += warp_stride()) {
        WarpDraw own = warp_draw_agent(&draw, (unsigned int)agent);
        float x = env.params.grid_length * warp_draw_uniform(&own);
        float y = env.params.grid_length * warp_draw_uniform(&own);
        unsigned int quarter = warp_draw_below(&own, 4u);
        float direction = quarter & 1u ? QUARTER_TURN : 0.0f;
        direction = quarter & 2u ? WARP_PI + direction : direction;
        bool fixed = env.params.fixed_location == 1;
        state.loc_x[agent] = fixed ? env.start_x[agent] : x;
        state.loc_y[agent] = fixed ? env.start_y[agent] : y;
        fixed = env.params.fixed_direction == 1;
        state.direction[agent] = fixed ? env.start_direction[agent] : direction;
        state.speed[agent] = 0.0f;
        state.acceleration[agent] = 0.0f;
        state.still_in_the_game[agent] = 1;
        state.was_in_the_game[agent] = 1;
        state.edge_hit_reward_penalty[agent] = 0.0f;
    }
    if (warp_first() == 0) {
        *state.num_runners = N_RUNNERS;
        *state.timestep = 0;
    }
}

__device__ inline float within(float place, float high) {
    place = place < 0.0f ? 0.0f : place;
    return place > high ? high : place;
}

// Steers and moves one agent.
__device__ inline void travel(const Env& env, State& state, int agent, const int* action) {
    float in_game = (float)state.still_in_the_game[agent];
    float limit = env.params.max_speed * env.skill_levels[agent];
    float acceleration = state.acceleration[agent] + env.acceleration_actions[action[0]];
    float direction = state.direction[agent] + env.turn_actions[action[1]];
    direction = warp_modulo(direction, TAU) * in_game;
    float faster = state.speed[agent] + acceleration;
    faster = faster > 0.0f ? faster : 0.0f;
    float speed = (faster < limit ? faster : limit) * in_game;
    bool cruising = speed > 0.0f && speed < limit;
    float sin, cos;
    warp_sin_cos(direction, &sin, &cos);
    float to_x = state.loc_x[agent] + speed * cos;
    float to_y = state.loc_y[agent] + speed * sin;
    float x = within(to_x, env.params.grid_length);
    float y = within(to_y, env.params.grid_length);
    bool crossed = x != to_x || y != to_y;
    state.acceleration[agent] = cruising ? acceleration : 0.0f;
    state.direction[agent] = direction;
    state.speed[agent] = speed;
    state.loc_x[agent] = x;
    state.loc_y[agent] = y;
    state.edge_hit_reward_penalty[agent] = crossed ? env.params.edge_hit_penalty : 0.0f;
    state.was_in_the_game[agent] = state.still_in_the_game[agent];
}

// The tagger by whom a runner is tagged, or -1.
__device__ inline int tagged_by(const Env& env, const State& state, int runner) {
    float x = state.loc_x[runner], y = state.loc_y[runner];
    float shortest = infinity();
    int nearest = 0;
    for (int tagger = 0; tagger < n_taggers; ++tagger) {
        float dx = x - state.loc_x[tagger], dy = y - state.loc_y[tagger];
        float distance = dx * dx + dy * dy;
        bool nearer = distance < shortest;
        shortest = nearer ? distance : shortest;
        nearest = nearer ? tagger : nearest;
    }
    bool near = warp_sqrt(shortest) < env.params.distance_margin_for_reward;
    return near && state.still_in_the_game[runner] != 0 ? nearest : -1;
}

__device__ inline float reward(const Env& env, const State& state, int agent, float tags,
                               float per_tag, float end) {
    float step = state.edge_hit_reward_penalty[agent] + env.step_rewards[agent];
    float played = state.was_in_the_game[agent] != 0 ? step : 0.0f;
    float stayed = state.still_in_the_game[agent] != 0 ? end : 0.0f;
    return played + tags * per_tag + stayed;
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw&,
                            StepOut& out) {
    // Runners that each tagger has tagged in this step.
    WARP_SHARED(int, tags_of, n_taggers);
    for (int agent = warp_first(); agent < n_agents; agent += warp_stride()) {
        bool tagger = agent < n_taggers;
        const int* of_group = actions.discrete[tagger ? TAGGER : RUNNER];
        travel(env, state, agent, of_group + 2 * (tagger ? agent : agent - n_taggers));
        if (tagger) tags_of[agent] = 0;
    }
    int timestep = *state.timestep + 1;
    warp_sync();

    bool last = timestep >= env.params.episode_length;
    float end = last ? env.params.end_of_game_reward_for_runner : 0.0f;
    int tags = 0;
    for (int runner = warp_first(); runner < N_RUNNERS; runner += warp_stride()) {
        int agent = n_taggers + runner;
        int by = tagged_by(env, state, agent);
        if (by >= 0) {
            warp_atomic_add(&tags_of[by], 1);
            tags += 1;
            if (env.params.runner_exits_game_after_tagged == 1) {
                state.still_in_the_game[agent] = 0;
                out.alive[RUNNER][runner] = 0;
            }
        }
        float tagged = by >= 0 ? 1.0f : 0.0f;
        float per_tag = env.params.tag_penalty_for_runner;
        out.reward[RUNNER][runner] = reward(env, state, agent, tagged, per_tag, end);
    }
    tags = warp_team_sum(tags);
    warp_sync();

    for (int tagger = warp_first(); tagger < n_taggers; tagger += warp_stride()) {
        float tagged = (float)tags_of[tagger], per_tag = env.params.tag_reward_for_tagger;
        out.reward[TAGGER][tagger] = reward(env, state, tagger, tagged, per_tag, 0.0f);
    }
    if (warp_first() == 0) {
        bool exits = env.params.runner_exits_game_after_tagged == 1;
        int num_runners = *state.num_runners - (exits ? tags : 0);
        *state.num_runners = num_runners;
        *state.timestep = timestep;
        out.statistics[0] += (float)tags;
        out.terminated = last || num_runners == 0;
    }
}

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

// Agents found in one pass at most.
static constexpr int PASS = n_nearest == 0 ? 1 : n_nearest < 16 ? n_nearest : 10;
// Threads that search at a time.
static constexpr int SEARCHERS = WARP_TEAM < 256 ? WARP_TEAM : 256;
// Candidates of one searcher at most, and how many of them are sorted at once.
static constexpr int SLOTS = 32;
static constexpr int SORTED = 16;
// Agents whose places are held at a time, in groups of four.
static constexpr int TILE = n_agents < 1024 ? (n_agents + 3) / 4 * 4 : 1024;
// Classes of agents whose least distances make the bound.
static constexpr int CLASSES = 2 * SORTED;

template <bool FEW>
struct IndexOf {
    typedef int type;
};
template <>
struct IndexOf<true> {
    typedef unsigned short type;
};
typedef IndexOf<(n_agents < 65536)>::type Index;

struct alignas(16) Four {
    float at[4];
};

// The agents nearest to one, in order of distance and, at the same distance, of number; its own
// number where there is nobody.
struct Nearest {
    int agent[PASS];
};

__device__ inline unsigned int distance_bits(const State& state, float x, float y, int other) {
    float dx = state.loc_x[other] - x, dy = state.loc_y[other] - y;
    return warp_bits(dx * dx + dy * dy);
}

__device__ inline float lesser(float a, float b) { return a < b ? a : b; }
__device__ inline float greater(float a, float b) { return a < b ? b : a; }
#ifndef WARP_HOST
#define lesser fminf
#define greater fmaxf
#endif

__device__ inline void exchange(float& low, float& high) {
    float least = lesser(low, high);
    high = greater(low, high);
    low = least;
}

__device__ inline void exchange(unsigned int& low, unsigned int& high) {
    unsigned int least = low < high ? low : high;
    high = low < high ? high : low;
    low = least;
}

// Batcher's odd-even merge sort; all of its loops unroll, so that nothing leaves the registers.
template <class T>
__device__ inline void sort(T* v) {
#pragma unroll
    for (int run = 1; run < SORTED; run *= 2) {
#pragma unroll
        for (int apart = run; apart >= 1; apart /= 2) {
#pragma unroll
            for (int i = 0; i < SORTED; ++i) {
                bool pairs = i >= apart % run && (i - apart % run) / apart % 2 == 0;
                bool same = i / (2 * run) == (i + apart) / (2 * run);
                if (pairs && same && i + apart < SORTED) exchange(v[i], v[i + apart]);
            }
        }
    }
}

// A product and a sum at once, where bits do not matter.
__device__ inline float fused(float a, float b, float c) {
#ifdef WARP_HOST
    return a * b + c;
#else
    return __fmaf_rn(a, b, c);
#endif
}

// Places seen from the middle of the square, and their squared distances to it, infinite for who is
// out of the game. With these the squared distance to an agent at a is, but for a's own square,
// square - 2 a . place: two operations. What that rounds off is far less than SLACK.
struct Places {
    Four* x;
    Four* y;
    Four* square;
};
// As a part of the square of grid_length: 64 times the half of a float's last bit.
static constexpr float SLACK = 3.8146973e-6f;

__device__ inline void enter(const Env& env, const State& state, int tile, const Places& places) {
    float middle = 0.5f * env.params.grid_length;
    for (int i = warp_first(); i < TILE; i += warp_stride()) {
        int agent = tile + i;
        bool in_game = agent < n_agents && state.was_in_the_game[agent < n_agents ? agent : 0] != 0;
        float x = in_game ? state.loc_x[agent] - middle : 0.0f;
        float y = in_game ? state.loc_y[agent] - middle : 0.0f;
        places.x[i / 4].at[i % 4] = x;
        places.y[i / 4].at[i % 4] = y;
        places.square[i / 4].at[i % 4] = in_game ? x * x + y * y : infinity();
    }
}

// The searcher's side of the product.
struct Searcher {
    float x, y;
};

__device__ inline Four farness(const Searcher& from, const Places& places, int four) {
    Four x = places.x[four], y = places.y[four], far = places.square[four];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        far.at[i] = fused(from.x, x.at[i], fused(from.y, y.at[i], far.at[i]));
    }
    return far;
}

template <int FOURS>
__device__ inline void lower(float* least, const Searcher& from, const Places& places, int four) {
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
        Four far = farness(from, places, four + i);
#pragma unroll
        for (int j = 0; j < 4; ++j) least[4 * i + j] = lesser(least[4 * i + j], far.at[j]);
    }
}

// A farness that at least PASS agents besides the searcher do not exceed, from the least of each
// class: hardly more agents do, whatever their number.
__device__ inline float bound(float* least) {
    float* a = least;
    float* b = least + SORTED;
    sort(a);
    sort(b);
    // Of two sorted rows taken together the k-th is the least of what taking i from one and k - i
    // from the other needs. One more than wanted, since the searcher itself is nearest.
    constexpr int k = PASS + 1;
    float bound = greater(a[k - 1], -infinity());
    bound = lesser(bound, b[k - 1]);
#pragma unroll
    for (int i = 1; i < k; ++i) bound = lesser(bound, greater(a[i - 1], b[k - i - 1]));
    return bound;
}

// An agent seen from another: the bits of the squared distance, and below them its number.
typedef unsigned long long Neighbour;
static constexpr Neighbour NOBODY = ~0ull;

// The PASS agents that come next, not before `next`, by looking at everyone; returns what comes
// after them.
__device__ inline Neighbour search_all(const State& state, int agent, Neighbour next,
                                       Nearest& nearest) {
    float x = state.loc_x[agent], y = state.loc_y[agent];
    Neighbour at[PASS];
#pragma unroll
    for (int i = 0; i < PASS; ++i) at[i] = NOBODY;
    for (int other = 0; other < n_agents; ++other) {
        if (other == agent || state.was_in_the_game[other] == 0) continue;
        unsigned int bits = distance_bits(state, x, y, other);
        Neighbour seen = ((Neighbour)bits << 32) | (unsigned int)other;
        if (seen < next || seen >= at[PASS - 1]) continue;
#pragma unroll
        for (int i = PASS - 1; i > 0; --i) at[i] = seen < at[i - 1] ? at[i - 1] : seen < at[i] ? seen : at[i];
        at[0] = seen < at[0] ? seen : at[0];
    }
#pragma unroll
    for (int i = 0; i < PASS; ++i) nearest.agent[i] = at[i] == NOBODY ? agent : (int)at[i];
    return at[PASS - 1] == NOBODY ? NOBODY : at[PASS - 1] + 1;
}

// Whether agents are in order of distance; those at the same distance are in order of number.
__device__ inline bool in_order(const State& state, int agent, const Nearest& nearest,
                                unsigned int beyond) {
    float x = state.loc_x[agent], y = state.loc_y[agent];
    bool in_order = true;
    unsigned int before = 0u;
#pragma unroll
    for (int i = 0; i < PASS; ++i) {
        if (nearest.agent[i] == agent) return in_order;
        unsigned int bits = distance_bits(state, x, y, nearest.agent[i]);
        in_order = in_order && before <= bits;
        before = bits;
    }
    return in_order && (before | (SLOTS - 1)) < beyond;
}

// The PASS agents nearest of `count` candidates. They are sorted by the bits of their distances with
// the numbers of their slots in place of the last bits; should these matter, everyone is searched.
__device__ inline void choose(const State& state, int agent, const Index* candidates, int count,
                              Nearest& nearest) {
    float x = state.loc_x[agent], y = state.loc_y[agent];
    constexpr unsigned int slots = SLOTS - 1, nobody = 0xffffffffu;
    unsigned int at[SORTED];
#pragma unroll
    for (int i = 0; i < SORTED; ++i) {
        int other = i < count ? candidates[i * SEARCHERS + warp_first()] : agent;
        unsigned int bits = distance_bits(state, x, y, other);
        at[i] = other == agent ? nobody : (bits & ~slots) | i;
    }
    sort(at);
    for (int i = SORTED; i < count; ++i) {
        int other = candidates[i * SEARCHERS + warp_first()];
        if (other == agent) continue;
        unsigned int seen = (distance_bits(state, x, y, other) & ~slots) | i;
#pragma unroll
        for (int j = PASS; j >= 0; --j) {
            unsigned int after = j > 0 && seen < at[j - 1] ? at[j - 1] : seen;
            at[j] = at[j] < after ? at[j] : after;
        }
    }
    unsigned int apart = nobody;
#pragma unroll
    for (int i = 0; i < PASS; ++i) {
        bool seen = at[i] != nobody;
        int slot = (int)(at[i] & slots);
        nearest.agent[i] = seen ? candidates[slot * SEARCHERS + warp_first()] : agent;
        unsigned int differ = seen ? at[i] ^ at[i + 1] : nobody;
        apart = differ < apart ? differ : apart;
    }
    if (apart <= slots && !in_order(state, agent, nearest, at[PASS] & ~slots)) {
        search_all(state, agent, 0, nearest);
    }
}

// Adds agents of a block, from `agent` on, that are within the limit to the candidates, in order of
// number; returns how many there are then, SLOTS + 1 if there are too many.
template <int FOURS>
__device__ inline int collect(const Searcher& from, const Places& places, int four, int agent,
                              float limit, Index* candidates, int count) {
    unsigned int close = 0u;
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
        Four far = farness(from, places, four + i);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            // The sign, which says that it is nearer, enters from the right.
            close = (close << 1) | (warp_bits(far.at[j] - limit) >> 31);
        }
    }
    if (FOURS > 0) close <<= (32 - 4 * FOURS) % 32;
    while (close != 0u && count < SLOTS) {
        int next = __clz((int)close);
        close ^= 0x80000000u >> next;
        candidates[count * SEARCHERS + warp_first()] = (Index)(agent + next);
        count += 1;
    }
    return close != 0u ? SLOTS + 1 : count;
}

// The PASS agents nearest to `agent`, whose thread calls this if it is `searching`; all threads of
// the team call it together.
__device__ inline void search(const Env& env, const State& state, int agent, bool searching,
                              const Places& places, Index* candidates, Nearest& nearest) {
    constexpr int fours = CLASSES / 4, rest = (n_agents % CLASSES + 3) / 4;
    float middle = 0.5f * env.params.grid_length;
    Searcher from = {searching ? -2.0f * (state.loc_x[agent] - middle) : 0.0f,
                     searching ? -2.0f * (state.loc_y[agent] - middle) : 0.0f};
    float least[CLASSES];
#pragma unroll
    for (int i = 0; i < CLASSES; ++i) least[i] = infinity();
    for (int tile = 0; tile < n_agents; tile += TILE) {
        warp_sync();
        enter(env, state, tile, places);
        warp_sync();
        if (!searching) continue;
        bool last = tile + TILE >= n_agents;
        int blocks = (last ? n_agents - tile : TILE) / CLASSES;
        for (int i = 0; i < blocks; ++i) lower<fours>(least, from, places, i * fours);
        if (last) lower<rest>(least, from, places, blocks * fours);
    }
    float slack = SLACK * (env.params.grid_length * env.params.grid_length);
    // The lesser, since fewer agents than wanted leave it infinite, as who is out of the game.
    float limit = lesser(bound(least), 3.0e38f) + slack;
    int count = searching ? 0 : SLOTS + 1;
    for (int tile = 0; tile < n_agents; tile += TILE) {
        if (n_agents > TILE) {
            warp_sync();
            enter(env, state, tile, places);
            warp_sync();
        }
        bool last = tile + TILE >= n_agents;
        int blocks = (last ? n_agents - tile : TILE) / CLASSES;
        for (int i = 0; i < blocks && count <= SLOTS; ++i) {
            int agent = tile + i * CLASSES;
            count = collect<fours>(from, places, i * fours, agent, limit, candidates, count);
        }
        if (last && count <= SLOTS) {
            int agent = tile + blocks * CLASSES;
            count = collect<rest>(from, places, blocks * fours, agent, limit, candidates, count);
        }
    }
    if (!searching) return;
    if (count <= SLOTS) {
        choose(state, agent, candidates, count, nearest);
    } else {
        search_all(state, agent, 0, nearest);
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
                search(env, state, agent, searching, {x, y, square}, candidates, nearest);
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

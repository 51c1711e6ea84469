// Made from tag_continuous/step.rs and tag_continuous/observe.rs by warp translate; change those files.
// Tag on a plane: start and step, from which `step.cu` is made.
// Tag on a plane: what agents see, as a function of the state alone.

static constexpr unsigned int TAGGER = 0u; // Number of the group of taggers.
static constexpr unsigned int RUNNER = 1u; // Number of the group of runners.
static constexpr unsigned int FEATURES = 7u; // Blocks of an observation.
static constexpr float ANGLE_SCALE = 0.15915494f; // 1 / 2 pi.

// What is seen of an agent.
struct Look {
    float x;
    float y;
    float speed;
    float acceleration;
    float direction;
    int in_game;
};

// An agent's motion, and what the edges gave.
struct Motion {
    float x;
    float y;
    float speed;
    float direction;
    float acceleration;
    float edge;
};

// Every agent draws from its own stream: x, y, heading.
__device__ inline void reset(const Env& env, State& state, WarpDraw& draw) {
    const Params& params = env.params;
    const Env& tables = env;
    for (unsigned int agent = warp_first(); agent < n_agents; agent += warp_stride()) {
        WarpDraw own = warp_draw_agent(&draw, agent);
        float x = params.grid_length * warp_draw_uniform(&own);
        float y = params.grid_length * warp_draw_uniform(&own);
        unsigned int quarter = warp_draw_below(&own, 4u);
        float direction = (quarter & 1u) != 0u ? 1.5707964f : 0.0f;
        direction = (quarter & 2u) != 0u ? 3.1415927f + direction : direction;
        bool fixed = params.fixed_location == 1;
        state.loc_x[agent] = fixed ? tables.start_x[agent] : x;
        state.loc_y[agent] = fixed ? tables.start_y[agent] : y;
        fixed = params.fixed_direction == 1;
        state.direction[agent] = fixed ? tables.start_direction[agent] : direction;
        state.speed[agent] = 0.0f;
        state.acceleration[agent] = 0.0f;
        state.still_in_the_game[agent] = 1;
        state.was_in_the_game[agent] = 1;
        state.edge_hit_reward_penalty[agent] = 0.0f;
    }
    if (warp_first() == 0) {
        *state.num_runners = params.n_runners;
        *state.timestep = 0;
    }
}

// `place` inside `[0, high]`.
__device__ inline float within(float place, float high) {
    place = place < 0.0f ? 0.0f : place;
    return place > high ? high : place;
}

// Moves an agent that its action has steered. Out of the game its speed is 0, which makes its
// acceleration 0 as well.
__device__ inline Motion moved(const Params& params, Motion from, float skill, int in_game) {
    float in_game_2 = (float)in_game;
    float limit = params.max_speed * skill;
    float direction = warp_modulo(from.direction, 6.2831855f) * in_game_2;
    float faster = from.speed + from.acceleration;
    faster = faster > 0.0f ? faster : 0.0f;
    float speed = (faster < limit ? faster : limit) * in_game_2;
    bool cruising = (speed > 0.0f) & (speed < limit);
    float acceleration = cruising ? from.acceleration : 0.0f;
    float sin, cos;
    warp_sin_cos(direction, &sin, &cos);
    float to_x = from.x + speed * cos;
    float to_y = from.y + speed * sin;
    float x = within(to_x, params.grid_length);
    float y = within(to_y, params.grid_length);
    bool crossed = (x != to_x) | (y != to_y);
    float edge = crossed ? params.edge_hit_penalty : 0.0f;
    return Motion{x, y, speed, direction, acceleration, edge};
}

// Steers and moves everyone.
__device__ inline void travel(const Env& env, State& state, const Actions& actions) {
    unsigned int n_taggers = (unsigned int)env.params.n_taggers;
    for (unsigned int agent = warp_first(); agent < n_agents; agent += warp_stride()) {
        WarpTuple2<int, int> value;
        if (agent < n_taggers) {
            value = WarpTuple2<int, int>{actions.discrete[TAGGER][2u * agent],
                actions.discrete[TAGGER][2u * agent + 1u]};
        } else {
            unsigned int runner = agent - n_taggers;
            value = WarpTuple2<int, int>{actions.discrete[RUNNER][2u * runner],
                actions.discrete[RUNNER][2u * runner + 1u]};
        }
        WarpTuple2<int, int> parts = value;
        int push = parts._0;
        int turn = parts._1;
        Motion from = {state.loc_x[agent], state.loc_y[agent], state.speed[agent],
            state.direction[agent] + env.turn_actions[(unsigned int)turn],
            state.acceleration[agent] + env.acceleration_actions[(unsigned int)push], 0.0f};
        int in_game = state.still_in_the_game[agent];
        Motion to = moved(env.params, from, env.skill_levels[agent], in_game);
        state.loc_x[agent] = to.x;
        state.loc_y[agent] = to.y;
        state.speed[agent] = to.speed;
        state.direction[agent] = to.direction;
        state.acceleration[agent] = to.acceleration;
        state.edge_hit_reward_penalty[agent] = to.edge;
        state.was_in_the_game[agent] = in_game;
    }
}

// The tagger by whom a runner is tagged, or -1.
__device__ inline int tagged_by(const Params& params, const State& state, unsigned int runner) {
    float x = state.loc_x[runner];
    float y = state.loc_y[runner];
    float shortest = WARP_INFINITY;
    int nearest = 0;
    for (unsigned int tagger = 0u; tagger < (unsigned int)params.n_taggers; ++tagger) {
        float dx = x - state.loc_x[tagger];
        float dy = y - state.loc_y[tagger];
        float distance = dx * dx + dy * dy;
        bool nearer = distance < shortest;
        shortest = nearer ? distance : shortest;
        nearest = nearer ? (int)tagger : nearest;
    }
    bool near = warp_sqrt(shortest) < params.distance_margin_for_reward;
    return near & (state.still_in_the_game[runner] != 0) ? nearest : -1;
}

// The reward of one agent: for the step, for its tags, and for who is left at the end.
__device__ inline float reward(const Env& env, const State& state, unsigned int agent, float tagged,
                               float end) {
    float step = state.edge_hit_reward_penalty[agent] + env.step_rewards[agent];
    float played = state.was_in_the_game[agent] != 0 ? step : 0.0f;
    float stayed = state.still_in_the_game[agent] != 0 ? end : 0.0f;
    return played + tagged + stayed;
}

// Lets taggers tag, counts for each how often it did, gives runners their rewards and returns the
// number of all tags.
__device__ inline int tag(const Env& env, State& state, WarpSlice<int> tags_of, float end,
                          StepOut& out) {
    const Params& params = env.params;
    warp_sync();
    int share = 0;
    for (unsigned int runner = warp_first(); runner < WARP_LEN_reward_1; runner += warp_stride()) {
        unsigned int agent = tags_of.len + runner;
        int by = tagged_by(params, state, agent);
        if (by >= 0) {
            warp_team_add(&tags_of[(unsigned int)by], 1);
            if (params.runner_exits_game_after_tagged == 1) {
                state.still_in_the_game[agent] = 0;
                out.alive[RUNNER][runner] = 0;
            }
        }
        float tagged = by >= 0 ? 1.0f : 0.0f;
        tagged = tagged * params.tag_penalty_for_runner;
        out.reward[RUNNER][runner] = reward(env, state, agent, tagged, end);
        share = warp_wrapping_add(share, (int)(by >= 0));
    }
    warp_settle();
    return warp_team_sum(share);
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw&,
                            StepOut& out) {
    const Params& params = env.params;
    constexpr unsigned int n_taggers = WARP_LEN_reward_0;
    // Runners that each tagger has tagged in this step.
    WARP_SHARED(int, tags_of, n_taggers);
    for (unsigned int tagger = warp_first(); tagger < n_taggers; tagger += warp_stride()) {
        tags_of[tagger] = 0;
    }
    travel(env, state, actions);
    int timestep = *state.timestep + 1;
    bool last = timestep >= params.episode_length;
    float end = last ? params.end_of_game_reward_for_runner : 0.0f;
    int tags = tag(env, state, warp_slice(tags_of, n_taggers), end, out);
    for (unsigned int tagger = warp_first(); tagger < n_taggers; tagger += warp_stride()) {
        float tagged = (float)tags_of[tagger] * params.tag_reward_for_tagger;
        out.reward[TAGGER][tagger] = reward(env, state, tagger, tagged, 0.0f);
    }
    if (warp_first() == 0) {
        bool exits = params.runner_exits_game_after_tagged == 1;
        *state.num_runners -= exits ? tags : 0;
        *state.timestep = timestep;
        out.statistics[0] += (float)tags;
        out.terminated = last | (*state.num_runners == 0);
    }
}

__device__ inline Look look(const State& state, unsigned int agent) {
    return Look{state.loc_x[agent], state.loc_y[agent], state.speed[agent],
        state.acceleration[agent], state.direction[agent], state.was_in_the_game[agent]};
}

// Writes what `own` sees of another into the first of the blocks, which lie `apart`.
__device__ inline void show(const Params& params, Look own, Look seen, WarpSlice<float> to,
                            unsigned int apart, bool is_tagger) {
    bool plays = own.in_game != 0;
    float place = plays ? params.location_scale : 0.0f;
    float motion = plays ? params.speed_scale : 0.0f;
    float angle = plays ? ANGLE_SCALE : 0.0f;
    to[0] = (seen.x - own.x) * place;
    to[apart] = (seen.y - own.y) * place;
    to[2u * apart] = (seen.speed - own.speed) * motion;
    to[3u * apart] = (seen.acceleration - own.acceleration) * motion;
    to[4u * apart] = (seen.direction - own.direction) * angle;
    to[5u * apart] = is_tagger ? 1.0f : 0.0f;
    to[6u * apart] = (float)seen.in_game;
}

// Everyone sees everyone. Neighbouring threads write neighbouring places of the same row.
__device__ inline void observe_all(const Params& params, const State& state, float time,
                                   Observation& out) {
    constexpr unsigned int n = n_agents;
    unsigned int n_taggers = (unsigned int)params.n_taggers;
    constexpr unsigned int width = FEATURES * (n - 1u) + 1u;
    for (unsigned int slot = warp_first(); slot < n; slot += warp_stride()) {
        float clock = state.was_in_the_game[slot] != 0 ? time : 0.0f;
        if (slot < n_taggers) {
            out.obs[TAGGER][(slot + 1u) * width - 1u] = clock;
        } else {
            out.obs[RUNNER][(slot - n_taggers + 1u) * width - 1u] = clock;
        }
        if (slot == n - 1u) {
            continue;
        }
        // By whether the agent's own number leaves the slot to itself or to the next.
        Look low = look(state, slot);
        Look high = look(state, slot + 1u);
        for (unsigned int agent = 0u; agent < n_taggers; ++agent) {
            Look own = look(state, agent);
            Look seen;
            if (slot < agent) {
                seen = low;
            } else {
                seen = high;
            }
            unsigned int other = slot < agent ? slot : slot + 1u;
            WarpSlice<float> to = warp_part(warp_slice(out.obs[TAGGER], WARP_LEN_obs_0), agent *
                                            width + slot, WARP_LEN_obs_0);
            show(params, own, seen, to, n - 1u, other < n_taggers);
        }
        for (unsigned int agent = n_taggers; agent < n; ++agent) {
            Look own = look(state, agent);
            Look seen;
            if (slot < agent) {
                seen = low;
            } else {
                seen = high;
            }
            unsigned int other = slot < agent ? slot : slot + 1u;
            WarpSlice<float> to = warp_part(warp_slice(out.obs[RUNNER], WARP_LEN_obs_1),
                                            (agent - n_taggers) * width + slot, WARP_LEN_obs_1);
            show(params, own, seen, to, n - 1u, other < n_taggers);
        }
    }
}

// Everyone sees the nearest.
// Twin in CUDA: nearest.cu
__device__ inline void observe_nearest(const Params& params, const State& state, float time,
                                       Observation& out);

// What agents see of the nearest: what nearest.rs finds, in the same order, found in another way. Each
// thread searches for one agent; what was found is written by all of them.

// Agents found in one pass at most.
static constexpr int PASS = n_nearest == 0 ? 1 : n_nearest < 15 ? n_nearest : 10;
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

// Of numbers of which none is a NaN; one instruction each.
__device__ inline float lesser(float a, float b) { return fminf(a, b); }
__device__ inline float greater(float a, float b) { return fmaxf(a, b); }

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

__device__ inline void enter(const Params& params, const State& state, int tile, const Places& places) {
    float middle = 0.5f * params.grid_length;
    for (int i = warp_first(); i < TILE; i += warp_stride()) {
        int agent = tile + i;
        bool in_game = agent < n_agents && state.was_in_the_game[agent < n_agents ? agent : 0] != 0;
        float x = in_game ? state.loc_x[agent] - middle : 0.0f;
        float y = in_game ? state.loc_y[agent] - middle : 0.0f;
        places.x[i / 4].at[i % 4] = x;
        places.y[i / 4].at[i % 4] = y;
        places.square[i / 4].at[i % 4] = in_game ? x * x + y * y : WARP_INFINITY;
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
        far.at[i] = fmaf(from.x, x.at[i], fmaf(from.y, y.at[i], far.at[i]));
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
    float bound = lesser(a[k - 1], b[k - 1]);
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
        for (int i = PASS - 1; i > 0; --i) {
            at[i] = seen < at[i - 1] ? at[i - 1] : seen < at[i] ? seen : at[i];
        }
        at[0] = seen < at[0] ? seen : at[0];
    }
#pragma unroll
    for (int i = 0; i < PASS; ++i) nearest.agent[i] = at[i] == NOBODY ? agent : (int)at[i];
    return at[PASS - 1] == NOBODY ? NOBODY : at[PASS - 1] + 1;
}

// The candidates of one searcher: their numbers, SEARCHERS apart.
struct Candidates {
    Index* at;
    __device__ Index& operator[](int i) const { return at[i * SEARCHERS + warp_first()]; }
};

// Keys to sort candidates by: the bits of their distances, and the numbers of their slots in place of
// the last ones.
static constexpr unsigned int SLOT = SLOTS - 1;
static constexpr unsigned int NO_KEY = 0xffffffffu;

// Whether the first PASS of the keys are in order of whole distances, too, and no later one belongs
// among them; of two at the same distance the one in the lower slot has the lower number.
__device__ inline bool in_order(const State& state, int agent, const Candidates& candidates,
                                const unsigned int* keys) {
    float x = state.loc_x[agent], y = state.loc_y[agent];
    unsigned int before = 0u;
    unsigned int last = keys[PASS - 1];
    bool in_order = last == NO_KEY || (keys[PASS + 1] & ~SLOT) != (last & ~SLOT);
#pragma unroll
    for (int i = 0; i <= PASS; ++i) {
        if (keys[i] == NO_KEY) continue;
        unsigned int bits = distance_bits(state, x, y, candidates[(int)(keys[i] & SLOT)]);
        in_order = in_order && before <= bits;
        before = bits;
    }
    return in_order;
}

// The PASS agents nearest of `count` candidates, unless the last bits of their distances matter.
__device__ inline bool choose(const State& state, int agent, const Candidates& candidates, int count,
                              Nearest& nearest) {
    float x = state.loc_x[agent], y = state.loc_y[agent];
    unsigned int keys[SORTED];
#pragma unroll
    for (int i = 0; i < SORTED; ++i) {
        int other = i < count ? candidates[i] : agent;
        unsigned int bits = distance_bits(state, x, y, other);
        keys[i] = other == agent ? NO_KEY : (bits & ~SLOT) | i;
    }
    sort(keys);
    for (int i = SORTED; i < count; ++i) {
        int other = candidates[i];
        if (other == agent) continue;
        unsigned int key = (distance_bits(state, x, y, other) & ~SLOT) | i;
#pragma unroll
        for (int j = PASS + 1; j >= 0; --j) {
            unsigned int after = j > 0 && key < keys[j - 1] ? keys[j - 1] : key;
            keys[j] = keys[j] < after ? keys[j] : after;
        }
    }
    unsigned int apart = NO_KEY;
#pragma unroll
    for (int i = 0; i < PASS; ++i) {
        bool seen = keys[i] != NO_KEY;
        nearest.agent[i] = seen ? candidates[(int)(keys[i] & SLOT)] : agent;
        unsigned int differ = seen ? keys[i] ^ keys[i + 1] : NO_KEY;
        apart = differ < apart ? differ : apart;
    }
    return apart > SLOT || in_order(state, agent, candidates, keys);
}

// Adds agents of a block, from `agent` on, that are within the limit to the candidates, in order of
// number; returns how many there are then, SLOTS + 1 if there are too many.
template <int FOURS>
__device__ inline int collect(const Searcher& from, const Places& places, int four, int agent,
                              float limit, const Candidates& candidates, int count) {
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
        candidates[count] = (Index)(agent + next);
        count += 1;
    }
    return close != 0u ? SLOTS + 1 : count;
}

// The PASS agents nearest to `agent`, whose thread calls this if it is `searching`; all threads of
// the team call it together.
__device__ inline void search(const Params& params, const State& state, int agent, bool searching,
                              const Places& places, const Candidates& candidates,
                              Nearest& nearest) {
    constexpr int fours = CLASSES / 4, rest = (n_agents % CLASSES + 3) / 4;
    float middle = 0.5f * params.grid_length;
    Searcher from = {searching ? -2.0f * (state.loc_x[agent] - middle) : 0.0f,
                     searching ? -2.0f * (state.loc_y[agent] - middle) : 0.0f};
    float least[CLASSES];
#pragma unroll
    for (int i = 0; i < CLASSES; ++i) least[i] = WARP_INFINITY;
    for (int tile = 0; tile < n_agents; tile += TILE) {
        warp_sync();
        enter(params, state, tile, places);
        warp_sync();
        if (!searching) continue;
        bool last = tile + TILE >= n_agents;
        int blocks = (last ? n_agents - tile : TILE) / CLASSES;
        for (int i = 0; i < blocks; ++i) lower<fours>(least, from, places, i * fours);
        if (last) lower<rest>(least, from, places, blocks * fours);
    }
    float slack = SLACK * (params.grid_length * params.grid_length);
    // The lesser, since fewer agents than wanted leave it infinite, as who is out of the game.
    float limit = lesser(bound(least), 3.0e38f) + slack;
    int count = searching ? 0 : SLOTS + 1;
    for (int tile = 0; tile < n_agents; tile += TILE) {
        if (n_agents > TILE) {
            warp_sync();
            enter(params, state, tile, places);
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
    bool chosen = count <= SLOTS && choose(state, agent, candidates, count, nearest);
    if (!chosen) search_all(state, agent, 0, nearest);
}

// Numbers in one agent's observation.
static constexpr int WIDTH = 7 * n_shown + 1;

// The observation of an agent.
__device__ inline float* row_of(const Observation& out, int agent) {
    bool tagger = agent < n_taggers;
    return tagger ? out.obs[TAGGER] + agent * WIDTH : out.obs[RUNNER] + (agent - n_taggers) * WIDTH;
}

// What is seen of an agent as a difference; all of it is read before any of it is written.
struct Seen {
    float x, y, speed, acceleration, direction;
};

__device__ inline Seen seen_of(const State& state, int agent) {
    return {state.loc_x[agent], state.loc_y[agent], state.speed[agent], state.acceleration[agent],
            state.direction[agent]};
}

// What each of some agents sees of the PASS agents found for it, from rank `slot` on.
__device__ inline void show_found(const Params& params, const State& state, int first, int slot,
                                  const Index* found, const Observation& out) {
    int count = n_agents - first < SEARCHERS ? n_agents - first : SEARCHERS;
    for (int i = warp_first(); i < count * PASS; i += warp_stride()) {
        int agent = first + i / PASS, rank = slot + i % PASS;
        if (rank >= n_nearest) continue;
        // An agent that found nobody has found itself.
        int other = found[i];
        bool found_one = other != agent;
        Seen seen = seen_of(state, other), own = seen_of(state, agent);
        float* to = row_of(out, agent) + rank;
        to[0] = (seen.x - own.x) * params.location_scale;
        to[n_shown] = (seen.y - own.y) * params.location_scale;
        to[2 * n_shown] = (seen.speed - own.speed) * params.speed_scale;
        to[3 * n_shown] = (seen.acceleration - own.acceleration) * params.speed_scale;
        to[4 * n_shown] = (seen.direction - own.direction) * ANGLE_SCALE;
        to[5 * n_shown] = found_one && other < n_taggers ? 1.0f : 0.0f;
        to[6 * n_shown] = found_one ? 1.0f : 0.0f;
    }
}

__device__ inline void observe_nearest(const Params& params, const State& state, float time,
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
                search(params, state, agent, searching, {x, y, square}, {candidates}, nearest);
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
            show_found(params, state, first, slot, candidates, out);
            warp_sync();
        }
        if (mine) row_of(out, agent)[WIDTH - 1] = searching ? time : 0.0f;
    }
}

__device__ inline void observe(const Env& env, const State& state, Observation& out) {
    const Params& params = env.params;
    float time = (float)*state.timestep / (float)params.episode_length;
    if (params.use_full_observation == 1) {
        observe_all(params, state, time, out);
    } else {
        warp_sync();
        observe_nearest(params, state, time, out);
    }
}

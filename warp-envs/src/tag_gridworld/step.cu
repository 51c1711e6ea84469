// Made from tag_gridworld/step.rs by warp translate; change that file.
// Tag on a grid: the body, from which `step.cu` is made.

static constexpr unsigned int TAGGER = 0u; // Number of the group of taggers.
static constexpr unsigned int RUNNER = 1u; // Number of the runner's group.
static constexpr int FIXED = 1; // Starts are the tables `start_x` and `start_y`.
static constexpr int INNER = 2; // Taggers start in cells off the edge, the runner at (0, 0).
static constexpr unsigned int PARTIAL = 6u; // Numbers of an agent's row in a partial observation.
static constexpr unsigned int NUMBER_BITS = 20u; // Bits for an agent's number below a distance.

// Where an action leads to, and whether a wall was in the way.
struct Place {
    int x;
    int y;
    bool hit;
};

// The runner's cell is drawn from all, a tagger's from all others, each agent from its own stream:
// the same distribution as drawing everyone again until no tagger stands on the runner's cell.
__device__ inline void reset(const Env& env, State& state, WarpDraw& draw) {
    constexpr unsigned int n = n_agents;
    if (warp_first() == 0) {
        *state.timestep = 0;
    }
    if (env.params.starts == FIXED) {
        for (unsigned int agent = warp_first(); agent < n; agent += warp_stride()) {
            state.loc_x[agent] = env.start_x[agent];
            state.loc_y[agent] = env.start_y[agent];
        }
        return;
    }
    if (env.params.starts == INNER) {
        unsigned int side = (unsigned int)env.params.grid_length - 1u;
        for (unsigned int agent = warp_first(); agent < n; agent += warp_stride()) {
            WarpDraw own = warp_draw_agent(&draw, agent);
            unsigned int cell = warp_draw_below(&own, side * side);
            bool is_runner = agent == n - 1u;
            state.loc_x[agent] = is_runner ? 0 : 1 + (int)(cell % side);
            state.loc_y[agent] = is_runner ? 0 : 1 + (int)(cell / side);
        }
        return;
    }
    unsigned int side = (unsigned int)env.params.grid_length + 1u;
    WarpDraw own = warp_draw_agent(&draw, n - 1u);
    unsigned int runner = warp_draw_below(&own, side * side);
    for (unsigned int agent = warp_first(); agent < n; agent += warp_stride()) {
        WarpDraw own_2 = warp_draw_agent(&draw, agent);
        unsigned int other = warp_draw_below(&own_2, side * side - 1u);
        unsigned int tagger = other + (unsigned int)(other >= runner);
        unsigned int cell = agent == n - 1u ? runner : tagger;
        state.loc_x[agent] = (int)(cell % side);
        state.loc_y[agent] = (int)(cell / side);
    }
}

__device__ inline Place walked(const Params& params, int x, int y, int action) {
    int high = params.grid_length;
    int to_x = x + (int)(action == 1) - (int)(action == 2);
    int to_y = y + (int)(action == 3) - (int)(action == 4);
    int x_2 = warp_min(warp_max(to_x, 0), high);
    int y_2 = warp_min(warp_max(to_y, 0), high);
    return Place{x_2, y_2, (bool)((x_2 != to_x) | (y_2 != to_y))};
}

// Taggers walk twice, at first only to see whether one catches the runner: then nobody waits for
// what another has written, and rewards are written once.
__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw&,
                            StepOut& out) {
    const Params& params = env.params;
    // The last agent is the runner.
    constexpr unsigned int last = n_agents - 1u;
    Place runner = walked(params, state.loc_x[last], state.loc_y[last],
                          actions.discrete[RUNNER][0]);
    WarpSlice<int> x = warp_part(warp_slice(state.loc_x, n_agents), 0u, last);
    WarpSlice<int> y = warp_part(warp_slice(state.loc_y, n_agents), 0u, last);
    WarpSlice<const int> moves =
        warp_part(warp_slice(actions.discrete[TAGGER], WARP_LEN_discrete_0), 0u, last);
    WarpSlice<float> rewards = warp_part(warp_slice(out.reward[TAGGER], WARP_LEN_reward_0), 0u,
                                         last);
    bool found = false;
    for (unsigned int agent = warp_first(); agent < last; agent += warp_stride()) {
        Place place = walked(params, x[agent], y[agent], moves[agent]);
        found |= (place.x == runner.x) & (place.y == runner.y);
    }
    bool caught = warp_team_any(found);
    float cost = params.step_cost_for_tagger;
    float wall = -params.wall_hit_penalty;
    float reward = caught ? params.tag_reward_for_tagger : -cost;
    for (unsigned int agent = warp_first(); agent < last; agent += warp_stride()) {
        Place place = walked(params, x[agent], y[agent], moves[agent]);
        x[agent] = place.x;
        y[agent] = place.y;
        rewards[agent] = (place.hit ? wall : 0.0f) + reward;
    }
    if (warp_first() == 0) {
        state.loc_x[last] = runner.x;
        state.loc_y[last] = runner.y;
        float reward_2 = caught ? -params.tag_penalty_for_runner : cost;
        out.reward[RUNNER][0] = (runner.hit ? wall : 0.0f) + reward_2;
        *state.timestep += 1;
        out.terminated = caught | (*state.timestep >= params.episode_length);
        out.statistics[0] = caught ? 1.0f : 0.0f;
    }
}

// The row of nobody for each of the taggers and the runner, whose number follows theirs, with the
// one-hot of the own number.
__device__ inline void spread(WarpSlice<const float> row, unsigned int runner, Observation& out) {
    unsigned int first = 3u * (runner + 1u);
    warp_sync();
    auto element = [&](unsigned int tagger, unsigned int column) -> float {
        float seen = row[column];
        return column == (first + tagger) ? 1.0f : seen;
    };
    warp_team_fill(out.obs[TAGGER], runner, row.len, element);
    auto element_2 = [&](unsigned int unused, unsigned int column) -> float {
        float seen = row[column];
        return column == (first + runner) ? 1.0f : seen;
    };
    warp_team_fill(out.obs[RUNNER], 1u, row.len, element_2);
}

// Everyone sees the same but for the one-hot of the own number: that row is made once, as that of
// nobody, with one division per place.
__device__ inline void observe_all(const Params& params, const State& state, float time,
                                   Observation& out) {
    constexpr unsigned int n = n_agents;
    constexpr unsigned int runner = n - 1u;
    constexpr unsigned int width = 4u * n + 1u;
    WARP_SHARED(float, row, width);
    float high = (float)params.grid_length;
    for (unsigned int agent = warp_first(); agent < n; agent += warp_stride()) {
        row[agent] = (float)state.loc_x[agent] / high;
        row[n + agent] = (float)state.loc_y[agent] / high;
        row[2u * n + agent] = agent == runner ? 1.0f : 0.0f;
        row[3u * n + agent] = 0.0f;
        if (agent == 0u) {
            row[4u * n] = time;
        }
    }
    spread(warp_part(warp_slice(row, width), 0u, width), runner, out);
}

// What a tagger sees beside its own place: the runner's, that it is none, and the time.
__device__ inline float tagger_sees(unsigned int column, float runner_x, float runner_y,
                                    float time) {
    return column == 2u ? runner_x : column == 3u ? runner_y : column == 4u ? 0.0f : time;
}

__device__ inline void observe_one(const Params& params, const State& state, float time,
                                   Observation& out) {
    constexpr unsigned int last = n_agents - 1u;
    WarpSlice<const int> x = warp_part(warp_slice(state.loc_x, n_agents), 0u, last);
    WarpSlice<const int> y = warp_part(warp_slice(state.loc_y, n_agents), 0u, last);
    float high = (float)params.grid_length;
    WarpTuple2<int, int> runner = {state.loc_x[last], state.loc_y[last]};
    WarpTuple2<float, float> seen = {(float)runner._0 / high, (float)runner._1 / high};
    // Distance and below it the number: the least is the nearest, of several the lowest.
    long long least = 0x7fffffffffffffffll;
    for (unsigned int agent = warp_first(); agent < last; agent += warp_stride()) {
        long long dx = (long long)(x[agent] - runner._0);
        long long dy = (long long)(y[agent] - runner._1);
        least = warp_min(least,
                         (long long)((unsigned long long)(dx * dx + dy * dy) << NUMBER_BITS) |
                         (long long)agent);
    }
    long long nearest = warp_team_least(least);
    unsigned int nearest_2 = ((unsigned int)nearest & ((1u << NUMBER_BITS) - 1u));
    auto element = [&](unsigned int agent, unsigned int column) -> float {
        int own_x = x[agent];
        int own_y = y[agent];
        int place = column == 0u ? own_x : own_y;
        float common = tagger_sees(column, seen._0, seen._1, time);
        return column < 2u ? (float)place / high : common;
    };
    warp_team_fill(out.obs[TAGGER], last, PARTIAL, element);
    auto element_2 = [&](unsigned int unused, unsigned int column) -> float {
        if (column == 0u) {
            return seen._0;
        } else if (column == 1u) {
            return seen._1;
        } else if (column == 2u) {
            return (float)x[nearest_2] / high;
        } else if (column == 3u) {
            return (float)y[nearest_2] / high;
        } else if (column == 4u) {
            return 1.0f;
        } else {
            return time;
        }
    };
    warp_team_fill(out.obs[RUNNER], 1u, PARTIAL, element_2);
}

__device__ inline void observe(const Env& env, const State& state, Observation& out) {
    const Params& params = env.params;
    float time = (float)*state.timestep / (float)params.episode_length;
    if (params.use_full_observation == 1) {
        observe_all(params, state, time, out);
    } else {
        observe_one(params, state, time, out);
    }
}

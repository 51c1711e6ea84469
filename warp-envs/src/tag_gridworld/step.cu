// Tag on a grid: the twin of step.rs, with the agents strided over the team. The last agent is the
// runner.

static constexpr int N_TAGGERS = n_agents - 1;
static constexpr int TAGGER = 0;
static constexpr int RUNNER = 1;

__device__ inline void reset(const Env& env, State& state, WarpDraw& draw) {
    if (warp_first() == 0) *state.timestep = 0;
    bool fixed = env.params.fixed_start == 1;
    unsigned int side = (unsigned int)env.params.grid_length + 1u;
    unsigned int runner = 0u;
    if (!fixed) {
        WarpDraw of_runner = warp_draw_agent(&draw, N_TAGGERS);
        runner = warp_draw_below(&of_runner, side * side);
    }
    for (int agent = warp_first(); agent < n_agents; agent += warp_stride()) {
        if (fixed) {
            state.loc_x[agent] = env.start_x[agent];
            state.loc_y[agent] = env.start_y[agent];
            continue;
        }
        WarpDraw own = warp_draw_agent(&draw, (unsigned int)agent);
        unsigned int other = warp_draw_below(&own, side * side - 1u);
        unsigned int cell = agent == N_TAGGERS ? runner : other + (other >= runner ? 1u : 0u);
        state.loc_x[agent] = (int)(cell % side);
        state.loc_y[agent] = (int)(cell / side);
    }
}

struct Place {
    int x, y;
    bool hit;
};

// Where an action leads to, and whether a wall was in the way.
__device__ inline Place walked(const Env& env, const State& state, int agent, int action) {
    int high = env.params.grid_length;
    int to_x = state.loc_x[agent] + (action == 1) - (action == 2);
    int to_y = state.loc_y[agent] + (action == 3) - (action == 4);
    int x = to_x < 0 ? 0 : to_x > high ? high : to_x;
    int y = to_y < 0 ? 0 : to_y > high ? high : to_y;
    return {x, y, x != to_x || y != to_y};
}

// Taggers walk twice, at first only to see whether one catches the runner: then nobody waits for
// what another has written, and rewards are written once.
__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw&,
                            StepOut& out) {
    Place runner = walked(env, state, N_TAGGERS, actions.discrete[RUNNER][0]);
    bool near = false;
    for (int agent = warp_first(); agent < N_TAGGERS; agent += warp_stride()) {
        Place place = walked(env, state, agent, actions.discrete[TAGGER][agent]);
        near |= place.x == runner.x && place.y == runner.y;
    }
    bool caught = warp_team_any(near);
    float cost = env.params.step_cost_for_tagger;
    float wall = -env.params.wall_hit_penalty;
    float team = caught ? env.params.tag_reward_for_tagger : -cost;
    for (int agent = warp_first(); agent < N_TAGGERS; agent += warp_stride()) {
        Place place = walked(env, state, agent, actions.discrete[TAGGER][agent]);
        state.loc_x[agent] = place.x;
        state.loc_y[agent] = place.y;
        out.reward[TAGGER][agent] = (place.hit ? wall : 0.0f) + team;
    }
    if (warp_first() == 0) {
        state.loc_x[N_TAGGERS] = runner.x;
        state.loc_y[N_TAGGERS] = runner.y;
        float own = caught ? -env.params.tag_penalty_for_runner : cost;
        out.reward[RUNNER][0] = (runner.hit ? wall : 0.0f) + own;
        int timestep = *state.timestep + 1;
        *state.timestep = timestep;
        out.terminated = caught || timestep >= env.params.episode_length;
        out.statistics[0] = caught ? 1.0f : 0.0f;
    }
}

// The row that all agents share is made once, with one division per place; then neighbouring
// threads write neighbouring elements, four at a time where rows allow it. Rows differ in the one-hot
// of the own number; behind the shared row stands its beginning again, where the next agent's goes on.
__device__ inline void observe_all(const Env& env, const State& state, float time,
                                   Observation& out) {
    constexpr int width = 4 * n_agents + 1;
    constexpr int n_seen = N_TAGGERS * width;
    WARP_SHARED(float, row, width + 3);
    float high = (float)env.params.grid_length;
    for (int column = warp_first(); column < width; column += warp_stride()) {
        float seen = 0.0f;
        if (column < 2 * n_agents) {
            int place = column < n_agents ? state.loc_x[column] : state.loc_y[column - n_agents];
            seen = (float)place / high;
        }
        seen = column == 3 * n_agents - 1 ? 1.0f : seen;
        seen = column == width - 1 ? time : seen;
        row[column] = seen;
        if (column < 3) row[width + column] = seen;
        out.obs[RUNNER][column] = column == width - 2 ? 1.0f : seen;
    }
    warp_sync();
    constexpr int together = n_seen % 4 == 0 ? 4 : 1;
    for (int i = together * warp_first(); i < n_seen; i += together * warp_stride()) {
        int agent = i / width, column = i - agent * width, own = 3 * n_agents + agent - column;
        if (together == 4) {
            float4 four = {own == 0 ? 1.0f : row[column], own == 1 ? 1.0f : row[column + 1],
                           own == 2 ? 1.0f : row[column + 2], own == 3 ? 1.0f : row[column + 3]};
            *(float4*)(out.obs[TAGGER] + i) = four;
        } else {
            out.obs[TAGGER][i] = own == 0 ? 1.0f : row[column];
        }
    }
}

// The number of the tagger nearest to the runner, of several the lowest; for the first thread only.
__device__ inline int nearest_tagger(const State& state) {
    // Distance and below it the number: the least is the nearest.
    WARP_SHARED(long long, nearest_of, WARP_TEAM);
    long long nearest = 0x7fffffffffffffffll;
    for (int agent = warp_first(); agent < N_TAGGERS; agent += warp_stride()) {
        long long dx = state.loc_x[agent] - state.loc_x[N_TAGGERS];
        long long dy = state.loc_y[agent] - state.loc_y[N_TAGGERS];
        long long key = ((dx * dx + dy * dy) << 20) | agent;
        nearest = key < nearest ? key : nearest;
    }
    nearest_of[warp_first()] = nearest;
    for (int left = WARP_TEAM; left > 1;) {
        int half = (left + 1) / 2;
        warp_sync();
        if (warp_first() + half < left) {
            long long other = nearest_of[warp_first() + half];
            nearest = other < nearest ? other : nearest;
            nearest_of[warp_first()] = nearest;
        }
        left = half;
    }
    return (int)(nearest & 0xfffff);
}

__device__ inline void observe_one(const Env& env, const State& state, float time,
                                   Observation& out) {
    float high = (float)env.params.grid_length;
    float runner_x = (float)state.loc_x[N_TAGGERS] / high;
    float runner_y = (float)state.loc_y[N_TAGGERS] / high;
    for (int i = warp_first(); i < 6 * N_TAGGERS; i += warp_stride()) {
        int agent = i / 6, column = i % 6;
        int own = column == 0 ? state.loc_x[agent] : state.loc_y[agent];
        float seen = column == 2 ? runner_x : column == 3 ? runner_y : column == 4 ? 0.0f : time;
        out.obs[TAGGER][i] = column < 2 ? (float)own / high : seen;
    }
    int nearest = nearest_tagger(state);
    if (warp_first() == 0) {
        float* obs = out.obs[RUNNER];
        obs[0] = runner_x;
        obs[1] = runner_y;
        obs[2] = (float)state.loc_x[nearest] / high;
        obs[3] = (float)state.loc_y[nearest] / high;
        obs[4] = 1.0f;
        obs[5] = time;
    }
}

__device__ inline void observe(const Env& env, const State& state, Observation& out) {
    float time = (float)*state.timestep / (float)env.params.episode_length;
    if (env.params.use_full_observation == 1) {
        observe_all(env, state, time, out);
    } else {
        observe_one(env, state, time, out);
    }
}

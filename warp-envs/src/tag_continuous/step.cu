// Tag on a plane: the twin of step.rs, operation by operation, with the agents strided over the team.

static constexpr int TAGGER = 0;
static constexpr int RUNNER = 1;
static constexpr int N_RUNNERS = n_agents - n_taggers;
static constexpr float TAU = 2.0f * WARP_PI;
static constexpr float QUARTER_TURN = 0.5f * WARP_PI;

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
        const int* own = tagger ? actions.discrete[TAGGER] + 2 * agent
                                : actions.discrete[RUNNER] + 2 * (agent - n_taggers);
        travel(env, state, agent, own);
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

// Made from worlds/swarm.rs by warp translate; change that file.
// Arrays beside rows: agents in space who seek a goal, stepped by a team.

__device__ inline void reset(const Env&, State& state, WarpDraw& draw) {
    for (unsigned int i = warp_first(); i < n_agents * 3u / 3u; i += warp_stride()) {
        WarpDraw own = warp_draw_agent(&draw, i);
        for (unsigned int axis = 0u; axis < 3u; ++axis) {
            state.place[3u * i + axis] = warp_draw_uniform_in(&own, -1.0f, 1.0f);
        }
    }
    if (warp_first() == 0) {
        for (unsigned int axis = 0u; axis < 3u; ++axis) {
            state.goal[axis] = warp_draw_uniform_in(&draw, -0.5f, 0.5f);
        }
        *state.arrivals = 0;
    }
}

__device__ inline void observe(const Env&, const State& state, Observation& out) {
    for (unsigned int i = warp_first(); i < n_agents * 3u; i += warp_stride()) {
        out.obs[0][i] = state.goal[i % 3u] - state.place[i];
    }
}

// Along the axes.
__device__ inline float distance(WarpSlice<const float> place, WarpSlice<const float> goal) {
    float sum = 0.0f;
    for (unsigned int axis = 0u; axis < goal.len; ++axis) {
        sum += fabsf(place[axis] - goal[axis]);
    }
    return sum;
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw& draw,
                            StepOut& out) {
    float stride = env.params.stride;
    constexpr unsigned int n = n_agents * 3u / 3u;
    for (unsigned int i = warp_first(); i < n; i += warp_stride()) {
        unsigned int action = (unsigned int)actions.discrete[0][i];
        float by = (action & 1u) == 0u ? stride : -stride;
        state.place[3u * i + action / 2u] += by;
        out.reward[0][i] = -distance(warp_part(warp_slice(state.place, n_agents * 3u), 3u * i, 3u *
                                               i + 3u), warp_slice(state.goal, 3u));
    }
    warp_sync();
    int share = 0;
    for (unsigned int i = warp_first(); i < n; i += warp_stride()) {
        share = warp_wrapping_add(share,
                                  (int)(distance(warp_part(warp_slice(state.place, n_agents * 3u),
            3u * i, 3u * i + 3u), warp_slice(state.goal, 3u)) < stride));
    }
    int arrived = warp_team_sum(share);
    if (warp_first() == 0) {
        *state.arrivals += arrived;
        state.goal[0] += warp_draw_uniform_in(&draw, -0.1f, 0.1f);
        out.terminated = *state.arrivals >= 2;
    }
}

// The twin of herd.rs: agents strided over the team.

__device__ inline void reset(const Env&, State& state, WarpDraw& draw) {
    for (int agent = warp_first(); agent < n_agents; agent += warp_stride()) {
        WarpDraw own = warp_draw_agent(&draw, (unsigned int)agent);
        state.place[agent] = warp_draw_uniform_in(&own, -1.0f, 1.0f);
    }
    if (warp_first() == 0) *state.strayed = 0;
}

__device__ inline void observe(const Env&, const State& state, Observation& out) {
    for (int agent = warp_first(); agent < n_agents; agent += warp_stride()) {
        out.obs[0][2 * agent] = state.place[agent];
        out.obs[0][2 * agent + 1] = state.place[(agent + 1) % n_agents];
    }
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw& draw,
                            StepOut& out) {
    int strayed = 0;
    for (int agent = warp_first(); agent < n_agents; agent += warp_stride()) {
        WarpDraw own = warp_draw_agent(&draw, (unsigned int)agent);
        float way = (float)(actions.discrete[0][agent] - 1) * warp_draw_uniform(&own);
        state.place[agent] = state.place[agent] + env.pull[agent % 2] * way;
        strayed += state.place[agent] > env.params.fence ? 1 : 0;
        out.reward[0][agent] = warp_sin(state.place[agent]);
    }
    strayed = warp_team_sum(strayed);
    if (warp_first() == 0) *state.strayed = strayed;
    out.terminated = 4 * strayed > 3 * n_agents;
}

// Made from catch/step.rs by warp translate; change that file.
// Catch's body: one draw, at reset.

__device__ inline void reset(const Env& env, State& state, WarpDraw& draw) {
    const Params& params = env.params;
    state.ball_row = 0;
    state.ball_column = (int)warp_draw_below(&draw, (unsigned int)params.width);
    state.paddle = params.width / 2;
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw&,
                            StepOut& out) {
    const Params& params = env.params;
    int paddle = state.paddle + actions.discrete[0][0] - 1;
    state.paddle = warp_clamp(paddle, 0, params.width - 1);
    state.ball_row += 1;
    bool down = state.ball_row >= params.height - 1;
    float caught = state.ball_column == state.paddle ? 1.0f : -1.0f;
    out.reward[0][0] = down ? caught : 0.0f;
    out.terminated = down;
}

__device__ inline void observe(const Env& env, const State& state, Observation& out) {
    const Params& params = env.params;
    int ball = state.ball_row * params.width + state.ball_column;
    int paddle = (params.height - 1) * params.width + state.paddle;
    unsigned int cells = (unsigned int)(params.height * params.width);
    // As long as the loop, so that cells are written as vectors.
    WarpSlice<float> board = warp_part(warp_slice(out.obs[0], WARP_LEN_obs_0), 0u, cells);
    for (unsigned int cell = 0u; cell < cells; ++cell) {
        bool shown = ((int)cell == ball) | ((int)cell == paddle);
        board[cell] = shown ? 1.0f : 0.0f;
    }
}

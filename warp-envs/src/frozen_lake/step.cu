// Made from frozen_lake/step.rs by warp translate; change that file.
// FrozenLake's body: one draw a step, which way the ice lets the elf go.

__device__ inline void reset(const Env& env, State& state, WarpDraw& draw) {
    const Env& tables = env;
    state.state = tables.starts[warp_draw_below(&draw, WARP_TABLE_LEN_starts)];
}

// The cell to the left of `cell` (0), below it (1), to its right (2) or above it (3); itself at the
// border.
__device__ inline int moved(const Params& params, int cell, int direction) {
    int row = cell / params.columns + (int)(direction == 1) - (int)(direction == 3);
    int column = cell % params.columns + (int)(direction == 2) - (int)(direction == 0);
    row = warp_clamp(row, 0, params.rows - 1);
    column = warp_clamp(column, 0, params.columns - 1);
    return row * params.columns + column;
}

// Quarter turns from the direction that was meant: 3 for a draw `u` below `first`, 0 below
// `second`, else 1.
__device__ inline int slip(float u, float first, float second) {
    return u < first ? 3 : u < second ? 0 : 1;
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw& draw,
                            StepOut& out) {
    const Params& params = env.params;
    const Env& tables = env;
    int turn = slip(warp_draw_uniform(&draw), params.first, params.second);
    int cell = moved(params, state.state, (actions.discrete[0][0] + turn) % 4);
    int tile = tables.tiles[(unsigned int)cell];
    state.state = cell;
    out.reward[0][0] = tables.rewards[(unsigned int)tile];
    out.terminated = tile != 0;
}

// What is seen, as the number that kernels show one-hot.
__device__ inline int shown_number(const State& state) {
    return state.state;
}

__device__ inline void observe(const Env& env, const State& state, Observation& out) {
    const Params& params = env.params;
    int number = shown_number(state);
    for (int cell = 0; cell < params.rows * params.columns; ++cell) {
        out.obs[0][(unsigned int)cell] = cell == number ? 1.0f : 0.0f;
    }
}

// Made from cliff_walking/step.rs by warp translate; change that file.
// CliffWalking's body: one draw a step, which way the walker slips.

static constexpr int ROWS = 4; // Rows of the board.
static constexpr int COLUMNS = 12; // Columns of the board.
static constexpr int START = 36; // Where the walk begins.
static constexpr int GOAL = 47; // Where it ends.

__device__ inline void reset(const Env&, State& state, WarpDraw&) {
    state.state = START;
}

// Quarter turns from the direction that was meant: 3 for a draw `u` below `first`, 0 below
// `second`, else 1.
__device__ inline int slip(float u, float first, float second) {
    return u < first ? 3 : u < second ? 0 : 1;
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw& draw,
                            StepOut& out) {
    const Params& params = env.params;
    int turn = slip(warp_draw_uniform(&draw), params.first, params.second);
    int direction = (actions.discrete[0][0] + turn) % 4;
    int row = state.state / COLUMNS + (int)(direction == 2) - (int)(direction == 0);
    int column = state.state % COLUMNS + (int)(direction == 1) - (int)(direction == 3);
    int cell = warp_clamp(row, 0, ROWS - 1) * COLUMNS + warp_clamp(column, 0, COLUMNS - 1);
    // `&` and not `&&`: a branch would keep the compiler from stepping many replicas at once.
    bool falls = (cell > START) & (cell < GOAL);
    state.state = falls ? START : cell;
    out.reward[0][0] = falls ? -100.0f : -1.0f;
    out.terminated = cell == GOAL;
}

// What is seen, as the number that kernels show one-hot.
__device__ inline int shown_number(const State& state) {
    return state.state;
}

__device__ inline void observe(const Env&, const State& state, Observation& out) {
    int number = shown_number(state);
    for (int cell = 0; cell < ROWS * COLUMNS; ++cell) {
        out.obs[0][(unsigned int)cell] = cell == number ? 1.0f : 0.0f;
    }
}

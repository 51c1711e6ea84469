// Made from taxi/step.rs by warp translate; change that file.
// Taxi's body. A step draws where the rain lets a move go, then perhaps another destination.

static constexpr unsigned int N_STATES = 500u; // States.
static constexpr int IN_TAXI = 4; // Where the passenger is while in the taxi.
// The first actions are directions: 0 south, 1 north, 2 east, 3 west.
static constexpr int PICK_UP = 4;
__device__ static const int AWAY[4] = {5, -5, 1, -1}; // What leads away from a cell, by direction.
// To the left of each direction; with its last bit turned, to the right.
__device__ static const int LEFT[4] = {2, 3, 1, 0};
// The number of the place at each cell; -1: there is none.
__device__ static const int PLACE[25] = {0, -1, -1, -1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, 2, -1, -1, 3, -1};

__device__ inline void reset(const Env& env, State& state, WarpDraw& draw) {
    const Params& params = env.params;
    // Of the 300 states with the passenger at a place that is not the destination, in their order.
    int start = (int)warp_draw_below(&draw, 300u);
    int cell = start / 12;
    int passenger = start % 12 / 3;
    int other = start % 3;
    int destination = other + (int)(other >= passenger);
    state.state = (cell * 5 + passenger) * 4 + destination;
    state.fickle_armed = (int)(warp_draw_uniform(&draw) < params.fickle);
}

// Whether a wall stands to the right of a cell.
__device__ inline bool walled(int row, int column) {
    return (row < 2 && column == 1) || (row > 2 && (column == 0 || column == 2));
}

// The cell next to `cell`, or itself where a wall or the border is in the way.
__device__ inline int moved(int cell, int direction) {
    int row = cell / 5;
    int column = cell % 5;
    bool free = direction == 0 ? row < 4 : direction == 1 ? row > 0 : direction == 2 ? column < 4 &&
        !walled(row, column) : column > 0 && !walled(row, column - 1);
    return free ? cell + AWAY[(unsigned int)direction] : cell;
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw& draw,
                            StepOut& out) {
    const Params& params = env.params;
    int action = actions.discrete[0][0];
    float u = warp_draw_uniform(&draw);
    int cell = state.state / 20;
    int passenger = state.state / 4 % 5;
    int destination = state.state % 4;
    int place = PLACE[(unsigned int)cell];
    int wanted = action == PICK_UP ? place : IN_TAXI;
    bool fails = action >= PICK_UP && (passenger != wanted || place < 0);
    if (action < PICK_UP) {
        int turn = (int)(u >= params.second);
        int way = u < params.first ? action : LEFT[(unsigned int)action] ^ turn;
        int to = moved(cell, action) != cell ? moved(cell, way) : cell;
        if (state.fickle_armed == 1 && passenger == IN_TAXI && to != cell) {
            int other = (int)warp_draw_below(&draw, 3u);
            destination = other + (int)(other >= destination);
            state.fickle_armed = 0;
        }
        cell = to;
    }
    bool handles = action >= PICK_UP && !fails;
    int there = action == PICK_UP ? IN_TAXI : place;
    int passenger_2 = handles ? there : passenger;
    out.terminated = handles && passenger_2 == destination;
    float cost = fails ? -10.0f : -1.0f;
    out.reward[0][0] = out.terminated ? 20.0f : cost;
    state.state = (cell * 5 + passenger_2) * 4 + destination;
}

// What is seen, as the number that kernels show one-hot.
__device__ inline int shown_number(const State& state) {
    return state.state;
}

__device__ inline void shown_mask(const State& state, WarpSlice<unsigned char> allowed) {
    int cell = state.state / 20;
    int passenger = state.state / 4 % 5;
    int place = PLACE[(unsigned int)cell];
    for (int way = 0; way < 4; ++way) {
        allowed[(unsigned int)way] = (unsigned char)(moved(cell, way) != cell);
    }
    allowed[4] = (unsigned char)(passenger == place);
    allowed[5] = (unsigned char)(passenger == IN_TAXI && place >= 0);
}

__device__ inline void observe(const Env&, const State& state, Observation& out) {
    int number = shown_number(state);
    for (unsigned int i = 0u; i < N_STATES; ++i) {
        out.obs[0][i] = (int)i == number ? 1.0f : 0.0f;
    }
    shown_mask(state, warp_slice(out.action_mask[0], WARP_LEN_action_mask_0));
}

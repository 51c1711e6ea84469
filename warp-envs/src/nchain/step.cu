// Made from nchain/step.rs by warp translate; change that file.
// NChain's body: one draw a step, whether the action slips.

static constexpr unsigned int N_STATES = 5u; // States.
static constexpr float SLIP = 0.2f; // How often the other action takes place.
static constexpr int LAST = 4; // The last state.

__device__ inline void reset(const Env&, State& state, WarpDraw&) {
    state.state = 0;
}

__device__ inline void step(const Env&, State& state, const Actions& actions, WarpDraw& draw,
                            StepOut& out) {
    bool slips = warp_draw_uniform(&draw) < SLIP;
    bool back = (actions.discrete[0][0] == 1) != slips;
    bool at_end = state.state == LAST;
    int ahead = at_end ? LAST : state.state + 1;
    float reward = at_end ? 10.0f : 0.0f;
    state.state = back ? 0 : ahead;
    out.reward[0][0] = back ? 2.0f : reward;
}

// What is seen, as the number that kernels show one-hot.
__device__ inline int shown_number(const State& state) {
    return state.state;
}

__device__ inline void observe(const Env&, const State& state, Observation& out) {
    int number = shown_number(state);
    for (unsigned int i = 0u; i < N_STATES; ++i) {
        out.obs[0][i] = (int)i == number ? 1.0f : 0.0f;
    }
}

// MountainCar's body: the twin of step.rs, operation by operation.

static constexpr float MIN_POSITION = -1.2f;
static constexpr float MAX_POSITION = 0.6f;
static constexpr float MAX_SPEED = 0.07f;
static constexpr float GOAL = 0.5f;
static constexpr float FORCE = 0.001f;
static constexpr float GRAVITY = 0.0025f;

__device__ inline void reset(const Env&, State& state, WarpDraw& draw) {
    state.position = warp_draw_uniform_in(&draw, -0.6f, -0.4f);
    state.velocity = 0.0f;
}

__device__ inline void observe(const Env&, const State& state, Observation& out) {
    out.obs[0][0] = state.position;
    out.obs[0][1] = state.velocity;
}

__device__ inline float on_track(float position) {
    position = position < MIN_POSITION ? MIN_POSITION : position;
    return position > MAX_POSITION ? MAX_POSITION : position;
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw&,
                            StepOut& out) {
    float push = (float)(actions.discrete[0][0] - 1) * FORCE;
    float slope = warp_cos(3.0f * state.position) * GRAVITY;
    float velocity = warp_clamp(state.velocity + (push - slope), MAX_SPEED);
    state.position = on_track(state.position + velocity);
    bool at_wall = state.position == MIN_POSITION && velocity < 0.0f;
    state.velocity = at_wall ? 0.0f : velocity;
    out.reward[0][0] = -1.0f;
    out.terminated = state.position >= GOAL && state.velocity >= env.params.goal_velocity;
}

// Made from continuous_mountain_car/step.rs by warp translate; change that file.
// ContinuousMountainCar's body. Branch-free, so that many replicas share a vector.

static constexpr float MIN_POSITION = -1.2f; // Where the wall on the left stands.
static constexpr float MAX_POSITION = 0.6f; // The right end of the track, just behind the goal.
static constexpr float MAX_SPEED = 0.07f; // The highest speed, either way, per step.
// The largest push, either way; a larger action pushes no harder and costs more.
static constexpr float MAX_PUSH = 1.0f;
static constexpr float GOAL = 0.45f; // The flag's position.
static constexpr float POWER = 0.0015f; // What a push of 1 adds to the velocity in a step.
static constexpr float GRAVITY = 0.0025f; // What the steepest slope adds to the velocity in a step.

__device__ inline void reset(const Env&, State& state, WarpDraw& draw) {
    state.position = warp_draw_uniform_in(&draw, -0.6f, -0.4f);
    state.velocity = 0.0f;
}

__device__ inline void observe(const Env&, const State& state, Observation& out) {
    out.obs[0][0] = state.position;
    out.obs[0][1] = state.velocity;
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw&,
                            StepOut& out) {
    const Params& params = env.params;
    float action = actions.continuous[0][0];
    float push = warp_clamp(action, -MAX_PUSH, MAX_PUSH) * POWER;
    float slope = warp_cos(3.0f * state.position) * GRAVITY;
    float velocity = warp_clamp(state.velocity + (push - slope), -MAX_SPEED, MAX_SPEED);
    state.position = warp_clamp(state.position + velocity, MIN_POSITION, MAX_POSITION);
    bool at_wall = (state.position == MIN_POSITION) & (velocity < 0.0f);
    state.velocity = at_wall ? 0.0f : velocity;
    // `&` and not `&&`: a branch would keep the compiler from stepping many replicas at once.
    bool reached = (state.position >= GOAL) & (state.velocity >= params.goal_velocity);
    float prize = reached ? 100.0f : 0.0f;
    // As in the original, the cost is the action's as it was given, not the push's.
    out.reward[0][0] = prize - 0.1f * (action * action);
    out.terminated = reached;
}

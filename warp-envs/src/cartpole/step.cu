// Made from cartpole/step.rs by warp translate; change that file.
// CartPole's body: explicit Euler over 0.02 s. Branch-free, so that many replicas share a vector.

static constexpr float X_LIMIT = 2.4f; // Where the cart leaves the track, m.
// Where the pole counts as fallen, rad: 12 degrees.
static constexpr float THETA_LIMIT = 0.20943951f;
static constexpr float GRAVITY = 9.8f; // m/s^2.
static constexpr float POLE_MASS = 0.1f; // kg.
static constexpr float TOTAL_MASS = 1.1f; // Cart and pole together, kg.
static constexpr float LENGTH = 0.5f; // Half the pole's length, m.
static constexpr float POLE_MASS_LENGTH = POLE_MASS * LENGTH; // kg m.
static constexpr float FORCE = 10.0f; // N.
static constexpr float TAU = 0.02f; // s.

__device__ inline void reset(const Env& env, State& state, WarpDraw& draw) {
    const Params& params = env.params;
    float range = params.start_range;
    state.x = warp_draw_uniform_in(&draw, -range, range);
    state.x_dot = warp_draw_uniform_in(&draw, -range, range);
    state.theta = warp_draw_uniform_in(&draw, -range, range);
    state.theta_dot = warp_draw_uniform_in(&draw, -range, range);
}

__device__ inline void observe(const Env&, const State& state, Observation& out) {
    out.obs[0][0] = state.x;
    out.obs[0][1] = state.x_dot;
    out.obs[0][2] = state.theta;
    out.obs[0][3] = state.theta_dot;
}

__device__ inline void step(const Env&, State& state, const Actions& actions, WarpDraw&,
                            StepOut& out) {
    float force = actions.discrete[0][0] == 1 ? FORCE : -FORCE;
    float sin, cos;
    warp_sin_cos(state.theta, &sin, &cos);
    float swing = POLE_MASS_LENGTH * state.theta_dot * state.theta_dot * sin;
    float temp = (force + swing) / TOTAL_MASS;
    float inertia = LENGTH * (4.0f / 3.0f - POLE_MASS * cos * cos / TOTAL_MASS);
    float theta_acc = (GRAVITY * sin - cos * temp) / inertia;
    float x_acc = temp - POLE_MASS_LENGTH * theta_acc * cos / TOTAL_MASS;
    state.x += TAU * state.x_dot;
    state.x_dot += TAU * x_acc;
    state.theta += TAU * state.theta_dot;
    state.theta_dot += TAU * theta_acc;
    out.reward[0][0] = 1.0f;
    // `|` and not `||`: a branch would keep the compiler from stepping many replicas at once.
    out.terminated = (fabsf(state.x) > X_LIMIT) | (fabsf(state.theta) > THETA_LIMIT);
}

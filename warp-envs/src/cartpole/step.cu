// CartPole's body: the twin of step.rs, operation by operation.

static constexpr float GRAVITY = 9.8f;
static constexpr float POLE_MASS = 0.1f;
static constexpr float TOTAL_MASS = 1.1f;
static constexpr float LENGTH = 0.5f;
static constexpr float POLE_MASS_LENGTH = POLE_MASS * LENGTH;
static constexpr float FORCE = 10.0f;
static constexpr float TAU = 0.02f;
static constexpr float X_LIMIT = 2.4f;
static constexpr float THETA_LIMIT = 0.20943951f;

__device__ inline void reset(const Env& env, State& state, WarpDraw& draw) {
    float range = env.params.start_range;
    state.x = warp_draw_uniform_in(&draw, -range, range);
    state.x_dot = warp_draw_uniform_in(&draw, -range, range);
    state.theta = warp_draw_uniform_in(&draw, -range, range);
    state.theta_dot = warp_draw_uniform_in(&draw, -range, range);
}

__device__ inline void observe(const Env&, const State& state, Observation& out) {
    float* obs = out.obs[0];
    obs[0] = state.x;
    obs[1] = state.x_dot;
    obs[2] = state.theta;
    obs[3] = state.theta_dot;
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
    bool off_track = state.x > X_LIMIT || state.x < -X_LIMIT;
    bool fallen = state.theta > THETA_LIMIT || state.theta < -THETA_LIMIT;
    out.terminated = off_track || fallen;
}

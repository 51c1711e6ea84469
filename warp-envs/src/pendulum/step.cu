// Pendulum's body: the twin of step.rs, operation by operation.

static constexpr float MAX_SPEED = 8.0f;
static constexpr float MAX_TORQUE = 2.0f;
static constexpr float TAU = 0.05f;
static constexpr float MASS = 1.0f;
static constexpr float LENGTH = 1.0f;

__device__ inline void reset(const Env&, State& state, WarpDraw& draw) {
    state.theta = warp_draw_uniform_in(&draw, -WARP_PI, WARP_PI);
    state.theta_dot = warp_draw_uniform_in(&draw, -1.0f, 1.0f);
}

__device__ inline void observe(const Env&, const State& state, Observation& out) {
    float* obs = out.obs[0];
    warp_sin_cos(state.theta, &obs[1], &obs[0]);
    obs[2] = state.theta_dot;
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw&,
                            StepOut& out) {
    float torque = warp_clamp(actions.continuous[0][0], MAX_TORQUE);
    float theta = warp_wrap_angle(state.theta);
    float speed = state.theta_dot;
    out.reward[0][0] = -(theta * theta + 0.1f * (speed * speed) + 0.001f * (torque * torque));
    float falling = 3.0f * env.params.gravity / (2.0f * LENGTH) * warp_sin(theta);
    float driven = 3.0f / (MASS * LENGTH * LENGTH) * torque;
    state.theta_dot = warp_clamp(speed + (falling + driven) * TAU, MAX_SPEED);
    state.theta = theta + state.theta_dot * TAU;
}

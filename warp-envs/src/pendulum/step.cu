// Made from pendulum/step.rs by warp translate; change that file.
// Pendulum's body: semi-implicit Euler over 0.05 s. Branch-free, so that replicas share a vector.

static constexpr float MAX_SPEED = 8.0f; // Where the angular velocity stops growing, rad/s.
static constexpr float MAX_TORQUE = 2.0f; // The motor's strength, N m.
static constexpr float TAU = 0.05f; // s.
static constexpr float MASS = 1.0f; // kg.
static constexpr float LENGTH = 1.0f; // m.

__device__ inline void reset(const Env&, State& state, WarpDraw& draw) {
    state.theta = warp_draw_uniform_in(&draw, -3.1415927f, 3.1415927f);
    state.theta_dot = warp_draw_uniform_in(&draw, -1.0f, 1.0f);
}

__device__ inline void observe(const Env&, const State& state, Observation& out) {
    float sin, cos;
    warp_sin_cos(state.theta, &sin, &cos);
    out.obs[0][0] = cos;
    out.obs[0][1] = sin;
    out.obs[0][2] = state.theta_dot;
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw&,
                            StepOut& out) {
    const Params& params = env.params;
    float torque = warp_clamp(actions.continuous[0][0], -MAX_TORQUE, MAX_TORQUE);
    // The original's angle grows without bound; taking whole turns off keeps an f32 accurate.
    float theta = warp_wrap_angle(state.theta);
    float speed = state.theta_dot;
    out.reward[0][0] = -(theta * theta + 0.1f * (speed * speed) + 0.001f * (torque * torque));
    float falling = 3.0f * params.gravity / (2.0f * LENGTH) * warp_sin(theta);
    float driven = 3.0f / (MASS * LENGTH * LENGTH) * torque;
    state.theta_dot = warp_clamp(speed + (falling + driven) * TAU, -MAX_SPEED, MAX_SPEED);
    state.theta = theta + state.theta_dot * TAU;
}

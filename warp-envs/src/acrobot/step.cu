// Acrobot's body: the twin of step.rs, operation by operation.

static constexpr float GRAVITY = 9.8f;
static constexpr float MASS = 1.0f;
static constexpr float LENGTH = 1.0f;
static constexpr float CENTRE = 0.5f;
static constexpr float INERTIA = 1.0f;
static constexpr float TAU = 0.2f;
static constexpr float MAX_SPEED_1 = 4.0f * WARP_PI;
static constexpr float MAX_SPEED_2 = 9.0f * WARP_PI;

// Both angles, then both angular velocities.
struct Links {
    float theta1, theta2, omega1, omega2;
};

__device__ inline void reset(const Env& env, State& state, WarpDraw& draw) {
    float range = env.params.start_range;
    state.theta1 = warp_draw_uniform_in(&draw, -range, range);
    state.theta2 = warp_draw_uniform_in(&draw, -range, range);
    state.theta1_dot = warp_draw_uniform_in(&draw, -range, range);
    state.theta2_dot = warp_draw_uniform_in(&draw, -range, range);
}

__device__ inline void observe(const Env&, const State& state, Observation& out) {
    float* obs = out.obs[0];
    warp_sin_cos(state.theta1, &obs[1], &obs[0]);
    warp_sin_cos(state.theta2, &obs[3], &obs[2]);
    obs[4] = state.theta1_dot;
    obs[5] = state.theta2_dot;
}

__device__ inline Links moved(const Links& links, const Links& rate, float time) {
    return {links.theta1 + time * rate.theta1, links.theta2 + time * rate.theta2,
            links.omega1 + time * rate.omega1, links.omega2 + time * rate.omega2};
}

__device__ inline Links derivative(const Links& links, float torque) {
    float omega1 = links.omega1, omega2 = links.omega2;
    float sin1, cos1, sin2, cos2;
    warp_sin_cos(links.theta1, &sin1, &cos1);
    warp_sin_cos(links.theta2, &sin2, &cos2);
    float sin12 = sin1 * cos2 + cos1 * sin2;
    constexpr float coupling = MASS * LENGTH * CENTRE;
    constexpr float d3 = MASS * CENTRE * CENTRE + INERTIA;
    float d2 = d3 + coupling * cos2;
    float d1 = 2.0f * d3 + MASS * LENGTH * LENGTH + 2.0f * coupling * cos2;
    float phi2 = MASS * CENTRE * GRAVITY * sin12;
    float whirl = coupling * sin2 * (omega2 * (omega2 + 2.0f * omega1));
    float phi1 = MASS * (CENTRE + LENGTH) * GRAVITY * sin1 + phi2 - whirl;
    float rest = torque - coupling * sin2 * (omega1 * omega1) - phi2;
    float determinant = d3 * (d3 + MASS * LENGTH * LENGTH) - (coupling * cos2) * (coupling * cos2);
    float acc1 = -(d3 * phi1 + d2 * rest) / determinant;
    float acc2 = (d1 * rest + d2 * phi1) / determinant;
    return {omega1, omega2, acc1, acc2};
}

__device__ inline float after(float link, float k1, float k2, float k3, float k4) {
    return link + TAU / 6.0f * (k1 + 2.0f * k2 + 2.0f * k3 + k4);
}

__device__ inline void step(const Env&, State& state, const Actions& actions, WarpDraw&,
                            StepOut& out) {
    float torque = (float)(actions.discrete[0][0] - 1);
    Links links = {state.theta1, state.theta2, state.theta1_dot, state.theta2_dot};
    Links k1 = derivative(links, torque);
    Links k2 = derivative(moved(links, k1, TAU / 2.0f), torque);
    Links k3 = derivative(moved(links, k2, TAU / 2.0f), torque);
    Links k4 = derivative(moved(links, k3, TAU), torque);
    float theta1 = after(links.theta1, k1.theta1, k2.theta1, k3.theta1, k4.theta1);
    float theta2 = after(links.theta2, k1.theta2, k2.theta2, k3.theta2, k4.theta2);
    float omega1 = after(links.omega1, k1.omega1, k2.omega1, k3.omega1, k4.omega1);
    float omega2 = after(links.omega2, k1.omega2, k2.omega2, k3.omega2, k4.omega2);
    state.theta1 = warp_wrap_angle(theta1);
    state.theta2 = warp_wrap_angle(theta2);
    state.theta1_dot = warp_clamp(omega1, MAX_SPEED_1);
    state.theta2_dot = warp_clamp(omega2, MAX_SPEED_2);
    float sin1, cos1, sin2, cos2;
    warp_sin_cos(state.theta1, &sin1, &cos1);
    warp_sin_cos(state.theta2, &sin2, &cos2);
    float height = -cos1 - (cos1 * cos2 - sin1 * sin2);
    out.terminated = height > 1.0f;
    out.reward[0][0] = out.terminated ? 0.0f : -1.0f;
}

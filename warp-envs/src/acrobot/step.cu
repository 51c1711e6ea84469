// Made from acrobot/step.rs by warp translate; change that file.
// Acrobot's body: one Runge-Kutta step over 0.2 s. Branch-free, so that replicas share a vector.

// Where the angular velocities stop growing, rad/s.
__device__ static const float MAX_SPEEDS[2] = {4.0f * 3.1415927f, 9.0f * 3.1415927f};
static constexpr float GRAVITY = 9.8f; // m/s^2.
static constexpr float MASS = 1.0f; // Of each link, kg.
static constexpr float LENGTH = 1.0f; // Of the first link, m; the second one's does not matter.
static constexpr float CENTRE = 0.5f; // From each link's joint to its centre of mass, m.
static constexpr float INERTIA = 1.0f; // Moment of inertia of each link, kg m^2.
static constexpr float TAU = 0.2f; // s.

__device__ inline void reset(const Env& env, State& state, WarpDraw& draw) {
    const Params& params = env.params;
    float range = params.start_range;
    state.theta1 = warp_draw_uniform_in(&draw, -range, range);
    state.theta2 = warp_draw_uniform_in(&draw, -range, range);
    state.theta1_dot = warp_draw_uniform_in(&draw, -range, range);
    state.theta2_dot = warp_draw_uniform_in(&draw, -range, range);
}

__device__ inline void observe(const Env&, const State& state, Observation& out) {
    warp_sin_cos(state.theta1, &out.obs[0][1], &out.obs[0][0]);
    warp_sin_cos(state.theta2, &out.obs[0][3], &out.obs[0][2]);
    out.obs[0][4] = state.theta1_dot;
    out.obs[0][5] = state.theta2_dot;
}

__device__ inline WarpArray<float, 4> moved(WarpArray<float, 4> links, WarpArray<float, 4> rate,
                                            float time) {
    WarpArray<float, 4> to = links;
#pragma unroll
    for (unsigned int i = 0u; i < 4u; ++i) {
        to[i] = links[i] + time * rate[i];
    }
    return to;
}

// How fast the links turn and speed up: the equations of Sutton and Barto's book (1998, 11.3),
// `d1 acc1 + d2 acc2 = -phi1` and `d2 acc1 + d3 acc2 = rest`, solved for both at once. The book
// puts one into the other, which takes another division and leaves a larger error in f32.
__device__ inline WarpArray<float, 4> derivative(WarpArray<float, 4> parts, float torque) {
    float theta1 = parts[0];
    float theta2 = parts[1];
    float omega1 = parts[2];
    float omega2 = parts[3];
    float sin1, cos1;
    warp_sin_cos(theta1, &sin1, &cos1);
    float sin2, cos2;
    warp_sin_cos(theta2, &sin2, &cos2);
    // Sine of the second link's angle from straight down.
    float sin12 = sin1 * cos2 + cos1 * sin2;
    float coupling = MASS * LENGTH * CENTRE;
    float d3 = MASS * CENTRE * CENTRE + INERTIA;
    float d2 = d3 + coupling * cos2;
    float d1 = 2.0f * d3 + MASS * LENGTH * LENGTH + 2.0f * coupling * cos2;
    float phi2 = MASS * CENTRE * GRAVITY * sin12;
    float whirl = coupling * sin2 * (omega2 * (omega2 + 2.0f * omega1));
    float phi1 = MASS * (CENTRE + LENGTH) * GRAVITY * sin1 + phi2 - whirl;
    float rest = torque - coupling * sin2 * (omega1 * omega1) - phi2;
    // d1 d3 - d2^2, without the parts that cancel.
    float determinant = d3 * (d3 + MASS * LENGTH * LENGTH) - (coupling * cos2) * (coupling * cos2);
    float acc1 = -(d3 * phi1 + d2 * rest) / determinant;
    float acc2 = (d1 * rest + d2 * phi1) / determinant;
    return WarpArray<float, 4>{omega1, omega2, acc1, acc2};
}

__device__ inline void step(const Env&, State& state, const Actions& actions, WarpDraw&,
                            StepOut& out) {
    // 0 turns one way, 1 not at all, 2 the other way; N m.
    float torque = (float)(actions.discrete[0][0] - 1);
    WarpArray<float, 4> links = {state.theta1, state.theta2, state.theta1_dot, state.theta2_dot};
    WarpArray<float, 4> k1 = derivative(links, torque);
    WarpArray<float, 4> k2 = derivative(moved(links, k1, TAU / 2.0f), torque);
    WarpArray<float, 4> k3 = derivative(moved(links, k2, TAU / 2.0f), torque);
    WarpArray<float, 4> k4 = derivative(moved(links, k3, TAU), torque);
    auto after = [&](unsigned int i) -> float {
        return links[i] + TAU / 6.0f * (k1[i] + 2.0f * k2[i] + 2.0f * k3[i] + k4[i]);
    };
    // All before angles are wrapped: compilers for GPUs keep this order, and the velocities'
    // division takes long.
    float theta1 = after(0u);
    float theta2 = after(1u);
    float omega1 = after(2u);
    float omega2 = after(3u);
    state.theta1 = warp_wrap_angle(theta1);
    state.theta2 = warp_wrap_angle(theta2);
    state.theta1_dot = warp_clamp(omega1, -MAX_SPEEDS[0], MAX_SPEEDS[0]);
    state.theta2_dot = warp_clamp(omega2, -MAX_SPEEDS[1], MAX_SPEEDS[1]);
    // The tip's height above the joint, for links of 1 m, and the bar's.
    float sin1, cos1;
    warp_sin_cos(state.theta1, &sin1, &cos1);
    float sin2, cos2;
    warp_sin_cos(state.theta2, &sin2, &cos2);
    float height = -cos1 - (cos1 * cos2 - sin1 * sin2);
    out.terminated = height > 1.0f;
    out.reward[0][0] = out.terminated ? 0.0f : -1.0f;
}

// Made from worlds/drone.rs by warp translate; change that file.
// Arrays in a state of few numbers, which the executor keeps in vectors: a drone in a gusty room.

static constexpr unsigned int AXES = 3u;
static constexpr float THRUST = 0.05f;

__device__ inline void reset(const Env& env, State& state, WarpDraw& draw) {
    float half = 0.5f * env.params.room;
#pragma unroll
    for (unsigned int axis = 0u; axis < AXES; ++axis) {
        state.position[axis] = warp_draw_uniform_in(&draw, -half, half);
    }
    state.velocity = WarpArray<float, 3>{};
    state.gusts = 0u;
}

__device__ inline float length(const WarpArray<float, 3>& of) {
    return warp_sqrt(of[0] * of[0] + of[1] * of[1] + of[2] * of[2]);
}

__device__ inline void observe(const Env&, const State& state, Observation& out) {
#pragma unroll
    for (unsigned int axis = 0u; axis < 3u; ++axis) {
        out.obs[0][axis] = state.position[axis];
        out.obs[0][AXES + axis] = state.velocity[axis];
    }
    out.obs[0][6] = length(state.position);
}

__device__ inline void push(WarpArray<float, 3>& velocity, unsigned int axis, float by) {
    velocity[axis] += by;
}

// Turns and stretches a velocity.
__device__ inline WarpArray<float, 3> gust(WarpArray<float, 3> velocity, float by) {
    float x = velocity[0];
    float y = velocity[1];
    float z = velocity[2];
    return WarpArray<float, 3>{by * y, by * z, by * x};
}

__device__ inline bool outside(WarpSlice<const float> position, float room) {
    bool outside_2 = false;
    for (unsigned int axis = 0u; axis < position.len; ++axis) {
        outside_2 |= fabsf(position[axis]) > room;
    }
    return outside_2;
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw& draw,
                            StepOut& out) {
    unsigned int action = (unsigned int)actions.discrete[0][0];
    push(state.velocity, action / 2u, (action & 1u) == 0u ? THRUST : -THRUST);
    if (warp_draw_uniform(&draw) < 0.1f) {
        state.gusts += 1u;
        state.velocity = gust(state.velocity, warp_draw_uniform_in(&draw, 0.9f, 1.2f));
    }
    WarpArray<float, 3> before = state.position;
#pragma unroll
    for (unsigned int axis = 0u; axis < AXES; ++axis) {
        state.position[axis] += state.velocity[axis];
    }
    out.reward[0][0] = length(before) - length(state.position);
    out.terminated = outside(warp_slice(state.position), env.params.room);
}

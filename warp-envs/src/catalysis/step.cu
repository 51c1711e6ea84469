// Made from catalysis/step.rs by warp translate; change that file.
// One atom: the body. Branch-free, so that many replicas share a vector.

__device__ inline void reset(const Env& env, State& state, WarpDraw& draw) {
    const Params& params = env.params;
    state.x = params.start_x;
    state.y = params.start_y;
    state.z = params.start_z;
    if (params.exploring_starts > 0.0f && warp_draw_uniform(&draw) < params.exploring_starts) {
        state.x = (int)warp_draw_below(&draw, (unsigned int)params.nx);
        state.y = (int)warp_draw_below(&draw, (unsigned int)params.ny);
        state.z = params.z_lower + (int)warp_draw_below(&draw, (unsigned int)params.layers);
    }
}

// One coordinate of an atom after `action`: 0 and 1 move along axis 0, forth and back, and so on;
// at the end of its `n` cells an axis begins again.
__device__ inline int moved(int at, int action, int axis, int n) {
    int by = (int)(action == 2 * axis) - (int)(action == 2 * axis + 1);
    int to = warp_wrapping_add(at, by);
    to = to < 0 ? warp_wrapping_add(to, n) : to;
    return to >= n ? warp_wrapping_sub(to, n) : to;
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw&,
                            StepOut& out) {
    const Params& params = env.params;
    const Env& tables = env;
    int action = actions.discrete[0][0];
    int x = moved(state.x, action, 0, params.nx);
    int y = moved(state.y, action, 1, params.ny);
    int z = moved(state.z, action, 2, params.nz);
    bool outside = (z < params.z_lower) | (z >= params.z_upper);
    bool stays = outside & (params.holds_back == 1);
    int plane = warp_wrapping_add(warp_wrapping_mul(x, params.ny), y);
    int cell = warp_wrapping_add(warp_wrapping_mul(plane, params.layers),
                                 warp_wrapping_sub(z, params.z_lower));
    // Outside the slab the number means nothing, and the reward is not used.
    float inside_reward = warp_clamped(warp_slice(tables.rewards, WARP_TABLE_LEN_rewards),
                                       (unsigned int)cell);
    float reward = outside ? params.outside_reward : inside_reward;
    state.x = x;
    state.y = y;
    state.z = stays ? state.z : z;
    bool there = (x == params.goal_x) & (y == params.goal_y) & (state.z == params.goal_z);
    out.reward[0][0] = reward + (there ? params.terminate_reward : 0.0f);
    out.terminated = there;
}

// Length of a way in cells.
__device__ inline float distance(int dx, int dy, int dz) {
    float dx_2 = (float)dx;
    float dy_2 = (float)dy;
    float dz_2 = (float)dz;
    return warp_sqrt(dx_2 * dx_2 + dy_2 * dy_2 + dz_2 * dz_2);
}

__device__ inline void observe(const Env& env, const State& state, Observation& out) {
    const Params& params = env.params;
    float away = distance(warp_wrapping_sub(state.x, params.goal_x),
                          warp_wrapping_sub(state.y, params.goal_y),
                          warp_wrapping_sub(state.z, params.goal_z));
    out.obs[0][0] = (float)state.x * params.scale_x;
    out.obs[0][1] = (float)state.y * params.scale_y;
    out.obs[0][2] = (float)state.z * params.scale_z;
    out.obs[0][3] = away / params.start_distance;
}

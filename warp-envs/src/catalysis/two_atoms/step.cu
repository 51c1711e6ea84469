// Made from two_atoms/step.rs by warp translate; change that file.
// Two atoms: the body. Branch-free.

static constexpr int STAY = -1; // No move, for the atom that was not chosen.

__device__ inline void reset(const Env& env, State& state, WarpDraw& draw) {
    const Params& params = env.params;
    state.x1 = params.start_x1;
    state.y1 = params.start_y1;
    state.z1 = params.start_z1;
    state.x2 = params.start_x2;
    state.y2 = params.start_y2;
    state.z2 = params.start_z2;
    if (params.exploring_starts > 0.0f && warp_draw_uniform(&draw) < params.exploring_starts) {
        state.x1 = (int)warp_draw_below(&draw, (unsigned int)params.nx);
        state.y1 = (int)warp_draw_below(&draw, (unsigned int)params.ny);
        state.z1 = params.z_lower + (int)warp_draw_below(&draw, (unsigned int)params.layers);
        state.x2 = (int)warp_draw_below(&draw, (unsigned int)params.nx);
        state.y2 = (int)warp_draw_below(&draw, (unsigned int)params.ny);
        state.z2 = params.z_lower + (int)warp_draw_below(&draw, (unsigned int)params.layers);
    }
}

// The number of a cell, behind that of the other atom's.
__device__ inline unsigned int number(const Params& params, unsigned int before, int x, int y,
                                      int z) {
    unsigned int row = warp_wrapping_add(warp_wrapping_mul(before, (unsigned int)params.nx),
                                         (unsigned int)x);
    unsigned int plane = warp_wrapping_add(warp_wrapping_mul(row, (unsigned int)params.ny),
                                           (unsigned int)y);
    return warp_wrapping_add(warp_wrapping_mul(plane, (unsigned int)params.layers),
                             (unsigned int)warp_wrapping_sub(z, params.z_lower));
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
    int atom = actions.discrete[0][0];
    int action = actions.discrete[0][1];
    int first = atom == 0 ? action : STAY;
    int second = atom == 0 ? STAY : action;
    state.x1 = moved(state.x1, first, 0, params.nx);
    state.y1 = moved(state.y1, first, 1, params.ny);
    state.x2 = moved(state.x2, second, 0, params.nx);
    state.y2 = moved(state.y2, second, 1, params.ny);
    int z1 = moved(state.z1, first, 2, params.nz);
    int z2 = moved(state.z2, second, 2, params.nz);
    bool outside = (z1 < params.z_lower) | (z1 >= params.z_upper) | (z2 < params.z_lower) |
        (z2 >= params.z_upper);
    unsigned int one = number(params, 0u, state.x1, state.y1, z1);
    unsigned int cell = number(params, one, state.x2, state.y2, z2);
    // Outside the slab the number means nothing, and the reward is not used.
    float inside_reward = warp_clamped(warp_slice(tables.rewards, WARP_TABLE_LEN_rewards), cell);
    float reward = outside ? params.outside_reward : inside_reward;
    state.z1 = outside ? state.z1 : z1;
    state.z2 = outside ? state.z2 : z2;
    bool there = (state.x1 == params.goal_x1) & (state.y1 == params.goal_y1) &
        (state.z1 == params.goal_z1) & (state.x2 == params.goal_x2) & (state.y2 == params.goal_y2) &
        (state.z2 == params.goal_z2);
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
    float away1 = distance(warp_wrapping_sub(state.x1, params.goal_x1),
                           warp_wrapping_sub(state.y1, params.goal_y1),
                           warp_wrapping_sub(state.z1, params.goal_z1));
    float away2 = distance(warp_wrapping_sub(state.x2, params.goal_x2),
                           warp_wrapping_sub(state.y2, params.goal_y2),
                           warp_wrapping_sub(state.z2, params.goal_z2));
    out.obs[0][0] = (float)state.x1 * params.scale_x;
    out.obs[0][1] = (float)state.y1 * params.scale_y;
    out.obs[0][2] = (float)state.z1 * params.scale_z;
    out.obs[0][3] = (float)state.x2 * params.scale_x;
    out.obs[0][4] = (float)state.y2 * params.scale_y;
    out.obs[0][5] = (float)state.z2 * params.scale_z;
    out.obs[0][6] = away1 / params.start_distance1;
    out.obs[0][7] = away2 / params.start_distance2;
}

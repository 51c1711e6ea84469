// Two atoms on a grid of energies: the twin of step.rs, operation by operation.

__device__ inline int moved(int at, int action, int axis, int n) {
    int by = (int)(action == 2 * axis) - (int)(action == 2 * axis + 1);
    int to = (int)((unsigned int)at + (unsigned int)by);
    to = to < 0 ? (int)((unsigned int)to + (unsigned int)n) : to;
    return to >= n ? to - n : to;
}

__device__ inline float distance(int ax, int ay, int az, int bx, int by, int bz) {
    float dx = (float)(int)((unsigned int)ax - (unsigned int)bx);
    float dy = (float)(int)((unsigned int)ay - (unsigned int)by);
    float dz = (float)(int)((unsigned int)az - (unsigned int)bz);
    return warp_sqrt(dx * dx + dy * dy + dz * dz);
}

// The number of a cell, behind that of the other atom's.
__device__ inline unsigned int number(const Params& params, unsigned int before, int x, int y,
                                      int z) {
    unsigned int row = before * (unsigned int)params.nx + (unsigned int)x;
    unsigned int plane = row * (unsigned int)params.ny + (unsigned int)y;
    return plane * (unsigned int)params.layers + ((unsigned int)z - (unsigned int)params.z_lower);
}

__device__ inline void reset(const Env& env, State& state, WarpDraw& draw) {
    state.x1 = env.params.start_x1;
    state.y1 = env.params.start_y1;
    state.z1 = env.params.start_z1;
    state.x2 = env.params.start_x2;
    state.y2 = env.params.start_y2;
    state.z2 = env.params.start_z2;
    if (env.params.exploring_starts > 0.0f &&
        warp_draw_uniform(&draw) < env.params.exploring_starts) {
        state.x1 = (int)warp_draw_below(&draw, (unsigned int)env.params.nx);
        state.y1 = (int)warp_draw_below(&draw, (unsigned int)env.params.ny);
        state.z1 = env.params.z_lower + (int)warp_draw_below(&draw, (unsigned int)env.params.layers);
        state.x2 = (int)warp_draw_below(&draw, (unsigned int)env.params.nx);
        state.y2 = (int)warp_draw_below(&draw, (unsigned int)env.params.ny);
        state.z2 = env.params.z_lower + (int)warp_draw_below(&draw, (unsigned int)env.params.layers);
    }
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw& draw,
                            StepOut& out) {
    const Params& params = env.params;
    int atom = actions.discrete[0][0];
    int action = actions.discrete[0][1];
    int first = atom == 0 ? action : -1;
    int second = atom == 0 ? -1 : action;
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
    cell = cell < params.last_cell ? cell : params.last_cell;
    float inside_reward = env.rewards[cell];
    float reward = outside ? params.outside_reward : inside_reward;
    state.z1 = outside ? state.z1 : z1;
    state.z2 = outside ? state.z2 : z2;
    bool there = (state.x1 == params.goal_x1) & (state.y1 == params.goal_y1) &
                 (state.z1 == params.goal_z1) & (state.x2 == params.goal_x2) &
                 (state.y2 == params.goal_y2) & (state.z2 == params.goal_z2);
    out.reward[0][0] = reward + (there ? params.terminate_reward : 0.0f);
    out.terminated = there;
}

__device__ inline void observe(const Env& env, const State& state, Observation& out) {
    const Params& params = env.params;
    float* obs = out.obs[0];
    obs[0] = (float)state.x1 * params.scale_x;
    obs[1] = (float)state.y1 * params.scale_y;
    obs[2] = (float)state.z1 * params.scale_z;
    obs[3] = (float)state.x2 * params.scale_x;
    obs[4] = (float)state.y2 * params.scale_y;
    obs[5] = (float)state.z2 * params.scale_z;
    obs[6] = distance(state.x1, state.y1, state.z1, params.goal_x1, params.goal_y1,
                      params.goal_z1) / params.start_distance1;
    obs[7] = distance(state.x2, state.y2, state.z2, params.goal_x2, params.goal_y2,
                      params.goal_z2) / params.start_distance2;
}

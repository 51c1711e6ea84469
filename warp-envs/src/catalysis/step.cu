// One atom on a grid of energies: the twin of step.rs, operation by operation.

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

__device__ inline void reset(const Env& env, State& state, WarpDraw& draw) {
    state.x = env.params.start_x;
    state.y = env.params.start_y;
    state.z = env.params.start_z;
    if (env.params.exploring_starts > 0.0f &&
        warp_draw_uniform(&draw) < env.params.exploring_starts) {
        state.x = (int)warp_draw_below(&draw, (unsigned int)env.params.nx);
        state.y = (int)warp_draw_below(&draw, (unsigned int)env.params.ny);
        state.z = env.params.z_lower + (int)warp_draw_below(&draw, (unsigned int)env.params.layers);
    }
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw& draw,
                            StepOut& out) {
    const Params& params = env.params;
    int action = actions.discrete[0][0];
    int x = moved(state.x, action, 0, params.nx);
    int y = moved(state.y, action, 1, params.ny);
    int z = moved(state.z, action, 2, params.nz);
    bool outside = (z < params.z_lower) | (z >= params.z_upper);
    bool stays = outside & (params.holds_back == 1);
    unsigned int plane = (unsigned int)x * (unsigned int)params.ny + (unsigned int)y;
    unsigned int cell = plane * (unsigned int)params.layers +
                        ((unsigned int)z - (unsigned int)params.z_lower);
    // Outside the slab the number means nothing, and the reward is not used.
    cell = cell < params.last_cell ? cell : params.last_cell;
    float inside_reward = env.rewards[cell];
    float reward = outside ? params.outside_reward : inside_reward;
    state.x = x;
    state.y = y;
    state.z = stays ? state.z : z;
    bool there = (x == params.goal_x) & (y == params.goal_y) & (state.z == params.goal_z);
    out.reward[0][0] = reward + (there ? params.terminate_reward : 0.0f);
    out.terminated = there;
}

__device__ inline void observe(const Env& env, const State& state, Observation& out) {
    const Params& params = env.params;
    float away = distance(state.x, state.y, state.z, params.goal_x, params.goal_y, params.goal_z);
    float* obs = out.obs[0];
    obs[0] = (float)state.x * params.scale_x;
    obs[1] = (float)state.y * params.scale_y;
    obs[2] = (float)state.z * params.scale_z;
    obs[3] = away / params.start_distance;
}

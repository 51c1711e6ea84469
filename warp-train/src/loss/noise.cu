// Made from loss/noise.rs by warp translate; change that file.
// Row functions of exploration within a box: noise on the policy's action.
// Uhlenbeck & Ornstein, "On the theory of the Brownian motion", 1930, in discrete time.

// What the environment gets for an element within -1 to 1.
__device__ inline float within(float a, float low, float high) {
    return low + (high - low) * (0.5f * (a + 1.0f));
}

// The policy's action, or one at random, and the same within its bounds; all `[dim]`.
__device__ inline void plain(WarpDraw& draw, float random, WarpSlice<const float> policy_action,
                             WarpSlice<const float> low, WarpSlice<const float> high,
                             WarpSlice<float> action, WarpSlice<float> env_action) {
    for (unsigned int i = 0u; i < action.len; ++i) {
        float uniform = warp_draw_uniform_in(&draw, -1.0f, 1.0f);
        float a = random > 0.0f ? uniform : policy_action[i];
        action[i] = a;
        env_action[i] = within(a, low[i], high[i]);
    }
}

// The same with a normal number of standard deviation `noise_std` added to each element.
__device__ inline void gaussian(WarpDraw& draw, float random, float noise_std,
                                WarpSlice<const float> policy_action, WarpSlice<const float> low,
                                WarpSlice<const float> high, WarpSlice<float> action,
                                WarpSlice<float> env_action) {
    for (unsigned int i = 0u; i < action.len; ++i) {
        float uniform = warp_draw_uniform_in(&draw, -1.0f, 1.0f);
        float noisy = policy_action[i] + noise_std * warp_draw_normal(&draw);
        float a = random > 0.0f ? uniform : warp_clamp(noisy, -1.0f, 1.0f);
        action[i] = a;
        env_action[i] = within(a, low[i], high[i]);
    }
}

// The same with Ornstein and Uhlenbeck's noise, which starts from 0 where the episode begins and
// keeps
// all but the share `noise_damping` of itself from step to step.
__device__ inline void ou(WarpDraw& draw, float random, float noise_std, float noise_damping,
                          WarpSlice<const float> policy_action, WarpSlice<const float> low,
                          WarpSlice<const float> high, WarpSlice<const float> begins,
                          WarpSlice<float> noise, WarpSlice<float> action,
                          WarpSlice<float> env_action) {
    for (unsigned int i = 0u; i < action.len; ++i) {
        float before = begins[0] > 0.0f ? 0.0f : noise[i];
        float x = before - noise_damping * before + noise_std * warp_draw_normal(&draw);
        float uniform = warp_draw_uniform_in(&draw, -1.0f, 1.0f);
        float noisy = policy_action[i] + x;
        float a = random > 0.0f ? uniform : warp_clamp(noisy, -1.0f, 1.0f);
        noise[i] = x;
        action[i] = a;
        env_action[i] = within(a, low[i], high[i]);
    }
}

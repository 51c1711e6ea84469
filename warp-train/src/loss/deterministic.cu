// Made from loss/deterministic.rs by warp translate; change that file.
// Row functions of DDPG and TD3: an action is tanh of what the actor gives.
// Lillicrap et al., "Continuous control with deep reinforcement learning", 2016; Fujimoto et al.,
// "Addressing Function Approximation Error in Actor-Critic Methods", 2018. Derivatives by hand.

static constexpr float NO_DEVIATION = -20.0f; // A log-deviation of next to nothing.

// The actor's action, `[dim]`.
__device__ inline void squash(WarpSlice<const float> output, WarpSlice<float> action) {
    for (unsigned int i = 0u; i < action.len; ++i) {
        action[i] = warp_tanh(output[i]);
    }
}

// TD3's target action: with noise of limited size.
__device__ inline void smooth(WarpDraw& draw, float target_noise, float target_noise_clip,
                              WarpSlice<const float> output, WarpSlice<float> action) {
    for (unsigned int i = 0u; i < action.len; ++i) {
        float noise = warp_clamp(target_noise * warp_draw_normal(&draw), -target_noise_clip,
                                 target_noise_clip);
        action[i] = warp_clamp(warp_tanh(output[i]) + noise, -1.0f, 1.0f);
    }
}

// The critic's squared error against `r + gamma Q'`.
__device__ inline void critic_loss(float inv_batch_size, WarpSlice<const float> reward,
                                   WarpSlice<const float> discount, WarpSlice<const float> weight,
                                   WarpSlice<const float> next_q, WarpSlice<const float> q,
                                   WarpSlice<float> d_q, WarpSlice<float> loss,
                                   WarpSlice<float> error) {
    float e = q[0] - (reward[0] + discount[0] * next_q[0]);
    d_q[0] = 2.0f * inv_batch_size * weight[0] * e;
    loss[0] = weight[0] * e * e;
    error[0] = fabsf(e);
}

// Both critics' squared errors against `r + gamma min Q'`.
__device__ inline void twin_critic_loss(float inv_batch_size, WarpSlice<const float> reward,
                                        WarpSlice<const float> discount,
                                        WarpSlice<const float> weight,
                                        WarpSlice<const float> next_q_1,
                                        WarpSlice<const float> next_q_2, WarpSlice<const float> q_1,
                                        WarpSlice<const float> q_2, WarpSlice<float> d_q_1,
                                        WarpSlice<float> d_q_2, WarpSlice<float> loss,
                                        WarpSlice<float> error) {
    float target = reward[0] + discount[0] * warp_min(next_q_1[0], next_q_2[0]);
    float e_1 = q_1[0] - target;
    float e_2 = q_2[0] - target;
    d_q_1[0] = 2.0f * inv_batch_size * weight[0] * e_1;
    d_q_2[0] = 2.0f * inv_batch_size * weight[0] * e_2;
    loss[0] = weight[0] * (e_1 * e_1 + e_2 * e_2);
    error[0] = 0.5f * (fabsf(e_1) + fabsf(e_2));
}

// The actor's loss, `-Q` of its own action, where a sample counts at all.
__device__ inline void actor_loss(float inv_batch_size, WarpSlice<const float> weight,
                                  WarpSlice<const float> q, WarpSlice<float> d_q,
                                  WarpSlice<float> loss) {
    bool counts = weight[0] > 0.0f;
    d_q[0] = counts ? -inv_batch_size : 0.0f;
    loss[0] = counts ? -q[0] : 0.0f;
}

// Derivatives by what the actor gives, from those by its action.
__device__ inline void actor_gradient(WarpSlice<const float> action,
                                      WarpSlice<const float> d_action, WarpSlice<float> d_output) {
    for (unsigned int i = 0u; i < action.len; ++i) {
        d_output[i] = d_action[i] * (1.0f - action[i] * action[i]);
    }
}

// Means, and log-deviations of next to nothing, are what the action layout reads.
__device__ inline void outputs(WarpSlice<const float> output, WarpSlice<float> layout) {
    for (unsigned int i = 0u; i < output.len; ++i) {
        layout[i] = output[i];
        layout[output.len + i] = NO_DEVIATION;
    }
}

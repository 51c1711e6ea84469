// Made from loss/sac.rs by warp translate; change that file.
// Row functions of SAC for elements of a box: an action is tanh of a normal number.
// Haarnoja et al., "Soft Actor-Critic Algorithms and Applications", 2018. Derivatives by hand.

static constexpr float LN_2 = 0.6931472f; // ln 2.
static constexpr float HALF_LN_TAU = 0.9189385f; // ln(2 pi) / 2.

// ln(1 - tanh(u)^2), also where tanh(u) rounds to 1.
__device__ inline float log_slope(float u) {
    // 2 (ln 2 - u - softplus(-2 u)), which is even in u.
    float x = fabsf(u);
    return 2.0f * (LN_2 - x - warp_ln(1.0f + warp_exp(-2.0f * x)));
}

// Samples an action and its log-probability.
// `output` `[2 dim]` holds means and log-deviations; `action` `[dim]` gets elements within -1 to 1,
// and
// `noise` `[dim]` the normal numbers that they were made of.
__device__ inline void sample_action(WarpDraw& draw, float log_std_min, float log_std_max,
                                     WarpSlice<const float> output, WarpSlice<float> action,
                                     WarpSlice<float> noise, WarpSlice<float> log_prob) {
    float sum = 0.0f;
    for (unsigned int i = 0u; i < action.len; ++i) {
        float log_std = warp_clamp(output[action.len + i], log_std_min, log_std_max);
        float z = warp_draw_normal(&draw);
        float u = output[i] + warp_exp(log_std) * z;
        action[i] = warp_tanh(u);
        noise[i] = z;
        sum += -0.5f * z * z - log_std - HALF_LN_TAU - log_slope(u);
    }
    log_prob[0] = sum;
}

// Half the squared errors of both critics against `r + gamma (min Q' - alpha log pi')`.
__device__ inline void critic_loss(float inv_batch_size, WarpSlice<const float> reward,
                                   WarpSlice<const float> discount, WarpSlice<const float> weight,
                                   WarpSlice<const float> log_alpha,
                                   WarpSlice<const float> next_log_prob,
                                   WarpSlice<const float> next_q_1, WarpSlice<const float> next_q_2,
                                   WarpSlice<const float> q_1, WarpSlice<const float> q_2,
                                   WarpSlice<float> d_q_1, WarpSlice<float> d_q_2,
                                   WarpSlice<float> loss, WarpSlice<float> error) {
    float soft = warp_min(next_q_1[0], next_q_2[0]) - warp_exp(log_alpha[0]) * next_log_prob[0];
    float target = reward[0] + discount[0] * soft;
    float e_1 = q_1[0] - target;
    float e_2 = q_2[0] - target;
    d_q_1[0] = inv_batch_size * weight[0] * e_1;
    d_q_2[0] = inv_batch_size * weight[0] * e_2;
    loss[0] = 0.5f * weight[0] * (e_1 * e_1 + e_2 * e_2);
    error[0] = 0.5f * (fabsf(e_1) + fabsf(e_2));
}

// `alpha log pi - min Q` by both critics' values of the sampled action, where a sample counts at
// all.
__device__ inline void actor_loss(float inv_batch_size, WarpSlice<const float> weight,
                                  WarpSlice<const float> log_alpha, WarpSlice<const float> log_prob,
                                  WarpSlice<const float> q_1, WarpSlice<const float> q_2,
                                  WarpSlice<float> d_q_1, WarpSlice<float> d_q_2,
                                  WarpSlice<float> loss) {
    bool counts = weight[0] > 0.0f;
    bool first = q_1[0] <= q_2[0];
    d_q_1[0] = counts && first ? -inv_batch_size : 0.0f;
    d_q_2[0] = counts && !first ? -inv_batch_size : 0.0f;
    float cost = warp_exp(log_alpha[0]) * log_prob[0] - warp_min(q_1[0], q_2[0]);
    loss[0] = counts ? cost : 0.0f;
}

// Derivatives of `actor_loss` by means and log-deviations, from those by the action.
// A log-deviation outside its range has none.
__device__ inline void actor_gradient(float inv_batch_size, float log_std_min, float log_std_max,
                                      WarpSlice<const float> weight, WarpSlice<const float> output,
                                      WarpSlice<const float> action, WarpSlice<const float> noise,
                                      WarpSlice<const float> log_alpha,
                                      WarpSlice<const float> d_action_1,
                                      WarpSlice<const float> d_action_2,
                                      WarpSlice<float> d_output) {
    bool counts = weight[0] > 0.0f;
    float by_log_prob = inv_batch_size * warp_exp(log_alpha[0]);
    for (unsigned int i = 0u; i < action.len; ++i) {
        float given = output[action.len + i];
        float log_std = warp_clamp(given, log_std_min, log_std_max);
        float a = action[i];
        // By u = mean + std z: log pi holds -ln(1 - tanh(u)^2), whose derivative is 2 tanh(u).
        float by_u = by_log_prob * 2.0f * a + (d_action_1[i] + d_action_2[i]) * (1.0f - a * a);
        d_output[i] = counts ? by_u : 0.0f;
        float by_log_std = by_u * warp_exp(log_std) * noise[i] - by_log_prob;
        bool moves = counts && given == log_std;
        d_output[action.len + i] = moves ? by_log_std : 0.0f;
    }
}

// The temperature's loss `-ln(alpha) (log pi + target entropy)`, where a sample counts at all.
__device__ inline void temperature_loss(float inv_batch_size, float target_entropy,
                                        WarpSlice<const float> weight,
                                        WarpSlice<const float> log_alpha,
                                        WarpSlice<const float> log_prob,
                                        WarpSlice<float> d_log_alpha, WarpSlice<float> alpha,
                                        WarpSlice<float> entropy) {
    float slope = -inv_batch_size * (log_prob[0] + target_entropy);
    d_log_alpha[0] = weight[0] > 0.0f ? slope : 0.0f;
    alpha[0] = warp_exp(log_alpha[0]);
    entropy[0] = -log_prob[0];
}

// What acts: an action is sampled, `[dim]`.
__device__ inline void act(WarpDraw& draw, float log_std_min, float log_std_max,
                           WarpSlice<const float> output, WarpSlice<float> policy_action) {
    for (unsigned int i = 0u; i < policy_action.len; ++i) {
        float log_std = warp_clamp(output[policy_action.len + i], log_std_min, log_std_max);
        policy_action[i] = warp_tanh(output[i] + warp_exp(log_std) * warp_draw_normal(&draw));
    }
}

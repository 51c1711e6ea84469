// Made from loss/ppo.rs by warp translate; change that file.
// Row functions of PPO: the clipped surrogate and the clipped value loss.
// Schulman et al., "Proximal Policy Optimization Algorithms", 2017; the value's clipping as in OpenAI's
// Baselines and CleanRL. Derivatives by hand.

// The larger of a ratio's loss and that of the ratio within `1 - clip_coef ..= 1 + clip_coef`.
__device__ inline void policy_loss(float clip_coef, WarpSlice<const float> log_prob,
                                   WarpSlice<const float> old_log_prob,
                                   WarpSlice<const float> advantage, WarpSlice<float> loss,
                                   WarpSlice<float> d_log_prob, WarpSlice<float> approx_kl,
                                   WarpSlice<float> clip_fraction) {
    float log_ratio = log_prob[0] - old_log_prob[0];
    float ratio = warp_exp(log_ratio);
    float unclipped = -advantage[0] * ratio;
    float nearest = warp_min(warp_max(ratio, 1.0f - clip_coef), 1.0f + clip_coef);
    float clipped = -advantage[0] * nearest;
    loss[0] = warp_max(unclipped, clipped);
    // d ratio / d log_prob = ratio; the clipped branch is constant where it is the larger.
    // A NaN is never the smaller: it stays in the gradient and stops the optimiser.
    d_log_prob[0] = unclipped < clipped ? 0.0f : unclipped;
    approx_kl[0] = (ratio - 1.0f) - log_ratio;
    clip_fraction[0] = fabsf(ratio - 1.0f) > clip_coef ? 1.0f : 0.0f;
}

// `0.5 * (value - target)^2`; with `clip_vloss` the larger of this and the same for
// `old_value + clamp(value - old_value, -clip_coef, clip_coef)`, as in CleanRL.
__device__ inline void value_loss(float clip_coef, float clip_vloss, WarpSlice<const float> value,
                                  WarpSlice<const float> old_value, WarpSlice<const float> target,
                                  WarpSlice<float> loss, WarpSlice<float> d_value) {
    float error = value[0] - target[0];
    float plain = error * error;
    float step = value[0] - old_value[0];
    loss[0] = 0.5f * plain;
    d_value[0] = error;
    // Where the step is not clipped the two losses are the same.
    if (clip_vloss > 0.0f && fabsf(step) > clip_coef) {
        float step_2 = warp_min(warp_max(step, -clip_coef), clip_coef);
        float error_clipped = old_value[0] + step_2 - target[0];
        float clipped = error_clipped * error_clipped;
        if (clipped > plain) {
            loss[0] = 0.5f * clipped;
            d_value[0] = 0.0f;
        }
    }
}

// Made from loss/sac_discrete.rs by warp translate; change that file.
// Row functions of SAC for one discrete action: expectations over all choices instead of draws.
// Christodoulou, "Soft Actor-Critic for Discrete Action Settings", 2019. Derivatives by hand.

// ln of the sum of the exponentials of the logits that are allowed.
__device__ inline float log_sum(WarpSlice<const float> logits, WarpSlice<const float> mask) {
    float largest = 0.0f;
    bool any = false;
    for (unsigned int i = 0u; i < logits.len; ++i) {
        if (mask[i] > 0.0f && (!any || logits[i] > largest)) {
            largest = logits[i];
            any = true;
        }
    }
    float sum = 0.0f;
    for (unsigned int i = 0u; i < logits.len; ++i) {
        if (mask[i] > 0.0f) {
            sum += warp_exp(logits[i] - largest);
        }
    }
    return largest + warp_ln(sum);
}

// What acts: a choice sampled from the policy, or any that is allowed.
__device__ inline void act(WarpDraw& draw, float random, WarpSlice<const float> logits,
                           WarpSlice<const float> mask, WarpSlice<float> action,
                           WarpSlice<float> env_action) {
    float total = log_sum(logits, mask);
    float n_allowed = 0.0f;
    for (unsigned int i = 0u; i < logits.len; ++i) {
        if (mask[i] > 0.0f) {
            n_allowed += 1.0f;
        }
    }
    float left = warp_draw_uniform(&draw);
    unsigned int choice = 0u;
    bool found = false;
    for (unsigned int i = 0u; i < logits.len; ++i) {
        if (mask[i] > 0.0f && !found) {
            choice = i;
            float p = random > 0.0f ? 1.0f / n_allowed : warp_exp(logits[i] - total);
            found = left < p;
            left -= p;
        }
    }
    action[0] = (float)choice;
    env_action[0] = (float)choice;
}

// Half the squared errors of both critics against `r + gamma E(min Q' - alpha log pi')`.
__device__ inline void critic_loss(float inv_batch_size, WarpSlice<const float> reward,
                                   WarpSlice<const float> discount, WarpSlice<const float> weight,
                                   WarpSlice<const float> action, WarpSlice<const float> next_mask,
                                   WarpSlice<const float> log_alpha,
                                   WarpSlice<const float> next_logits,
                                   WarpSlice<const float> next_q_1, WarpSlice<const float> next_q_2,
                                   WarpSlice<const float> q_1, WarpSlice<const float> q_2,
                                   WarpSlice<float> d_q_1, WarpSlice<float> d_q_2,
                                   WarpSlice<float> loss, WarpSlice<float> error,
                                   WarpSlice<float> value) {
    float total = log_sum(next_logits, next_mask);
    float alpha = warp_exp(log_alpha[0]);
    float soft = 0.0f;
    for (unsigned int i = 0u; i < next_logits.len; ++i) {
        if (next_mask[i] > 0.0f) {
            float log_p = next_logits[i] - total;
            soft += warp_exp(log_p) * (warp_min(next_q_1[i], next_q_2[i]) - alpha * log_p);
        }
    }
    float target = reward[0] + discount[0] * soft;
    unsigned int taken = (unsigned int)warp_to_int(action[0]);
    float e_1 = q_1[taken] - target;
    float e_2 = q_2[taken] - target;
    for (unsigned int i = 0u; i < q_1.len; ++i) {
        d_q_1[i] = 0.0f;
        d_q_2[i] = 0.0f;
    }
    d_q_1[taken] = inv_batch_size * weight[0] * e_1;
    d_q_2[taken] = inv_batch_size * weight[0] * e_2;
    loss[0] = 0.5f * weight[0] * (e_1 * e_1 + e_2 * e_2);
    error[0] = 0.5f * (fabsf(e_1) + fabsf(e_2));
    value[0] = q_1[taken];
}

// `E(alpha log pi - min Q)` over the allowed choices, and its derivatives by the logits.
// 0 where a sample does not count at all.
__device__ inline void actor_loss(float inv_batch_size, WarpSlice<const float> weight,
                                  WarpSlice<const float> mask, WarpSlice<const float> log_alpha,
                                  WarpSlice<const float> logits, WarpSlice<const float> q_1,
                                  WarpSlice<const float> q_2, WarpSlice<float> d_logits,
                                  WarpSlice<float> loss, WarpSlice<float> entropy) {
    float total = log_sum(logits, mask);
    float alpha = warp_exp(log_alpha[0]);
    float mean = 0.0f;
    float surprise = 0.0f;
    for (unsigned int i = 0u; i < logits.len; ++i) {
        if (mask[i] > 0.0f) {
            float log_p = logits[i] - total;
            float p = warp_exp(log_p);
            mean += p * (alpha * log_p - warp_min(q_1[i], q_2[i]));
            surprise -= p * log_p;
        }
    }
    bool counts = weight[0] > 0.0f;
    for (unsigned int i = 0u; i < logits.len; ++i) {
        float log_p = logits[i] - total;
        float cost = alpha * log_p - warp_min(q_1[i], q_2[i]);
        // The derivative of alpha log pi itself adds up to nothing.
        bool moves = counts && mask[i] > 0.0f;
        d_logits[i] = moves ? inv_batch_size * warp_exp(log_p) * (cost - mean) : 0.0f;
    }
    loss[0] = counts ? mean : 0.0f;
    entropy[0] = surprise;
}

// The temperature's loss `ln(alpha) (entropy - target entropy)`, where a sample counts at all.
__device__ inline void temperature_loss(float inv_batch_size, float target_entropy,
                                        WarpSlice<const float> weight,
                                        WarpSlice<const float> log_alpha,
                                        WarpSlice<const float> entropy,
                                        WarpSlice<float> d_log_alpha, WarpSlice<float> alpha) {
    float slope = inv_batch_size * (entropy[0] - target_entropy);
    d_log_alpha[0] = weight[0] > 0.0f ? slope : 0.0f;
    alpha[0] = warp_exp(log_alpha[0]);
}

// The same with masks: the target is a share of the largest entropy of the allowed choices.
// That of all choices can be out of reach: the temperature would grow without end.
__device__ inline void masked_temperature_loss(float inv_batch_size, float entropy_share,
                                               WarpSlice<const float> weight,
                                               WarpSlice<const float> mask,
                                               WarpSlice<const float> log_alpha,
                                               WarpSlice<const float> entropy,
                                               WarpSlice<float> d_log_alpha,
                                               WarpSlice<float> alpha) {
    float n_allowed = 0.0f;
    for (unsigned int i = 0u; i < mask.len; ++i) {
        if (mask[i] > 0.0f) {
            n_allowed += 1.0f;
        }
    }
    float largest = warp_ln(warp_max(n_allowed, 1.0f));
    float slope = inv_batch_size * (entropy[0] - entropy_share * largest);
    d_log_alpha[0] = weight[0] > 0.0f ? slope : 0.0f;
    alpha[0] = warp_exp(log_alpha[0]);
}

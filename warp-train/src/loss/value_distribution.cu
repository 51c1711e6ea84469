// Made from loss/value_distribution.rs by warp translate; change that file.
// Row functions of critics that give a distribution over values, as logits, instead of one value. The values
// are evenly spaced from `value_min` to `value_max`.
// Bellemare et al., "A Distributional Perspective on Reinforcement Learning", 2017; two of them as in Seo et
// al., "FastTD3: Simple, Fast, and Capable Reinforcement Learning for Humanoid Control", 2025. Derivatives by
// hand.

// ln of the sum of the exponentials.
__device__ inline float log_sum(WarpSlice<const float> logits) {
    float largest = logits[0];
    for (unsigned int i = 0u; i < logits.len; ++i) {
        largest = warp_max(largest, logits[i]);
    }
    float sum = 0.0f;
    for (unsigned int i = 0u; i < logits.len; ++i) {
        sum += warp_exp(logits[i] - largest);
    }
    return largest + warp_ln(sum);
}

// From a value to the next of `n`.
__device__ inline float distance(float value_min, float value_max, unsigned int n) {
    return (value_max - value_min) / (float)(n - 1u);
}

// The mean value. `total` is `log_sum` of the logits.
__device__ inline float mean(float value_min, float value_max, WarpSlice<const float> logits,
                             float total) {
    float apart = distance(value_min, value_max, logits.len);
    float sum = 0.0f;
    for (unsigned int i = 0u; i < logits.len; ++i) {
        sum += warp_exp(logits[i] - total) * (value_min + apart * (float)i);
    }
    return sum;
}

// The distribution of `r + gamma Z'`, each of whose values is shared between the two that it lies
// between. Z' is
// the second of two distributions where `second` says so; `total` is `log_sum` of its logits.
__device__ inline void project(float value_min, float value_max, float reward, float discount,
                               WarpSlice<const float> next_1, WarpSlice<const float> next_2,
                               bool second, float total, WarpSlice<float> target) {
    float apart = distance(value_min, value_max, target.len);
    for (unsigned int i = 0u; i < target.len; ++i) {
        target[i] = 0.0f;
    }
    for (unsigned int i = 0u; i < target.len; ++i) {
        float value = reward + discount * (value_min + apart * (float)i);
        float place = (warp_clamp(value, value_min, value_max) - value_min) / apart;
        unsigned int below = (unsigned int)warp_to_int(place);
        if (below + 2u > target.len) {
            below = target.len - 2u;
        }
        float part = place - (float)below;
        float logit = second ? next_2[i] : next_1[i];
        float p = warp_exp(logit - total);
        target[below] += p * (1.0f - part);
        target[below + 1u] += p * part;
    }
}

// The cross-entropy of a critic against `target`, and `scale` times its slopes. `total` is
// `log_sum` of the
// logits.
__device__ inline float cross_entropy(float scale, WarpSlice<const float> target,
                                      WarpSlice<const float> logits, float total,
                                      WarpSlice<float> d_logits) {
    float loss = 0.0f;
    for (unsigned int i = 0u; i < logits.len; ++i) {
        loss -= target[i] * (logits[i] - total);
        d_logits[i] = scale * (warp_exp(logits[i] - total) - target[i]);
    }
    return loss;
}

// Both critics' cross-entropies against `r + gamma Z'`, where Z' is that of the smaller mean.
__device__ inline void twin_critic_loss(float inv_batch_size, float value_min, float value_max,
                                        WarpSlice<const float> reward,
                                        WarpSlice<const float> discount,
                                        WarpSlice<const float> weight,
                                        WarpSlice<const float> next_1,
                                        WarpSlice<const float> next_2,
                                        WarpSlice<const float> logits_1,
                                        WarpSlice<const float> logits_2,
                                        WarpSlice<float> d_logits_1, WarpSlice<float> d_logits_2,
                                        WarpSlice<float> target, WarpSlice<float> loss,
                                        WarpSlice<float> error, WarpSlice<float> value) {
    float next_total_1 = log_sum(next_1);
    float next_total_2 = log_sum(next_2);
    float next_q_1 = mean(value_min, value_max, next_1, next_total_1);
    float next_q_2 = mean(value_min, value_max, next_2, next_total_2);
    bool second = next_q_2 < next_q_1;
    float next_total = second ? next_total_2 : next_total_1;
    project(value_min, value_max, reward[0], discount[0], next_1, next_2, second, next_total,
            target);
    float scale = inv_batch_size * weight[0];
    float total_1 = log_sum(logits_1);
    float total_2 = log_sum(logits_2);
    float loss_1 = cross_entropy(scale, target, logits_1, total_1, d_logits_1);
    float loss_2 = cross_entropy(scale, target, logits_2, total_2, d_logits_2);
    loss[0] = weight[0] * (loss_1 + loss_2);
    error[0] = 0.5f * (loss_1 + loss_2);
    value[0] = mean(value_min, value_max, logits_1, total_1);
}

// The slope of minus `q`, a critic's mean value, by its logits, where the actor follows this
// critic. `total` is
// `log_sum` of the logits.
__device__ inline void climb(float inv_batch_size, float value_min, float value_max, bool follows,
                             WarpSlice<const float> logits, float total, float q,
                             WarpSlice<float> d_logits) {
    float apart = distance(value_min, value_max, logits.len);
    for (unsigned int i = 0u; i < logits.len; ++i) {
        float p = warp_exp(logits[i] - total);
        float slope = inv_batch_size * p * (q - (value_min + apart * (float)i));
        d_logits[i] = follows ? slope : 0.0f;
    }
}

// The actor's loss, minus the smaller of both critics' mean values of its own action, where a
// sample counts at
// all.
__device__ inline void actor_loss(float inv_batch_size, float value_min, float value_max,
                                  WarpSlice<const float> weight, WarpSlice<const float> logits_1,
                                  WarpSlice<const float> logits_2, WarpSlice<float> d_logits_1,
                                  WarpSlice<float> d_logits_2, WarpSlice<float> loss) {
    bool counts = weight[0] > 0.0f;
    float total_1 = log_sum(logits_1);
    float total_2 = log_sum(logits_2);
    float q_1 = mean(value_min, value_max, logits_1, total_1);
    float q_2 = mean(value_min, value_max, logits_2, total_2);
    bool first = q_1 <= q_2;
    climb(inv_batch_size, value_min, value_max, counts && first, logits_1, total_1, q_1,
          d_logits_1);
    climb(inv_batch_size, value_min, value_max, counts && !first, logits_2, total_2, q_2,
          d_logits_2);
    loss[0] = counts ? -warp_min(q_1, q_2) : 0.0f;
}

// Derivatives by what the actor gives, from those of both critics by its action.
__device__ inline void actor_gradient(WarpSlice<const float> action,
                                      WarpSlice<const float> d_action_1,
                                      WarpSlice<const float> d_action_2,
                                      WarpSlice<float> d_output) {
    for (unsigned int i = 0u; i < action.len; ++i) {
        d_output[i] = (d_action_1[i] + d_action_2[i]) * (1.0f - action[i] * action[i]);
    }
}

// Made from loss/dqn.rs by warp translate; change that file.
// Row functions of DQN: values of all choices, one of which is taken.
// Mnih et al., "Human-level control through deep reinforcement learning", 2015; van Hasselt et al.,
// "Deep Reinforcement Learning with Double Q-learning", 2016; Wang et al., "Dueling Network
// Architectures for Deep Reinforcement Learning", 2016. Derivatives by hand.

// The allowed choice of the largest value; the first of equals.
__device__ inline unsigned int best(WarpSlice<const float> q, WarpSlice<const float> mask) {
    unsigned int found = 0u;
    bool any = false;
    for (unsigned int i = 0u; i < q.len; ++i) {
        if (mask[i] > 0.0f && (!any || q[i] > q[found])) {
            found = i;
            any = true;
        }
    }
    return found;
}

// The best choice, or with probability `epsilon` any that is allowed.
__device__ inline void act(WarpDraw& draw, float random, float epsilon, WarpSlice<const float> q,
                           WarpSlice<const float> mask, WarpSlice<float> action,
                           WarpSlice<float> env_action) {
    unsigned int n_allowed = 0u;
    for (unsigned int i = 0u; i < q.len; ++i) {
        if (mask[i] > 0.0f) {
            n_allowed += 1u;
        }
    }
    bool explores = warp_draw_uniform(&draw) < epsilon || random > 0.0f;
    unsigned int left = warp_draw_below(&draw, n_allowed);
    unsigned int choice = best(q, mask);
    if (explores) {
        for (unsigned int i = 0u; i < q.len; ++i) {
            if (mask[i] > 0.0f) {
                if (left == 0u) {
                    choice = i;
                    break;
                }
                left -= 1u;
            }
        }
    }
    action[0] = (float)choice;
    env_action[0] = (float)choice;
}

// Huber's loss of the taken choice's value against `r + gamma Q'(s', a')`, where a' is the best by
// `online_next_q`.
__device__ inline void loss(float inv_batch_size, WarpSlice<const float> reward,
                            WarpSlice<const float> discount, WarpSlice<const float> weight,
                            WarpSlice<const float> action, WarpSlice<const float> next_mask,
                            WarpSlice<const float> next_q, WarpSlice<const float> online_next_q,
                            WarpSlice<const float> q, WarpSlice<float> d_q, WarpSlice<float> loss_2,
                            WarpSlice<float> error, WarpSlice<float> value) {
    unsigned int taken = (unsigned int)warp_to_int(action[0]);
    float target = reward[0] + discount[0] * next_q[best(online_next_q, next_mask)];
    float e = q[taken] - target;
    float size = fabsf(e);
    for (unsigned int i = 0u; i < q.len; ++i) {
        d_q[i] = 0.0f;
    }
    d_q[taken] = inv_batch_size * weight[0] * warp_clamp(e, -1.0f, 1.0f);
    loss_2[0] = weight[0] * (size < 1.0f ? 0.5f * e * e : size - 0.5f);
    error[0] = size;
    value[0] = q[taken];
}

// Values of choices from a state's value, the first of `output` `[1 + choices]`, and advantages.
__device__ inline void duel(WarpSlice<const float> output, WarpSlice<float> q) {
    float sum = 0.0f;
    for (unsigned int i = 0u; i < q.len; ++i) {
        sum += output[1u + i];
    }
    float mean = sum / (float)q.len;
    for (unsigned int i = 0u; i < q.len; ++i) {
        q[i] = output[0] + output[1u + i] - mean;
    }
}

// Derivatives by what `duel` reads.
__device__ inline void duel_gradient(WarpSlice<const float> d_q, WarpSlice<float> d_output) {
    float sum = 0.0f;
    for (unsigned int i = 0u; i < d_q.len; ++i) {
        sum += d_q[i];
    }
    d_output[0] = sum;
    float mean = sum / (float)d_q.len;
    for (unsigned int i = 0u; i < d_q.len; ++i) {
        d_output[1u + i] = d_q[i] - mean;
    }
}

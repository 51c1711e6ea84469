// Made from loss/a2c.rs by warp translate; change that file.
// Row functions of A2C: the policy's gradient and the value's squared error.
// Mnih et al., "Asynchronous Methods for Deep Reinforcement Learning", 2016. Derivatives by hand.

// The policy's gradient, as a loss.
__device__ inline void policy_loss(WarpSlice<const float> log_prob,
                                   WarpSlice<const float> advantage, WarpSlice<float> loss,
                                   WarpSlice<float> d_log_prob) {
    loss[0] = -log_prob[0] * advantage[0];
    d_log_prob[0] = -advantage[0];
}

// The squared error of the value.
__device__ inline void value_loss(WarpSlice<const float> value, WarpSlice<const float> target,
                                  WarpSlice<float> loss, WarpSlice<float> d_value) {
    float error = value[0] - target[0];
    loss[0] = error * error;
    d_value[0] = 2.0f * error;
}

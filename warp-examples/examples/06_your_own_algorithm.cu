// Made from examples/06_your_own_algorithm.rs by warp translate; change that file.
// An algorithm of your own, with the whole `warp` command: PPO with a penalty on the divergence from the
// old policy in place of clipping (Schulman et al., 2017, section 4, with a fixed coefficient).
// `cargo run --release -p warp-examples --example 06_your_own_algorithm -- train cartpole --set
// algorithm=ppo_kl --set kl_coef=0.5`
// The loss is a row function; `warp translate` makes the CUDA text beside this file of it, so that the
// same lines learn on a GPU. Who needs no GPU leaves the name of the text out.

// The ratio's loss and `kl_coef` times an estimate of the divergence, `ratio - 1 - ln ratio`.
__device__ inline void policy_loss(float kl_coef, WarpSlice<const float> log_prob,
                                   WarpSlice<const float> old_log_prob,
                                   WarpSlice<const float> advantage, WarpSlice<float> loss,
                                   WarpSlice<float> d_log_prob, WarpSlice<float> approx_kl) {
    float log_ratio = log_prob[0] - old_log_prob[0];
    float ratio = warp_exp(log_ratio);
    approx_kl[0] = (ratio - 1.0f) - log_ratio;
    loss[0] = -advantage[0] * ratio + kl_coef * approx_kl[0];
    d_log_prob[0] = -advantage[0] * ratio + kl_coef * (ratio - 1.0f);
}

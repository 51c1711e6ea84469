//! Row functions of DDPG and TD3: an action is tanh of what the actor gives.
//!
//! Lillicrap et al., "Continuous control with deep reinforcement learning", 2016; Fujimoto et al.,
//! "Addressing Function Approximation Error in Actor-Critic Methods", 2018. Derivatives by hand.

#![expect(
    clippy::too_many_arguments,
    reason = "a parameter is a column, by its name below; a body is one that can be translated"
)]

use super::row::row_functions;
use warp_core::{Draw, math};

/// A log-deviation of next to nothing.
const NO_DEVIATION: f32 = -20.0;

/// The actor's action, `[dim]`.
pub fn squash(output: &[f32], action: &mut [f32]) {
    for i in 0..action.len() {
        action[i] = math::tanh(output[i]);
    }
}

/// TD3's target action: with noise of limited size.
pub fn smooth(
    draw: &mut Draw,
    target_noise: f32,
    target_noise_clip: f32,
    output: &[f32],
    action: &mut [f32],
) {
    for i in 0..action.len() {
        let noise = (target_noise * draw.normal()).clamp(-target_noise_clip, target_noise_clip);
        action[i] = (math::tanh(output[i]) + noise).clamp(-1.0, 1.0);
    }
}

/// The critic's squared error against `r + gamma Q'`.
pub fn critic_loss(
    inv_batch_size: f32,
    reward: &[f32],
    discount: &[f32],
    weight: &[f32],
    next_q: &[f32],
    q: &[f32],
    d_q: &mut [f32],
    loss: &mut [f32],
    error: &mut [f32],
) {
    let e = q[0] - (reward[0] + discount[0] * next_q[0]);
    d_q[0] = 2.0 * inv_batch_size * weight[0] * e;
    loss[0] = weight[0] * e * e;
    error[0] = e.abs();
}

/// Both critics' squared errors against `r + gamma min Q'`.
pub fn twin_critic_loss(
    inv_batch_size: f32,
    reward: &[f32],
    discount: &[f32],
    weight: &[f32],
    next_q_1: &[f32],
    next_q_2: &[f32],
    q_1: &[f32],
    q_2: &[f32],
    d_q_1: &mut [f32],
    d_q_2: &mut [f32],
    loss: &mut [f32],
    error: &mut [f32],
) {
    let target = reward[0] + discount[0] * math::min(next_q_1[0], next_q_2[0]);
    let e_1 = q_1[0] - target;
    let e_2 = q_2[0] - target;
    d_q_1[0] = 2.0 * inv_batch_size * weight[0] * e_1;
    d_q_2[0] = 2.0 * inv_batch_size * weight[0] * e_2;
    loss[0] = weight[0] * (e_1 * e_1 + e_2 * e_2);
    error[0] = 0.5 * (e_1.abs() + e_2.abs());
}

/// The actor's loss, `-Q` of its own action, where a sample counts at all.
pub fn actor_loss(
    inv_batch_size: f32,
    weight: &[f32],
    q: &[f32],
    d_q: &mut [f32],
    loss: &mut [f32],
) {
    let counts = weight[0] > 0.0;
    d_q[0] = if counts { -inv_batch_size } else { 0.0 };
    loss[0] = if counts { -q[0] } else { 0.0 };
}

/// Derivatives by what the actor gives, from those by its action.
pub fn actor_gradient(action: &[f32], d_action: &[f32], d_output: &mut [f32]) {
    for i in 0..action.len() {
        d_output[i] = d_action[i] * (1.0 - action[i] * action[i]);
    }
}

/// Means, and log-deviations of next to nothing, are what the action layout reads.
pub fn outputs(output: &[f32], layout: &mut [f32]) {
    for i in 0..output.len() {
        layout[i] = output[i];
        layout[output.len() + i] = NO_DEVIATION;
    }
}

row_functions! { "deterministic.cu" repeatable;
    SQUASH = squash(; output; action);
    SMOOTH = smooth draw (target_noise, target_noise_clip; output; action);
    CRITIC_LOSS = critic_loss(inv_batch_size; reward, discount, weight, next_q, q; d_q, loss, error);
    TWIN_CRITIC_LOSS = twin_critic_loss(
        inv_batch_size;
        reward, discount, weight, next_q_1, next_q_2, q_1, q_2;
        d_q_1, d_q_2, loss, error
    );
    ACTOR_LOSS = actor_loss(inv_batch_size; weight, q; d_q, loss);
    ACTOR_GRADIENT = actor_gradient(; action, d_action; d_output);
    OUTPUTS = outputs(; output; layout);
}

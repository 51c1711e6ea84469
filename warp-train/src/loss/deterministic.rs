//! Row functions of DDPG and TD3: an action is tanh of what the actor gives, noise explores.
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

/// What the environment gets for an element within -1 to 1.
fn within(a: f32, low: f32, high: f32) -> f32 {
    low + (high - low) * (0.5 * (a + 1.0))
}

/// An action, or one at random, and the same within its bounds; all `[dim]`.
pub fn act(
    draw: &mut Draw,
    random: f32,
    output: &[f32],
    low: &[f32],
    high: &[f32],
    action: &mut [f32],
    sent: &mut [f32],
) {
    for i in 0..action.len() {
        let uniform = draw.uniform_in(-1.0, 1.0);
        let a = if random > 0.0 { uniform } else { math::tanh(output[i]) };
        action[i] = a;
        sent[i] = within(a, low[i], high[i]);
    }
}

/// The same with a normal number of standard deviation `noise_std` added to each element.
pub fn act_gaussian(
    draw: &mut Draw,
    random: f32,
    noise_std: f32,
    output: &[f32],
    low: &[f32],
    high: &[f32],
    action: &mut [f32],
    sent: &mut [f32],
) {
    for i in 0..action.len() {
        let uniform = draw.uniform_in(-1.0, 1.0);
        let noisy = math::tanh(output[i]) + noise_std * draw.normal();
        let a = if random > 0.0 { uniform } else { noisy.clamp(-1.0, 1.0) };
        action[i] = a;
        sent[i] = within(a, low[i], high[i]);
    }
}

/// The same with Ornstein and Uhlenbeck's noise, which starts from 0 where the episode begins.
pub fn act_ou(
    draw: &mut Draw,
    random: f32,
    noise_std: f32,
    noise_damping: f32,
    output: &[f32],
    low: &[f32],
    high: &[f32],
    begins: &[f32],
    noise: &mut [f32],
    action: &mut [f32],
    sent: &mut [f32],
) {
    for i in 0..action.len() {
        let before = if begins[0] > 0.0 { 0.0 } else { noise[i] };
        let x = before - noise_damping * before + noise_std * draw.normal();
        let uniform = draw.uniform_in(-1.0, 1.0);
        let noisy = math::tanh(output[i]) + x;
        let a = if random > 0.0 { uniform } else { noisy.clamp(-1.0, 1.0) };
        noise[i] = x;
        action[i] = a;
        sent[i] = within(a, low[i], high[i]);
    }
}

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
    share: f32,
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
    d_q[0] = 2.0 * share * weight[0] * e;
    loss[0] = weight[0] * e * e;
    error[0] = e.abs();
}

/// Both critics' squared errors against `r + gamma min Q'`.
pub fn twin_critic_loss(
    share: f32,
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
    d_q_1[0] = 2.0 * share * weight[0] * e_1;
    d_q_2[0] = 2.0 * share * weight[0] * e_2;
    loss[0] = weight[0] * (e_1 * e_1 + e_2 * e_2);
    error[0] = 0.5 * (e_1.abs() + e_2.abs());
}

/// The actor's loss, `-Q` of its own action.
pub fn actor_loss(share: f32, q: &[f32], d_q: &mut [f32], loss: &mut [f32]) {
    d_q[0] = -share;
    loss[0] = -q[0];
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

row_functions! { "deterministic.cu";
    ACT = act draw (random; output, low, high; action, sent);
    ACT_GAUSSIAN = act_gaussian draw (random, noise_std; output, low, high; action, sent);
    ACT_OU = act_ou draw (
        random, noise_std, noise_damping; output, low, high, begins; noise, action, sent
    );
    SQUASH = squash(; output; action);
    SMOOTH = smooth draw (target_noise, target_noise_clip; output; action);
    CRITIC_LOSS = critic_loss(share; reward, discount, weight, next_q, q; d_q, loss, error);
    TWIN_CRITIC_LOSS = twin_critic_loss(
        share;
        reward, discount, weight, next_q_1, next_q_2, q_1, q_2;
        d_q_1, d_q_2, loss, error
    );
    ACTOR_LOSS = actor_loss(share; q; d_q, loss);
    ACTOR_GRADIENT = actor_gradient(; action, d_action; d_output);
    OUTPUTS = outputs(; output; layout);
}

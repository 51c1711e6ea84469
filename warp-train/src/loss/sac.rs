//! Row functions of SAC for elements of a box: an action is tanh of a normal number.
//!
//! Haarnoja et al., "Soft Actor-Critic Algorithms and Applications", 2018. Derivatives by hand.

#![expect(
    clippy::too_many_arguments,
    reason = "a parameter is a column, by its name below; a body is one that can be translated"
)]

use super::row::row_functions;
use warp_core::{Draw, math};

/// ln 2.
const LN_2: f32 = std::f32::consts::LN_2;
/// ln(2 pi) / 2.
const HALF_LN_TAU: f32 = 0.918_938_5;

/// ln(1 - tanh(u)^2), also where tanh(u) rounds to 1.
fn log_slope(u: f32) -> f32 {
    // 2 (ln 2 - u - softplus(-2 u)), which is even in u.
    let x = u.abs();
    2.0 * (LN_2 - x - math::ln(1.0 + math::exp(-2.0 * x)))
}

/// Samples an action and its log-probability.
///
/// `output` `[2 dim]` holds means and log-deviations; `action` `[dim]` gets elements within -1 to 1, and
/// `noise` `[dim]` the normal numbers that they were made of.
pub fn sample_action(
    draw: &mut Draw,
    log_std_min: f32,
    log_std_max: f32,
    output: &[f32],
    action: &mut [f32],
    noise: &mut [f32],
    log_prob: &mut [f32],
) {
    let mut sum = 0.0;
    for i in 0..action.len() {
        let log_std = output[action.len() + i].clamp(log_std_min, log_std_max);
        let z = draw.normal();
        let u = output[i] + math::exp(log_std) * z;
        action[i] = math::tanh(u);
        noise[i] = z;
        sum += -0.5 * z * z - log_std - HALF_LN_TAU - log_slope(u);
    }
    log_prob[0] = sum;
}

/// Half the squared errors of both critics against `r + gamma (min Q' - alpha log pi')`.
pub fn critic_loss(
    inv_batch_size: f32,
    reward: &[f32],
    discount: &[f32],
    weight: &[f32],
    log_alpha: &[f32],
    next_log_prob: &[f32],
    next_q_1: &[f32],
    next_q_2: &[f32],
    q_1: &[f32],
    q_2: &[f32],
    d_q_1: &mut [f32],
    d_q_2: &mut [f32],
    loss: &mut [f32],
    error: &mut [f32],
) {
    let soft = math::min(next_q_1[0], next_q_2[0]) - math::exp(log_alpha[0]) * next_log_prob[0];
    let target = reward[0] + discount[0] * soft;
    let e_1 = q_1[0] - target;
    let e_2 = q_2[0] - target;
    d_q_1[0] = inv_batch_size * weight[0] * e_1;
    d_q_2[0] = inv_batch_size * weight[0] * e_2;
    loss[0] = 0.5 * weight[0] * (e_1 * e_1 + e_2 * e_2);
    error[0] = 0.5 * (e_1.abs() + e_2.abs());
}

/// `alpha log pi - min Q` by both critics' values of the sampled action, where a sample counts at all.
pub fn actor_loss(
    inv_batch_size: f32,
    weight: &[f32],
    log_alpha: &[f32],
    log_prob: &[f32],
    q_1: &[f32],
    q_2: &[f32],
    d_q_1: &mut [f32],
    d_q_2: &mut [f32],
    loss: &mut [f32],
) {
    let counts = weight[0] > 0.0;
    let first = q_1[0] <= q_2[0];
    d_q_1[0] = if counts && first { -inv_batch_size } else { 0.0 };
    d_q_2[0] = if counts && !first { -inv_batch_size } else { 0.0 };
    let cost = math::exp(log_alpha[0]) * log_prob[0] - math::min(q_1[0], q_2[0]);
    loss[0] = if counts { cost } else { 0.0 };
}

/// Derivatives of [`actor_loss`] by means and log-deviations, from those by the action.
///
/// A log-deviation outside its range has none.
pub fn actor_gradient(
    inv_batch_size: f32,
    log_std_min: f32,
    log_std_max: f32,
    weight: &[f32],
    output: &[f32],
    action: &[f32],
    noise: &[f32],
    log_alpha: &[f32],
    d_action_1: &[f32],
    d_action_2: &[f32],
    d_output: &mut [f32],
) {
    let counts = weight[0] > 0.0;
    let by_log_prob = inv_batch_size * math::exp(log_alpha[0]);
    for i in 0..action.len() {
        let given = output[action.len() + i];
        let log_std = given.clamp(log_std_min, log_std_max);
        let a = action[i];
        // By u = mean + std z: log pi holds -ln(1 - tanh(u)^2), whose derivative is 2 tanh(u).
        let by_u = by_log_prob * 2.0 * a + (d_action_1[i] + d_action_2[i]) * (1.0 - a * a);
        d_output[i] = if counts { by_u } else { 0.0 };
        let by_log_std = by_u * math::exp(log_std) * noise[i] - by_log_prob;
        let moves = counts && given == log_std;
        d_output[action.len() + i] = if moves { by_log_std } else { 0.0 };
    }
}

/// The temperature's loss `-ln(alpha) (log pi + target entropy)`, where a sample counts at all.
pub fn temperature_loss(
    inv_batch_size: f32,
    target_entropy: f32,
    weight: &[f32],
    log_alpha: &[f32],
    log_prob: &[f32],
    d_log_alpha: &mut [f32],
    alpha: &mut [f32],
    entropy: &mut [f32],
) {
    let slope = -inv_batch_size * (log_prob[0] + target_entropy);
    d_log_alpha[0] = if weight[0] > 0.0 { slope } else { 0.0 };
    alpha[0] = math::exp(log_alpha[0]);
    entropy[0] = -log_prob[0];
}

/// What acts: an action is sampled, `[dim]`.
pub fn act(
    draw: &mut Draw,
    log_std_min: f32,
    log_std_max: f32,
    output: &[f32],
    policy_action: &mut [f32],
) {
    for i in 0..policy_action.len() {
        let log_std = output[policy_action.len() + i].clamp(log_std_min, log_std_max);
        policy_action[i] = math::tanh(output[i] + math::exp(log_std) * draw.normal());
    }
}

row_functions! { "sac.cu" repeatable;
    SAMPLE_ACTION = sample_action draw (log_std_min, log_std_max; output; action, noise, log_prob);
    CRITIC_LOSS = critic_loss(
        inv_batch_size;
        reward, discount, weight, log_alpha, next_log_prob, next_q_1, next_q_2, q_1, q_2;
        d_q_1, d_q_2, loss, error
    );
    ACTOR_LOSS = actor_loss(inv_batch_size; weight, log_alpha, log_prob, q_1, q_2; d_q_1, d_q_2, loss);
    ACTOR_GRADIENT = actor_gradient(
        inv_batch_size, log_std_min, log_std_max;
        weight, output, action, noise, log_alpha, d_action_1, d_action_2;
        d_output
    );
    TEMPERATURE_LOSS = temperature_loss(
        inv_batch_size, target_entropy; weight, log_alpha, log_prob; d_log_alpha, alpha, entropy
    );
    ACT = act draw (log_std_min, log_std_max; output; policy_action);
}

//! Row functions of critics that give a distribution over values, as logits, instead of one value. The values
//! are evenly spaced from `value_min` to `value_max`.
//!
//! Bellemare et al., "A Distributional Perspective on Reinforcement Learning", 2017; two of them as in Seo et
//! al., "FastTD3: Simple, Fast, and Capable Reinforcement Learning for Humanoid Control", 2025. Derivatives by
//! hand.

#![expect(
    clippy::too_many_arguments,
    reason = "a parameter is a column, by its name below; a body is one that can be translated"
)]

use super::row::row_functions;
use warp_core::math;

/// ln of the sum of the exponentials.
fn log_sum(logits: &[f32]) -> f32 {
    let mut largest = logits[0];
    for i in 0..logits.len() {
        largest = math::max(largest, logits[i]);
    }
    let mut sum = 0.0;
    for i in 0..logits.len() {
        sum += math::exp(logits[i] - largest);
    }
    largest + math::ln(sum)
}

/// From a value to the next of `n`.
fn distance(value_min: f32, value_max: f32, n: usize) -> f32 {
    (value_max - value_min) / (n - 1) as f32
}

/// The mean value. `total` is [`log_sum`] of the logits.
fn mean(value_min: f32, value_max: f32, logits: &[f32], total: f32) -> f32 {
    let apart = distance(value_min, value_max, logits.len());
    let mut sum = 0.0;
    for i in 0..logits.len() {
        sum += math::exp(logits[i] - total) * (value_min + apart * i as f32);
    }
    sum
}

/// The distribution of `r + gamma Z'`, each of whose values is shared between the two that it lies between. Z' is
/// the second of two distributions where `second` says so; `total` is [`log_sum`] of its logits.
fn project(
    value_min: f32,
    value_max: f32,
    reward: f32,
    discount: f32,
    next_1: &[f32],
    next_2: &[f32],
    second: bool,
    total: f32,
    target: &mut [f32],
) {
    let apart = distance(value_min, value_max, target.len());
    for i in 0..target.len() {
        target[i] = 0.0;
    }
    for i in 0..target.len() {
        let value = reward + discount * (value_min + apart * i as f32);
        let place = (value.clamp(value_min, value_max) - value_min) / apart;
        let mut below = place as i32 as usize;
        if below + 2 > target.len() {
            below = target.len() - 2;
        }
        let part = place - below as f32;
        let logit = if second { next_2[i] } else { next_1[i] };
        let p = math::exp(logit - total);
        target[below] += p * (1.0 - part);
        target[below + 1] += p * part;
    }
}

/// The cross-entropy of a critic against `target`, and `scale` times its slopes. `total` is [`log_sum`] of the
/// logits.
fn cross_entropy(
    scale: f32,
    target: &[f32],
    logits: &[f32],
    total: f32,
    d_logits: &mut [f32],
) -> f32 {
    let mut loss = 0.0;
    for i in 0..logits.len() {
        loss -= target[i] * (logits[i] - total);
        d_logits[i] = scale * (math::exp(logits[i] - total) - target[i]);
    }
    loss
}

/// Both critics' cross-entropies against `r + gamma Z'`, where Z' is that of the smaller mean.
pub fn twin_critic_loss(
    inv_batch_size: f32,
    value_min: f32,
    value_max: f32,
    reward: &[f32],
    discount: &[f32],
    weight: &[f32],
    next_1: &[f32],
    next_2: &[f32],
    logits_1: &[f32],
    logits_2: &[f32],
    d_logits_1: &mut [f32],
    d_logits_2: &mut [f32],
    target: &mut [f32],
    loss: &mut [f32],
    error: &mut [f32],
    value: &mut [f32],
) {
    let next_total_1 = log_sum(next_1);
    let next_total_2 = log_sum(next_2);
    let next_q_1 = mean(value_min, value_max, next_1, next_total_1);
    let next_q_2 = mean(value_min, value_max, next_2, next_total_2);
    let second = next_q_2 < next_q_1;
    let next_total = if second { next_total_2 } else { next_total_1 };
    project(
        value_min,
        value_max,
        reward[0],
        discount[0],
        next_1,
        next_2,
        second,
        next_total,
        target,
    );
    let scale = inv_batch_size * weight[0];
    let total_1 = log_sum(logits_1);
    let total_2 = log_sum(logits_2);
    let loss_1 = cross_entropy(scale, target, logits_1, total_1, d_logits_1);
    let loss_2 = cross_entropy(scale, target, logits_2, total_2, d_logits_2);
    loss[0] = weight[0] * (loss_1 + loss_2);
    error[0] = 0.5 * (loss_1 + loss_2);
    value[0] = mean(value_min, value_max, logits_1, total_1);
}

/// The slope of minus `q`, a critic's mean value, by its logits, where the actor follows this critic. `total` is
/// [`log_sum`] of the logits.
fn climb(
    inv_batch_size: f32,
    value_min: f32,
    value_max: f32,
    follows: bool,
    logits: &[f32],
    total: f32,
    q: f32,
    d_logits: &mut [f32],
) {
    let apart = distance(value_min, value_max, logits.len());
    for i in 0..logits.len() {
        let p = math::exp(logits[i] - total);
        let slope = inv_batch_size * p * (q - (value_min + apart * i as f32));
        d_logits[i] = if follows { slope } else { 0.0 };
    }
}

/// The actor's loss, minus the smaller of both critics' mean values of its own action, where a sample counts at
/// all.
pub fn actor_loss(
    inv_batch_size: f32,
    value_min: f32,
    value_max: f32,
    weight: &[f32],
    logits_1: &[f32],
    logits_2: &[f32],
    d_logits_1: &mut [f32],
    d_logits_2: &mut [f32],
    loss: &mut [f32],
) {
    let counts = weight[0] > 0.0;
    let total_1 = log_sum(logits_1);
    let total_2 = log_sum(logits_2);
    let q_1 = mean(value_min, value_max, logits_1, total_1);
    let q_2 = mean(value_min, value_max, logits_2, total_2);
    let first = q_1 <= q_2;
    climb(
        inv_batch_size,
        value_min,
        value_max,
        counts && first,
        logits_1,
        total_1,
        q_1,
        d_logits_1,
    );
    climb(
        inv_batch_size,
        value_min,
        value_max,
        counts && !first,
        logits_2,
        total_2,
        q_2,
        d_logits_2,
    );
    loss[0] = if counts { -math::min(q_1, q_2) } else { 0.0 };
}

/// Derivatives by what the actor gives, from those of both critics by its action.
pub fn actor_gradient(
    action: &[f32],
    d_action_1: &[f32],
    d_action_2: &[f32],
    d_output: &mut [f32],
) {
    for i in 0..action.len() {
        d_output[i] = (d_action_1[i] + d_action_2[i]) * (1.0 - action[i] * action[i]);
    }
}

row_functions! { "value_distribution.cu";
    TWIN_CRITIC_LOSS = twin_critic_loss(
        inv_batch_size, value_min, value_max;
        reward, discount, weight, next_1, next_2, logits_1, logits_2;
        d_logits_1, d_logits_2, target, loss, error, value
    );
    ACTOR_LOSS = actor_loss(
        inv_batch_size, value_min, value_max;
        weight, logits_1, logits_2;
        d_logits_1, d_logits_2, loss
    );
    ACTOR_GRADIENT = actor_gradient(; action, d_action_1, d_action_2; d_output);
}

//! Row functions of SAC for one discrete action: expectations over all choices instead of draws.
//!
//! Christodoulou, "Soft Actor-Critic for Discrete Action Settings", 2019. Derivatives by hand.

#![expect(
    clippy::too_many_arguments,
    reason = "a parameter is a column, by its name below; a body is one that can be translated"
)]

use super::row::row_functions;
use warp_core::{Draw, math};

/// ln of the sum of the exponentials of the logits that are allowed.
fn log_sum(logits: &[f32], mask: &[f32]) -> f32 {
    let mut largest = 0.0;
    let mut any = false;
    for i in 0..logits.len() {
        if mask[i] > 0.0 && (!any || logits[i] > largest) {
            largest = logits[i];
            any = true;
        }
    }
    let mut sum = 0.0;
    for i in 0..logits.len() {
        if mask[i] > 0.0 {
            sum += math::exp(logits[i] - largest);
        }
    }
    largest + math::ln(sum)
}

/// What acts: a choice sampled from the policy, or any that is allowed.
pub fn act(
    draw: &mut Draw,
    random: f32,
    logits: &[f32],
    mask: &[f32],
    action: &mut [f32],
    env_action: &mut [f32],
) {
    let total = log_sum(logits, mask);
    let mut n_allowed = 0.0;
    for i in 0..logits.len() {
        if mask[i] > 0.0 {
            n_allowed += 1.0;
        }
    }
    let mut left = draw.uniform();
    let mut choice = 0;
    let mut found = false;
    for i in 0..logits.len() {
        if mask[i] > 0.0 && !found {
            choice = i;
            let p = if random > 0.0 { 1.0 / n_allowed } else { math::exp(logits[i] - total) };
            found = left < p;
            left -= p;
        }
    }
    action[0] = choice as f32;
    env_action[0] = choice as f32;
}

/// Half the squared errors of both critics against `r + gamma E(min Q' - alpha log pi')`.
pub fn critic_loss(
    inv_batch_size: f32,
    reward: &[f32],
    discount: &[f32],
    weight: &[f32],
    action: &[f32],
    next_mask: &[f32],
    log_alpha: &[f32],
    next_logits: &[f32],
    next_q_1: &[f32],
    next_q_2: &[f32],
    q_1: &[f32],
    q_2: &[f32],
    d_q_1: &mut [f32],
    d_q_2: &mut [f32],
    loss: &mut [f32],
    error: &mut [f32],
    value: &mut [f32],
) {
    let total = log_sum(next_logits, next_mask);
    let alpha = math::exp(log_alpha[0]);
    let mut soft = 0.0;
    for i in 0..next_logits.len() {
        if next_mask[i] > 0.0 {
            let log_p = next_logits[i] - total;
            soft += math::exp(log_p) * (math::min(next_q_1[i], next_q_2[i]) - alpha * log_p);
        }
    }
    let target = reward[0] + discount[0] * soft;
    let taken = action[0] as i32 as usize;
    let e_1 = q_1[taken] - target;
    let e_2 = q_2[taken] - target;
    for i in 0..q_1.len() {
        d_q_1[i] = 0.0;
        d_q_2[i] = 0.0;
    }
    d_q_1[taken] = inv_batch_size * weight[0] * e_1;
    d_q_2[taken] = inv_batch_size * weight[0] * e_2;
    loss[0] = 0.5 * weight[0] * (e_1 * e_1 + e_2 * e_2);
    error[0] = 0.5 * (e_1.abs() + e_2.abs());
    value[0] = q_1[taken];
}

/// `E(alpha log pi - min Q)` over the allowed choices, and its derivatives by the logits.
///
/// 0 where a sample does not count at all.
pub fn actor_loss(
    inv_batch_size: f32,
    weight: &[f32],
    mask: &[f32],
    log_alpha: &[f32],
    logits: &[f32],
    q_1: &[f32],
    q_2: &[f32],
    d_logits: &mut [f32],
    loss: &mut [f32],
    entropy: &mut [f32],
) {
    let total = log_sum(logits, mask);
    let alpha = math::exp(log_alpha[0]);
    let mut mean = 0.0;
    let mut surprise = 0.0;
    for i in 0..logits.len() {
        if mask[i] > 0.0 {
            let log_p = logits[i] - total;
            let p = math::exp(log_p);
            mean += p * (alpha * log_p - math::min(q_1[i], q_2[i]));
            surprise -= p * log_p;
        }
    }
    let counts = weight[0] > 0.0;
    for i in 0..logits.len() {
        let log_p = logits[i] - total;
        let cost = alpha * log_p - math::min(q_1[i], q_2[i]);
        // The derivative of alpha log pi itself adds up to nothing.
        let moves = counts && mask[i] > 0.0;
        d_logits[i] = if moves { inv_batch_size * math::exp(log_p) * (cost - mean) } else { 0.0 };
    }
    loss[0] = if counts { mean } else { 0.0 };
    entropy[0] = surprise;
}

/// The temperature's loss `ln(alpha) (entropy - target entropy)`, where a sample counts at all.
pub fn temperature_loss(
    inv_batch_size: f32,
    target_entropy: f32,
    weight: &[f32],
    log_alpha: &[f32],
    entropy: &[f32],
    d_log_alpha: &mut [f32],
    alpha: &mut [f32],
) {
    let slope = inv_batch_size * (entropy[0] - target_entropy);
    d_log_alpha[0] = if weight[0] > 0.0 { slope } else { 0.0 };
    alpha[0] = math::exp(log_alpha[0]);
}

/// The same with masks: the target is a share of the largest entropy of the allowed choices.
/// That of all choices can be out of reach: the temperature would grow without end.
pub fn masked_temperature_loss(
    inv_batch_size: f32,
    entropy_share: f32,
    weight: &[f32],
    mask: &[f32],
    log_alpha: &[f32],
    entropy: &[f32],
    d_log_alpha: &mut [f32],
    alpha: &mut [f32],
) {
    let mut n_allowed = 0.0;
    for i in 0..mask.len() {
        if mask[i] > 0.0 {
            n_allowed += 1.0;
        }
    }
    let largest = math::ln(math::max(n_allowed, 1.0));
    let slope = inv_batch_size * (entropy[0] - entropy_share * largest);
    d_log_alpha[0] = if weight[0] > 0.0 { slope } else { 0.0 };
    alpha[0] = math::exp(log_alpha[0]);
}

row_functions! { "sac_discrete.cu";
    ACT = act draw (random; logits, mask; action, env_action);
    CRITIC_LOSS = critic_loss(
        inv_batch_size;
        reward, discount, weight, action, next_mask, log_alpha,
        next_logits, next_q_1, next_q_2, q_1, q_2;
        d_q_1, d_q_2, loss, error, value
    );
    ACTOR_LOSS = actor_loss(
        inv_batch_size; weight, mask, log_alpha, logits, q_1, q_2; d_logits, loss, entropy
    );
    TEMPERATURE_LOSS = temperature_loss(
        inv_batch_size, target_entropy; weight, log_alpha, entropy; d_log_alpha, alpha
    );
    MASKED_TEMPERATURE_LOSS = masked_temperature_loss(
        inv_batch_size, entropy_share; weight, mask, log_alpha, entropy; d_log_alpha, alpha
    );
}

//! Row functions of DQN: values of all choices, one of which is taken.
//!
//! Mnih et al., "Human-level control through deep reinforcement learning", 2015; van Hasselt et al.,
//! "Deep Reinforcement Learning with Double Q-learning", 2016; Wang et al., "Dueling Network
//! Architectures for Deep Reinforcement Learning", 2016. Derivatives by hand.

#![expect(
    clippy::too_many_arguments,
    reason = "a parameter is a column, by its name below; a body is one that can be translated"
)]

use super::row::row_functions;
use warp_core::Draw;

/// The allowed choice of the largest value; the first of equals.
fn best(q: &[f32], mask: &[f32]) -> usize {
    let mut found = 0;
    let mut any = false;
    for i in 0..q.len() {
        if mask[i] > 0.0 && (!any || q[i] > q[found]) {
            found = i;
            any = true;
        }
    }
    found
}

/// The best choice, or with probability `epsilon` any that is allowed.
pub fn act(
    draw: &mut Draw,
    random: f32,
    epsilon: f32,
    q: &[f32],
    mask: &[f32],
    action: &mut [f32],
    env_action: &mut [f32],
) {
    let mut n_allowed = 0;
    for i in 0..q.len() {
        if mask[i] > 0.0 {
            n_allowed += 1;
        }
    }
    let explores = draw.uniform() < epsilon || random > 0.0;
    let mut left = draw.below(n_allowed);
    let mut choice = best(q, mask);
    if explores {
        for i in 0..q.len() {
            if mask[i] > 0.0 {
                if left == 0 {
                    choice = i;
                    break;
                }
                left -= 1;
            }
        }
    }
    action[0] = choice as f32;
    env_action[0] = choice as f32;
}

/// Huber's loss of the taken choice's value against `r + gamma Q'(s', a')`, where a' is the best by
/// `online_next_q`.
pub fn loss(
    inv_batch_size: f32,
    reward: &[f32],
    discount: &[f32],
    weight: &[f32],
    action: &[f32],
    next_mask: &[f32],
    next_q: &[f32],
    online_next_q: &[f32],
    q: &[f32],
    d_q: &mut [f32],
    loss: &mut [f32],
    error: &mut [f32],
    value: &mut [f32],
) {
    let taken = action[0] as i32 as usize;
    let target = reward[0] + discount[0] * next_q[best(online_next_q, next_mask)];
    let e = q[taken] - target;
    let size = e.abs();
    for i in 0..q.len() {
        d_q[i] = 0.0;
    }
    d_q[taken] = inv_batch_size * weight[0] * e.clamp(-1.0, 1.0);
    loss[0] = weight[0] * (if size < 1.0 { 0.5 * e * e } else { size - 0.5 });
    error[0] = size;
    value[0] = q[taken];
}

/// Values of choices from a state's value, the first of `output` `[1 + choices]`, and advantages.
pub fn duel(output: &[f32], q: &mut [f32]) {
    let mut sum = 0.0;
    for i in 0..q.len() {
        sum += output[1 + i];
    }
    let mean = sum / q.len() as f32;
    for i in 0..q.len() {
        q[i] = output[0] + output[1 + i] - mean;
    }
}

/// Derivatives by what [`duel`] reads.
pub fn duel_gradient(d_q: &[f32], d_output: &mut [f32]) {
    let mut sum = 0.0;
    for i in 0..d_q.len() {
        sum += d_q[i];
    }
    d_output[0] = sum;
    let mean = sum / d_q.len() as f32;
    for i in 0..d_q.len() {
        d_output[1 + i] = d_q[i] - mean;
    }
}

row_functions! { "dqn.cu";
    ACT = act draw (random, epsilon; q, mask; action, env_action);
    LOSS = loss(
        inv_batch_size;
        reward, discount, weight, action, next_mask, next_q, online_next_q, q;
        d_q, loss, error, value
    );
    DUEL = duel(; output; q);
    DUEL_GRADIENT = duel_gradient(; d_q; d_output);
}

//! The losses' common part: one pass over a chunk's outputs that gives metrics and output gradients.
//!
//! Plain Rust over slices, with no tensor library: a network's learner feeds the gradients with respect to
//! policy outputs (logits, or means and log standard deviations) and values back through its layers. What
//! differs between algorithms are row functions of log-probabilities and values ([`Loss`]); the
//! distributions, the entropy bonus and the weighted means are here.

pub mod a2c;
pub mod actions;
mod block;
mod categorical;
pub mod deterministic;
mod distribution;
pub mod dqn;
mod exponential;
pub mod gae;
mod gaussian;
mod minibatch;
pub mod noise;
mod objective;
mod picked;
pub mod ppo;
pub mod row;
pub mod sac;
pub mod sac_discrete;
pub mod value_distribution;

pub use minibatch::Minibatch;
pub use objective::{Loss, Objective, POLICY_FIGURES, POLICY_READS, Part, VALUE_READS};
pub use picked::{Gathered, Picked};

pub(crate) use block::Room;
use block::{BLOCK, Block, Column, Distributions, Slopes};
use distribution::Distribution;
use objective::{POLICY, VALUE};
use warp_sample::ActionLayout;

/// A network's outputs for some rows.
#[derive(Debug, Clone, Copy)]
pub struct Outputs<'a> {
    /// Logits (unnormalised log-probabilities), or means and then log standard deviations, f32 `[rows,
    /// output_width]`.
    pub policy: &'a [f32],
    /// Value estimates, f32 `[rows]`.
    pub values: &'a [f32],
}

/// Room for the gradient of the loss with respect to [`Outputs`]; every element is written.
#[derive(Debug)]
pub struct OutputGradients<'a> {
    /// f32 `[rows, output_width]`.
    pub policy: &'a mut [f32],
    /// f32 `[rows]`.
    pub values: &'a mut [f32],
}

/// Weighted sums over rows; divided by the minibatch's weight they are [`LossMetrics`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LossSums {
    policy_loss: f64,
    value_loss: f64,
    entropy: f64,
    approx_kl: f64,
    clip_fraction: f64,
}

impl LossSums {
    /// Adds another chunk's sums to these.
    pub fn add(&mut self, other: &Self) {
        self.policy_loss += other.policy_loss;
        self.value_loss += other.value_loss;
        self.entropy += other.entropy;
        self.approx_kl += other.approx_kl;
        self.clip_fraction += other.clip_fraction;
    }

    /// The weighted means over a minibatch of `total_weight`; all zero if that is zero.
    #[must_use]
    pub fn means(&self, loss: &Loss, total_weight: f64) -> LossMetrics {
        let scale = if total_weight > 0.0 { 1.0 / total_weight } else { 0.0 };
        let [policy_loss, value_loss, entropy] =
            [self.policy_loss, self.value_loss, self.entropy].map(|sum| sum * scale);
        LossMetrics {
            loss: policy_loss + f64::from(loss.vf_coef) * value_loss
                - f64::from(loss.ent_coef) * entropy,
            policy_loss,
            value_loss,
            entropy,
            approx_kl: self.approx_kl * scale,
            clip_fraction: self.clip_fraction * scale,
        }
    }
}

/// Figures of one minibatch: means weighted by `Minibatch::weights`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LossMetrics {
    /// `policy_loss + vf_coef * value_loss - ent_coef * entropy`: what is descended.
    pub loss: f64,
    /// Policy loss.
    pub policy_loss: f64,
    /// Value loss, before `vf_coef`.
    pub value_loss: f64,
    /// Entropy of the policy in nats, summed over heads or elements.
    pub entropy: f64,
    /// `mean((ratio - 1) - log ratio)` (Schulman's third estimator); 0 for A2C.
    pub approx_kl: f64,
    /// Fraction of rows whose ratio is outside `1 - clip_coef ..= 1 + clip_coef`; 0 for A2C.
    pub clip_fraction: f64,
}

impl LossMetrics {
    /// As numbers that are summed over parts of a minibatch.
    pub(crate) fn numbers(&self) -> [f64; 6] {
        let Self { loss, policy_loss, value_loss, entropy, approx_kl, clip_fraction } = *self;
        [loss, policy_loss, value_loss, entropy, approx_kl, clip_fraction]
    }

    /// The reverse of [`LossMetrics::numbers`].
    pub(crate) fn of_numbers(numbers: [f64; 6]) -> Self {
        let [loss, policy_loss, value_loss, entropy, approx_kl, clip_fraction] = numbers;
        Self { loss, policy_loss, value_loss, entropy, approx_kl, clip_fraction }
    }
}

/// What of a loss is wanted; policy and value can be had apart, since no term has both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LossPart {
    /// Everything.
    Whole,
    /// Policy loss and entropy; values are not read and their gradient is not written.
    Policy,
    /// Value loss; outputs are not read and their gradient is not written.
    Value,
}

/// Computes one chunk's part of a minibatch's loss and the gradient with respect to its outputs.
///
/// `rows` holds the chunk's rows, `total_weight` the weight of the whole minibatch, by which the
/// gradient is divided. Actions must be in range and allowed ([`Minibatch`]s of learners are
/// checked before they come here). Rows of weight 0 get gradient 0.
#[must_use]
pub fn chunk_loss(
    loss: &Loss,
    layout: &ActionLayout,
    total_weight: f64,
    rows: &Minibatch<'_>,
    outputs: Outputs<'_>,
    gradients: &mut OutputGradients<'_>,
) -> LossSums {
    let rows = Minibatch { whole: Some(total_weight), ..*rows };
    let room = &mut Room::default();
    part_of_loss(loss, LossPart::Whole, layout, &rows, outputs, gradients, room)
}

/// As [`chunk_loss`], for a part of the loss; `rows` say what the whole minibatch weighs.
pub(crate) fn part_of_loss(
    loss: &Loss,
    part: LossPart,
    layout: &ActionLayout,
    rows: &Minibatch<'_>,
    outputs: Outputs<'_>,
    gradients: &mut OutputGradients<'_>,
    room: &mut Room,
) -> LossSums {
    let mut sums = LossSums::default();
    if part != LossPart::Value {
        policy_loss(loss, layout, rows, outputs.policy, gradients.policy, &mut sums, room);
    }
    if part != LossPart::Policy {
        value_loss(loss, rows, outputs.values, gradients.values, &mut sums);
    }
    sums
}

/// The blocks of `n` rows: their first rows and how many there are.
fn blocks(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).step_by(BLOCK).map(move |first| (first, BLOCK.min(n - first)))
}

/// A block of an array that is empty where the loss does not read it.
fn block_of(array: &[f32], first: usize, n: usize) -> &[f32] {
    const ZEROS: &Column = &[0.0; BLOCK];
    array.get(first..first + n).unwrap_or(&ZEROS[..n])
}

/// The policy's part of a loss.
fn policy_loss(
    loss: &Loss,
    layout: &ActionLayout,
    rows: &Minibatch<'_>,
    outputs: &[f32],
    gradients: &mut [f32],
    sums: &mut LossSums,
    room: &mut Room,
) {
    let (n_actions, width) = (layout.action_width(), layout.output_width());
    let mut distribution = Distribution::new(layout, room);
    let total_weight = rows.total_weight();
    let weight = |row: usize| rows.weights.map_or(1.0, |weights| weights[row]);
    for (first, n) in blocks(rows.n_rows()) {
        let wide = first * width..(first + n) * width;
        let actions = rows.actions.rows(first..first + n, n_actions);
        let mask = rows.action_mask.map(|mask| &mask[wide.clone()]);
        let block = Block { outputs: &outputs[wide.clone()], mask, actions };
        let Distributions { log_probs, entropies } = distribution.evaluate(&block);
        let mut writes = [[0.0; BLOCK]; 4];
        let old = block_of(rows.log_probs, first, n);
        let reads = [&log_probs[..n], old, &rows.advantages[first..first + n]];
        loss.objective.policy.run(n, &POLICY, reads, &mut writes);
        let [losses, d_log_probs, approx_kl, clipped] = &writes;
        let mut slopes = Slopes { d_log_probs: [0.0; BLOCK], d_entropies: [0.0; BLOCK] };
        let counted = |i: &usize| weight(first + i) != 0.0;
        for i in (0..n).filter(counted) {
            let weight = f64::from(weight(first + i));
            let count = |sum: &mut f64, x: f32| *sum += weight * f64::from(x);
            count(&mut sums.policy_loss, losses[i]);
            count(&mut sums.entropy, entropies[i]);
            count(&mut sums.approx_kl, approx_kl[i]);
            count(&mut sums.clip_fraction, clipped[i]);
            let scale = (weight / total_weight) as f32;
            slopes.d_log_probs[i] = scale * d_log_probs[i];
            slopes.d_entropies[i] = -scale * loss.ent_coef;
        }
        let gradients = &mut gradients[wide];
        distribution.gradient(actions, &slopes, gradients);
        for i in (0..n).filter(|i| !counted(i)) {
            gradients[i * width..][..width].fill(0.0);
        }
    }
}

/// The value's part of a loss.
fn value_loss(
    loss: &Loss,
    rows: &Minibatch<'_>,
    values: &[f32],
    gradients: &mut [f32],
    sums: &mut LossSums,
) {
    let total_weight = rows.total_weight();
    for (first, n) in blocks(rows.n_rows()) {
        let block = first..first + n;
        let mut writes = [[0.0; BLOCK]; 2];
        let old = block_of(rows.values, first, n);
        let reads = [&values[block.clone()], old, &rows.returns[block.clone()]];
        loss.objective.value.run(n, &VALUE, reads, &mut writes);
        let [losses, d_values] = &writes;
        for (i, gradient) in gradients[block].iter_mut().enumerate() {
            let weight = rows.weights.map_or(1.0, |weights| weights[first + i]);
            if weight == 0.0 {
                *gradient = 0.0;
                continue;
            }
            sums.value_loss += f64::from(weight) * f64::from(losses[i]);
            *gradient = (f64::from(weight) / total_weight) as f32 * loss.vf_coef * d_values[i];
        }
    }
}

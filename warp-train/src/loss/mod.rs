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
mod picked;
pub mod ppo;
pub mod row;
pub mod sac;
pub mod sac_discrete;
pub mod value_distribution;

pub use minibatch::Minibatch;
pub use picked::{Gathered, Picked};

use crate::error::PolicyError;
pub(crate) use block::Room;
use block::{BLOCK, Block, Column, Distributions, Slopes};
use distribution::Distribution;
use row::{Read, RowFunction, Rows, Write, no_draws};
use warp_sample::ActionLayout;

/// What an actor-critic descends: the policy's part, `vf_coef` times the value's, less `ent_coef` times the
/// entropy.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    /// The two parts.
    pub objective: Objective,
    /// Weight of the value's part.
    pub vf_coef: f32,
    /// Weight of the entropy bonus.
    pub ent_coef: f32,
}

/// The parts of a loss, none of which has numbers of both policy and value.
#[derive(Debug, Clone, PartialEq)]
pub struct Objective {
    /// Reads some of [`POLICY_READS`] and writes `loss`, `d_log_prob` and any of [`POLICY_FIGURES`].
    pub policy: Part,
    /// Reads some of [`VALUE_READS`] and writes `loss` and `d_value`.
    pub value: Part,
}

/// What a policy's part may read: the log-probability of the action now and when it was taken, and the
/// advantage.
pub const POLICY_READS: [&str; 3] = ["log_prob", "old_log_prob", "advantage"];
/// Figures that a policy's part may write: an estimate of the divergence from the old policy, and 1 where
/// the ratio is clipped, else 0.
pub const POLICY_FIGURES: [&str; 2] = ["approx_kl", "clip_fraction"];
/// What a value's part may read: the value estimate now and when the action was taken, and its target.
pub const VALUE_READS: [&str; 3] = ["value", "old_value", "target"];

/// The columns that a part may read and write.
struct Names<const READS: usize, const WRITES: usize> {
    reads: [&'static str; READS],
    writes: [&'static str; WRITES],
}

const POLICY: Names<3, 4> = Names {
    reads: POLICY_READS,
    writes: ["loss", "d_log_prob", POLICY_FIGURES[0], POLICY_FIGURES[1]],
};
const VALUE: Names<3, 2> = Names { reads: VALUE_READS, writes: ["loss", "d_value"] };

/// A row function with its coefficients, whose columns are told by their names.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The function.
    pub function: &'static RowFunction,
    /// Values of its cells.
    pub cells: Vec<f32>,
}

impl Part {
    /// Runs the function over the first `n` rows of columns, which lie in the order of `names`; those that
    /// it does not write stay as they are.
    fn run<const READS: usize, const WRITES: usize>(
        &self,
        n: usize,
        names: &Names<READS, WRITES>,
        reads: [&[f32]; READS],
        writes: &mut [Column; WRITES],
    ) {
        let position = |names: &[&str], name: &str| names.iter().position(|known| *known == name);
        let read = |name: &&str| Some(Read::rows(reads[position(&names.reads, name)?], 1));
        let reads: Vec<Read<'_>> = self.function.reads.iter().filter_map(read).collect();
        let mut free = writes.each_mut().map(Some);
        let write = |name: &&str| {
            let numbers = &mut free[position(&names.writes, name)?].take()?[..n];
            Some(Write { numbers, width: 1 })
        };
        let mut writes: Vec<Write<'_>> = self.function.writes.iter().filter_map(write).collect();
        let (cells, draws) = (&self.cells, &no_draws);
        (self.function.run)(Rows { n, cells, reads: &reads, writes: &mut writes, draws });
    }

    /// Checks the function's columns and cells.
    fn check(&self, reads: &[&str], writes: &[&str], needed: &[&str]) -> Result<(), PolicyError> {
        let RowFunction { name, .. } = self.function;
        let invalid = |reason: String| {
            Err(PolicyError::InvalidConfig(format!("row function {name}: {reason}")))
        };
        for (verb, own, known) in
            [("reads", self.function.reads, reads), ("writes", self.function.writes, writes)]
        {
            if let Some(column) = own.iter().find(|column| !known.contains(column)) {
                return invalid(format!(
                    "it {verb} {column}, but a loss {verb} {}",
                    known.join(", ")
                ));
            }
        }
        if let Some(column) = needed.iter().find(|column| !self.function.writes.contains(column)) {
            return invalid(format!("it does not write {column}"));
        }
        if self.function.draws {
            return invalid("a loss does not draw".into());
        }
        let (n, given) = (self.function.cells.len(), self.cells.len());
        if n != given {
            return invalid(format!("it has {n} cells, but {given} values are given"));
        }
        match self.cells.iter().find(|cell| !cell.is_finite()) {
            Some(cell) => invalid(format!("{cell} is given, which is not finite")),
            None => Ok(()),
        }
    }

    fn reads(&self, column: &str) -> bool {
        self.function.reads.contains(&column)
    }
}

impl Objective {
    /// Checks that the functions are those of a loss, and their cells finite.
    ///
    /// # Errors
    /// A column that no loss has, one that is missing, or a cell that is not finite.
    pub fn check(&self) -> Result<(), PolicyError> {
        self.policy.check(&POLICY.reads, &POLICY.writes, &POLICY.writes[..2])?;
        self.value.check(&VALUE.reads, &VALUE.writes, &VALUE.writes)
    }
}

impl Loss {
    /// Whether the loss reads `Minibatch::log_probs`.
    #[must_use]
    pub fn reads_log_probs(&self) -> bool {
        self.objective.policy.reads(POLICY_READS[1])
    }

    /// Whether the loss reads `Minibatch::values`.
    #[must_use]
    pub fn reads_values(&self) -> bool {
        self.objective.value.reads(VALUE_READS[1])
    }

    /// Checks that the functions are those of a loss, and all coefficients finite.
    pub(crate) fn check(&self) -> Result<(), PolicyError> {
        self.objective.check()?;
        let finite = self.vf_coef.is_finite() && self.ent_coef.is_finite();
        match finite {
            true => Ok(()),
            false => Err(PolicyError::InvalidConfig(format!(
                "a loss needs finite coefficients, but has vf_coef = {} and ent_coef = {}",
                self.vf_coef, self.ent_coef
            ))),
        }
    }
}

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

//! The losses' common part: one pass over a chunk's outputs that gives metrics and output gradients.
//!
//! Plain Rust over slices, with no tensor library: a network's learner feeds the gradients with respect to
//! policy outputs (logits, or means and log-deviations) and values back through its layers. What differs
//! between algorithms is a function of one row ([`PpoConfig`], [`A2cConfig`]); the entropy bonus and the
//! weighted means are here.

mod categorical;
pub mod deterministic;
mod distribution;
pub mod dqn;
mod gaussian;
mod minibatch;
pub mod noise;
pub mod row;
pub mod sac;
pub mod sac_discrete;

pub use minibatch::Minibatch;

use crate::a2c::A2cConfig;
use crate::policy_error::PolicyError;
use crate::ppo::PpoConfig;
use distribution::Distribution;
use warp_sample::ActionLayout;

/// Which loss to descend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LossConfig {
    /// Proximal policy optimisation.
    Ppo(PpoConfig),
    /// Advantage actor-critic.
    A2c(A2cConfig),
}

impl LossConfig {
    /// Whether the loss reads `Minibatch::log_probs`.
    #[must_use]
    pub fn reads_log_probs(&self) -> bool {
        matches!(self, Self::Ppo(_))
    }

    /// Whether the loss reads `Minibatch::values`.
    #[must_use]
    pub fn reads_values(&self) -> bool {
        matches!(self, Self::Ppo(config) if config.clip_vloss)
    }

    /// An error if a coefficient is not a finite number, or `clip_coef` is negative.
    pub(crate) fn check(&self) -> Result<(), PolicyError> {
        let clip_coef = match self {
            Self::Ppo(config) => config.clip_coef,
            Self::A2c(_) => 0.0,
        };
        let coefficients = [clip_coef, self.vf_coef(), self.ent_coef()];
        if clip_coef >= 0.0 && coefficients.iter().all(|coefficient| coefficient.is_finite()) {
            return Ok(());
        }
        Err(PolicyError::InvalidConfig(format!(
            "a loss needs finite coefficients and clip_coef not negative, but has {self:?}"
        )))
    }

    fn ent_coef(&self) -> f32 {
        match self {
            Self::Ppo(config) => config.ent_coef,
            Self::A2c(config) => config.ent_coef,
        }
    }

    fn vf_coef(&self) -> f32 {
        match self {
            Self::Ppo(config) => config.vf_coef,
            Self::A2c(config) => config.vf_coef,
        }
    }

    /// Value loss of a row and its derivative by the value, for a value, the old one and the target.
    fn value(&self, value: f32, old_value: f32, target: f32) -> (f32, f32) {
        match self {
            Self::Ppo(config) => config.value(value, old_value, target),
            Self::A2c(_) => A2cConfig::value(value, target),
        }
    }

    fn row(&self, row: &Row) -> RowLoss {
        match self {
            Self::Ppo(config) => config.row(row),
            Self::A2c(config) => config.row(row),
        }
    }
}

/// What an algorithm sees of one row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// Log-probability of the action now.
    pub(crate) log_prob: f32,
    /// Log-probability when the action was taken (0 where the loss doesn't read it).
    pub(crate) old_log_prob: f32,
    /// Value estimate now.
    pub(crate) value: f32,
    /// Value estimate when the action was taken (0 where the loss doesn't read it).
    pub(crate) old_value: f32,
    /// The advantage.
    pub(crate) advantage: f32,
    /// The value target.
    pub(crate) target: f32,
}

/// What an algorithm says of one row: losses, their derivatives, and figures to watch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RowLoss {
    /// Policy loss.
    pub(crate) policy_loss: f32,
    /// Derivative of the policy loss by `log_prob`.
    pub(crate) d_log_prob: f32,
    /// Value loss, before `vf_coef`.
    pub(crate) value_loss: f32,
    /// Derivative of the value loss by `value`, before `vf_coef`.
    pub(crate) d_value: f32,
    /// Estimate of the divergence from the old policy.
    pub(crate) approx_kl: f32,
    /// 1 where the ratio lies outside the clipping range, else 0.
    pub(crate) clipped: f32,
}

/// A network's outputs for some rows.
#[derive(Debug, Clone, Copy)]
pub struct Outputs<'a> {
    /// Logits (unnormalised log-probabilities), or means and then log-deviations, f32
    /// `[rows, output_width]`.
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
    pub fn means(&self, loss: &LossConfig, total_weight: f64) -> LossMetrics {
        let scale = if total_weight > 0.0 { 1.0 / total_weight } else { 0.0 };
        let [policy_loss, value_loss, entropy] =
            [self.policy_loss, self.value_loss, self.entropy].map(|sum| sum * scale);
        LossMetrics {
            loss: policy_loss + f64::from(loss.vf_coef()) * value_loss
                - f64::from(loss.ent_coef()) * entropy,
            policy_loss,
            value_loss,
            entropy,
            approx_kl: self.approx_kl * scale,
            clip_fraction: self.clip_fraction * scale,
        }
    }

    fn add_row(&mut self, weight: f32, row: &RowLoss, entropy: f32) {
        let weight = f64::from(weight);
        self.policy_loss += weight * f64::from(row.policy_loss);
        self.value_loss += weight * f64::from(row.value_loss);
        self.entropy += weight * f64::from(entropy);
        self.approx_kl += weight * f64::from(row.approx_kl);
        self.clip_fraction += weight * f64::from(row.clipped);
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
    /// Share of rows whose ratio lies outside `1 - clip_coef ..= 1 + clip_coef`; 0 for A2C.
    pub clip_fraction: f64,
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
    loss: &LossConfig,
    layout: &ActionLayout,
    total_weight: f64,
    rows: &Minibatch<'_>,
    outputs: Outputs<'_>,
    gradients: &mut OutputGradients<'_>,
) -> LossSums {
    part_of_loss((loss, LossPart::Whole), layout, total_weight, rows, outputs, gradients)
}

/// As [`chunk_loss`], for a part of the loss.
pub(crate) fn part_of_loss(
    (loss, part): (&LossConfig, LossPart),
    layout: &ActionLayout,
    total_weight: f64,
    rows: &Minibatch<'_>,
    outputs: Outputs<'_>,
    gradients: &mut OutputGradients<'_>,
) -> LossSums {
    if part == LossPart::Value {
        return value_loss(loss, total_weight, rows, outputs.values, gradients.values);
    }
    let (n_actions, width) = (layout.action_width(), layout.output_width());
    let mut distribution = Distribution::new(layout);
    let mut sums = LossSums::default();
    let or_zero = |array: &[f32], i: usize| array.get(i).copied().unwrap_or(0.0);
    for i in 0..rows.n_rows() {
        let gradient = &mut gradients.policy[i * width..][..width];
        let weight = rows.weights.map_or(1.0, |weights| weights[i]);
        if weight == 0.0 {
            gradient.fill(0.0);
            if part == LossPart::Whole {
                gradients.values[i] = 0.0;
            }
            continue;
        }
        let action = rows.actions.rows(i..i + 1, n_actions);
        let mask = rows.action_mask.map(|mask| &mask[i * width..][..width]);
        let now = distribution.evaluate(&outputs.policy[i * width..][..width], mask, action);
        let whole = part == LossPart::Whole;
        let mut row = loss.row(&Row {
            log_prob: now.log_prob,
            old_log_prob: or_zero(rows.log_probs, i),
            value: if whole { outputs.values[i] } else { 0.0 },
            old_value: or_zero(rows.values, i),
            advantage: rows.advantages[i],
            target: rows.returns[i],
        });
        if !whole {
            row.value_loss = 0.0;
        }
        sums.add_row(weight, &row, now.entropy);
        let scale = (f64::from(weight) / total_weight) as f32;
        let d_entropy = -scale * loss.ent_coef();
        distribution.gradient(action, scale * row.d_log_prob, d_entropy, gradient);
        if whole {
            gradients.values[i] = scale * loss.vf_coef() * row.d_value;
        }
    }
    sums
}

/// The value's part of a loss.
fn value_loss(
    loss: &LossConfig,
    total_weight: f64,
    rows: &Minibatch<'_>,
    values: &[f32],
    gradients: &mut [f32],
) -> LossSums {
    let mut sums = LossSums::default();
    for (i, (value, gradient)) in values.iter().zip(gradients).enumerate() {
        let weight = rows.weights.map_or(1.0, |weights| weights[i]);
        if weight == 0.0 {
            *gradient = 0.0;
            continue;
        }
        let old_value = rows.values.get(i).copied().unwrap_or(0.0);
        let (value_loss, d_value) = loss.value(*value, old_value, rows.returns[i]);
        sums.add_row(weight, &RowLoss { value_loss, ..RowLoss::default() }, 0.0);
        *gradient = (f64::from(weight) / total_weight) as f32 * loss.vf_coef() * d_value;
    }
    sums
}

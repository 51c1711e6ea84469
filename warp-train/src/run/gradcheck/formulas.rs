//! The losses of one row in f64, written from their formulas and nothing else.
//!
//! Each comes with its distance from the nearest point at which it has no derivative.

use crate::loss::Loss;
use crate::loss::a2c::A2cConfig;
use crate::loss::actions::ActionsRef;
use crate::loss::ppo::PpoConfig;
use warp_sample::{ActionLayout, Bounding, GaussianLayout};

/// A loss that is known by its formula.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Formula {
    /// Proximal policy optimisation.
    Ppo(PpoConfig),
    /// Advantage actor-critic.
    A2c(A2cConfig),
}

impl From<&Formula> for Loss {
    fn from(formula: &Formula) -> Self {
        match formula {
            Formula::Ppo(keys) => (*keys).into(),
            Formula::A2c(keys) => (*keys).into(),
        }
    }
}

/// One row of a minibatch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) action: ActionsRef<'a>,
    /// Allowed actions; empty: all.
    pub(super) mask: &'a [u8],
    pub(super) old_log_prob: f64,
    pub(super) old_value: f64,
    pub(super) advantage: f64,
    pub(super) target: f64,
}

/// A row's loss and how far it is from a kink.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowLoss {
    pub(super) loss: f64,
    pub(super) to_kink: f64,
}

/// The loss of a row for what the network gave: outputs f64 `[output_width]` and a value.
pub(super) fn row_loss(
    loss: &Formula,
    layout: &ActionLayout,
    row: &Row<'_>,
    outputs: &[f64],
    value: f64,
) -> RowLoss {
    let (log_prob, entropy, mut to_kink) = match (layout, row.action) {
        (ActionLayout::Discrete(heads), ActionsRef::Discrete(actions)) => {
            let (log_prob, entropy) = categorical(outputs, row.mask, actions, heads.sizes());
            (log_prob, entropy, f64::INFINITY)
        }
        (ActionLayout::Continuous(elements), ActionsRef::Continuous(raw)) => {
            gaussian(outputs, raw, elements)
        }
        _ => (f64::NAN, f64::NAN, 0.0),
    };
    let error = value - row.target;
    let loss = match loss {
        Formula::A2c(c) => {
            -log_prob * row.advantage + f64::from(c.vf_coef) * error * error
                - f64::from(c.ent_coef) * entropy
        }
        Formula::Ppo(c) => {
            let clip = f64::from(c.clip_coef);
            let ratio = (log_prob - row.old_log_prob).exp();
            let clipped = ratio.clamp(1.0 - clip, 1.0 + clip);
            let policy = (-row.advantage * ratio).max(-row.advantage * clipped);
            to_kink = to_kink.min(((ratio - 1.0).abs() - clip).abs());
            let (mut squared, step) = (error * error, value - row.old_value);
            if c.clip_vloss {
                let far = (row.old_value + step.clamp(-clip, clip) - row.target).powi(2);
                to_kink = to_kink.min((step.abs() - clip).abs());
                if step.abs() > clip {
                    to_kink = to_kink.min((far - squared).abs());
                }
                squared = squared.max(far);
            }
            policy + f64::from(c.vf_coef) * 0.5 * squared - f64::from(c.ent_coef) * entropy
        }
    };
    RowLoss { loss, to_kink }
}

/// Log-probability of the actions and entropy, summed over heads.
fn categorical(logits: &[f64], mask: &[u8], actions: &[i32], sizes: &[usize]) -> (f64, f64) {
    let (mut log_prob, mut entropy, mut start) = (0.0, 0.0, 0);
    for (&size, &action) in sizes.iter().zip(actions) {
        let allowed = |j: &usize| mask.get(*j).is_none_or(|allowed| *allowed != 0);
        let allowed = || (start..start + size).filter(allowed).map(|j| logits[j]);
        let largest = allowed().fold(f64::NEG_INFINITY, f64::max);
        let log_sum = largest + allowed().map(|x| (x - largest).exp()).sum::<f64>().ln();
        log_prob += logits[start + action as usize] - log_sum;
        entropy -= allowed().map(|x| (x - log_sum).exp() * (x - log_sum)).sum::<f64>();
        start += size;
    }
    (log_prob, entropy)
}

/// Log-density of the raw samples after bounding, entropy, and distance from the range of log
/// standard deviations (negative outside: there the gradient is a rule and no derivative).
fn gaussian(outputs: &[f64], raw: &[f32], layout: &GaussianLayout) -> (f64, f64, f64) {
    let (mut log_prob, mut entropy, mut to_kink) = (0.0, 0.0, f64::INFINITY);
    let (means, log_stds) = outputs.split_at(raw.len());
    let (low, high) = layout.log_std_range();
    for (i, &u) in raw.iter().enumerate() {
        let (u, mean, log_std) = (f64::from(u), means[i], log_stds[i]);
        to_kink = to_kink.min(log_std - f64::from(low)).min(f64::from(high) - log_std);
        let half_ln_tau = 0.5 * std::f64::consts::TAU.ln();
        let z = (u - mean) / log_std.exp();
        log_prob += -0.5 * z * z - log_std - half_ln_tau;
        entropy += 0.5 + half_ln_tau + log_std;
        if layout.bounding() == Bounding::Squash {
            // Of half the element's range; a constant, which the layout gives with the entropy.
            let ln_half = f64::from(layout.log_jacobian(i, 0.0));
            log_prob -= ln_half + log_slope(u);
            entropy += ln_half + mean_log_slope(mean, log_std.exp());
        }
    }
    (log_prob, entropy, to_kink)
}

/// ln(1 - tanh(u)^2), also where that is too small to be computed that way.
fn log_slope(u: f64) -> f64 {
    2.0 * (std::f64::consts::LN_2 - u.abs() - (-2.0 * u.abs()).exp().ln_1p())
}

/// Its mean over a normal number, by Gauss and Hermite's quadrature with seven nodes.
fn mean_log_slope(mean: f64, std: f64) -> f64 {
    const NODES: [(f64, f64); 3] = [
        (1.154_405_394_739_968_2, 0.240_123_178_605_012_7),
        (2.366_759_410_734_541_5, 0.030_757_123_967_586_5),
        (3.750_439_717_725_742_3, 0.000_548_268_855_972_2),
    ];
    let pair = |(node, weight): (f64, f64)| {
        weight * (log_slope(mean + std * node) + log_slope(mean - std * node))
    };
    0.457_142_857_142_857_1 * log_slope(mean) + NODES.into_iter().map(pair).sum::<f64>()
}

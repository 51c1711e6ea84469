//! The distribution of a row's action, of either kind.

use super::categorical::Categorical;
use super::gaussian::Gaussian;
use crate::loss::actions::ActionsRef;
use warp_sample::ActionLayout;

/// Rows whose distributions are kept at a time.
pub(super) const BLOCK: usize = 64;

/// One row's distribution: log-probability of the action taken and entropy, summed over heads or
/// elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RowDistribution {
    /// Natural logarithm of the probability (continuous: of the density) of the action taken.
    pub(super) log_prob: f32,
    /// Entropy in nats.
    pub(super) entropy: f32,
}

/// Distributions of one layout, of up to [`BLOCK`] rows.
#[derive(Debug)]
pub(super) enum Distribution<'a> {
    Categorical(Categorical<'a>),
    Gaussian(Gaussian<'a>),
}

impl<'a> Distribution<'a> {
    pub(super) fn new(layout: &'a ActionLayout) -> Self {
        match layout {
            ActionLayout::Discrete(heads) => Self::Categorical(Categorical::new(heads.sizes())),
            ActionLayout::Continuous(elements) => Self::Gaussian(Gaussian::new(elements)),
        }
    }

    /// Computes row number `row`'s distribution from `outputs` `[output_width]`, `mask` and a checked
    /// action, and keeps what [`Self::gradient`] needs.
    pub(super) fn evaluate(
        &mut self,
        row: usize,
        outputs: &[f32],
        mask: Option<&[u8]>,
        action: ActionsRef<'_>,
    ) -> RowDistribution {
        match (self, action) {
            (Self::Categorical(one), ActionsRef::Discrete(a)) => {
                one.evaluate(row, outputs, mask, a)
            }
            (Self::Gaussian(one), ActionsRef::Continuous(raw)) => one.evaluate(row, outputs, raw),
            // Checked before; a NaN would stop the optimiser.
            _ => RowDistribution { log_prob: f32::NAN, entropy: f32::NAN },
        }
    }

    /// Writes `d_log_prob * d log_prob / d outputs + d_entropy * d entropy / d outputs` of row number
    /// `row` into `gradient` `[output_width]`.
    pub(super) fn gradient(
        &self,
        row: usize,
        action: ActionsRef<'_>,
        d_log_prob: f32,
        d_entropy: f32,
        gradient: &mut [f32],
    ) {
        match (self, action) {
            (Self::Categorical(one), ActionsRef::Discrete(actions)) => {
                one.gradient(row, actions, d_log_prob, d_entropy, gradient);
            }
            (Self::Gaussian(one), ActionsRef::Continuous(_)) => {
                one.gradient(row, d_log_prob, d_entropy, gradient);
            }
            _ => gradient.fill(f32::NAN),
        }
    }
}

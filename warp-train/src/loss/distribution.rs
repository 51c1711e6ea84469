//! The distribution of a row's action, of either kind.

use super::categorical::Categorical;
use super::gaussian::Gaussian;
use crate::actions::ActionsRef;
use warp_sample::ActionLayout;

/// One row's distribution: log-probability of the action taken and entropy, summed over heads or
/// elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RowDistribution {
    /// Natural logarithm of the probability (continuous: of the density) of the action taken.
    pub(super) log_prob: f32,
    /// Entropy in nats.
    pub(super) entropy: f32,
}

/// Distributions of one layout, computed row after row in the same memory.
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

    /// Computes the row's distribution from `outputs` `[output_width]`, `mask` and a checked action,
    /// and keeps what [`Self::gradient`] needs.
    pub(super) fn evaluate(
        &mut self,
        outputs: &[f32],
        mask: Option<&[u8]>,
        action: ActionsRef<'_>,
    ) -> RowDistribution {
        match (self, action) {
            (Self::Categorical(one), ActionsRef::Discrete(a)) => one.evaluate(outputs, mask, a),
            (Self::Gaussian(one), ActionsRef::Continuous(raw)) => one.evaluate(outputs, raw),
            // Checked before; a NaN would stop the optimiser.
            _ => RowDistribution { log_prob: f32::NAN, entropy: f32::NAN },
        }
    }

    /// Writes `d_log_prob * d log_prob / d outputs + d_entropy * d entropy / d outputs` of the row
    /// last evaluated into `gradient` `[output_width]`.
    pub(super) fn gradient(
        &self,
        action: ActionsRef<'_>,
        d_log_prob: f32,
        d_entropy: f32,
        gradient: &mut [f32],
    ) {
        match (self, action) {
            (Self::Categorical(one), ActionsRef::Discrete(actions)) => {
                one.gradient(actions, d_log_prob, d_entropy, gradient);
            }
            (Self::Gaussian(one), ActionsRef::Continuous(_)) => {
                one.gradient(d_log_prob, d_entropy, gradient);
            }
            _ => gradient.fill(f32::NAN),
        }
    }
}

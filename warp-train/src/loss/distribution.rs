//! The distributions of some rows' actions, of either kind.

use super::block::{BLOCK, Block, Distributions, Room, Slopes};
use super::categorical::Categorical;
use super::gaussian::Gaussian;
use crate::loss::actions::ActionsRef;
use warp_sample::ActionLayout;

/// Distributions of one layout, of a block.
#[derive(Debug)]
pub(super) enum Distribution<'a> {
    Categorical(Categorical<'a>),
    Gaussian(Gaussian<'a>),
}

impl<'a> Distribution<'a> {
    pub(super) fn new(layout: &'a ActionLayout, room: &'a mut Room) -> Self {
        match layout {
            ActionLayout::Discrete(heads) => {
                Self::Categorical(Categorical::new(heads.sizes(), room))
            }
            ActionLayout::Continuous(elements) => Self::Gaussian(Gaussian::new(elements, room)),
        }
    }

    /// Computes the distributions of a block, and keeps what [`Self::gradient`] needs. What comes of rows that do
    /// not count means nothing.
    pub(super) fn evaluate(&mut self, block: &Block<'_>) -> Distributions {
        match (self, block.actions) {
            (Self::Categorical(all), ActionsRef::Discrete(actions)) => all.evaluate(block, actions),
            (Self::Gaussian(all), ActionsRef::Continuous(raw)) => all.evaluate(block, raw),
            // Checked before; a NaN would stop the optimiser.
            _ => Distributions { log_probs: [f32::NAN; BLOCK], entropies: [f32::NAN; BLOCK] },
        }
    }

    /// Writes `d_log_prob * d log_prob / d outputs + d_entropy * d entropy / d outputs` of each row of the last block
    /// into `gradients` `[n, output_width]`.
    pub(super) fn gradient(
        &mut self,
        actions: ActionsRef<'_>,
        slopes: &Slopes,
        gradients: &mut [f32],
    ) {
        match (self, actions) {
            (Self::Categorical(all), ActionsRef::Discrete(actions)) => {
                all.gradient(actions, slopes, gradients);
            }
            (Self::Gaussian(all), ActionsRef::Continuous(_)) => all.gradient(slopes, gradients),
            _ => gradients.fill(f32::NAN),
        }
    }
}

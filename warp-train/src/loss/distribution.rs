//! The distributions of some rows' actions, of either kind.

use super::categorical::Categorical;
use super::gaussian::Gaussian;
use crate::loss::actions::ActionsRef;
use crate::vectors::{Matrix, transpose};
use warp_sample::ActionLayout;

/// Rows whose distributions are computed side by side.
pub(super) const BLOCK: usize = 64;

/// A number for each row of a block.
pub(super) type Column = [f32; BLOCK];

/// Memory for a block's distributions, used again and again.
#[derive(Debug, Default)]
pub(crate) struct Room {
    pub(super) columns: [Vec<Column>; 3],
}

/// Up to [`BLOCK`] rows of a minibatch and what a network gave for them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    /// f32 `[n, output_width]`.
    pub(super) outputs: &'a [f32],
    /// u8 `[n, output_width]`, if anything is forbidden.
    pub(super) mask: Option<&'a [u8]>,
    /// Those of rows that count are checked.
    pub(super) actions: ActionsRef<'a>,
}

/// Log-probabilities of the actions taken and entropies, summed over heads or elements, of each row.
#[derive(Debug, PartialEq)]
pub(super) struct Distributions {
    /// Natural logarithm of the probability (continuous: of the density) of the action taken.
    pub(super) log_probs: Column,
    /// Entropy in nats.
    pub(super) entropies: Column,
}

/// What the log-probability and the entropy of each row count in a loss.
#[derive(Debug)]
pub(super) struct Slopes {
    pub(super) d_log_probs: Column,
    pub(super) d_entropies: Column,
}

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

/// Transposes `rows`, f32 `[n, columns.len()]`, into columns.
pub(super) fn to_columns(rows: &[f32], columns: &mut [Column]) {
    let width = columns.len();
    let rows = Matrix { values: rows, rows: rows.len() / width, columns: width, stride: width };
    transpose(rows, columns.as_flattened_mut(), BLOCK);
}

/// The reverse of [`to_columns`].
pub(super) fn to_rows(columns: &[Column], rows: &mut [f32]) {
    let width = columns.len();
    let values = columns.as_flattened();
    let columns = Matrix { values, rows: width, columns: rows.len() / width, stride: BLOCK };
    transpose(columns, rows, width);
}

//! Blocks of rows whose distributions are computed side by side: a number of all rows is one column.

use crate::loss::actions::ActionsRef;
use crate::vectors::{Matrix, transpose};

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

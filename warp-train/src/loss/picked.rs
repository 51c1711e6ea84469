//! The rows of a rollout that one gradient is computed from. Whoever computes it gathers them, so that its threads can
//! share that work.

use super::Minibatch;
use crate::loss::actions::{Actions, pick_rows};
use std::ops::Range;
use warp_sample::ActionLayout;

/// Rows of a minibatch, or of the samples of a rollout.
#[derive(Debug, Clone, Copy)]
pub struct Picked<'a> {
    /// Arrays of all rows that there are.
    pub(crate) all: Minibatch<'a>,
    /// Numbers of those that are picked, in their order; `None`: all.
    pub(crate) rows: Option<&'a [u32]>,
    /// What advantages of picked rows are reduced by and then multiplied with, if they are to be normalised.
    pub(crate) normalised: Option<[f64; 2]>,
    /// Numbers per observation.
    pub(crate) width: usize,
    pub(crate) layout: &'a ActionLayout,
}

/// Memory for gathered rows, used again and again.
#[derive(Debug, Default)]
pub struct Gathered {
    obs: Vec<f32>,
    action_mask: Vec<u8>,
    actions: Actions,
    log_probs: Vec<f32>,
    values: Vec<f32>,
    advantages: Vec<f32>,
    returns: Vec<f32>,
}

impl<'a> Picked<'a> {
    /// All rows of a minibatch.
    pub(crate) fn all(all: Minibatch<'a>, width: usize, layout: &'a ActionLayout) -> Self {
        Self { all, rows: None, normalised: None, width, layout }
    }

    /// How many rows are picked.
    pub(crate) fn n_rows(&self) -> usize {
        self.rows.map_or(self.all.n_rows(), <[u32]>::len)
    }

    /// Sum of the sample weights that means are taken over. Samples of a rollout weigh 1.
    pub(crate) fn total_weight(&self) -> f64 {
        match (self.all.whole, self.rows) {
            (Some(whole), _) => whole,
            (None, Some(rows)) => rows.len() as f64,
            (None, None) => self.all.total_weight(),
        }
    }

    /// All picked rows as one piece.
    pub fn minibatch<'b>(&'b self, room: &'b mut Gathered) -> Minibatch<'b> {
        let all = 0..self.n_rows();
        self.gather(all.clone(), room);
        self.gathered(all, room)
    }

    /// Copies the rows `range` of those that are picked, unless they lie in one piece anyway.
    pub(crate) fn gather(&self, range: Range<usize>, room: &mut Gathered) {
        let Self { all, width, layout, .. } = self;
        let Some(rows) = self.rows.map(|rows| &rows[range]) else { return };
        pick_rows(&mut room.obs, all.observations, rows, *width);
        room.actions.pick(all.actions, rows, layout.action_width());
        pick_rows(&mut room.log_probs, all.log_probs, rows, 1);
        pick_rows(&mut room.values, all.values, rows, 1);
        pick_rows(&mut room.advantages, all.advantages, rows, 1);
        pick_rows(&mut room.returns, all.returns, rows, 1);
        if let Some(mask) = all.action_mask {
            pick_rows(&mut room.action_mask, mask, rows, layout.mask_width());
        }
        if let Some([mean, scale]) = self.normalised {
            let normalise = |x: &mut f32| *x = ((f64::from(*x) - mean) * scale) as f32;
            room.advantages.iter_mut().for_each(normalise);
        }
    }

    /// The rows `range`, which [`Picked::gather`] has put into `room`.
    pub(crate) fn gathered<'b>(&'b self, range: Range<usize>, room: &'b Gathered) -> Minibatch<'b> {
        if self.rows.is_none() {
            return self.all.rows(range, self.width, self.layout);
        }
        Minibatch {
            observations: &room.obs,
            actions: room.actions.view(),
            log_probs: &room.log_probs,
            advantages: &room.advantages,
            returns: &room.returns,
            values: &room.values,
            action_mask: self.all.action_mask.map(|_| &*room.action_mask),
            ..self.all
        }
    }
}

//! The rows that one gradient is computed from, borrowed from the rollout, checked before use.

use std::ops::Range;

use super::objective::Loss;
use crate::error::{PolicyError, check_length};
use crate::loss::actions::ActionsRef;
use warp_sample::ActionLayout;

/// `n` rows of experience; all arrays are row-major and contiguous.
#[derive(Debug, Clone, Copy)]
pub struct Minibatch<'a> {
    /// What the policy saw, f32 `[n, observation_width]`.
    pub observations: &'a [f32],
    /// What it did: i32 `[n, heads]`, each in `0..head_sizes[head]`, or raw samples f32 `[n, dim]`.
    pub actions: ActionsRef<'a>,
    /// Log-probability of those actions when they were taken, f32 `[n]`. A2C doesn't read it.
    pub log_probs: &'a [f32],
    /// Advantages, already normalised if they are to be, f32 `[n]`.
    pub advantages: &'a [f32],
    /// Value targets, f32 `[n]`.
    pub returns: &'a [f32],
    /// Value estimates when the actions were taken, f32 `[n]`. A2C doesn't read it.
    pub values: &'a [f32],
    /// Sample weights, f32 `[n]`, finite and not negative; 0 leaves a row (a dead agent) out, whatever
    /// its other arrays hold, so long as its observation is finite. `None` weighs every row 1.
    pub weights: Option<&'a [f32]>,
    /// Sum of the weights of all rows that means are taken over, where these are a part of them. `None`: these
    /// are all.
    pub whole: Option<f64>,
    /// 1 = allowed, u8 `[n, sum of head_sizes]`. `None` allows everything; none for a box.
    pub action_mask: Option<&'a [u8]>,
}

impl<'a> Minibatch<'a> {
    /// Number of rows.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.returns.len()
    }

    /// Sum of the sample weights that means are taken over.
    #[must_use]
    pub fn total_weight(&self) -> f64 {
        match (self.whole, self.weights) {
            (Some(whole), _) => whole,
            (None, Some(weights)) => weights.iter().map(|&weight| f64::from(weight)).sum(),
            (None, None) => self.n_rows() as f64,
        }
    }

    /// The rows in `range`, for arrays that [`Self::check`] has passed.
    pub(crate) fn rows(&self, range: Range<usize>, width: usize, layout: &ActionLayout) -> Self {
        let wide = |columns: usize| range.start * columns..range.end * columns;
        // Arrays that a loss doesn't read may be empty.
        let optional = |array: &'a [f32]| array.get(range.clone()).unwrap_or(&[]);
        Self {
            observations: &self.observations[wide(width)],
            actions: self.actions.rows(range.clone(), layout.action_width()),
            log_probs: optional(self.log_probs),
            advantages: &self.advantages[range.clone()],
            returns: &self.returns[range.clone()],
            values: optional(self.values),
            weights: self.weights.map(|weights| &weights[range.clone()]),
            whole: self.whole,
            action_mask: self.action_mask.map(|mask| &mask[wide(layout.mask_width())]),
        }
    }

    /// Checks lengths, weights, and the actions of rows whose weight isn't zero.
    #[cfg(any(feature = "burn", feature = "cuda"))]
    pub(crate) fn check(
        &self,
        width: usize,
        layout: &ActionLayout,
        loss: &Loss,
    ) -> Result<(), PolicyError> {
        self.check_lengths(width, layout, loss)?;
        self.check_actions(layout, 0)
    }

    /// Checks lengths, weights and the kind of actions.
    pub(crate) fn check_lengths(
        &self,
        width: usize,
        layout: &ActionLayout,
        loss: &Loss,
    ) -> Result<(), PolicyError> {
        loss.check()?;
        let n = self.n_rows();
        check_length("observations", self.observations.len(), n, width)?;
        check_length("actions", self.actions.len(), n, layout.action_width())?;
        check_length("advantages", self.advantages.len(), n, 1)?;
        if loss.reads_log_probs() {
            check_length("log_probs", self.log_probs.len(), n, 1)?;
        }
        if loss.reads_values() {
            check_length("values", self.values.len(), n, 1)?;
        }
        if let Some(mask) = self.action_mask {
            check_length("action_mask", mask.len(), n, layout.mask_width())?;
        }
        if let Some(weights) = self.weights {
            check_length("weights", weights.len(), n, 1)?;
            let wrong = weights.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0));
            if let Some(row) = wrong {
                return Err(PolicyError::InvalidWeight { row, weight: weights[row] });
            }
        }
        match (layout, self.actions) {
            (ActionLayout::Discrete(_), ActionsRef::Discrete(_))
            | (ActionLayout::Continuous(_), ActionsRef::Continuous(_)) => Ok(()),
            _ => Err(PolicyError::OtherActions),
        }
    }

    /// Checks the actions of rows whose weight isn't zero; the first row is called number `first`.
    pub(crate) fn check_actions(
        &self,
        layout: &ActionLayout,
        first: usize,
    ) -> Result<(), PolicyError> {
        match (layout, self.actions) {
            (ActionLayout::Discrete(heads), ActionsRef::Discrete(actions)) => {
                self.check_discrete(heads.sizes(), actions, first)
            }
            (ActionLayout::Continuous(elements), ActionsRef::Continuous(raw)) => {
                self.check_continuous(elements.dim(), raw, first)
            }
            _ => Err(PolicyError::OtherActions),
        }
    }

    fn counts(&self, row: usize) -> bool {
        self.weights.is_none_or(|weights| weights[row] != 0.0)
    }

    fn check_continuous(&self, dim: usize, raw: &[f32], first: usize) -> Result<(), PolicyError> {
        let wrong = |(at, x): &(usize, &f32)| !x.is_finite() && self.counts(at / dim);
        match raw.iter().enumerate().find(wrong) {
            Some((at, &value)) => {
                Err(PolicyError::InvalidSample { row: first + at / dim, element: at % dim, value })
            }
            None => Ok(()),
        }
    }

    fn check_discrete(
        &self,
        head_sizes: &[usize],
        actions: &[i32],
        first: usize,
    ) -> Result<(), PolicyError> {
        let width: usize = head_sizes.iter().sum();
        for (row, actions) in actions.chunks_exact(head_sizes.len()).enumerate() {
            if !self.counts(row) {
                continue;
            }
            let mut mask = self.action_mask.map(|mask| &mask[row * width..][..width]);
            for (head, (&n_actions, &action)) in head_sizes.iter().zip(actions).enumerate() {
                let of_head = mask.map(|mask| &mask[..n_actions]);
                mask = mask.map(|mask| &mask[n_actions..]);
                let index = usize::try_from(action).unwrap_or(usize::MAX);
                if index < n_actions && of_head.is_none_or(|mask| mask[index] != 0) {
                    continue;
                }
                let count = |mask: &[u8]| mask.iter().filter(|&&allowed| allowed != 0).count();
                let allowed = of_head.map_or(n_actions, count);
                let row = first + row;
                return Err(PolicyError::InvalidAction { row, head, action, n_actions, allowed });
            }
        }
        Ok(())
    }
}

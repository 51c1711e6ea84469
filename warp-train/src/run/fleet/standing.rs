//! How a run stands, for processes that compare settings or train the rest of a fleet.

use super::summary::RunSummary;
use serde::{Deserialize, Serialize};

/// A run so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Standing {
    pub(super) run: usize,
    /// The bits of its mean return, since numbers in JSON are not always read as they were written; none if no episode
    /// has finished, or if the run failed.
    mean_bits: Option<u64>,
    pub(super) has_ended: bool,
    /// Whether it has ended early: it failed, or was stopped.
    pub(super) is_out: bool,
}

impl Standing {
    /// Of a run that has not ended.
    pub(super) fn open(run: usize, mean: Option<f64>) -> Self {
        Self { run, mean_bits: mean.map(f64::to_bits), has_ended: false, is_out: false }
    }

    /// Of one that has.
    pub(super) fn ended(run: &RunSummary) -> Self {
        let mean = run.mean_episode_return.filter(|_| run.error.is_none());
        Self {
            run: run.run,
            mean_bits: mean.map(f64::to_bits),
            has_ended: true,
            is_out: run.error.is_some() || run.stopped_in_round.is_some(),
        }
    }

    /// Mean return over its last episodes.
    pub(super) fn mean(&self) -> Option<f64> {
        self.mean_bits.map(f64::from_bits)
    }
}

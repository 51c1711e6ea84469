//! What optimisers make smaller, as functions of networks and one row, written from the papers.

use super::networks::Networks;
use crate::algorithm::PolicyConfig;

/// One row of a batch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    pub(crate) obs: Vec<f64>,
    pub(crate) action: Vec<f64>,
    pub(crate) reward: f64,
    pub(crate) discount: f64,
    pub(crate) next_obs: Vec<f64>,
    pub(crate) weight: f64,
    /// Choices that are allowed now; none without masks.
    pub(crate) mask: Vec<bool>,
    /// Choices that are allowed next; none without masks.
    pub(crate) next_mask: Vec<bool>,
    /// Standard normal numbers of the action that the actor draws; none if it draws nothing.
    pub(crate) noise: Vec<f64>,
    /// Standard normal numbers of the action that the actor draws next.
    pub(crate) next_noise: Vec<f64>,
}

impl Row {
    /// 1, or 0 where the agent had left: what losses count for that know no weights of samples.
    pub(crate) fn counts(&self) -> f64 {
        f64::from(u8::from(self.weight > 0.0))
    }
}

/// What one optimiser makes smaller: the mean of a loss over the rows of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Objective {
    /// The optimiser's name.
    pub(crate) name: &'static str,
    /// The models that it moves.
    pub(crate) models: &'static [&'static str],
    /// The column with the loss of every row, if there is one.
    pub(crate) column: Option<&'static str>,
    /// What a row's loss takes as given, by the networks of before the update: a target, or the probabilities
    /// of one.
    pub(crate) given: fn(&PolicyConfig, &Networks, &Row) -> Vec<f64>,
    /// A row's loss, with what is given.
    pub(crate) loss: fn(&PolicyConfig, &Networks, &Row, &[f64]) -> f64,
}

//! Two critics and their targets, of which the smaller value counts (Fujimoto et al., 2018).

use super::plan_builder::{LearningPass, PlanBuilder};
use super::{ColumnId, ModelId, PassId};
use crate::model::Perceptron;

/// Two critics, on a batch and, through their targets, on what follows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct TwinCritics {
    pub(super) models: [ModelId; 2],
    pub(super) targets: [ModelId; 2],
    /// On the batch, with a backward pass.
    pub(super) now: [LearningPass; 2],
    /// The targets, on what follows.
    pub(super) next: [PassId; 2],
}

impl TwinCritics {
    pub(super) fn plan(
        d: &mut PlanBuilder,
        network: &Perceptron,
        now: &[ColumnId],
        next: &[ColumnId],
    ) -> Self {
        let models = ["critic_1", "critic_2"].map(|name| d.model(name, network.clone()));
        let targets = models.map(|model| d.target(model));
        let [first, second] = models;
        let on_batch = [("q_1", first), ("q_2", second)];
        let [first, second] = targets;
        let on_next = [("next_q_1", first), ("next_q_2", second)];
        Self {
            models,
            targets,
            now: on_batch.map(|(name, model)| d.pass_and_back(name, model, now)),
            next: on_next.map(|(name, model)| d.pass(name, model, next)),
        }
    }

    /// All four passes.
    pub(super) fn passes(&self) -> [PassId; 4] {
        let ([q_1, q_2], [next_1, next_2]) = (self.learning(), self.next);
        [q_1, q_2, next_1, next_2]
    }

    /// Those on the batch.
    pub(super) fn learning(&self) -> [PassId; 2] {
        self.now.map(|on_batch| on_batch.pass)
    }

    /// Values on the batch.
    pub(super) fn q(&self) -> [ColumnId; 2] {
        self.now.map(|on_batch| on_batch.output)
    }

    /// Where the losses' derivatives by them go.
    pub(super) fn d_q(&self) -> [ColumnId; 2] {
        self.now.map(|on_batch| on_batch.d_output)
    }

    /// The targets' values of what follows.
    pub(super) fn next_q(&self, d: &PlanBuilder) -> [ColumnId; 2] {
        self.next.map(|pass| d.output(pass))
    }
}

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
    pub(super) on_batch: [LearningPass; 2],
    /// The targets, on what follows.
    pub(super) target_passes: [PassId; 2],
}

impl TwinCritics {
    pub(super) fn plan(
        plan: &mut PlanBuilder,
        network: &Perceptron,
        now: &[ColumnId],
        next: &[ColumnId],
    ) -> Self {
        let models = ["critic_1", "critic_2"].map(|name| plan.model(name, network.clone()));
        let targets = models.map(|model| plan.target(model));
        let [first, second] = models;
        let on_batch = [("q_1", first), ("q_2", second)]
            .map(|(name, model)| plan.pass_and_back(name, model, now));
        let [first, second] = targets;
        let target_passes = [("next_q_1", first), ("next_q_2", second)]
            .map(|(name, model)| plan.pass(name, model, next));
        Self { models, targets, on_batch, target_passes }
    }

    /// All four passes.
    pub(super) fn passes(&self) -> [PassId; 4] {
        let ([q_1, q_2], [next_1, next_2]) = (self.learning(), self.target_passes);
        [q_1, q_2, next_1, next_2]
    }

    /// The passes on the batch.
    pub(super) fn learning(&self) -> [PassId; 2] {
        self.on_batch.map(|critic| critic.pass)
    }

    /// Values on the batch.
    pub(super) fn q(&self) -> [ColumnId; 2] {
        self.on_batch.map(|critic| critic.output)
    }

    /// Where the losses' derivatives by them go.
    pub(super) fn d_q(&self) -> [ColumnId; 2] {
        self.on_batch.map(|critic| critic.d_output)
    }

    /// The targets' values of what follows.
    pub(super) fn next_q(&self, plan: &PlanBuilder) -> [ColumnId; 2] {
        self.target_passes.map(|pass| plan.output(pass))
    }
}

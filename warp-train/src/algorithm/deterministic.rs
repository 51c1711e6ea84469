//! What DDPG and TD3 have in common: an actor whose actions are tanh of what it gives, and noise.

use super::plan_builder::{Common, LearningPass, PlanBuilder};
use super::{ColumnId, Engine, ModelId, PassId, RowsId, RowsOf, noise};
use crate::algorithm::PolicyPlan;
use crate::error::Result;
use crate::loss::deterministic::SQUASH;
use warp_core::EnvSpec;

/// A deterministic actor that explores, and its target.
#[derive(Debug)]
pub(super) struct Actor {
    pub(super) model: ModelId,
    pub(super) target: ModelId,
    pub(super) acts: PassId,
    squash_acting: RowsId,
    explore: RowsId,
    /// The target on what follows.
    pub(super) next: PassId,
    /// On the batch, to be improved.
    pub(super) output: LearningPass,
    pub(super) squash: RowsId,
    /// Its action there, batch `[dim]`.
    pub(super) action: ColumnId,
}

impl Actor {
    pub(super) fn plan(
        d: &mut PlanBuilder,
        policy: &PolicyPlan,
        spec: &EnvSpec,
        common: &Common,
    ) -> Result<Self> {
        let (acting, replay, dim) = (common.acting, common.replay, common.action_width);
        let model = d.model("actor", PlanBuilder::perceptron(policy, common.obs_width, dim));
        let target = d.target(model);
        let acts = d.pass("output_acting", model, &[acting.obs]);
        let wanted = d.column("wanted", RowsOf::Acting, dim);
        let squash_acting = d.rows(&SQUASH, &[], &[d.output(acts)], &[wanted]);
        let explore = noise::explore(d, policy, spec, common, wanted)?;
        let next = d.pass("next_output", target, &[replay.next_obs]);
        let output = d.pass_and_back("output", model, &[replay.obs]);
        let action = d.column("actor_action", RowsOf::Batch, dim);
        let squash = d.rows(&SQUASH, &[], &[output.output], &[action]);
        Ok(Self { model, target, acts, squash_acting, explore, next, output, squash, action })
    }

    /// Acts with noise.
    pub(super) fn act(&self, engine: &mut dyn Engine) -> Result<()> {
        engine.forward(&[self.acts])?;
        engine.rows(self.squash_acting)?;
        engine.rows(self.explore)
    }
}

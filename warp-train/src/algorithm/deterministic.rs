//! The deterministic actor of DDPG and TD3: actions are tanh of the network's outputs, explored with noise.

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
    pub(super) act_pass: PassId,
    squash_acting: RowsId,
    explore: RowsId,
    /// The target on what follows.
    pub(super) target_pass: PassId,
    /// On the batch, to be improved.
    pub(super) on_batch: LearningPass,
    pub(super) squash: RowsId,
    /// Its action there, batch `[dim]`.
    pub(super) action: ColumnId,
}

impl Actor {
    pub(super) fn plan(
        plan: &mut PlanBuilder,
        policy: &PolicyPlan,
        spec: &EnvSpec,
        common: &Common,
    ) -> Result<Self> {
        let (acting, replay, dim) = (common.acting, common.replay, common.action_width);
        let model = plan.model("actor", PlanBuilder::perceptron(policy, common.obs_width, dim));
        let target = plan.target(model);
        let act_pass = plan.pass("output_acting", model, &[acting.obs]);
        let policy_action = plan.column("policy_action", RowsOf::Acting, dim);
        let squash_acting = plan.rows(&SQUASH, &[], &[plan.output(act_pass)], &[policy_action]);
        let explore = noise::explore(plan, policy, spec, common, policy_action)?;
        let target_pass = plan.pass("next_output", target, &[replay.next_obs]);
        let on_batch = plan.pass_and_back("output", model, &[replay.obs]);
        let action = plan.column("actor_action", RowsOf::Batch, dim);
        let squash = plan.rows(&SQUASH, &[], &[on_batch.output], &[action]);
        Ok(Self {
            model,
            target,
            act_pass,
            squash_acting,
            explore,
            target_pass,
            on_batch,
            squash,
            action,
        })
    }

    /// Acts with noise.
    pub(super) fn act(&self, engine: &mut dyn Engine) -> Result<()> {
        engine.forward(&[self.act_pass])?;
        engine.rows(self.squash_acting)?;
        engine.rows(self.explore)
    }
}

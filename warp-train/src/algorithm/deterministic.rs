//! What DDPG and TD3 have in common: an actor whose actions are tanh of what it gives, and noise.

use super::draft::{Common, Draft};
use super::{ColumnId, Engine, ModelId, PassId, RowsId, RowsOf};
use crate::config::{Noise, PolicyPlan};
use crate::error::Result;
use crate::loss::deterministic::{ACT, ACT_GAUSSIAN, ACT_OU, SQUASH};
use warp_core::EnvSpec;

/// A deterministic actor that explores, and its target.
#[derive(Debug)]
pub(super) struct Actor {
    pub(super) model: ModelId,
    pub(super) target: ModelId,
    pub(super) acts: PassId,
    explore: RowsId,
    /// The target on what follows.
    pub(super) next: PassId,
    /// On the batch, to be improved.
    pub(super) pass: PassId,
    pub(super) squash: RowsId,
    /// Its action there, batch `[dim]`.
    pub(super) action: ColumnId,
}

impl Actor {
    pub(super) fn plan(
        d: &mut Draft,
        policy: &PolicyPlan,
        spec: &EnvSpec,
        common: &Common,
    ) -> Result<Self> {
        let keys = &policy.config;
        let (acting, replay, dim) = (common.acting, common.replay, common.action_width);
        let bounds = d.bounds(policy, spec)?;
        let model = d.model("actor", Draft::perceptron(policy, common.obs_width, dim));
        let target = d.target(model);
        let acts = d.pass("output_acting", model, &[acting.obs]);
        let reads = [d.output(acts), bounds.low, bounds.high];
        let writes = [acting.action, acting.sent];
        let noise_std = d.cell("noise_std", keys.noise_std.clone());
        let explore = match keys.noise {
            Noise::None => d.rows(&ACT, &[common.random], &reads, &writes),
            Noise::Gaussian => d.rows(&ACT_GAUSSIAN, &[common.random, noise_std], &reads, &writes),
            Noise::Ou => {
                let damping = d.constant("noise_damping", keys.noise_damping);
                let noise = d.kept("noise", dim, 0.0);
                let reads = [reads[0], reads[1], reads[2], acting.begins];
                let writes = [noise, acting.action, acting.sent];
                d.rows(&ACT_OU, &[common.random, noise_std, damping], &reads, &writes)
            }
        };
        let next = d.pass("next_output", target, &[replay.next_obs]);
        let pass = d.pass_and_back("output", model, &[replay.obs]);
        let action = d.column("actor_action", RowsOf::Batch, dim);
        let squash = d.rows(&SQUASH, &[], &[d.output(pass)], &[action]);
        Ok(Self { model, target, acts, explore, next, pass, squash, action })
    }

    /// Acts with noise.
    pub(super) fn act(&self, engine: &mut dyn Engine) -> Result<()> {
        engine.forward(&[self.acts])?;
        engine.rows(self.explore)
    }
}

//! Exploration within a box: noise on the policy's action.

use super::plan_builder::{Common, PlanBuilder};
use super::{ColumnId, RowsId};
use crate::algorithm::{Noise, PolicyPlan};
use crate::error::Result;
use crate::loss::noise::{GAUSSIAN, OU, PLAIN};
use warp_core::EnvSpec;

/// Adds noise to `policy_action`, acting `[dim]`, and gives what the environment gets of the sum.
pub(super) fn explore(
    plan: &mut PlanBuilder,
    policy: &PolicyPlan,
    spec: &EnvSpec,
    common: &Common,
    policy_action: ColumnId,
) -> Result<RowsId> {
    let keys = &policy.config;
    let acting = common.acting;
    let bounds = plan.bounds(policy, spec)?;
    let reads = [policy_action, bounds.low, bounds.high];
    let writes = [acting.action, acting.env_action];
    let std = plan.exploration("noise_std", &keys.noise_std, policy);
    Ok(match keys.noise {
        Noise::None => plan.rows(&PLAIN, &[common.acting.random], &reads, &writes),
        Noise::Gaussian => plan.rows(&GAUSSIAN, &[common.acting.random, std], &reads, &writes),
        Noise::Ou => {
            let damping = plan.constant("noise_damping", keys.noise_damping);
            let noise = plan.kept("noise", common.action_width, 0.0);
            let reads = [policy_action, bounds.low, bounds.high, acting.begins];
            let writes = [noise, acting.action, acting.env_action];
            plan.rows(&OU, &[common.acting.random, std, damping], &reads, &writes)
        }
    })
}

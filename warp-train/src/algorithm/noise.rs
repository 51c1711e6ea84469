//! Exploration within a box: noise on the action that a policy wants.

use super::plan_builder::{Common, PlanBuilder};
use super::{ColumnId, RowsId};
use crate::algorithm::{Noise, PolicyPlan};
use crate::error::Result;
use crate::loss::noise::{GAUSSIAN, OU, PLAIN};
use warp_core::EnvSpec;

/// What makes of `wanted`, acting `[dim]`, what is done and sent.
pub(super) fn explore(
    d: &mut PlanBuilder,
    policy: &PolicyPlan,
    spec: &EnvSpec,
    common: &Common,
    wanted: ColumnId,
) -> Result<RowsId> {
    let keys = &policy.config;
    let acting = common.acting;
    let bounds = d.bounds(policy, spec)?;
    let reads = [wanted, bounds.low, bounds.high];
    let writes = [acting.action, acting.sent];
    let std = d.exploration("noise_std", &keys.noise_std, policy);
    Ok(match keys.noise {
        Noise::None => d.rows(&PLAIN, &[common.acting.random], &reads, &writes),
        Noise::Gaussian => d.rows(&GAUSSIAN, &[common.acting.random, std], &reads, &writes),
        Noise::Ou => {
            let damping = d.constant("noise_damping", keys.noise_damping);
            let noise = d.kept("noise", common.action_width, 0.0);
            let reads = [wanted, bounds.low, bounds.high, acting.begins];
            let writes = [noise, acting.action, acting.sent];
            d.rows(&OU, &[common.acting.random, std, damping], &reads, &writes)
        }
    })
}

//! Whether environments and rollout of a run fit into memory.

use crate::config::{LeagueConfig, TrainConfig};
use crate::engine::rollout::Rollout;
use crate::error::Result;
use warp_func::{Registry, Start};

/// Checks that environments and rollout fit into memory together, before any of them is allocated;
/// `lower` names the setting that would help.
///
/// # Errors
/// Too little memory, with both figures.
pub fn check_memory(config: &TrainConfig, registry: &Registry, lower: &str) -> Result<()> {
    let one = registry.get(&config.run.env_id)?.bytes_per_replica(&config.env)?;
    let replicas = one.saturating_mul(config.n_envs() as u128);
    // A league has a learner, with a rollout, for each of those who may learn.
    let plays_older = config.league.as_ref().is_some_and(LeagueConfig::plays_older);
    let rollouts = Rollout::bytes(config).saturating_mul(if plays_older { 3 } else { 1 });
    let needed = replicas.saturating_add(rollouts);
    let mut what = format!(
        "{} replicas of {} and a rollout of {} steps",
        config.n_envs(),
        config.run.env_id,
        config.run.num_steps
    );
    let (mut needed, mut lower) = (needed, lower.to_string());
    if config.run.start == Start::Pool {
        let rows = config.vec_options().pool.rows();
        let row = registry.get(&config.run.env_id)?.bytes_per_pool_row(&config.env)?;
        needed = needed.saturating_add(row.saturating_mul(rows as u128));
        what += &format!(" and a reset pool of {rows} rows");
        lower += " or pool_size";
    }
    Ok(warp_data::memory::check(&what, needed, &lower)?)
}

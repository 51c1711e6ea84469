//! Checks of the keys that apply to the whole run.

use super::TrainConfig;
use super::run_config::RunConfig;
use crate::error::{Error, Result};
use std::fmt::Display;
use warp_func::Start;

fn positive(key: &str, value: u64) -> Result<()> {
    match value {
        0 => Err(warp_core::Error::invalid(key, 0, "must be at least 1").into()),
        _ => Ok(()),
    }
}

/// What is recorded of a run, and what ends it.
fn check_records(run: &RunConfig) -> Result<()> {
    positive("log_interval", run.log_interval)?;
    positive("eval_episodes", run.eval_episodes as u64)?;
    positive("eval_max_steps", run.eval_max_steps.map_or(1, u64::from))?;
    check_arrays(run)?;
    if let (Some(reached), 0) = (run.stop_at_return, run.eval_steps) {
        let reason = "it refers to the mean return of evaluations, so eval_steps must be above 0";
        return Err(warp_core::Error::invalid("stop_at_return", reached, reason).into());
    }
    let is_folder = |tag: &str| {
        let plain = |c: char| c != '/' && c != '\\' && !c.is_control();
        !["", ".", ".."].contains(&tag) && tag.chars().all(plain)
    };
    match run.tag.as_deref().filter(|tag| !is_folder(tag)) {
        Some(tag) => {
            let reason = "must be the name of a folder, without slashes";
            Err(warp_core::Error::invalid("tag", format!("{tag:?}"), reason).into())
        }
        None => Ok(()),
    }
}

/// Which arrays are recorded; their names are known once there are environments.
fn check_arrays(run: &RunConfig) -> Result<()> {
    positive("log_array_steps", run.log_array_steps)?;
    no_duplicates("log_arrays", &run.log_arrays)?;
    no_duplicates("log_replicas", &run.log_replicas)?;
    match run.log_replicas.is_empty() {
        true => Err(Error::Invalid("log_replicas = []: at least one replica is needed".into())),
        false => Ok(()),
    }
}

fn no_duplicates<T: PartialEq + Display>(key: &str, items: &[T]) -> Result<()> {
    let twice = items.iter().enumerate().find(|(n, item)| items[..*n].contains(item));
    match twice {
        Some((_, item)) => Err(Error::Invalid(format!("{key} contains {item} twice"))),
        None => Ok(()),
    }
}

impl TrainConfig {
    /// Checks that the samples of a rollout on this rank can be numbered.
    ///
    /// # Errors
    /// A policy that learns from rollouts with too many samples.
    pub(crate) fn check_samples(&self) -> Result<()> {
        let steps = self.n_envs() as u128 * self.run.num_steps as u128;
        for plan in self.policies.iter().filter(|plan| !plan.is_off_policy()) {
            let samples = steps.saturating_mul(plan.n_agents() as u128);
            if samples > u128::from(u32::MAX) {
                return Err(Error::Invalid(format!(
                    "policy \"{}\" has {samples} samples in a rollout, but they are numbered with 32 bits; \
                     lower num_envs or num_steps",
                    plan.name
                )));
            }
        }
        Ok(())
    }
}

/// Checks the keys that apply to the whole run.
///
/// # Errors
/// The first that is out of range, or in conflict with another.
pub(super) fn check_run(run: &RunConfig) -> Result<()> {
    positive("num_envs", run.num_envs as u64)?;
    positive("num_steps", run.num_steps as u64)?;
    positive("keep_checkpoints", run.keep_checkpoints as u64)?;
    positive("pool_size", run.pool_size.unwrap_or(1) as u64)?;
    check_records(run)?;
    if run.start == Start::Pool && run.pool_size.is_some() == run.pool_file.is_some() {
        return Err(Error::Invalid(match &run.pool_file {
            Some(file) => format!("pool_file = \"{file}\" has its own rows; leave out pool_size"),
            None => "start = \"pool\" needs pool_size or pool_file".into(),
        }));
    }
    if run.num_envs > u32::MAX as usize {
        let reason = format!("must be at most {}", u32::MAX);
        return Err(warp_core::Error::invalid("num_envs", run.num_envs, reason).into());
    }
    // Totals of steps are counted with 64 bits, and no run ends before a whole iteration.
    let steps = run.num_envs as u128 * run.num_steps as u128;
    if steps > i64::MAX as u128 {
        let reason = format!(
            "an iteration of {} replicas with {} steps each is too large",
            run.num_envs, run.num_steps
        );
        return Err(warp_core::Error::invalid("num_steps", run.num_steps, reason).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{World, threads};
    use std::time::Duration;

    fn config(keys: &str) -> TrainConfig {
        TrainConfig::resolve(&keys.parse().unwrap(), &warp_envs::registry()).unwrap()
    }

    #[test]
    fn samples_of_a_rollout_are_numbered_with_32_bits() {
        let cartpole = "env_id = \"cartpole\"\nnum_envs = 65536";
        let refused = |config: &TrainConfig| config.check_samples().unwrap_err().to_string();
        config(&format!("{cartpole}\nnum_steps = 65535")).check_samples().unwrap();
        let error = refused(&config(&format!("{cartpole}\nnum_steps = 65536")));
        assert!(error.contains("4294967296 samples") && error.contains("num_steps"), "{error}");
        // Each agent has some, and only those of a policy that learns from rollouts are counted.
        let teams = "env_id = \"tag_gridworld\"\nnum_envs = 65536\nnum_steps = 16384";
        let error = refused(&config(&format!("{teams}\n[policy.tagger]\n[policy.runner]")));
        assert!(error.contains("policy \"tagger\""), "{error}");
        config(&format!("{cartpole}\nnum_steps = 65536\nalgorithm = \"dqn\""))
            .check_samples()
            .unwrap();
    }

    #[test]
    fn every_rank_numbers_its_own_samples() {
        let whole = config("env_id = \"cartpole\"\nnum_envs = 65536\nnum_steps = 65536");
        let links = threads(2, Duration::from_secs(1)).into_iter().enumerate();
        for (rank, link) in links {
            let part = whole.clone().on_rank(World::new(rank, 2, link)).unwrap();
            part.check_samples().unwrap();
        }
    }
}

//! Checks of the keys that apply to the whole run.

use super::RunConfig;
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

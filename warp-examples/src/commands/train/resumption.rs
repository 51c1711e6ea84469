//! The configuration of a resumed run: its own, with the allowed changes.

use super::args::TrainArgs;
use crate::run_config::read_config;
use crate::settings;
use anyhow::{Context, Result};
use std::path::Path;
use warp_func::Registry;
use warp_train::config::drop_foreign_keys;
use warp_train::resumption::{check_changeable, check_extension};
use warp_train::{Run, TrainConfig};

/// The configuration with which the run in `folder` continues, without the rows of its `pool_file`.
///
/// # Errors
/// A folder without a run, a key that may not change, or a longer run whose schedules end.
pub(super) fn configure(
    folder: &Path,
    args: &TrainArgs,
    registry: &Registry,
) -> Result<TrainConfig> {
    let run = read_config(folder, registry)?;
    let sets: Vec<String> = args.set.iter().cloned().chain(args.overrides()).collect();
    if sets.is_empty() {
        return Ok(run);
    }
    let mut table = settings::parse(&Run::config(folder)?)?;
    drop_foreign_keys(&mut table, registry);
    let mut keys = Vec::new();
    for set in &sets {
        let (key, _) = settings::split(set)?;
        check_changeable(key).with_context(|| format!("--set {set}"))?;
        settings::set_key(&mut table, set)?;
        keys.push(key);
    }
    let config = TrainConfig::resolve(&table, registry)?;
    check_extension(&run, &config, |key| keys.contains(&key))?;
    Ok(config)
}

/// Whether a new run length is given.
pub(super) fn gives_length(args: &TrainArgs) -> bool {
    let is_length = |set: &String| settings::split(set).is_ok_and(|(key, _)| key == "total_steps");
    args.steps.is_some() || args.set.iter().any(is_length)
}

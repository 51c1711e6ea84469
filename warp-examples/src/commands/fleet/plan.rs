//! Which runs a fleet has: those that are asked for, or those that were planned.

use crate::basis::Basis;
use crate::commands::train::args::TrainArgs;
use crate::commands::train::contradictions;
use crate::run_config::resolve_listed;
use crate::settings;
use crate::sweep::Sweep;
use anyhow::{Context, Result, bail};
use std::ops::Range;
use std::path::Path;
use warp_core::toml::{Table, Value};
use warp_func::Registry;
use warp_train::fleet::{Fleet, FleetRun, Listed};
use warp_train::{Run, TrainConfig};

/// Runs in one fleet, at most: what their numbers in file names have room for.
const MAX_RUNS: usize = 100_000;

/// All runs of the fleet in `folder`, as they were planned.
pub(super) fn planned(
    folder: &Path,
    args: &TrainArgs,
    registry: &Registry,
) -> Result<Vec<FleetRun>> {
    if let Some(steps) = args.steps {
        bail!("--steps {steps}: the length of a fleet's runs can't be changed");
    }
    if let Some(set) = args.set.first() {
        bail!("--set {set}: the configuration of a fleet can't be changed");
    }
    runs_of(&Run::config(folder)?, Fleet::list(folder)?, registry)
}

/// The runs that are listed, of the fleet with this configuration.
pub(super) fn runs_of(
    config: &str,
    listed: Vec<Listed>,
    registry: &Registry,
) -> Result<Vec<FleetRun>> {
    let shared = settings::parse(config)?;
    let run = |listed: Listed| {
        let config = config_of(&shared, &listed, registry)?;
        Ok(FleetRun {
            number: listed.run,
            swept: listed.swept.into_iter().collect(),
            pauses: false,
            config,
        })
    };
    listed.into_iter().map(run).collect()
}

/// The configuration of one run of the fleet whose shared configuration is `shared`, with its pool.
pub(in crate::commands) fn config_of(
    shared: &Table,
    listed: &Listed,
    registry: &Registry,
) -> Result<TrainConfig> {
    let mut config = resolve_listed(shared, listed, registry)?;
    crate::pool_file::attach(&mut config)?;
    Ok(config)
}

/// All runs: every setting of the sweep with every seed; and what the settings stand on.
pub(super) fn plan(args: &TrainArgs, registry: &Registry) -> Result<(Vec<FleetRun>, Vec<Basis>)> {
    let target = args.target.as_deref().context("an environment or a file is needed")?;
    let sweep = Sweep::parse(&args.sweep, args.samples, args.sweep_seed)?;
    let seeds = args.seeds.as_deref().map(parse_seeds).transpose()?;
    let (mut runs, mut bases) = (Vec::new(), Vec::new());
    for setting in sweep.settings() {
        let mut sets = args.set.clone();
        sets.extend(args.overrides());
        sets.extend(setting.iter().map(|(key, value)| format!("{key}={value}")));
        let (config, basis) = settings::configure_with_basis(target, &sets, registry)?;
        bases.push(basis);
        contradictions::check_swept(&setting, &config)?;
        if config.run.eval_steps > 0 {
            let steps = config.run.eval_steps;
            bail!(
                "eval_steps = {steps}: the runs of a fleet are not evaluated during training; set \
                 it to 0 and use warp eval"
            );
        }
        if !config.run.log_arrays.is_empty() {
            bail!(
                "log_arrays = {:?}: the arrays of a fleet's runs are not recorded during training; \
                 train one on its own, with --seed, or use warp episode",
                config.run.log_arrays
            );
        }
        if config.league.is_some() {
            bail!(
                "[league]: the runs of a fleet cannot form leagues; train each on its own, with \
                 --seed"
            );
        }
        let seeds = seeds.clone().unwrap_or(config.run.seed..config.run.seed.saturating_add(1));
        let n = (runs.len() as u64).saturating_add(seeds.end - seeds.start);
        if n > MAX_RUNS as u64 {
            bail!("a fleet has at most {MAX_RUNS} runs, but {n} or more are asked for");
        }
        let swept: Vec<(String, Value)> = setting
            .iter()
            .map(|(key, value)| (key.clone(), settings::parse_value(value)))
            .collect();
        for seed in seeds {
            let mut config = config.clone();
            config.run.seed = seed;
            runs.push(FleetRun { number: runs.len(), swept: swept.clone(), pauses: false, config });
        }
    }
    Ok((runs, bases))
}

/// `A..B` without B, or one seed.
fn parse_seeds(text: &str) -> Result<Range<u64>> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let range = match text.split_once("..") {
        Some((from, to)) => number(from).zip(number(to)).map(|(from, to)| from..to),
        None => None,
    };
    match range {
        Some(range) if range.start < range.end => Ok(range),
        _ => bail!("--seeds {text}: expected A..B with A < B, for the seeds A to B - 1"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_without_its_end() {
        assert_eq!(parse_seeds("0..2048").unwrap(), 0..2048);
        assert_eq!(parse_seeds(" 3 .. 4").unwrap(), 3..4);
        for text in ["3", "4..4", "5..4", "a..b", "-1..2", "1.."] {
            let error = parse_seeds(text).unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("expected A..B"), "{error}");
        }
    }
}

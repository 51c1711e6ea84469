//! `warp eval FLEET`: every finished run of a fleet, and a summary of all.

use super::eval::{EvalArgs, Findings};
use super::fleet::{config_of, returns_lines};
use super::learner;
use crate::records::fleet::{combinations, label};
use crate::settings;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use warp_core::toml::Table;
use warp_func::Registry;
use warp_train::evaluate::{EvalOptions, Evaluation, evaluate};
use warp_train::fleet::{Fleet, GroupedReturns, Listed};
use warp_train::learner::LearnerState;
use warp_train::{Learner, Run, TrainConfig};

/// Evaluates the fleet in `folder`.
pub(super) fn findings(
    args: &EvalArgs,
    folder: &Path,
    options: &EvalOptions,
    registry: &Registry,
) -> Result<Findings> {
    let shared = settings::parse(&Run::config(folder)?)?;
    let listed = chosen(folder, args.run)?;
    let mut found: BTreeMap<usize, Evaluation> = BTreeMap::new();
    for one in &listed {
        let found_policies =
            policies(folder, &shared, one, &args.backend, options.threads, registry)?;
        let Some((config, mut learner)) = found_policies else { continue };
        found.insert(one.run, evaluate(&mut *learner, &config, registry, options)?);
    }
    if let (true, Some(run)) = (found.is_empty(), args.run) {
        bail!("--run {run}: it has not finished in \"{}\"", folder.display());
    }
    if found.is_empty() {
        bail!("no run of the fleet in \"{}\" has finished", folder.display());
    }
    let returns = |runs: &[usize]| {
        let runs = runs.iter().filter_map(|run| found.get(run));
        GroupedReturns::of(runs.map(|run| (Some(run.mean_episode_return), &run.group_return)))
    };
    let all = returns(&found.keys().copied().collect::<Vec<_>>());
    let groups: Vec<_> = combinations(&listed)
        .into_iter()
        .filter(|(swept, _)| !swept.is_empty())
        .map(|(swept, runs)| (swept, returns(&runs)))
        .collect();
    let all = if groups.len() > 1 { all.across() } else { all };
    let run = |listed: &Listed| {
        let Listed { run, seed, swept } = listed;
        let evaluation = found.get(run)?;
        Some(json!({"run": run, "seed": seed, "swept": swept, "evaluation": evaluation}))
    };
    let group = |(swept, returns): &(&Table, GroupedReturns)| json!({ "swept": swept, "returns": returns.together, "group_returns": returns.groups });
    let json = json!({
        "episodes_per_run": options.episodes,
        "returns": all.together,
        "group_returns": all.groups,
        "swept": groups.iter().map(group).collect::<Vec<_>>(),
        "runs": listed.iter().filter_map(run).collect::<Vec<_>>(),
    });
    let mut lines = vec![format!(
        "{} of {} runs have finished; {} episodes of each",
        found.len(),
        listed.len(),
        options.episodes
    )];
    for (swept, returns) in &groups {
        lines.extend(returns_lines(&label(swept), returns, "mean return"));
    }
    lines.extend(returns_lines("all runs", &all, "mean return"));
    Ok(Findings { lines, json })
}

/// The runs of the fleet in `folder`, or the requested one.
pub(super) fn chosen(folder: &Path, run: Option<usize>) -> Result<Vec<Listed>> {
    let mut listed = Fleet::list(folder)?;
    let Some(run) = run else { return Ok(listed) };
    if listed.iter().all(|one| one.run != run) {
        let (shown, n) = (folder.display(), listed.len());
        bail!("--run {run}: the fleet in \"{shown}\" has {n} runs, from 0 on");
    }
    listed.retain(|one| one.run == run);
    Ok(listed)
}

/// The configuration of a fleet's run and its final policies; nothing if it has not finished.
fn policies(
    folder: &Path,
    shared: &Table,
    listed: &Listed,
    backend: &str,
    threads: usize,
    registry: &Registry,
) -> Result<Option<(TrainConfig, Box<dyn Learner>)>> {
    let Some((weights, statistics)) = Fleet::weights(folder, listed.run)? else { return Ok(None) };
    let config = config_of(shared, listed, registry)?;
    let mut learner = learner(backend, &config, threads)?;
    // Optimiser states and replay memories are not kept: acting needs neither, so fresh ones will do.
    let (numbers, flags) = (Vec::new(), Vec::new());
    let state = LearnerState { weights, statistics, numbers, flags, ..learner.state() };
    learner.load_state(&state)?;
    Ok(Some((config, learner)))
}

/// The same for run `run` of the fleet in `folder`, which must have finished.
pub(super) fn policies_of_run(
    folder: &Path,
    run: Option<usize>,
    backend: &str,
    registry: &Registry,
) -> Result<(TrainConfig, Box<dyn Learner>)> {
    let (listed, shown) = (chosen(folder, run)?, folder.display());
    let (Some(run), [one]) = (run, &listed[..]) else {
        bail!("\"{shown}\" is a fleet of {} runs; choose one with --run N", listed.len());
    };
    let shared = settings::parse(&Run::config(folder)?)?;
    let found = policies(folder, &shared, one, backend, 1, registry)?;
    found.with_context(|| format!("--run {run}: it has not finished in \"{shown}\""))
}

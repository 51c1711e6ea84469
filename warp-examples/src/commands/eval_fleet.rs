//! `warp eval FLEET`: every finished run of a fleet, and a summary of all.

use super::fleet::{config_of, returns_lines};
use super::learner;
use crate::records::fleet::{combinations, label};
use crate::settings;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use warp_core::toml::Table;
use warp_func::Registry;
use warp_train::evaluate::{EvalOptions, Evaluation, evaluate};
use warp_train::fleet::{Fleet, FleetWeights, GroupedReturns, Listed};
use warp_train::learner::LearnerState;
use warp_train::{Learner, Run, TrainConfig};

/// Evaluates the fleet in `folder`, or its run `run`: what there is to say, and the same as JSON.
pub(super) fn findings(
    folder: &Path,
    run: Option<usize>,
    backend: &str,
    options: &EvalOptions,
    registry: &Registry,
) -> Result<(Vec<String>, Value)> {
    let shared = settings::parse(&Run::config(folder)?)?;
    let (listed, weights) = (chosen(folder, run)?, FleetWeights::open(folder)?);
    let mut found: BTreeMap<usize, Evaluation> = BTreeMap::new();
    let mut unfinished = Vec::new();
    for one in &listed {
        let found_policies = policies(&weights, &shared, one, backend, options.threads, registry)?;
        let Some((config, mut learner)) = found_policies else { continue };
        let evaluation = evaluate(&mut *learner, &config, registry, options)?;
        let words = evaluation.unfinished_words(&config);
        unfinished.extend(words.map(|words| format!("run {}: {words}", one.run)));
        found.insert(one.run, evaluation);
    }
    if let (true, Some(run)) = (found.is_empty(), run) {
        bail!("--run {run}: it has not finished in \"{}\"", folder.display());
    }
    if found.is_empty() {
        bail!("no run of the fleet in \"{}\" has finished", folder.display());
    }
    let stopped: BTreeMap<usize, usize> = Fleet::ended_runs(folder)?
        .iter()
        .filter_map(|ended| Some((ended.run, ended.stopped_in_round?)))
        .filter(|(run, _)| found.contains_key(run))
        .collect();
    let evaluated = Evaluated { listed: &listed, found, stopped };
    let (mut lines, json) = evaluated.findings(options.episodes, run.is_some());
    lines.extend(unfinished);
    Ok((lines, json))
}

/// The runs that were evaluated.
struct Evaluated<'a> {
    /// They and those that have not ended.
    listed: &'a [Listed],
    found: BTreeMap<usize, Evaluation>,
    /// The rounds of successive halving that stopped some of them.
    stopped: BTreeMap<usize, usize>,
}

impl Evaluated<'_> {
    fn returns(&self, runs: &[usize]) -> GroupedReturns {
        let runs = runs.iter().filter_map(|run| self.found.get(run));
        GroupedReturns::of(runs.map(|run| (Some(run.mean_episode_return), &run.group_return)))
    }

    /// What there is to say, and the same as JSON; of a run that was asked for, that run alone.
    fn findings(&self, episodes: usize, is_one: bool) -> (Vec<String>, Value) {
        // What was stopped is no sample of what training comes to.
        let counts = |run: &usize| is_one || !self.stopped.contains_key(run);
        let finished: Vec<usize> = self.found.keys().copied().filter(counts).collect();
        let groups: Vec<_> = combinations(self.listed)
            .into_iter()
            .filter(|(swept, _)| !swept.is_empty())
            .map(|(swept, runs)| {
                let round = runs.iter().find_map(|run| self.stopped.get(run)).copied();
                (swept, self.returns(&runs), round)
            })
            .collect();
        let all = self.returns(&finished);
        let all = if groups.len() > 1 { all.across() } else { all };
        let mut lines = vec![match is_one {
            true => super::counted(episodes, "episode"),
            false => {
                let (n, n_listed) = (finished.len(), self.listed.len());
                let stopped = match self.stopped.len() {
                    0 => String::new(),
                    n => format!(", {n} {} stopped by halving", super::were(n)),
                };
                let episodes = super::counted(episodes, "episode");
                format!("{n} of {n_listed} runs have finished{stopped}; {episodes} of each")
            }
        }];
        for (swept, returns, round) in &groups {
            let stopped =
                round.map_or(String::new(), |round| format!(" (stopped after round {round})"));
            lines.extend(group_lines(&(label(swept) + &stopped), returns));
        }
        if !is_one || groups.is_empty() {
            lines.extend(group_lines(if is_one { "the run" } else { "all runs" }, &all));
        }
        let json = json!({
            "episodes_per_run": episodes,
            "returns": all.together,
            "group_returns": all.groups,
            "swept": groups.iter().map(swept_json).collect::<Vec<_>>(),
            "runs": self.listed.iter().filter_map(|listed| self.run_json(listed)).collect::<Vec<_>>(),
        });
        (lines, json)
    }

    fn run_json(&self, listed: &Listed) -> Option<Value> {
        let Listed { run, seed, swept } = listed;
        let evaluation = self.found.get(run)?;
        let mut json = json!({"run": run, "seed": seed, "swept": swept, "evaluation": evaluation});
        if let Some(round) = self.stopped.get(run) {
            json["stopped_in_round"] = (*round).into();
        }
        Some(json)
    }
}

/// What some runs came to; nothing of runs that have not finished.
fn group_lines(name: &str, returns: &GroupedReturns) -> Vec<String> {
    match returns.together {
        Some(_) => returns_lines(name, returns, "mean return"),
        None => vec![format!("{name}: no run has finished")],
    }
}

fn swept_json((swept, returns, round): &(&Table, GroupedReturns, Option<usize>)) -> Value {
    let mut json =
        json!({ "swept": swept, "returns": returns.together, "group_returns": returns.groups });
    if let Some(round) = round {
        json["stopped_in_round"] = (*round).into();
    }
    json
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
    weights: &FleetWeights,
    shared: &Table,
    listed: &Listed,
    backend: &str,
    threads: usize,
    registry: &Registry,
) -> Result<Option<(TrainConfig, Box<dyn Learner>)>> {
    let Some((weights, statistics)) = weights.of(listed.run)? else { return Ok(None) };
    let config = config_of(shared, listed, registry)?;
    let mut learner = learner(backend, &config, threads)?;
    // Optimiser states and replay memories are not kept: acting needs neither, so fresh ones will do.
    let (numbers, flags) = (Vec::new(), Vec::new());
    let state = LearnerState { weights, statistics, numbers, flags, ..learner.state() };
    learner.load_state(&state)?;
    Ok(Some((config, learner)))
}

/// The configuration and the final policies of run `run` of the fleet in `folder`, which must have finished.
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
    let weights = FleetWeights::open(folder)?;
    let found = policies(&weights, &shared, one, backend, 1, registry)?;
    found.with_context(|| format!("--run {run}: it has not finished in \"{shown}\""))
}

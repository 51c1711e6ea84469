//! `warp eval FLEET`: every finished run of a fleet, and all of them together.

use super::eval::EvalArgs;
use super::fleet::{config_of, print_returns};
use super::{learner, print_json, say, thread_count};
use crate::records::fleet::{combinations, label};
use crate::{Outcome, settings};
use anyhow::{Result, bail};
use serde_json::json;
use std::collections::BTreeMap;
use warp_func::Registry;
use warp_train::Run;
use warp_train::evaluate::{EvalOptions, Evaluation, evaluate};
use warp_train::fleet::{Fleet, Listed, Returns};

/// Evaluates a fleet.
pub(super) fn execute(
    args: &EvalArgs,
    options: &EvalOptions,
    registry: &Registry,
) -> Result<Outcome> {
    let shared = settings::parse(&Run::config(&args.run)?)?;
    let listed = Fleet::list(&args.run)?;
    let mut found: BTreeMap<usize, Evaluation> = BTreeMap::new();
    for one in &listed {
        let Some((weights, statistics)) = Fleet::weights(&args.run, one.run)? else { continue };
        let config = config_of(&shared, one, registry)?;
        let mut learner = learner(&args.backend, &config, thread_count(args.threads))?;
        // Optimiser state is not kept; a fresh one fits.
        let mut state = learner.state();
        (state.weights, state.statistics) = (weights, statistics);
        learner.load_state(&state)?;
        found.insert(one.run, evaluate(&mut *learner, &config, registry, options)?);
    }
    if found.is_empty() {
        bail!("no run of the fleet in \"{}\" has finished", args.run.display());
    }
    let returns = |runs: &[usize]| {
        Returns::of(runs.iter().filter_map(|run| Some(found.get(run)?.mean_episode_return)))
    };
    let all: Vec<usize> = found.keys().copied().collect();
    let groups: Vec<_> = combinations(&listed)
        .into_iter()
        .filter(|(swept, _)| !swept.is_empty())
        .map(|(swept, runs)| (swept, returns(&runs)))
        .collect();
    if args.json {
        let run = |listed: &Listed| {
            let Listed { run, seed, swept } = listed;
            found
                .get(run)
                .map(|e| json!({"run": run, "seed": seed, "swept": swept, "evaluation": e}))
        };
        let group = |(swept, returns): &(_, _)| json!({ "swept": swept, "returns": returns });
        print_json(&json!({
            "episodes_per_run": options.episodes,
            "returns": returns(&all),
            "swept": groups.iter().map(group).collect::<Vec<_>>(),
            "runs": listed.iter().filter_map(run).collect::<Vec<_>>(),
        }))?;
        return Ok(Outcome::Done);
    }
    say(&format!(
        "{} of {} runs have finished; {} episodes of each",
        found.len(),
        listed.len(),
        options.episodes
    ))?;
    let groups = groups.into_iter().map(|(swept, returns)| (label(swept), returns));
    print_returns(groups.chain([("all runs".to_string(), returns(&all))]), "mean return")?;
    Ok(Outcome::Done)
}

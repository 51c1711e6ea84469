//! The report on a fleet at its end: its runs, value by value of a sweep, and which did best.

use crate::commands::{say, were};
use crate::output::short;
use crate::records::fleet::label;
use anyhow::Result;
use std::path::Path;
use warp_core::ConfigField;
use warp_core::toml::Table;
use warp_train::fleet::{FleetRun, FleetSummary, GroupedReturns, Returns, SweptReturns};
use warp_train::run::write_whole;

/// The combinations of a sweep, the highest mean return first, those that were stopped behind the others; nothing where none is swept, and where agents of
/// several groups may play against each other, since the sum of their returns says little.
pub(super) fn ranked(summary: &FleetSummary) -> Option<Vec<&SweptReturns>> {
    let mean = |one: &SweptReturns| one.returns.together.map_or(f64::NEG_INFINITY, |r| r.mean);
    // Of combinations in which no episode finished there is nothing to say.
    let known = |one: &&SweptReturns| one.returns.together.is_some();
    let mut ranked: Vec<&SweptReturns> = summary.swept.iter().filter(known).collect();
    let round = |one: &SweptReturns| one.stopped_in_round.unwrap_or(usize::MAX);
    ranked.sort_by(|a, b| round(b).cmp(&round(a)).then(mean(b).total_cmp(&mean(a))));
    let several = summary.returns.groups.len() > 1;
    (ranked.len() > 1 && !several).then_some(ranked)
}

/// Where the configuration of the best combination is, in the fleet's folder.
pub(super) const WINNER: &str = "winner.toml";

/// Writes the configuration of the best combination as `winner.toml`, with the first of its seeds.
pub(super) fn write_winner(
    winner: &SweptReturns,
    runs: &[FleetRun],
    fields: &[ConfigField],
    folder: &Path,
) -> Result<()> {
    let is_own = |run: &&FleetRun| run.swept.iter().cloned().collect::<Table>() == winner.swept;
    let Some(run) = runs.iter().find(is_own) else { return Ok(()) };
    let path = folder.join(WINNER);
    write_whole(&path, run.config.to_toml_as_given(fields))?;
    say(&format!("the best configuration is in {}", path.display()))
}

pub(super) fn report(
    summary: &FleetSummary,
    ranked: Option<&[&SweptReturns]>,
    folder: &Path,
) -> Result<()> {
    let FleetSummary { env, algorithm, n_runs, n_finished, n_broken, n_stopped, .. } = summary;
    let count =
        |n: &usize, what: &str| if *n > 0 { format!(", {n} {what}") } else { String::new() };
    let stopped = format!("{} stopped by halving", were(*n_stopped));
    let others = count(n_stopped, &stopped) + &count(n_broken, "broke");
    say(&format!(
        "{env} with {algorithm}: {n_finished} of {n_runs} runs finished{others}, {} steps in {:.1} \
         s ({}steps/s in total); the fleet is in {}",
        summary.env_steps,
        summary.seconds,
        short(summary.env_steps_per_second),
        folder.display()
    ))?;
    let left = n_runs - n_finished - n_broken - n_stopped;
    if left > 0 {
        let folder = folder.display();
        say(&format!(
            "stopped early: --resume {folder} trains the {left} runs that are left; unfinished \
             ones restart"
        ))?;
    }
    if let Some(run) = summary.runs.iter().find(|run| run.error.is_some()) {
        let error = run.error.as_deref().unwrap_or_default();
        say(&format!("the first that failed is run {} with seed {}: {error}", run.run, run.seed))?;
    }
    let in_order: Vec<&SweptReturns> = summary.swept.iter().collect();
    let place = |n: usize| ranked.map_or(String::new(), |_| format!("{}. ", n + 1));
    let swept = ranked.unwrap_or(&in_order).iter().enumerate();
    let stopped = |one: &SweptReturns| match one.stopped_in_round {
        Some(round) => format!(" (stopped after round {round}, {} steps)", one.env_steps),
        None => String::new(),
    };
    let swept = swept.map(|(n, one)| (place(n) + &label(&one.swept) + &stopped(one), &one.returns));
    for (name, returns) in swept.chain([("all runs".to_string(), &summary.returns)]) {
        let lines = returns_lines(&name, returns, "mean return over the last episodes");
        lines.iter().try_for_each(|line| say(line))?;
    }
    Ok(())
}

/// What some runs came to, in a line; where they have several groups of agents, in a line for each.
pub(in crate::commands) fn returns_lines(
    name: &str,
    returns: &GroupedReturns,
    what: &str,
) -> Vec<String> {
    if returns.groups.len() < 2 {
        return vec![format!("{name}: {}", line(returns.together.as_ref(), what))];
    }
    let group = |(group, returns): (&String, &Returns)| {
        format!("{name}: {}", line(Some(returns), &format!("{what} of {group}")))
    };
    returns.groups.iter().map(group).collect()
}

fn line(returns: Option<&Returns>, what: &str) -> String {
    let Some(r) = returns else { return "no episode finished".into() };
    let runs = if r.n == 1 { "1 run".to_string() } else { format!("{} runs", r.n) };
    let spread = match r.confidence.zip(r.std) {
        Some((half, std)) => format!("+- {half:.2} (95 %, Student's t, {runs}), std {std:.2}"),
        None => format!("({runs}, no interval)"),
    };
    let (mean, min, median, max) = (r.mean, r.min, r.median, r.max);
    format!("{what} {mean:.2} {spread}, min {min:.2}, median {median:.2}, max {max:.2}")
}

//! `warp report`: what several runs say about the settings of which they are seeds.

use super::folders::with_runs;
use super::metric::no_such_metric;
use super::{options, print_json, say, tell};
use crate::records::seeds::excluded;
use crate::report::comparison::{Scales, Section, sections};
use crate::report::profiles;
use crate::report::scores::{Score, Scores};
use crate::report::statistics::Bootstrap;
use crate::report::tables::{latex, markdown};
use crate::{Outcome, named_file};
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use warp_func::Registry;

/// Compare the scores of runs, with confidence intervals.
#[derive(Debug, Clone, Args)]
pub struct ReportArgs {
    /// Folders of runs or fleets. Runs that differ only in seed and length are seeds of one setting.
    #[arg(value_name = "RUN | FLEET", required = true)]
    pub runs: Vec<PathBuf>,
    /// The metric whose last value is the score, as its keys in metrics.jsonl joined by dots. By default the mean
    /// return over the last 100 or more episodes or, if there are several groups of agents, that of each group.
    #[arg(long, value_name = "KEY")]
    pub metric: Option<String>,
    /// Scores that are normalised to 0 and 1 in a task; if given for all tasks, the report has a table over all tasks.
    #[arg(long, value_name = "TASK=LOW,HIGH")]
    pub normalise: Vec<String>,
    /// Number of bootstrap resamples.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub resamples: u32,
    /// Seed of the bootstrap.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// Folder for report.md, report.tex and profiles.png.
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print one JSON object to standard output.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// # Errors
/// A run that can't be read, a metric that none of them has, or a folder that can't be written.
pub fn execute(args: &ReportArgs, registry: &Registry) -> Result<Outcome> {
    let mut scores = Scores::default();
    for folder in with_runs(&args.runs, &[])? {
        scores.read(folder, args.metric.as_deref(), registry)?;
    }
    scores.settle();
    scores.damage.iter().for_each(|said| tell(said));
    if scores.list.is_empty() {
        let known: Vec<String> = scores.known.into_iter().collect();
        bail!(no_such_metric(args.metric.as_deref(), &known));
    }
    let scales = scales(&args.normalise, &scores.list)?;
    let bootstrap = Bootstrap { resamples: args.resamples, seed: args.seed };
    let sections = sections(&scores, &scales, &bootstrap);
    let score = match &args.metric {
        Some(metric) => format!("the last {metric}"),
        None => "mean return over the last 100 or more episodes of training".into(),
    };
    let notes = notes(&scores, &sections);
    let text = markdown(&sections, &score, &notes);
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create \"{}\"", folder.display()))?;
        named_file::write(&folder.join("report.md"), &text)?;
        named_file::write(&folder.join("report.tex"), latex(&sections, &score))?;
        profiles::chart(&sections, &bootstrap).save(&folder.join("profiles.png"))?;
        tell(&format!("the report is in {}", folder.display()));
    }
    if args.json {
        print_json(&json!({ "score": score, "sections": sections, "notes": notes }))?;
    } else {
        say(text.trim_end())?;
    }
    Ok(Outcome::Done)
}

/// The scales of tasks, all of which must exist.
fn scales(given: &[String], scores: &[Score]) -> Result<Scales> {
    let mut scales = Scales::new();
    for text in given {
        let number = |text: &str| options::finite(text.trim()).ok();
        let parsed = text.rsplit_once('=').and_then(|(task, range)| {
            let (low, high) = range.split_once(',')?;
            Some((task.trim(), number(low)?, number(high)?))
        });
        let Some((task, low, high)) = parsed.filter(|(_, low, high)| low != high) else {
            bail!("--normalise {text}: expected TASK=LOW,HIGH with two different numbers");
        };
        if !scores.iter().any(|score| score.task == task) {
            let mut tasks: Vec<&str> = scores.iter().map(|score| score.task.as_str()).collect();
            tasks.sort_unstable();
            tasks.dedup();
            bail!(
                "--normalise {text}: there is no task \"{task}\"; there are {}",
                tasks.join("; ")
            );
        }
        scales.insert(task.into(), [low, high]);
    }
    Ok(scales)
}

/// Notes on the tables, a sentence each.
fn notes(scores: &Scores, sections: &[Section]) -> Vec<String> {
    let mut notes = Vec::new();
    let runs = |n: usize| if n == 1 { "1 run".to_string() } else { format!("{n} runs") };
    let is_lone = |section: &&Section| section.rows.iter().any(|row| row.mean.interval.is_none());
    if sections.iter().any(|section| is_lone(&section)) {
        notes.push("[-]: a single run has no interval; train more seeds.".into());
    }
    if scores.n_broken > 0 {
        notes.push(format!("Excluded: {} that failed.", runs(scores.n_broken)));
    }
    if scores.n_stopped > 0 {
        let stopped = runs(scores.n_stopped);
        notes.push(format!("Excluded: {stopped} stopped by successive halving."));
    }
    if scores.n_unfinished > 0 {
        let have = if scores.n_unfinished == 1 { "has" } else { "have" };
        let unfinished = runs(scores.n_unfinished);
        notes.push(format!("Excluded: {unfinished} that {have} not finished."));
    }
    notes.extend(excluded(scores.n_copies));
    if scores.n_without > 0 {
        notes.push(format!("Excluded: {} without such a score.", runs(scores.n_without)));
    }
    let rows = sections.iter().flat_map(|section| &section.rows);
    notes.extend(rows.filter(|row| row.strata.iter().any(|task| task.len() != row.strata[0].len())).map(
        |row| format!("{}: tasks have different numbers of runs, which the IQM and the profile over all tasks count alike.", row.label),
    ));
    notes.extend(
        uneven(scores).iter().map(|task| format!("Runs of one setting differ in length: {task}.")),
    );
    notes
}

/// Tasks in which runs of one setting have done different numbers of steps.
fn uneven(scores: &Scores) -> BTreeSet<&str> {
    let (mut first, mut found) = (BTreeMap::new(), BTreeSet::new());
    for Score { task, setting, env_steps, .. } in &scores.list {
        if first.entry((task, setting)).or_insert(env_steps) != &env_steps {
            found.insert(task.as_str());
        }
    }
    found
}

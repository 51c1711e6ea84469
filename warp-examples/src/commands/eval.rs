//! `warp eval`: how good the policies of one or several runs are.

use super::fleet::returns_lines;
use super::{Device, eval_fleet, learner, options, print_json, say, tell, thread_count};
use crate::Outcome;
use crate::pathway::Pathway;
use crate::records::seeds::{Identity, excluded, independent};
use crate::records::setting::Setting;
use crate::run_config::read_config;
use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use warp_func::Registry;
use warp_sample::Mode;
use warp_train::episode::EpisodeOptions;
use warp_train::evaluate::{EvalOptions, Evaluation, evaluate};
use warp_train::fleet::{Fleet, GroupedReturns};
use warp_train::run::Place;

/// Evaluate the policies of runs.
#[derive(Debug, Clone, Args)]
pub struct EvalArgs {
    /// Folders of runs or fleets: their newest checkpoints, those of a step, or those that did best in
    /// evaluations. Runs that differ only in seed and length are summarised together.
    #[arg(value_name = "RUN[@STEP | @best] | FLEET", required = true)]
    pub runs: Vec<PathBuf>,
    /// Index of a run in a fleet, counted from 0; by default all that have finished.
    #[arg(long = "run", value_name = "N")]
    pub run: Option<usize>,
    /// Number of episodes.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub episodes: usize,
    /// Take the most likely action (default).
    #[arg(long)]
    pub greedy: bool,
    /// Sample actions from the policy.
    #[arg(long, conflicts_with = "greedy")]
    pub stochastic: bool,
    /// Policies to replace by random actions, for comparison.
    #[arg(long, value_name = "POLICY")]
    pub random: Vec<String>,
    /// Device: auto, cpu, cuda or cuda:N.
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Learner: auto, native, or burn (in a build with that feature).
    #[arg(long, default_value = "auto")]
    pub backend: String,
    /// Number of threads; 0: one per core.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = options::threads)]
    pub threads: usize,
    /// Print one JSON object to standard output.
    #[arg(long)]
    pub json: bool,
}

/// The results of a run or a fleet.
struct Findings {
    lines: Vec<String>,
    json: Value,
}

/// One run, evaluated.
struct Evaluated {
    identity: Identity,
    evaluation: Evaluation,
}

/// Runs the command.
///
/// # Errors
/// A run or checkpoint that can't be opened, or options that do not fit it.
pub fn execute(args: &EvalArgs, registry: &Registry) -> Result<Outcome> {
    let registry = &Device::choose(&args.device)?.registry(registry);
    let options = EvalOptions {
        episodes: args.episodes,
        mode: if args.stochastic { Mode::Sample } else { Mode::Greedy },
        random: args.random.clone(),
        threads: thread_count(args.threads),
    };
    let (mut found, mut evaluated) = (Vec::new(), Vec::new());
    let several = args.runs.len() > 1;
    for folder in &args.runs {
        no_fleet(folder, args.run)?;
        let findings = if Fleet::is_in(folder) {
            eval_fleet::findings(folder, args.run, &args.backend, &options, registry)
                .map(|(lines, json)| Findings { lines, json })
        } else {
            run(args, folder, &options, registry).map(|(findings, run)| {
                evaluated.push(run);
                findings
            })
        };
        let findings = match several {
            true => {
                findings.with_context(|| format!("cannot evaluate \"{}\"", folder.display()))?
            }
            false => findings?,
        };
        if !args.json {
            if several {
                say(&format!("{}:", folder.display()))?;
            }
            let indent = if several { "  " } else { "" };
            findings.lines.iter().try_for_each(|line| say(&format!("{indent}{line}")))?;
        }
        found.push((folder, findings.json));
    }
    let (evaluated, n_copies) = independent(evaluated, |one| &one.identity);
    let settings = if several { by_setting(&evaluated) } else { Vec::new() };
    if args.json {
        excluded(n_copies).iter().for_each(|note| tell(note));
        print_json(&as_json(found, &settings))?;
        return Ok(Outcome::Done);
    }
    for (label, returns) in &settings {
        returns_lines(label, returns, "mean return").iter().try_for_each(|line| say(line))?;
    }
    excluded(n_copies).iter().try_for_each(|note| say(note))?;
    Ok(Outcome::Done)
}

/// Rejects the index of a run where there is only one.
pub(super) fn no_fleet(folder: &Path, run: Option<usize>) -> Result<()> {
    match run {
        Some(run) if !Fleet::is_in(folder) => {
            bail!("--run {run}: \"{}\" is not a fleet", folder.display())
        }
        _ => Ok(()),
    }
}

/// The object of a single run, or those of all runs with their folders and a summary.
fn as_json(mut found: Vec<(&PathBuf, Value)>, settings: &[(String, GroupedReturns)]) -> Value {
    if let [(_, one)] = &mut found[..] {
        return one.take();
    }
    let run = |(folder, mut json): (&PathBuf, Value)| {
        json["folder"] = folder.display().to_string().into();
        json
    };
    let setting = |(label, returns): &(String, GroupedReturns)| json!({ "setting": label, "returns": returns.together, "group_returns": returns.groups });
    json!({
        "runs": found.into_iter().map(run).collect::<Vec<_>>(),
        "settings": settings.iter().map(setting).collect::<Vec<_>>(),
    })
}

/// Runs that are seeds of one configuration, by label.
fn by_setting(evaluated: &[Evaluated]) -> Vec<(String, GroupedReturns)> {
    let mut settings: Vec<&Setting> = Vec::new();
    for Identity { setting: own, .. } in evaluated.iter().map(|one| &one.identity) {
        if !settings.iter().any(|setting| setting.is_same(own)) {
            settings.push(own);
        }
    }
    let returns = |setting: &&Setting| {
        let own = evaluated.iter().filter(|one| setting.is_same(&one.identity.setting));
        let returns =
            own.map(|one| (Some(one.evaluation.mean_episode_return), &one.evaluation.group_return));
        let label = setting.label(settings.iter().copied());
        (format!("{}, {label}", setting.env), GroupedReturns::of(returns))
    };
    settings.iter().map(returns).collect()
}

fn run(
    args: &EvalArgs,
    folder: &Path,
    options: &EvalOptions,
    registry: &Registry,
) -> Result<(Findings, Evaluated)> {
    let place = Place::parse(folder);
    let mut config = read_config(&place.folder, registry)?;
    crate::pool_file::attach(&mut config)?;
    let checkpoint = place.checkpoint()?;
    let mut learner = learner(&args.backend, &config, options.threads)?;
    learner.load_state(&checkpoint.learner)?;
    let evaluation = evaluate(&mut *learner, &config, registry, options)?;
    let random = options.random.clone();
    let episode = EpisodeOptions { seed: None, mode: options.mode, random, replica: 0 };
    let pathway = Pathway::walk(&mut *learner, &config, registry, &episode)?;
    let steps = checkpoint.manifest.env_steps;
    let mut lines = lines(&evaluation, steps);
    lines.extend(evaluation.unfinished_words(&config));
    lines.extend(pathway.iter().flat_map(Pathway::lines));
    let json = serde_json::to_value(Report { evaluation: &evaluation, pathway })?;
    let setting = Setting::of_run(&place.folder, &config, steps, registry)?;
    let identity = Identity { setting, seed: config.run.seed, length: steps as f64 };
    Ok((Findings { lines, json }, Evaluated { identity, evaluation }))
}

/// What `--json` prints of a run.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    evaluation: &'a Evaluation,
    #[serde(skip_serializing_if = "Option::is_none")]
    pathway: Option<Pathway>,
}

fn lines(evaluation: &Evaluation, env_steps: u64) -> Vec<String> {
    let Evaluation { episodes, mean_episode_return, min, max, mean_episode_length, .. } =
        evaluation;
    let spread = match evaluation.confidence.zip(evaluation.std) {
        Some((half, std)) => {
            format!("+- {half:.2} (95 %, Student's t over episodes)  std {std:.2}")
        }
        None => "(no interval)".into(),
    };
    let mut lines = vec![
        format!("{} after {env_steps} steps of training", super::counted(*episodes, "episode")),
        format!("return  mean {mean_episode_return:.2} {spread}  min {min:.2}  max {max:.2}"),
        format!("length  mean {mean_episode_length:.1}"),
    ];
    if evaluation.group_return.len() > 1 {
        let group = |(group, mean): (&String, &f64)| format!("return of {group}  mean {mean:.2}");
        lines.extend(evaluation.group_return.iter().map(group));
    }
    let policy = |(name, mean): (&String, &f64)| format!("return of policy {name}  mean {mean:.2}");
    lines.extend(evaluation.policy_return.iter().map(policy));
    lines
        .extend(evaluation.statistics.iter().map(|(name, mean)| format!("{name}  mean {mean:.2}")));
    lines
}

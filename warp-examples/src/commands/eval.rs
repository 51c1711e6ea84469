//! `warp eval`: how good the policies of a run are.

use super::{
    Device, eval_fleet, learner, options, print_json, say, thread_count, train::read_config,
};
use crate::Outcome;
use crate::pathway::Pathway;
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use warp_func::Registry;
use warp_sample::Mode;
use warp_train::evaluate::{EpisodeOptions, EvalOptions, Evaluation, evaluate};
use warp_train::fleet::Fleet;
use warp_train::{Checkpoint, Run};

/// Evaluate the policies of a run.
#[derive(Debug, Clone, Args)]
pub struct EvalArgs {
    /// The run's folder, or a fleet's.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Episodes.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub episodes: usize,
    /// Take the likeliest action (default).
    #[arg(long)]
    pub greedy: bool,
    /// Draw actions from the policy.
    #[arg(long, conflicts_with = "greedy")]
    pub stochastic: bool,
    /// Policies that act at random instead, for comparison.
    #[arg(long, value_name = "POLICY")]
    pub random: Vec<String>,
    /// auto, cpu, cuda or cuda:N.
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// auto, burn or native.
    #[arg(long, default_value = "auto")]
    pub backend: String,
    /// Threads; 0: one per core.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = options::threads)]
    pub threads: usize,
    /// One JSON object on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// # Errors
/// A run or checkpoint that can't be opened, or options that do not fit it.
pub fn execute(args: &EvalArgs, registry: &Registry) -> Result<Outcome> {
    let registry = &Device::choose(&args.device)?.registry(registry);
    let threads = thread_count(args.threads);
    let options = EvalOptions {
        episodes: args.episodes,
        mode: if args.stochastic { Mode::Sample } else { Mode::Greedy },
        random: args.random.clone(),
        threads,
    };
    if Fleet::is_in(&args.run) {
        return eval_fleet::execute(args, &options, registry);
    }
    let mut config = read_config(&args.run, registry)?;
    crate::pool_file::attach(&mut config)?;
    let checkpoint = Checkpoint::newest(&Run::checkpoints(&args.run))?;
    let mut learner = learner(&args.backend, &config, threads)?;
    learner.load_state(&checkpoint.learner)?;
    let evaluation = evaluate(&mut *learner, &config, registry, &options)?;
    let episode = EpisodeOptions { seed: None, mode: options.mode, random: options.random };
    let pathway = Pathway::walk(&mut *learner, &config, registry, &episode)?;
    if args.json {
        print_json(&Report { evaluation, pathway })?;
    } else {
        print(&evaluation, checkpoint.manifest.env_steps)?;
        pathway.iter().flat_map(Pathway::lines).try_for_each(|line| say(&line))?;
    }
    Ok(Outcome::Done)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    evaluation: Evaluation,
    #[serde(skip_serializing_if = "Option::is_none")]
    pathway: Option<Pathway>,
}

fn print(evaluation: &Evaluation, env_steps: u64) -> Result<()> {
    let Evaluation { episodes, mean_episode_return, std, min, max, mean_episode_length, .. } =
        evaluation;
    say(&format!("{episodes} episodes after {env_steps} steps of training"))?;
    say(&format!(
        "return  mean {mean_episode_return:.2}  std {std:.2}  min {min:.2}  max {max:.2}"
    ))?;
    say(&format!("length  mean {mean_episode_length:.1}"))?;
    if evaluation.group_return.len() > 1 {
        for (group, mean) in &evaluation.group_return {
            say(&format!("return of {group}  mean {mean:.2}"))?;
        }
    }
    for (name, mean) in &evaluation.statistics {
        say(&format!("{name}  mean {mean:.2}"))?;
    }
    Ok(())
}

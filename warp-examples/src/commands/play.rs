//! What `warp render` and `warp watch` share: an episode of a run, as `warp eval` would play it.

use super::{eval_fleet, learner, tell};
use crate::episode::recording::Recording;
use crate::render::{Moment, Past, View};
use crate::run_config::read_config;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use warp_func::{Registry, VecEnv};
use warp_sample::Mode;
use warp_train::episode::{EpisodeEnd, EpisodeOptions, play_episode};
use warp_train::fleet::Fleet;
use warp_train::run::Place;
use warp_train::{Learner, TrainConfig};

/// The episode.
#[derive(Debug, Clone, Args)]
pub struct PlayArgs {
    /// Folder of a run: its newest checkpoint, that of a step, or the one that did best in evaluations; or a
    /// file written by warp episode.
    #[arg(value_name = "RUN[@STEP | @best] | FLEET | FILE.npz")]
    pub run: PathBuf,
    /// Index of a run in a fleet, counted from 0.
    #[arg(long = "run", value_name = "N")]
    pub run_number: Option<usize>,
    /// Sample actions from the policy, instead of taking the most likely ones.
    #[arg(long)]
    pub stochastic: bool,
    /// Seed of the episode; by default the run's, which gives the first episode of `warp eval`.
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Number of the episode among those of `warp eval`, or in the file, from 0.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=i64::from(u32::MAX) - 1))]
    pub episode: u32,
    /// Policies to replace by random actions, for comparison.
    #[arg(long, value_name = "POLICY")]
    pub random: Vec<String>,
    /// Stop after this many steps.
    #[arg(long, value_name = "N")]
    pub steps: Option<u32>,
    /// Steps per second.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub fps: u32,
    /// Learner: auto, native, or burn (in a build with that feature).
    #[arg(long, default_value = "auto")]
    pub backend: String,
}

/// Plays the episode: `look` sees every moment of it, including the start and the end.
pub(super) fn play(
    args: &PlayArgs,
    registry: &Registry,
    look: &mut dyn FnMut(Moment) -> Result<ControlFlow<()>>,
) -> Result<()> {
    if args.run.extension().is_some_and(|ending| ending == "npz") {
        return play_recording(args, registry, look);
    }
    let (config, mut learner) = policies(&args.run, args.run_number, &args.backend, registry)?;
    let options = EpisodeOptions {
        seed: args.seed,
        mode: if args.stochastic { Mode::Sample } else { Mode::Greedy },
        random: args.random.clone(),
        replica: args.episode,
    };
    let mut show = shown(args, &config, registry, look)?;
    let end = play_episode(&mut *learner, &config, registry, &options, &mut |envs, _| show(envs))?;
    tell_unfinished(end);
    Ok(())
}

/// Tells of an episode that was played no further because it did not end.
pub(super) fn tell_unfinished(end: EpisodeEnd) {
    if let EpisodeEnd::Unfinished { steps } = end {
        tell(&format!("the episode had not ended after {steps} steps (eval_max_steps)"));
    }
}

/// The configuration and the policies of a run, or of one of a fleet's.
pub(super) fn policies(
    given: &Path,
    run: Option<usize>,
    backend: &str,
    registry: &Registry,
) -> Result<(TrainConfig, Box<dyn Learner>)> {
    if Fleet::is_in(given) {
        return eval_fleet::policies_of_run(given, run, backend, registry);
    }
    if let Some(run) = run {
        bail!("--run {run}: \"{}\" is not a fleet", given.display());
    }
    let place = Place::parse(given);
    let mut config = read_config(&place.folder, registry)?;
    crate::pool_file::attach(&mut config)?;
    let mut learner = learner(backend, &config, 1)?;
    learner.load_state(&place.checkpoint()?.learner)?;
    Ok((config, learner))
}

/// Plays an episode of a file.
fn play_recording(
    args: &PlayArgs,
    registry: &Registry,
    look: &mut dyn FnMut(Moment) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let given = [
        (args.stochastic, "--stochastic"),
        (args.seed.is_some(), "--seed"),
        (!args.random.is_empty(), "--random"),
        (args.run_number.is_some(), "--run"),
    ];
    if let Some((_, option)) = given.into_iter().find(|(given, _)| *given) {
        bail!("{option}: \"{}\" is a recording, which contains no policy", args.run.display());
    }
    let recording = Recording::read(&args.run, registry)?;
    let mut show = shown(args, &recording.config, registry, look)?;
    let played = recording.play(args.episode as usize, registry, &mut |envs| show(envs));
    played.with_context(|| format!("recording \"{}\"", args.run.display()))
}

/// Shows environments to `look` as moments, until `--steps` are over.
fn shown<'a>(
    args: &'a PlayArgs,
    config: &'a TrainConfig,
    registry: &Registry,
    look: &'a mut dyn FnMut(Moment) -> Result<ControlFlow<()>>,
) -> Result<impl FnMut(&dyn VecEnv) -> Result<ControlFlow<()>> + 'a> {
    let (mut past, drawing) = (Past::default(), registry.get(&config.run.env_id)?.drawing);
    Ok(move |envs: &dyn VecEnv| {
        let view = View::new(envs, &config.env);
        let enough = args.steps.is_some_and(|steps| view.step() >= steps);
        past.record(&view);
        let flow = look(Moment::of(&view, &past, drawing))?;
        Ok(if enough { ControlFlow::Break(()) } else { flow })
    })
}

//! What `warp render` and `warp watch` share: an episode of a run, as `warp eval` would play it.

use super::learner;
use super::train::read_config;
use crate::render::{Moment, Past, View};
use anyhow::Result;
use clap::Args;
use std::ops::ControlFlow;
use std::path::PathBuf;
use warp_func::Registry;
use warp_sample::Mode;
use warp_train::evaluate::{EpisodeOptions, play_episode};
use warp_train::run::Place;

/// Which episode.
#[derive(Debug, Clone, Args)]
pub struct PlayArgs {
    /// The run's folder, for its newest checkpoint; or that of a step, or the one that did best in evaluations.
    #[arg(value_name = "RUN[@STEP | @best]")]
    pub run: PathBuf,
    /// Draw actions from the policy, instead of taking the likeliest.
    #[arg(long)]
    pub stochastic: bool,
    /// Seed of the episode; by default the run's, which gives the first episode of `warp eval`.
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Policies that act at random instead, for comparison.
    #[arg(long, value_name = "POLICY")]
    pub random: Vec<String>,
    /// Stop after so many steps.
    #[arg(long, value_name = "N")]
    pub steps: Option<u32>,
    /// Steps per second.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub fps: u32,
    /// auto, native, or burn in a build with that feature.
    #[arg(long, default_value = "auto")]
    pub backend: String,
}

/// Plays the episode: `look` sees every moment of it, the start and the end included.
pub(super) fn play(
    args: &PlayArgs,
    registry: &Registry,
    look: &mut dyn FnMut(Moment) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let place = Place::parse(&args.run);
    let mut config = read_config(&place.folder, registry)?;
    crate::pool_file::attach(&mut config)?;
    let checkpoint = place.checkpoint()?;
    let mut learner = learner(&args.backend, &config, 1)?;
    learner.load_state(&checkpoint.learner)?;
    let options = EpisodeOptions {
        seed: args.seed,
        mode: if args.stochastic { Mode::Sample } else { Mode::Greedy },
        random: args.random.clone(),
    };
    let (mut past, drawing) = (Past::default(), registry.get(&config.run.env_id)?.drawing);
    play_episode(&mut *learner, &config, registry, &options, &mut |envs| {
        let view = View::new(envs, &config.env);
        let enough = args.steps.is_some_and(|steps| view.step() >= steps);
        past.record(&view);
        let flow = look(Moment::of(&view, &past, drawing))?;
        Ok::<_, anyhow::Error>(if enough { ControlFlow::Break(()) } else { flow })
    })
}

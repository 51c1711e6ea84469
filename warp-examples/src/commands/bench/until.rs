//! `warp bench --train --until`: how long it takes to learn something.
//!
//! Every seed is trained twice from the start. The first run reads the metrics after every
//! iteration and ends when they are good enough. The second does as many iterations as the first
//! needed, without reading them, and must end with the same policy. The clock runs from before
//! the first iteration until the metrics of the last one are on the host; compiling, loading and
//! allocating come before it and are reported separately. Then 100 greedy episodes are played on the
//! CPU, outside the time.

use super::BenchArgs;
use super::place::Place;
use super::train::command_line;
use crate::Outcome;
use crate::commands::{learner, print_json, say};
use anyhow::{Context, Result};
use serde::Serialize;
use std::time::Instant;
use warp_func::Registry;
use warp_sample::Mode;
use warp_train::evaluate::{EvalOptions, Evaluation, evaluate};
use warp_train::learner::LearnerState;
use warp_train::{TrainConfig, Trainer};

/// Greedy episodes that confirm a policy.
const EPISODES: usize = 100;

/// The result of one seed.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Attempt {
    seed: u64,
    /// Whether the return was reached before `total_steps` were done.
    reached: bool,
    iterations: u64,
    env_steps: u64,
    /// Mean return of the episodes that ended in the last iteration.
    episode_return: Option<f64>,
    /// Seconds, reading the metrics after every iteration.
    run_seconds: f64,
    /// Seconds of as many iterations without reading the metrics.
    run_seconds_at_once: f64,
    /// Whether both runs ended with the same policy, bit for bit.
    repeated_exactly: bool,
    /// Seconds before the first iteration of the first run: environments, learner, kernels.
    startup_seconds: f64,
    /// Evaluation of the greedy policy.
    evaluation: Evaluation,
}

/// One number of replicas.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Found {
    replicas: usize,
    steps_per_iteration: u64,
    /// Seeds that reached the return.
    n_reached: usize,
    /// Median over the seeds that reached the return, seconds.
    run_seconds: Option<f64>,
    /// Median over the same seeds of runs that do not read the metrics, seconds.
    run_seconds_at_once: Option<f64>,
    seeds: Vec<Attempt>,
}

/// Runs `warp bench --train --until`; the command began at `started`.
pub(super) fn execute(
    args: &BenchArgs,
    configs: &[TrainConfig],
    wanted: f64,
    place: &Place<'_>,
    started: Instant,
) -> Result<Outcome> {
    let (mut all, mut first_reached) = (Vec::new(), None);
    for config in configs {
        let mut seeds = Vec::new();
        for seed in 0..args.seeds {
            let mut config = config.clone();
            config.run.seed = seed;
            let first =
                Looked::run(&config, wanted, place).with_context(|| format!("seed {seed}"))?;
            first_reached =
                first_reached.or_else(|| first.reached.then(|| started.elapsed().as_secs_f64()));
            seeds.push(first.repeat(config, place)?);
        }
        all.push(Found::new(config, seeds));
    }
    let Some(config) = configs.first() else { return Ok(Outcome::Done) };
    if args.json {
        print_json(&serde_json::json!({
            "command": command_line(),
            "env": config.run.env_id,
            "algorithm": config.algorithm(),
            "device": place.device.name(),
            "backend": place.backend,
            "precision": place.device.precision(place.backend, config),
            "threads": place.threads,
            "until": wanted,
            "compile_seconds": place.device.compile_seconds(),
            "start_to_first_reached_seconds": first_reached,
            "replicas": all,
        }))?;
    } else {
        print(config, wanted, place, &all, first_reached)?;
    }
    Ok(Outcome::Done)
}

/// A run whose metrics were read after every iteration.
struct Looked {
    reached: bool,
    iterations: u64,
    env_steps: u64,
    episode_return: Option<f64>,
    seconds: f64,
    startup: f64,
    state: LearnerState,
}

/// A trainer that is ready for its first iteration, and the seconds that took.
fn ready(config: TrainConfig, place: &Place<'_>) -> Result<(Trainer, f64)> {
    let started = Instant::now();
    let (mut trainer, _) = place.trainer(config)?;
    trainer.prepare()?;
    Ok((trainer, started.elapsed().as_secs_f64()))
}

impl Looked {
    fn run(config: &TrainConfig, wanted: f64, place: &Place<'_>) -> Result<Self> {
        let (mut trainer, startup) = ready(config.clone(), place)?;
        let started = Instant::now();
        let (mut reached, mut iterations, mut episode_return) = (false, 0, None);
        while !reached && trainer.env_steps() < config.run.total_steps {
            let metrics = trainer.iterate()?;
            iterations = metrics.iteration;
            episode_return = metrics.episodes.episode_return.map(|spread| spread.mean);
            reached = episode_return.is_some_and(|mean| mean >= wanted);
        }
        let seconds = started.elapsed().as_secs_f64();
        Ok(Self {
            reached,
            iterations,
            env_steps: trainer.env_steps(),
            episode_return,
            seconds,
            startup,
            state: trainer.learner().state(),
        })
    }

    /// The second run, and the greedy episodes.
    fn repeat(self, config: TrainConfig, place: &Place<'_>) -> Result<Attempt> {
        let seed = config.run.seed;
        let (mut trainer, _) = ready(config.clone(), place)?;
        let started = Instant::now();
        let metrics = trainer.iterate_times(self.iterations)?;
        let at_once = started.elapsed().as_secs_f64();
        let last = metrics.last().and_then(|metrics| metrics.episodes.episode_return);
        let same_return = last.map(|spread| spread.mean) == self.episode_return;
        let repeated_exactly = same_return && trainer.learner().state() == self.state;
        Ok(Attempt {
            seed,
            reached: self.reached,
            iterations: self.iterations,
            env_steps: self.env_steps,
            episode_return: self.episode_return,
            run_seconds: self.seconds,
            run_seconds_at_once: at_once,
            repeated_exactly,
            startup_seconds: self.startup,
            evaluation: confirm(&config, &self.state, place.plain, place.threads)?,
        })
    }
}

/// Greedy episodes of the policies in `state`, on the CPU.
fn confirm(
    config: &TrainConfig,
    state: &LearnerState,
    registry: &Registry,
    threads: usize,
) -> Result<Evaluation> {
    let mut learner = learner("native", config, threads)?;
    learner.load_state(state)?;
    let options =
        EvalOptions { episodes: EPISODES, mode: Mode::Greedy, random: Vec::new(), threads };
    Ok(evaluate(&mut *learner, config, registry, &options)?)
}

impl Found {
    fn new(config: &TrainConfig, seeds: Vec<Attempt>) -> Self {
        let median = |figure: &dyn Fn(&Attempt) -> f64| {
            let reached = seeds.iter().filter(|seed| seed.reached);
            let mut figures: Vec<f64> = reached.map(figure).collect();
            figures.sort_by(f64::total_cmp);
            figures.get(figures.len() / 2).copied()
        };
        Self {
            replicas: config.run.num_envs,
            steps_per_iteration: config.steps_per_iteration(),
            n_reached: seeds.iter().filter(|seed| seed.reached).count(),
            run_seconds: median(&|seed| seed.run_seconds),
            run_seconds_at_once: median(&|seed| seed.run_seconds_at_once),
            seeds,
        }
    }
}

fn print(
    config: &TrainConfig,
    wanted: f64,
    place: &Place<'_>,
    all: &[Found],
    first_reached: Option<f64>,
) -> Result<()> {
    let (env, algorithm) = (&config.run.env_id, config.algorithm());
    say(&format!(
        "{env} with {algorithm} on {} ({}, {}), until a mean return of {wanted}",
        place.device.name(),
        place.backend,
        place.device.precision(place.backend, config)
    ))?;
    for found in all {
        let ms = |seconds: Option<f64>| seconds.map_or("-".into(), |s| format!("{:.2}", 1e3 * s));
        say(&format!(
            "{:>8} replicas  {} of {} seeds, median {} ms, {} ms without reading metrics",
            found.replicas,
            found.n_reached,
            found.seeds.len(),
            ms(found.run_seconds),
            ms(found.run_seconds_at_once)
        ))?;
        found.seeds.iter().try_for_each(|attempt| say(&attempt.line()))?;
    }
    let first = first_reached.map_or("not reached".into(), |s| format!("{s:.3} s"));
    say(&format!(
        "from the command's start to the first return reached: {first}, of which compiling {:.3} s",
        place.device.compile_seconds()
    ))
}

impl Attempt {
    fn line(&self) -> String {
        let mean = self.episode_return.map_or("none".into(), |mean| format!("{mean:.1}"));
        format!(
            "{:>12} {}  {} iterations, {} steps, return {mean}, {:.2} ms, \
             {:.2} without reading metrics{}; \
             start-up {:.3} s; greedy mean {:.1} (episodes: {:.0} to {:.0})",
            "seed",
            self.seed,
            self.iterations,
            self.env_steps,
            1e3 * self.run_seconds,
            1e3 * self.run_seconds_at_once,
            if self.repeated_exactly { "" } else { " (another policy!)" },
            self.startup_seconds,
            self.evaluation.mean_episode_return,
            self.evaluation.min,
            self.evaluation.max
        )
    }
}

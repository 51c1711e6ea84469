//! `warp bench --train`: training throughput, one figure per number of replicas.
//!
//! Everything in an iteration counts: collecting, learning, and everything in between. Numbers of
//! replicas are measured in turn, several rounds of each, so that a disturbance of the machine affects
//! all of them; the median of the rounds is reported. One-time costs (building, compiling,
//! allocating, the first iteration) are reported separately, and warm-up is not counted.

use super::place::Place;
use super::{BenchArgs, curves};
use crate::commands::{print_json, say};
use crate::output::short;
use crate::records::learning::Curves;
use crate::{Outcome, settings};
use anyhow::Result;
use serde::Serialize;
use std::time::Instant;
use warp_func::Registry;
use warp_train::metrics::PhaseSeconds;
use warp_train::{TrainConfig, Trainer};

/// Rounds; the median of their rates is reported.
const ROUNDS: usize = 5;
/// Iterations before the clock starts, at least, the first one included.
const WARM_UP: usize = 3;

/// The result for one number of replicas.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Throughput {
    /// Environment replicas.
    pub replicas: usize,
    /// Environment steps of an iteration, summed over replicas.
    pub steps_per_iteration: u64,
    /// Environment steps per second, median of the rounds.
    pub env_steps_per_second: f64,
    /// The slowest round.
    pub lowest: f64,
    /// The fastest round.
    pub highest: f64,
    /// Milliseconds of an iteration, median of the rounds.
    pub iteration_ms: f64,
    /// Of these, filling the rollout.
    pub collect_ms: f64,
    /// Of these, learning from it.
    pub update_ms: f64,
    /// Iterations that were measured.
    pub iterations: u64,
    /// Seconds to build environments and learner, compiling included.
    pub startup_seconds: f64,
    /// Seconds of the first iteration.
    pub first_iteration_seconds: f64,
    /// Learning curves, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub curves: Option<Curves>,
}

/// A run that is measured.
struct Bench {
    trainer: Trainer,
    startup: f64,
    first_iteration: f64,
    rounds: Vec<Round>,
}

/// Totals of one round.
#[derive(Debug, Clone, Copy)]
struct Round {
    iterations: u64,
    seconds: f64,
    phases: PhaseSeconds,
}

/// The command that was given, in a form that a shell accepts.
pub(super) fn command_line() -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,/:+%@".contains(c);
    let quoted = |word: String| match word.chars().all(plain) && !word.is_empty() {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    let words = std::env::args().skip(1).map(quoted);
    std::iter::once("warp".to_string()).chain(words).collect::<Vec<_>>().join(" ")
}

/// One configuration per number of replicas, at least one.
pub(super) fn configurations(args: &BenchArgs, registry: &Registry) -> Result<Vec<TrainConfig>> {
    // Nothing is saved, so no iteration has to end at a checkpoint.
    let mut sets = vec!["checkpoint_steps=0".to_string()];
    // A curve is a run of that many steps: percentages in schedules refer to them.
    sets.extend(args.curve_steps.map(|n| format!("total_steps={n}")));
    sets.extend_from_slice(&args.set);
    let with = |n: &usize| [&sets[..], &[format!("num_envs={n}")]].concat();
    let again = |n: &usize| settings::configure_again(&args.target, &with(n), registry);
    match &args.replicas[..] {
        [] => Ok(vec![settings::configure(&args.target, &sets, registry)?]),
        [first, others @ ..] => {
            let first = settings::configure(&args.target, &with(first), registry);
            std::iter::once(first).chain(others.iter().map(again)).collect()
        }
    }
}

/// Runs `warp bench --train`.
pub(super) fn execute(
    args: &BenchArgs,
    configs: Vec<TrainConfig>,
    place: &Place<'_>,
) -> Result<Outcome> {
    let mut benches = Vec::new();
    for config in configs {
        let (trainer, startup) = place.trainer(config)?;
        benches.push(Bench { trainer, startup, first_iteration: 0.0, rounds: Vec::new() });
    }
    for bench in &mut benches {
        bench.warm_up(args.seconds / ROUNDS as f64)?;
    }
    for _ in 0..ROUNDS {
        for bench in &mut benches {
            bench.measure(args.seconds / ROUNDS as f64)?;
        }
    }
    let mut found: Vec<Throughput> = benches.iter().map(Bench::throughput).collect();
    let configs = benches.iter().map(|bench| bench.trainer.config().clone()).collect::<Vec<_>>();
    // The curves need the memory.
    drop(benches);
    for (config, found) in configs.iter().zip(&mut found) {
        found.curves = curves::measure(args, config, found.iteration_ms, place)?;
    }
    report(args, &configs, &found, place)?;
    Ok(Outcome::Done)
}

impl Bench {
    fn warm_up(&mut self, seconds: f64) -> Result<()> {
        let started = Instant::now();
        self.trainer.iterate()?;
        self.first_iteration = started.elapsed().as_secs_f64();
        let mut done = 1;
        while done < WARM_UP || started.elapsed().as_secs_f64() < seconds {
            done += self.trainer.advance(u64::MAX)?.len();
        }
        Ok(())
    }

    fn measure(&mut self, seconds: f64) -> Result<()> {
        let (before, _) = self.trainer.phases();
        let started = Instant::now();
        let mut iterations = 0;
        while iterations == 0 || started.elapsed().as_secs_f64() < seconds {
            iterations += self.trainer.advance(u64::MAX)?.len() as u64;
        }
        let seconds = started.elapsed().as_secs_f64();
        let (after, _) = self.trainer.phases();
        let phases = PhaseSeconds {
            policy: after.policy - before.policy,
            sample: after.sample - before.sample,
            step: after.step - before.step,
            learn: after.learn - before.learn,
        };
        self.rounds.push(Round { iterations, seconds, phases });
        Ok(())
    }

    fn throughput(&self) -> Throughput {
        let steps = self.trainer.config().steps_per_iteration();
        let sorted = |figure: &dyn Fn(&Round) -> f64| {
            let mut figures: Vec<f64> = self.rounds.iter().map(figure).collect();
            figures.sort_by(f64::total_cmp);
            figures
        };
        let median = |figures: &[f64]| figures[figures.len() / 2];
        let per_iteration = |seconds: f64, round: &Round| 1e3 * seconds / round.iterations as f64;
        let rates = sorted(&|r| (steps * r.iterations) as f64 / r.seconds);
        let collect = |r: &Round| r.phases.total() - r.phases.learn;
        Throughput {
            replicas: self.trainer.config().run.num_envs,
            steps_per_iteration: steps,
            env_steps_per_second: median(&rates),
            lowest: rates[0],
            highest: rates[rates.len() - 1],
            iteration_ms: median(&sorted(&|r| per_iteration(r.seconds, r))),
            collect_ms: median(&sorted(&|r| per_iteration(collect(r), r))),
            update_ms: median(&sorted(&|r| per_iteration(r.phases.learn, r))),
            iterations: self.rounds.iter().map(|round| round.iterations).sum(),
            startup_seconds: self.startup,
            first_iteration_seconds: self.first_iteration,
            curves: None,
        }
    }
}

fn report(
    args: &BenchArgs,
    configs: &[TrainConfig],
    found: &[Throughput],
    place: &Place<'_>,
) -> Result<()> {
    let Some(config) = configs.first() else { return Ok(()) };
    let (env, algorithm) = (&config.run.env_id, config.algorithm());
    let (device, backend, threads) = (place.device.name(), place.backend, place.threads);
    let precision = place.device.precision(backend, config);
    if args.json {
        return print_json(&serde_json::json!({
            "command": command_line(),
            "env": env,
            "algorithm": algorithm,
            "device": device,
            "backend": backend,
            "precision": precision,
            "threads": threads,
            "rounds": ROUNDS,
            "compile_seconds": place.device.compile_seconds(),
            "training": found,
        }));
    }
    say(&format!(
        "{env}, training with {algorithm} on {device} ({backend}, {precision}), {threads} threads, \
         median of {ROUNDS} rounds"
    ))?;
    for one in found {
        say(&format!(
            "{:>8} replicas  {}steps/s (rounds: {} to {})  iteration {:.3} ms: collect {:.3}, update {:.3}",
            one.replicas,
            short(one.env_steps_per_second),
            short(one.lowest).trim_end(),
            short(one.highest).trim_end(),
            one.iteration_ms,
            one.collect_ms,
            one.update_ms
        ))?;
        say(&format!(
            "{:17}  once: start-up {:.3} s, first iteration {:.3} s",
            "", one.startup_seconds, one.first_iteration_seconds
        ))?;
        one.curves.iter().try_for_each(curves::print)?;
    }
    Ok(())
}

//! `warp bench --train`: training throughput, one figure per number of replicas.
//!
//! Everything of an iteration counts: collecting, learning, and what lies between. Numbers of
//! replicas are measured in turn, several rounds of each, so that a disturbance of the machine falls on
//! all of them; the median of the rounds is reported. What happens once (building, compiling,
//! allocating, the first iteration) is reported apart, and a warm-up is not counted.

use super::bench::BenchArgs;
use super::progress::short;
use super::{Device, learner_on, print_json, say, thread_count};
use crate::{Outcome, settings};
use anyhow::Result;
use serde::Serialize;
use std::time::Instant;
use warp_func::Registry;
use warp_train::Trainer;
use warp_train::metrics::PhaseSeconds;

/// Rounds; the median of their rates is reported.
const ROUNDS: usize = 5;
/// Iterations before the clock starts, at least, the first one included.
const WARM_UP: usize = 3;

/// What one number of replicas gave.
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

/// Runs `warp bench --train`.
pub(super) fn execute(args: &BenchArgs, registry: &Registry) -> Result<Outcome> {
    let device = Device::choose(&args.device)?;
    let (registry, threads) = (&device.registry(registry), thread_count(args.threads));
    let mut counts: Vec<Option<usize>> = args.replicas.iter().copied().map(Some).collect();
    if counts.is_empty() {
        counts.push(None);
    }
    let mut benches = Vec::new();
    for count in counts {
        // Nothing is saved, so nothing has to end where it would be.
        let mut sets = vec!["checkpoint_steps=0".to_string()];
        sets.extend_from_slice(&args.set);
        sets.extend(count.map(|n| format!("num_envs={n}")));
        let config = settings::configure(&args.target, &sets, registry)?;
        let started = Instant::now();
        let learner = learner_on(&device, &args.backend, &config, threads)?;
        let trainer = Trainer::new(config, registry, learner, threads)?;
        let startup = started.elapsed().as_secs_f64();
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
    let found: Vec<Throughput> = benches.iter().map(Bench::throughput).collect();
    report(args, &benches, &found, (device, threads))?;
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
        }
    }
}

fn report(
    args: &BenchArgs,
    benches: &[Bench],
    found: &[Throughput],
    (device, threads): (Device, usize),
) -> Result<()> {
    let Some(first) = benches.first() else { return Ok(()) };
    let (config, backend) = (first.trainer.config(), first.trainer.learner().backend());
    let (env, algorithm) = (&config.run.env_id, config.algorithm());
    if args.json {
        return print_json(&serde_json::json!({
            "env": env,
            "algorithm": algorithm,
            "device": device.name(),
            "backend": backend,
            "threads": threads,
            "rounds": ROUNDS,
            "training": found,
        }));
    }
    say(&format!(
        "{env}, training with {algorithm} on {} ({backend}), {threads} threads, median of {ROUNDS} \
         rounds",
        device.name()
    ))?;
    for one in found {
        say(&format!(
            "{:>8} replicas  {}steps/s ({} to {})  iteration {:.3} ms: collect {:.3}, update {:.3}",
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
    }
    Ok(())
}

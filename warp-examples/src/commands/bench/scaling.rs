//! `warp bench --train --gpus N`: training on several GPUs, compared with each of them training by itself.
//!
//! Pairs of measurements alternate, every GPU by itself, all at the same time, and then all of them together, so that a
//! disturbance of the machine affects both; the median of the pairs' ratios is reported, with the smallest and the
//! largest. GPUs of one model may differ by some percent, and together all wait for the slowest, so its rate is reported,
//! too.

use super::place::Place;
use super::train::{command_line, configurations};
use super::{BenchArgs, print_json, say};
use crate::Outcome;
use crate::commands::Device;
use crate::commands::ranks::{Rank, RankArgs, Ranks, give_up};
use crate::output::short;
use anyhow::{Context, Result};
use serde::Serialize;
use std::time::Instant;
use warp_func::Registry;
use warp_train::algorithm::PolicyPlan;
use warp_train::world::{Link, PATIENCE, World};
use warp_train::{TrainConfig, Trainer};

/// Pairs of measurements.
const PAIRS: usize = 5;
/// Iterations before the clock starts, at least.
const WARM_UP: u64 = 3;

/// The result for one number of replicas.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Scaling {
    /// Replicas of a GPU that trains alone.
    replicas: usize,
    /// Replicas of all GPUs together.
    all_replicas: usize,
    gpus: usize,
    /// Environment steps per second of one GPU alone, the mean of all, median of the pairs.
    alone: f64,
    /// Environment steps per second of the slowest GPU alone.
    slowest: f64,
    /// Environment steps per second of all GPUs together.
    together: f64,
    /// How many times as fast they are: median, smallest and largest of the pairs.
    times: f64,
    least: f64,
    most: f64,
    /// How many times as fast as the slowest, median of the pairs.
    times_slowest: f64,
    /// Microseconds of an iteration of the slowest GPU alone, and of all of them together.
    slowest_us: f64,
    together_us: f64,
    /// Minibatches of an iteration, of all policies: gradients are summed after each.
    minibatches: usize,
    /// Microseconds that an iteration of all GPUs takes longer, divided by `minibatches`; where replicas are divided
    /// among GPUs, that has no meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    per_minibatch_us: Option<f64>,
}

/// Runs `warp bench --train --gpus`.
pub(super) fn execute(args: &BenchArgs, gpus: &str, registry: &Registry) -> Result<Outcome> {
    let ranks = RankArgs { gpus: Some(gpus.into()), ..RankArgs::default() };
    let ranks = Ranks::of(&ranks)?.with_context(|| format!("--gpus {gpus}: that is one GPU"))?;
    let found = ranks.each(|rank, link| on_rank(rank, link, args, registry))?;
    let Some(found) = found else { return Ok(Outcome::Done) };
    if args.json {
        print_json(&serde_json::json!({ "command": command_line(), "scaling": found }))?;
        return Ok(Outcome::Done);
    }
    let kind = if args.strong { "the same replicas, divided" } else { "as many replicas on each" };
    say(&format!("{}, {} GPUs, {kind}, median of {PAIRS} pairs", args.target, ranks.size()))?;
    for one in &found {
        let Scaling { replicas, gpus, alone, slowest, together, times, least, most, .. } = one;
        let percent = |times: &f64| 100.0 * times / *gpus as f64;
        say(&format!(
            "{replicas:>8} replicas  one {}steps/s, {gpus} {}steps/s: {times:.3} times, {:.1} % ({:.1} to {:.1} %)",
            short(*alone),
            short(*together),
            percent(times),
            percent(least),
            percent(most)
        ))?;
        if let Some(us) = one.per_minibatch_us {
            say(&format!(
                "{:17}  an iteration takes {:.0} us, that of the slowest {:.0} us: {us:.2} us for each of {} minibatches",
                "", one.together_us, one.slowest_us, one.minibatches
            ))?;
        }
        say(&format!(
            "{:17}  the slowest GPU by itself {}steps/s: {:.1} % of {gpus} times that",
            "",
            short(*slowest),
            percent(&one.times_slowest)
        ))?;
    }
    Ok(Outcome::Done)
}

/// What a rank has: a run of its own, and its part of the common one.
struct Pair {
    world: World,
    alone: Trainer,
    together: Trainer,
    strong: bool,
    rates: Vec<Rates>,
}

/// Environment steps per second that a pair measured.
struct Rates {
    /// Of a GPU by itself: the mean of all, and the slowest.
    alone: f64,
    slowest: f64,
    together: f64,
}

fn on_rank(
    rank: Rank<'_>,
    link: Option<Box<dyn Link>>,
    args: &BenchArgs,
    registry: &Registry,
) -> Result<Option<Vec<Scaling>>> {
    let device = Device::choose(&rank.device(&args.device)?)?;
    let world = rank.world(link, String::new(), device.uuid())?;
    device.check_ranks(&world)?;
    let measured = configurations(args, registry).and_then(|configs| {
        let place = Place::new(&device, args, registry);
        let one = |config| Pair::new(config, args.strong, &world, &place)?.measure(args.seconds);
        configs.into_iter().map(one).collect::<Result<Vec<_>>>()
    });
    if let Err(error) = &measured {
        give_up(&world, error);
    }
    Ok(Some(measured?).filter(|_| world.is_first()))
}

impl Pair {
    fn new(config: TrainConfig, strong: bool, world: &World, place: &Place<'_>) -> Result<Self> {
        let mut all = config.clone();
        if !strong {
            all.run.num_envs *= world.size();
        }
        let (mut together, _) = place.trainer(all.on_rank(world.clone())?)?;
        together.prepare()?;
        // The others find what the first has compiled.
        let alone = || place.trainer(config);
        let (alone, _) = world.first_then_others("compiled kernels", alone)??;
        Ok(Self { world: world.clone(), alone, together, strong, rates: Vec::new() })
    }

    fn measure(mut self, seconds: f64) -> Result<Scaling> {
        let each = seconds / (2 * PAIRS) as f64;
        for pair in 0..=PAIRS {
            self.world.all_gather_within("the beginning of a pair", &[], PATIENCE)?;
            let mine = rate(&mut self.alone, &World::default(), each)?;
            // In the first pair some compile for a while.
            self.world.all_gather_within("a GPU that trains by itself", &[], PATIENCE)?;
            let alone = self.world.all_gather_f64("the rate of a GPU by itself", &[mine])?;
            let together = rate(&mut self.together, &self.world, each)?;
            // The first pair warms up.
            if pair > 0 {
                self.rates.push(Rates {
                    alone: alone.iter().sum::<f64>() / alone.len() as f64,
                    slowest: alone.iter().copied().fold(f64::INFINITY, f64::min),
                    together,
                });
            }
        }
        Ok(self.scaling())
    }

    fn scaling(&self) -> Scaling {
        let sorted = |of: &dyn Fn(&Rates) -> f64| {
            let mut all: Vec<f64> = self.rates.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let median = |of: &dyn Fn(&Rates) -> f64| sorted(of)[PAIRS / 2];
        let times = sorted(&|rates| rates.together / rates.alone);
        let config = self.together.config();
        let (slowest, together) = (median(&|rates| rates.slowest), median(&|rates| rates.together));
        let slowest_us = 1e6 * self.alone.config().steps_per_iteration() as f64 / slowest;
        let together_us = 1e6 * config.steps_per_iteration() as f64 / together;
        let minibatches: usize =
            config.policies.iter().map(PolicyPlan::minibatches_per_iteration).sum();
        Scaling {
            replicas: self.alone.config().run.num_envs,
            all_replicas: config.run.num_envs,
            gpus: self.world.size(),
            alone: median(&|rates| rates.alone),
            slowest,
            together,
            times: times[PAIRS / 2],
            least: times[0],
            most: times[PAIRS - 1],
            times_slowest: median(&|rates| rates.together / rates.slowest),
            slowest_us,
            together_us,
            minibatches,
            per_minibatch_us: (!self.strong && minibatches > 0)
                .then(|| (together_us - slowest_us) / minibatches as f64),
        }
    }
}

/// Environment steps per second of at least so many seconds, by the first rank's clock.
fn rate(trainer: &mut Trainer, world: &World, seconds: f64) -> Result<f64> {
    trainer.iterate_times(WARM_UP)?;
    let (started, before) = (Instant::now(), trainer.env_steps());
    loop {
        trainer.advance(u64::MAX)?;
        let ends = world.is_first() && started.elapsed().as_secs_f64() >= seconds;
        if ends && world.is_alone() || !world.is_alone() && world.any("the end of a pair", ends)? {
            let seconds = started.elapsed().as_secs_f64();
            return Ok((trainer.env_steps() - before) as f64 / seconds);
        }
    }
}

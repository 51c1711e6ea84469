//! `warp bench --train --gpus N`: training on several GPUs, compared with training on one of them.
//!
//! Pairs of measurements alternate, a single GPU and then all of them, so that a disturbance of the machine
//! affects both; the median of the pairs' ratios is reported, with the smallest and the largest.

use super::train::{Place, command_line, configurations};
use super::{BenchArgs, print_json, say};
use crate::Outcome;
use crate::commands::Device;
use crate::commands::progress::short;
use crate::commands::ranks::{Rank, RankArgs, Ranks};
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
    /// Replicas of the GPU that trains alone.
    replicas: usize,
    /// Replicas of all GPUs together.
    all_replicas: usize,
    gpus: usize,
    /// Environment steps per second of one GPU alone, median of the pairs.
    alone: f64,
    /// The same of all GPUs together.
    together: f64,
    /// How many times as fast they are: median, smallest and largest of the pairs.
    times: f64,
    least: f64,
    most: f64,
    /// Microseconds of an iteration of one GPU alone, and of all of them together.
    alone_us: f64,
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
        let Scaling { replicas, gpus, alone, together, times, least, most, .. } = one;
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
                "{:17}  an iteration takes {:.0} us, that of one {:.0} us: {us:.2} us for each of {} minibatches",
                "", one.together_us, one.alone_us, one.minibatches
            ))?;
        }
    }
    Ok(Outcome::Done)
}

/// What a rank has: its part of the common run, and on the first rank one of its own.
struct Pair {
    world: World,
    alone: Option<Trainer>,
    together: Trainer,
    strong: bool,
    rates: Vec<[f64; 2]>,
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
        world.give_up(&format!("{error:#}"));
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
        let alone = world.is_first().then(|| place.trainer(config)).transpose()?;
        let (world, rates) = (world.clone(), Vec::new());
        Ok(Self { world, alone: alone.map(|(trainer, _)| trainer), together, strong, rates })
    }

    fn measure(mut self, seconds: f64) -> Result<Scaling> {
        let each = seconds / (2 * PAIRS) as f64;
        for pair in 0..=PAIRS {
            let alone = match &mut self.alone {
                Some(trainer) => rate(trainer, &World::default(), each)?,
                None => 0.0,
            };
            self.world.all_gather_within("a GPU that is measured alone", &[], PATIENCE)?;
            let together = rate(&mut self.together, &self.world, each)?;
            // The first pair warms up.
            if pair > 0 {
                self.rates.push([alone, together]);
            }
        }
        Ok(self.scaling())
    }

    fn scaling(&self) -> Scaling {
        let sorted = |of: &dyn Fn(&[f64; 2]) -> f64| {
            let mut all: Vec<f64> = self.rates.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let times = sorted(&|[alone, together]| together / alone);
        let config = self.together.config();
        let alone = sorted(&|rates| rates[0])[PAIRS / 2];
        let together = sorted(&|rates| rates[1])[PAIRS / 2];
        let steps_alone =
            self.alone.as_ref().map_or(0, |trainer| trainer.config().steps_per_iteration());
        let alone_us = 1e6 * steps_alone as f64 / alone;
        let together_us = 1e6 * config.steps_per_iteration() as f64 / together;
        let minibatches: usize =
            config.policies.iter().map(PolicyPlan::minibatches_per_iteration).sum();
        Scaling {
            replicas: self.alone.as_ref().map_or(0, |trainer| trainer.config().run.num_envs),
            all_replicas: config.run.num_envs,
            gpus: self.world.size(),
            alone,
            together,
            times: times[PAIRS / 2],
            least: times[0],
            most: times[PAIRS - 1],
            alone_us,
            together_us,
            minibatches,
            per_minibatch_us: (!self.strong && minibatches > 0)
                .then(|| (together_us - alone_us) / minibatches as f64),
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

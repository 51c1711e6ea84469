//! How shards and ranks share a rollout: each sample once an epoch, and gradients, counts and moments of whole
//! minibatches, against sums over all that the ranks were shown.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod runs;

use runs::{CARTPOLE, config};
use std::time::Duration;
use warp_train::batch::{Samples, StepSizes, TrainablePolicy};
use warp_train::engine::RolloutEngine;
use warp_train::learner::Progress;
use warp_train::loss::{Loss, LossMetrics, Minibatch};
use warp_train::rollout::{PolicyRollout, Rollout};
use warp_train::world::{World, threads};
use warp_train::{Result, TrainConfig};

const REPLICAS: usize = 16;
const STEPS: usize = 6;
const EPOCHS: usize = 3;
const PROGRESS: Progress = Progress { iteration: 2, env_steps: 0, seed: 9 };

/// A sample as a policy is shown it.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// `step * REPLICAS + replica`.
    number: usize,
    advantage: f32,
}

/// What a rank has of a minibatch.
#[derive(Debug, Clone, Default)]
struct Part {
    samples: Vec<Sample>,
    /// Samples of all ranks, as the loss is told.
    whole: Option<f64>,
    /// The gradient that is stepped along.
    gradient: Vec<f32>,
}

/// A policy whose gradient is sums of whole numbers, in which nothing is rounded.
#[derive(Debug, Default)]
struct Witness {
    now: Part,
    steps: Vec<Part>,
}

fn gradient(samples: &[Sample]) -> Vec<f32> {
    let sum = |of: fn(usize) -> usize| samples.iter().map(|s| of(s.number)).sum::<usize>() as f32;
    vec![sum(|_| 1), sum(|n| n), sum(|n| n % 7 * (n % 5))]
}

impl TrainablePolicy for Witness {
    fn values(&mut self, _: &[f32], values: &mut [f32]) -> Result<()> {
        values.fill(0.0);
        Ok(())
    }
    fn gradients(&mut self, minibatch: &Minibatch<'_>, _: &Loss) -> Result<LossMetrics> {
        let numbers = minibatch.observations.iter().step_by(4);
        let samples: Vec<Sample> = numbers
            .zip(minibatch.advantages)
            .map(|(number, advantage)| Sample { number: *number as usize, advantage: *advantage })
            .collect();
        self.now.gradient = gradient(&samples);
        self.now.whole = minibatch.whole;
        self.now.samples.extend(samples);
        Ok(LossMetrics::default())
    }
    fn step(&mut self, _: &StepSizes) -> Result<f64> {
        self.steps.push(std::mem::take(&mut self.now));
        self.now.gradient = vec![0.0; 3];
        Ok(0.0)
    }
    fn gradient(&self) -> Option<&[f32]> {
        Some(&self.now.gradient)
    }
    fn set_gradient(&mut self, sum: &[f32]) {
        self.now.gradient = sum.to_vec();
    }
}

/// Whether a sample's agent was in the game: never in the last steps of the first two replicas.
fn is_alive(number: usize) -> bool {
    let (step, replica) = (number / REPLICAS, number % REPLICAS);
    number * 2_654_435_761 % 97 > 20 && (replica > 1 || step < 1)
}

/// The part of the rollout that a rank has collected.
fn rollout(config: &TrainConfig) -> PolicyRollout {
    let mut rollout = Rollout::new(config).policies.remove(0);
    let first = config.vec_options().first_replica as usize;
    let cells = STEPS * rollout.n_rows;
    rollout.weights = vec![1.0; cells];
    for cell in 0..cells {
        let number = cell / rollout.n_rows * REPLICAS + first + cell % rollout.n_rows;
        rollout.obs[4 * cell] = number as f32;
        rollout.rewards[cell] = (number * 40_503 % 1009) as f32 / 100.0;
        rollout.weights[cell] = f32::from(u8::from(is_alive(number)));
    }
    rollout
}

/// What each of `size` ranks was shown, minibatch by minibatch.
fn shown(config: &TrainConfig, size: usize) -> Vec<Vec<Part>> {
    let work = |rank: usize, link| {
        let config = config.clone().on_rank(World::new(rank, size, link)).unwrap();
        let mut witness = Witness::default();
        witness.now.gradient = vec![0.0; 3];
        let plan = &config.policies[0];
        let engine = RolloutEngine {
            policy: &mut witness,
            rollout: &mut rollout(&config),
            samples: &mut Samples::default(),
            plan,
            progress: PROGRESS,
            sharing: &config.sharing(),
        };
        engine.learn(&*plan.on_policy(&config.spec).unwrap()).unwrap();
        witness.steps
    };
    std::thread::scope(|scope| {
        let ranks = threads(size, Duration::from_secs(60)).into_iter().enumerate();
        let ranks: Vec<_> =
            ranks.map(|(rank, link)| scope.spawn(move || work(rank, link))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn run(shards: usize) -> TrainConfig {
    let keys = format!(
        "num_envs = {REPLICAS}\nnum_steps = {STEPS}\nnum_minibatches = 4\nupdate_epochs = {EPOCHS}\n\
         shards = {shards}"
    );
    config(CARTPOLE, &keys, "")
}

/// Shards and ranks that can share them.
fn cases() -> impl Iterator<Item = (usize, usize)> {
    let ranks = |shards: usize| (1..=shards).filter(move |size| shards.is_multiple_of(*size));
    [1, 2, 4, 8].into_iter().flat_map(move |shards| ranks(shards).map(move |size| (shards, size)))
}

#[test]
fn every_sample_is_taken_once_an_epoch() {
    let alive: Vec<usize> = (0..STEPS * REPLICAS).filter(|number| is_alive(*number)).collect();
    for (shards, size) in cases() {
        let ranks = shown(&run(shards), size);
        let minibatches = ranks[0].len() / EPOCHS;
        assert_eq!(minibatches, 4);
        let mut orders = Vec::new();
        for epoch in 0..EPOCHS {
            let steps = epoch * minibatches..(epoch + 1) * minibatches;
            let parts = ranks.iter().flat_map(|rank| &rank[steps.clone()]);
            let taken: Vec<usize> = parts.flat_map(|p| &p.samples).map(|s| s.number).collect();
            let mut sorted = taken.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, alive, "{shards} shards, {size} ranks, epoch {epoch}");
            orders.push(taken);
        }
        assert!(orders[0] != orders[1] && orders[1] != orders[2]);
    }
}

#[test]
fn minibatches_are_those_of_the_shards_whatever_the_ranks() {
    for (shards, size) in cases() {
        let taken = |size| -> Vec<Vec<usize>> {
            let ranks = shown(&run(shards), size);
            let step = |step: usize| {
                let parts = ranks.iter().flat_map(|rank| &rank[step].samples);
                parts.map(|sample| sample.number).collect()
            };
            (0..ranks[0].len()).map(step).collect()
        };
        assert_eq!(taken(size), taken(1), "{shards} shards, {size} ranks");
    }
}

#[test]
fn gradients_counts_and_moments_are_of_whole_minibatches() {
    for (shards, size) in cases() {
        let ranks = shown(&run(shards), size);
        for step in 0..ranks[0].len() {
            let parts: Vec<&Part> = ranks.iter().map(|rank| &rank[step]).collect();
            let all: Vec<Sample> = parts.iter().flat_map(|part| &part.samples).copied().collect();
            let n = all.len() as f64;
            for part in parts {
                assert_eq!(part.gradient, gradient(&all), "{shards} shards, {size} ranks");
                let whole = (shards > 1 && !part.samples.is_empty()).then_some(n);
                assert_eq!(part.whole, whole);
            }
            // Normalised over all of them, but for the rounding of what is shown.
            let sum =
                |of: fn(f64) -> f64| all.iter().map(|s| of(f64::from(s.advantage))).sum::<f64>();
            let (mean, variance) = (sum(|x| x) / n, sum(|x| x * x) / (n - 1.0));
            assert!(mean.abs() < 1e-6 && (variance - 1.0).abs() < 1e-6, "{mean} {variance}");
        }
    }
}

//! Records of a run's iterations in a fleet: at most [`RECORDS`] lines, so that a fleet of thousands stays
//! readable.

use crate::algorithm::PolicyFigures;
use crate::run::iteration_sum::IterationSum;
use crate::run::metrics::{EpisodeMetrics, IterationMetrics, MeanMinMax};
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of records of a run; each summarises about the same number of iterations.
pub const RECORDS: u64 = 100;

/// A line of a fleet's `metrics.jsonl`: some iterations of one run, with the metrics of a run's own
/// file. Depends only on the run, not on the clock or on other runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetRecord {
    /// The run's number in the fleet.
    pub run: usize,
    /// Its seed.
    pub seed: u64,
    /// Iterations done.
    pub iteration: u64,
    /// Environment steps done, summed over the run's replicas.
    pub env_steps: u64,
    /// Episodes that ended since the last record.
    #[serde(flatten)]
    pub episodes: EpisodeMetrics,
    /// By policy: means over the iterations since the last record.
    pub policy: BTreeMap<String, PolicyFigures>,
}

/// Gathers a run's iterations into records.
#[derive(Debug)]
pub(super) struct Thinner {
    run: usize,
    seed: u64,
    n_iterations: u64,
    sum: IterationSum,
}

impl Thinner {
    /// For a run of `n_iterations`.
    pub(super) fn new(run: usize, seed: u64, n_iterations: u64) -> Self {
        Self { run, seed, n_iterations: n_iterations.max(1), sum: IterationSum::default() }
    }

    /// Takes in an iteration; a record if one is complete.
    pub(super) fn add(&mut self, metrics: &IterationMetrics) -> Option<FleetRecord> {
        self.sum.add(metrics);
        let iteration = metrics.iteration;
        let place = |iteration: u64| iteration * RECORDS / self.n_iterations;
        let complete = iteration >= self.n_iterations || place(iteration) > place(iteration - 1);
        if complete { self.rest() } else { None }
    }

    /// A record of what is not in one yet, if there is anything.
    pub(super) fn rest(&mut self) -> Option<FleetRecord> {
        let IterationMetrics { iteration, env_steps, mut episodes, mut policy, .. } =
            self.sum.take()?;
        for figures in policy.values_mut() {
            figures.change(|name, x| if name == "learning_rate" { x } else { short(x) });
        }
        shorten(&mut episodes);
        Some(FleetRecord { run: self.run, seed: self.seed, iteration, env_steps, episodes, policy })
    }
}

fn shorten(episodes: &mut EpisodeMetrics) {
    let spreads = [&mut episodes.episode_return, &mut episodes.episode_length];
    let spreads = spreads.into_iter().flatten().chain(episodes.group_return.values_mut());
    for spread in spreads {
        let MeanMinMax { mean, min, max } = *spread;
        *spread = MeanMinMax { mean: short(mean), min: short(min), max: short(max) };
    }
    episodes.statistics.values_mut().for_each(|x| *x = short(*x));
}

/// The number with seven digits, all that f32 arithmetic knows of it: half the size as text.
fn short(x: f64) -> f64 {
    format!("{x:.6e}").parse().unwrap_or(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::StepRates;

    fn iteration(i: u64, episodes: u64, mean: f64) -> IterationMetrics {
        let spread = |mean| Some(MeanMinMax { mean, min: mean - 1.0, max: mean + 1.0 });
        IterationMetrics {
            iteration: i,
            env_steps: 10 * i,
            agent_steps: 10 * i,
            episodes: EpisodeMetrics {
                episodes,
                episode_return: spread(mean).filter(|_| episodes > 0),
                episode_length: spread(mean).filter(|_| episodes > 0),
                group_return: BTreeMap::new(),
                statistics: BTreeMap::new(),
            },
            policy: [("a".into(), PolicyFigures::from_iter([("loss", i as f64)]))]
                .into_iter()
                .collect(),
            steps_per_second: StepRates::default(),
            evaluation: None,
            league: None,
        }
    }

    #[test]
    fn records_sum_up_iterations() {
        let mut thinner = Thinner::new(3, 7, 2 * RECORDS);
        assert_eq!(thinner.add(&iteration(1, 1, 4.0)), None);
        let record = thinner.add(&iteration(2, 3, 8.0)).unwrap();
        assert_eq!((record.run, record.seed, record.env_steps), (3, 7, 20));
        let MeanMinMax { mean, min, max } = record.episodes.episode_return.unwrap();
        assert_eq!((record.episodes.episodes, mean, min, max), (4, 7.0, 3.0, 9.0));
        assert_eq!(record.policy["a"].get("loss"), Some(1.5));
        // No episode ended in these two.
        thinner.add(&iteration(3, 0, 0.0));
        let record = thinner.add(&iteration(4, 0, 0.0)).unwrap();
        assert_eq!((record.episodes.episodes, record.episodes.episode_return), (0, None));
    }

    #[test]
    fn there_are_never_too_many_and_the_last_iteration_has_one() {
        for n in [1, 37, 100, 101, 976, 5_000] {
            let mut thinner = Thinner::new(0, 0, n);
            let records: Vec<_> =
                (1..=n).filter_map(|i| thinner.add(&iteration(i, 1, 1.0))).collect();
            assert!(records.len() as u64 <= RECORDS, "{n}: {}", records.len());
            assert_eq!(records.last().unwrap().iteration, n);
            assert_eq!(records.iter().map(|r| r.episodes.episodes).sum::<u64>(), n);
        }
    }
}

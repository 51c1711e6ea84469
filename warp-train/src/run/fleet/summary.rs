//! The summary of a fleet: every run's return, their mean and spread, value by value of a sweep.

use super::combinations;
use crate::run::confidence_interval::{Estimate, INTERVAL};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use warp_core::toml::Table;

/// `summary.json` of a fleet.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FleetSummary {
    /// The environment's name.
    pub env: String,
    /// The algorithm.
    pub algorithm: String,
    /// The device.
    pub device: String,
    /// The learner.
    pub backend: String,
    /// Launches that the runs were trained in.
    pub launches: usize,
    /// Version of the crate.
    pub version: String,
    /// Runs that there are to be.
    pub n_runs: usize,
    /// Runs that reached their end.
    pub n_finished: usize,
    /// Runs that failed.
    pub n_broken: usize,
    /// Runs that successive halving stopped.
    #[serde(skip_serializing_if = "is_zero")]
    pub n_stopped: usize,
    /// Environment steps done, all runs together.
    pub env_steps: u64,
    /// Wall time of all runs together, in the process that ended the fleet.
    pub seconds: f64,
    /// Environment steps per second in that process, all runs together.
    pub env_steps_per_second: f64,
    /// Over the finished runs; of a sweep without an interval.
    #[serde(flatten)]
    pub returns: GroupedReturns,
    /// Returns for each combination of swept values, in the order of the runs; empty without a sweep.
    pub swept: Vec<SweptReturns>,
    /// The runs that have ended.
    pub runs: Vec<RunSummary>,
}

/// How one run of a fleet ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Its number.
    pub run: usize,
    /// Its seed.
    pub seed: u64,
    /// The swept keys with its values.
    pub swept: Table,
    /// Environment steps done.
    pub env_steps: u64,
    /// Mean return of its last 100 or more episodes; `None` if none has ended.
    pub mean_episode_return: Option<f64>,
    /// Mean return of its last 100 or more episodes, by group of agents.
    pub mean_group_return: BTreeMap<String, f64>,
    /// Why it failed; `None` if it did not.
    pub error: Option<String>,
    /// The round of successive halving, from 1, after which it was stopped; `None` if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_in_round: Option<usize>,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl RunSummary {
    /// Whether it reached its end.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.error.is_none() && self.stopped_in_round.is_none()
    }

    fn returns(&self) -> (Option<f64>, &BTreeMap<String, f64>) {
        (self.mean_episode_return, &self.mean_group_return)
    }
}

/// Returns of several runs, each the mean of the run's last episodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Returns {
    /// Runs.
    pub n: usize,
    /// Mean over runs.
    pub mean: f64,
    /// Standard deviation over runs (n - 1); `None` for a single one, and across a sweep.
    pub std: Option<f64>,
    /// Half the width of the interval of the mean; `None` for a lone run, and across a sweep.
    pub confidence: Option<f64>,
    /// What that interval is.
    pub interval: &'static str,
    /// The worst run.
    pub min: f64,
    /// The run in the middle.
    pub median: f64,
    /// The best run.
    pub max: f64,
}

/// Returns of several runs, of all trained groups together and group by group.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GroupedReturns {
    /// Together; `None` if in none of the runs an episode ended.
    #[serde(rename = "returns")]
    pub together: Option<Returns>,
    /// By group of agents.
    #[serde(rename = "group_returns")]
    pub groups: BTreeMap<String, Returns>,
}

/// What runs with the same swept values came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweptReturns {
    /// The values.
    pub swept: Table,
    /// Their returns; of runs that were stopped those that they had then.
    #[serde(flatten)]
    pub returns: GroupedReturns,
    /// The round of successive halving, from 1, after which they were stopped; `None` if they were not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_in_round: Option<usize>,
    /// Environment steps that each of them has done; the most, should they differ.
    #[serde(skip)]
    pub env_steps: u64,
}

impl Returns {
    /// Mean and spread of `returns`; `None` if there are none.
    #[must_use]
    pub fn of(returns: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = returns.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (n, (min, max)) = (sorted.len(), (*sorted.first()?, *sorted.last()?));
        let Estimate { mean, std, confidence } = Estimate::of(&sorted)?;
        let median = f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]);
        Some(Self { n, mean, std, confidence, interval: INTERVAL, min, median, max })
    }

    /// These returns as those of runs with different values: their mean is one over whatever was swept, and has no
    /// deviation or interval to speak of.
    #[must_use]
    pub fn across(self) -> Self {
        Self { std: None, confidence: None, ..self }
    }
}

impl GroupedReturns {
    /// Mean and spread of the returns of `runs`, each with its return and those of its groups.
    #[must_use]
    pub fn of<'a>(
        runs: impl Iterator<Item = (Option<f64>, &'a BTreeMap<String, f64>)> + Clone,
    ) -> Self {
        // Each once: all runs have the same.
        let names: BTreeSet<&String> = runs.clone().flat_map(|(_, groups)| groups.keys()).collect();
        let group = |name: &&'a String| {
            let returns = runs.clone().filter_map(|(_, groups)| groups.get(*name).copied());
            Some(((*name).clone(), Returns::of(returns)?))
        };
        Self {
            together: Returns::of(runs.clone().filter_map(|(together, _)| together)),
            groups: names.iter().filter_map(group).collect(),
        }
    }

    /// These returns as those of runs with different values: [`Returns::across`].
    #[must_use]
    pub fn across(self) -> Self {
        let groups = self.groups.into_iter().map(|(name, returns)| (name, returns.across()));
        Self { together: self.together.map(Returns::across), groups: groups.collect() }
    }
}

/// What was done for a fleet.
pub(super) struct Work {
    /// Environment steps in all.
    pub(super) env_steps: u64,
    /// Environment steps of this process.
    pub(super) own_steps: u64,
    /// Wall time of this process.
    pub(super) seconds: f64,
}

impl FleetSummary {
    /// Fills in what is known of the runs.
    pub(super) fn of_runs(self, runs: Vec<RunSummary>, n_runs: usize, work: &Work) -> Self {
        let whole = || runs.iter().filter(|run| run.error.is_none());
        let finished = || runs.iter().filter(|run| run.is_finished());
        let swept: Vec<&RunSummary> = runs.iter().filter(|run| !run.swept.is_empty()).collect();
        let of_values = |(values, places): (&Table, Vec<usize>)| {
            let own = places.iter().map(|place| swept[*place]).filter(|run| run.error.is_none());
            SweptReturns {
                swept: values.clone(),
                returns: GroupedReturns::of(own.clone().map(RunSummary::returns)),
                stopped_in_round: own.clone().find_map(|run| run.stopped_in_round),
                env_steps: own.map(|run| run.env_steps).max().unwrap_or(0),
            }
        };
        let values = combinations(swept.iter().map(|run| &run.swept));
        let values: Vec<SweptReturns> = values.into_iter().map(of_values).collect();
        let all = GroupedReturns::of(finished().map(RunSummary::returns));
        Self {
            n_runs,
            n_finished: finished().count(),
            n_broken: runs.len() - whole().count(),
            n_stopped: whole().count() - finished().count(),
            env_steps: work.env_steps,
            seconds: work.seconds,
            env_steps_per_second: work.own_steps as f64 / work.seconds.max(1e-9),
            returns: if values.len() > 1 { all.across() } else { all },
            swept: values,
            version: env!("CARGO_PKG_VERSION").into(),
            runs,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_are_summed_up() {
        let found = Returns::of([4.0, 1.0, 1.0, 2.0]).unwrap();
        assert_eq!((found.n, found.mean, found.median), (4, 2.0, 1.5));
        assert!((found.std.unwrap() - 2f64.sqrt()).abs() < 1e-12);
        // Student's t for three degrees of freedom: 3.182.
        assert!((found.confidence.unwrap() - 3.182 * 2f64.sqrt() / 2.0).abs() < 1e-3);
        assert_eq!((found.min, found.max), (1.0, 4.0));
        assert_eq!(Returns::of([3.0]).unwrap().confidence, None);
        assert_eq!(Returns::of([]), None);
    }

    #[test]
    fn swept_values_have_their_own_returns() {
        let run = |run: usize, gamma: f64, mean: Option<f64>, error: Option<&str>| RunSummary {
            run,
            seed: 0,
            swept: [("gamma".to_string(), gamma.into())].into_iter().collect(),
            env_steps: 10,
            mean_episode_return: mean,
            mean_group_return: mean.map(|mean| ("a".to_string(), -mean)).into_iter().collect(),
            error: error.map(Into::into),
            stopped_in_round: None,
        };
        let runs = vec![
            run(0, 0.9, Some(1.0), None),
            run(1, 0.9, Some(99.0), Some("it diverged")),
            run(2, 0.8, Some(5.0), None),
            run(3, 0.9, Some(3.0), None),
        ];
        let summary = FleetSummary::default().of_runs(
            runs,
            6,
            &Work { env_steps: 60, own_steps: 40, seconds: 2.0 },
        );
        assert_eq!((summary.n_runs, summary.n_finished, summary.n_broken), (6, 3, 1));
        assert_eq!(summary.env_steps_per_second, 20.0);
        let together = |of: &SweptReturns| of.returns.together.unwrap();
        let means: Vec<_> = summary.swept.iter().map(|s| together(s).mean).collect();
        assert_eq!(means, [2.0, 5.0]);
        assert_eq!(summary.swept[0].returns.groups["a"].mean, -2.0);
        assert!(together(&summary.swept[0]).confidence.is_some());
        assert_eq!(together(&summary.swept[1]).confidence, None);
        // Over values that were swept there is no interval.
        let all = summary.returns.together.unwrap();
        assert_eq!((all.mean, all.n, all.confidence, all.std), (3.0, 3, None, None));
    }
}

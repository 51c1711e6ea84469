//! What came of a fleet: every run's return, their mean and spread, value by value of a sweep.

use serde::Serialize;
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
    /// Runs that broke.
    pub n_broken: usize,
    /// Environment steps done, all runs together.
    pub env_steps: u64,
    /// Wall time of all runs together.
    pub seconds: f64,
    /// Environment steps per second, all runs together.
    pub env_steps_per_second: f64,
    /// Over the finished runs; `None` if in none of them an episode ended.
    pub returns: Option<Returns>,
    /// The same for each combination of swept values, in the order of the runs; empty without a sweep.
    pub swept: Vec<SweptReturns>,
    /// The runs that have ended.
    pub runs: Vec<RunSummary>,
}

/// How one run of a fleet ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    /// Why it broke; `None` if it did not.
    pub error: Option<String>,
}

/// Returns of several runs, each the mean of the run's last episodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Returns {
    /// Runs.
    pub n: usize,
    /// Mean over runs.
    pub mean: f64,
    /// Standard deviation over runs (n - 1); 0 for a lone one.
    pub std: f64,
    /// Half the width of the 95 % confidence interval of the mean: 1.96 std / sqrt(n).
    pub confidence: f64,
    /// The worst run.
    pub min: f64,
    /// The run in the middle.
    pub median: f64,
    /// The best run.
    pub max: f64,
}

/// What runs with the same swept values came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweptReturns {
    /// The values.
    pub swept: Table,
    /// Their returns; `None` if there are none.
    pub returns: Option<Returns>,
}

impl Returns {
    /// Of some returns; `None` for none.
    #[must_use]
    pub fn of(returns: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = returns.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (n, (min, max)) = (sorted.len(), (*sorted.first()?, *sorted.last()?));
        let mean = sorted.iter().sum::<f64>() / n as f64;
        let squares: f64 = sorted.iter().map(|x| (x - mean) * (x - mean)).sum();
        let std = if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 };
        let confidence = 1.96 * std / (n as f64).sqrt();
        let median = f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]);
        Some(Self { n, mean, std, confidence, min, median, max })
    }
}

impl FleetSummary {
    /// Fills in what is known of the runs.
    pub(super) fn of_runs(
        self,
        runs: Vec<RunSummary>,
        n_runs: usize,
        (env_steps, seconds): (u64, f64),
    ) -> Self {
        let finished = || runs.iter().filter(|run| run.error.is_none());
        let mut values: Vec<&Table> = Vec::new();
        for run in runs.iter().filter(|run| !run.swept.is_empty()) {
            if !values.contains(&&run.swept) {
                values.push(&run.swept);
            }
        }
        let of_values = |swept: &&Table| SweptReturns {
            swept: (*swept).clone(),
            returns: Returns::of(
                finished().filter(|r| r.swept == **swept).filter_map(|r| r.mean_episode_return),
            ),
        };
        Self {
            n_runs,
            n_finished: finished().count(),
            n_broken: runs.len() - finished().count(),
            env_steps,
            seconds,
            env_steps_per_second: env_steps as f64 / seconds.max(1e-9),
            returns: Returns::of(finished().filter_map(|run| run.mean_episode_return)),
            swept: values.iter().map(of_values).collect(),
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
        assert!((found.std - 2f64.sqrt()).abs() < 1e-12);
        assert!((found.confidence - 1.96 * 2f64.sqrt() / 2.0).abs() < 1e-12);
        assert_eq!((found.min, found.max), (1.0, 4.0));
        assert_eq!(Returns::of([3.0]).unwrap().confidence, 0.0);
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
            error: error.map(Into::into),
        };
        let runs = vec![
            run(0, 0.9, Some(1.0), None),
            run(1, 0.9, Some(99.0), Some("it diverged")),
            run(2, 0.8, Some(5.0), None),
            run(3, 0.9, Some(3.0), None),
        ];
        let summary = FleetSummary::default().of_runs(runs, 6, (40, 2.0));
        assert_eq!((summary.n_runs, summary.n_finished, summary.n_broken), (6, 3, 1));
        assert_eq!(summary.env_steps_per_second, 20.0);
        let means: Vec<_> = summary.swept.iter().map(|s| s.returns.unwrap().mean).collect();
        assert_eq!(means, [2.0, 5.0]);
        assert_eq!(summary.returns.unwrap().mean, 3.0);
    }
}

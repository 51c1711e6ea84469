//! Figures of an iteration.

pub use crate::algorithm::{PolicyFigures, PolicyMetrics};
use crate::config::TrainConfig;
pub use crate::engine::{PhaseSeconds, StepRates};
use crate::run::evaluation::Evaluation;
use crate::run::league::Standing;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use warp_core::EnvSpec;
use warp_func::{EpisodeTotals, Spread};

/// Episodes over which a run's mean return is taken, at least.
const WINDOW: u64 = 100;

/// Mean returns of the last 100 or more episodes, of all trained groups together and of each group.
#[derive(Debug, Clone, Default)]
pub struct RecentReturns {
    together: Recent,
    groups: BTreeMap<String, Recent>,
}

impl RecentReturns {
    /// Takes in `n` ended episodes with their mean returns.
    pub(crate) fn add<'a>(
        &mut self,
        n: u64,
        together: Option<f64>,
        groups: impl IntoIterator<Item = (&'a String, f64)>,
    ) {
        together.into_iter().for_each(|mean| self.together.add(n, mean));
        for (group, mean) in groups {
            match self.groups.get_mut(group) {
                Some(recent) => recent.add(n, mean),
                None => self.groups.entry(group.clone()).or_default().add(n, mean),
            }
        }
    }

    /// Takes in what ended in an iteration.
    pub fn add_iteration(&mut self, ended: &EpisodeMetrics) {
        let groups = ended.group_return.iter().map(|(group, spread)| (group, spread.mean));
        self.add(ended.episodes, ended.episode_return.map(|spread| spread.mean), groups);
    }

    /// Mean return of all trained groups together; `None` if no episode has finished.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        self.together.mean()
    }

    /// Mean return of each group; empty if no episode has finished.
    #[must_use]
    pub fn groups(&self) -> BTreeMap<String, f64> {
        let mean = |(group, recent): (&String, &Recent)| Some((group.clone(), recent.mean()?));
        self.groups.iter().filter_map(mean).collect()
    }
}

/// A mean over the last 100 or more episodes.
#[derive(Debug, Clone, Default)]
struct Recent {
    /// Episodes and sum of returns of the last iterations.
    recent: VecDeque<(u64, f64)>,
    /// Episodes of all of them.
    n: u64,
}

impl Recent {
    fn add(&mut self, n: u64, mean: f64) {
        self.recent.push_back((n, mean * n as f64));
        self.n += n;
        while self.recent.len() > 1 && self.n - self.recent[0].0 >= WINDOW {
            self.n -= self.recent.pop_front().map_or(0, |first| first.0);
        }
    }

    fn mean(&self) -> Option<f64> {
        let sum: f64 = self.recent.iter().fold(0.0, |sum, r| sum + r.1);
        (self.n > 0).then(|| sum / self.n as f64)
    }
}

/// Episodes that ended in an iteration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EpisodeMetrics {
    /// How many ended.
    pub episodes: u64,
    /// Sum of the rewards of all agents of trained policies; `None` if no episode finished. Of several groups,
    /// the extremes are bounds: sums of the groups' extremes, which need not be of one episode.
    pub episode_return: Option<MeanMinMax>,
    /// Steps.
    pub episode_length: Option<MeanMinMax>,
    /// Return by group of agents.
    pub group_return: BTreeMap<String, MeanMinMax>,
    /// Mean of each of the environment's own statistics.
    pub statistics: BTreeMap<String, f64>,
}

/// Mean, minimum and maximum.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeanMinMax {
    /// Mean.
    pub mean: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl EpisodeMetrics {
    /// From an executor's totals; `trained` gives the groups that count in `episode_return`.
    #[must_use]
    pub fn new(totals: &EpisodeTotals, spec: &EnvSpec, trained: &[bool]) -> Self {
        let n = totals.count;
        let spread = |s: &Spread| MeanMinMax { mean: s.sum / n as f64, min: s.min, max: s.max };
        let some = n > 0;
        let counted: Vec<&Spread> =
            totals.returns.iter().zip(trained).filter(|(_, t)| **t).map(|(s, _)| s).collect();
        let together = |counted: &[&Spread]| {
            // Executors know the extremes of each group alone.
            let mean = counted.iter().map(|s| s.sum).sum::<f64>() / n as f64;
            let min = counted.iter().map(|s| s.min).sum();
            MeanMinMax { mean, min, max: counted.iter().map(|s| s.max).sum() }
        };
        let groups = spec.groups.iter().zip(&totals.returns);
        let names = spec.statistics.iter().zip(&totals.statistics);
        Self {
            episodes: n,
            episode_return: (some && !counted.is_empty()).then(|| together(&counted)),
            episode_length: some.then(|| spread(&totals.length)),
            group_return: groups
                .filter(|_| some)
                .map(|(g, s)| (g.name.clone(), spread(s)))
                .collect(),
            statistics: names.filter(|_| some).map(|(k, s)| (k.clone(), s / n as f64)).collect(),
        }
    }
}

/// The figures of all policies in an iteration that began after `env_steps`, with coefficients that change.
pub(crate) fn by_policy(
    config: &TrainConfig,
    done: &[PolicyFigures],
    env_steps: u64,
) -> BTreeMap<String, PolicyFigures> {
    let policies = config.policies.iter().zip(done);
    let figures = policies.map(|(plan, figures)| {
        let known = |key: &str| figures.get(key).is_some();
        let more = plan.changing(env_steps).filter(|(key, _)| !known(key));
        (plan.name.clone(), figures.iter().chain(more).collect())
    });
    figures.collect()
}

/// One line of `metrics.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IterationMetrics {
    /// Iterations done.
    pub iteration: u64,
    /// Environment steps done, summed over replicas.
    pub env_steps: u64,
    /// Agent steps done: environment steps times agents.
    pub agent_steps: u64,
    /// Episodes that ended.
    #[serde(flatten)]
    pub episodes: EpisodeMetrics,
    /// By policy.
    pub policy: BTreeMap<String, PolicyFigures>,
    /// Environment steps per second in this iteration.
    pub steps_per_second: StepRates,
    /// The evaluation after it, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<Evaluation>,
    /// The ratings of a league's policies, if games were played after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub league: Option<BTreeMap<String, Standing>>,
}

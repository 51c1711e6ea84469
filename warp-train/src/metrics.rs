//! Figures of an iteration.

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
            self.groups.entry(group.clone()).or_default().add(n, mean);
        }
    }

    /// Takes in what ended in an iteration.
    pub fn add_iteration(&mut self, ended: &EpisodeMetrics) {
        let groups = ended.group_return.iter().map(|(group, spread)| (group, spread.mean));
        self.add(ended.episodes, ended.episode_return.map(|spread| spread.mean), groups);
    }

    /// Mean return of all trained groups together; `None` if no episode has ended.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        self.together.mean()
    }

    /// Mean return of each group; empty if no episode has ended.
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
}

impl Recent {
    fn add(&mut self, n: u64, mean: f64) {
        self.recent.push_back((n, mean * n as f64));
        let count = |recent: &VecDeque<(u64, f64)>| recent.iter().map(|r| r.0).sum::<u64>();
        while self.recent.len() > 1 && count(&self.recent) - self.recent[0].0 >= WINDOW {
            self.recent.pop_front();
        }
    }

    fn mean(&self) -> Option<f64> {
        let (n, sum) = self.recent.iter().fold((0, 0.0), |(n, sum), r| (n + r.0, sum + r.1));
        (n > 0).then(|| sum / n as f64)
    }
}

/// Where the seconds of an iteration went.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PhaseSeconds {
    /// Forward passes.
    pub policy: f64,
    /// Drawing actions and handing them over.
    pub sample: f64,
    /// Stepping environments and storing what came of it.
    pub step: f64,
    /// Learning.
    pub learn: f64,
}

impl PhaseSeconds {
    /// All phases together.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.policy + self.sample + self.step + self.learn
    }

    /// Adds another iteration.
    pub fn add(&mut self, other: &PhaseSeconds) {
        self.policy += other.policy;
        self.sample += other.sample;
        self.step += other.step;
        self.learn += other.learn;
    }

    /// Environment steps per second, over all and in each phase alone.
    #[must_use]
    pub fn rates(&self, env_steps: u64) -> StepRates {
        let rate = |seconds: f64| if seconds > 0.0 { env_steps as f64 / seconds } else { 0.0 };
        StepRates {
            total: rate(self.total()),
            policy: rate(self.policy),
            sample: rate(self.sample),
            step: rate(self.step),
            learn: rate(self.learn),
        }
    }
}

/// Environment steps per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct StepRates {
    /// Over everything.
    pub total: f64,
    /// Were there only forward passes.
    pub policy: f64,
    /// Were there only sampling.
    pub sample: f64,
    /// Were there only environments.
    pub step: f64,
    /// Were there only learning.
    pub learn: f64,
}

/// What an update from a rollout did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PolicyMetrics {
    /// Step size used.
    pub learning_rate: f64,
    /// Whole loss, mean over minibatches.
    pub loss: f64,
    /// Policy loss.
    pub policy_loss: f64,
    /// Value loss, before its coefficient.
    pub value_loss: f64,
    /// Entropy, nats, summed over heads or elements.
    pub entropy: f64,
    /// Estimate of the divergence from the policy that collected the rollout.
    pub approx_kl: f64,
    /// Share of samples whose probability moved beyond `clip_coef`.
    pub clip_fraction: f64,
    /// 1 - variance of what the value misses / variance of the returns.
    pub explained_variance: f64,
    /// Norm of the gradient before clipping.
    pub grad_norm: f64,
}

/// What one policy's updates did: figures by the names that its algorithm gives them, in its order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PolicyFigures(Vec<(&'static str, f64)>);

impl PolicyFigures {
    /// The figure called `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, figure)| *figure)
    }

    /// Names and figures.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.0.iter().copied()
    }

    /// Puts `join(figure, other's figure of that name)` in the place of every figure.
    pub(crate) fn join(&mut self, other: &Self, join: impl Fn(&str, f64, f64) -> f64) {
        for (name, figure) in &mut self.0 {
            let other = other.get(name).unwrap_or(*figure);
            *figure = join(name, *figure, other);
        }
    }
}

impl FromIterator<(&'static str, f64)> for PolicyFigures {
    fn from_iter<I: IntoIterator<Item = (&'static str, f64)>>(figures: I) -> Self {
        Self(figures.into_iter().collect())
    }
}

impl From<PolicyMetrics> for PolicyFigures {
    fn from(of: PolicyMetrics) -> Self {
        Self(vec![
            ("learning_rate", of.learning_rate),
            ("loss", of.loss),
            ("policy_loss", of.policy_loss),
            ("value_loss", of.value_loss),
            ("entropy", of.entropy),
            ("approx_kl", of.approx_kl),
            ("clip_fraction", of.clip_fraction),
            ("explained_variance", of.explained_variance),
            ("grad_norm", of.grad_norm),
        ])
    }
}

impl Serialize for PolicyFigures {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// Episodes that ended in an iteration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EpisodeMetrics {
    /// How many ended.
    pub episodes: u64,
    /// Sum of the rewards of all agents of trained policies; `None` if no episode ended.
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
    /// From an executor's totals; `trained` says which groups count in `episode_return`.
    #[must_use]
    pub fn new(totals: &EpisodeTotals, spec: &EnvSpec, trained: &[bool]) -> Self {
        let n = totals.count;
        let spread = |s: &Spread| MeanMinMax { mean: s.sum / n as f64, min: s.min, max: s.max };
        let some = n > 0;
        let counted: Vec<&Spread> =
            totals.returns.iter().zip(trained).filter(|(_, t)| **t).map(|(s, _)| s).collect();
        let together = |counted: &[&Spread]| {
            // Extremes of a sum over several groups are not known from those of its parts.
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
}

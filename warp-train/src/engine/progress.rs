//! The progress of a run, and the results of an iteration.

use crate::algorithm::PolicyFigures;
use serde::Serialize;
use warp_func::EpisodeTotals;

/// The progress of a run when a learner is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Iterations done.
    pub iteration: u64,
    /// Environment steps done, summed over replicas.
    pub env_steps: u64,
    /// The run's seed.
    pub seed: u64,
}

impl Progress {
    /// Where it stands `n` iterations of `steps` environment steps later.
    #[must_use]
    pub(crate) fn after(self, n: u64, steps: u64) -> Self {
        let (iteration, env_steps) = (self.iteration + n, self.env_steps + n * steps);
        Self { iteration, env_steps, ..self }
    }
}

/// What an iteration leaves.
#[derive(Debug, Clone, PartialEq)]
pub struct Iterated {
    /// The episodes that ended.
    pub episodes: EpisodeTotals,
    /// One entry per policy.
    pub policies: Vec<PolicyFigures>,
    /// Where its time went; nothing where nobody waits between the phases.
    pub phases: Option<PhaseSeconds>,
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

    /// Environment steps per second, overall and in each phase.
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

/// Environment steps per second; 0 where nothing was timed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StepRates {
    /// Over everything.
    pub total: f64,
    /// Counting only the time of forward passes.
    pub policy: f64,
    /// Counting only the time of sampling.
    pub sample: f64,
    /// Counting only the time of environments.
    pub step: f64,
    /// Counting only the time of learning.
    pub learn: f64,
}

impl StepRates {
    /// The phases that were timed, by their names; none where nobody told them apart.
    pub fn phases(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let Self { policy, sample, step, learn, .. } = *self;
        // All of an iteration counts as learning where nothing else was timed.
        let told_apart = policy + sample + step > 0.0;
        let phases = [("policy", policy), ("sample", sample), ("step", step), ("learn", learn)];
        phases.into_iter().filter(move |(_, rate)| told_apart && *rate > 0.0)
    }

    /// Puts `join(rate, other's rate)` in the place of every rate.
    pub(crate) fn join(&mut self, other: &Self, join: impl Fn(f64, f64) -> f64) {
        for (rate, other) in [
            (&mut self.total, other.total),
            (&mut self.policy, other.policy),
            (&mut self.sample, other.sample),
            (&mut self.step, other.step),
            (&mut self.learn, other.learn),
        ] {
            *rate = join(*rate, other);
        }
    }
}

impl Serialize for StepRates {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(std::iter::once(("total", self.total)).chain(self.phases()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_phases_that_were_timed_are_written_down() {
        let written = |phases: PhaseSeconds| serde_json::to_value(phases.rates(8)).unwrap();
        let all = PhaseSeconds { policy: 1.0, sample: 0.5, step: 0.5, learn: 2.0 };
        let rates = serde_json::json!({"total": 2.0, "policy": 8.0, "sample": 16.0, "step": 16.0, "learn": 4.0});
        assert_eq!(written(all), rates);
        let together = PhaseSeconds { learn: 2.0, ..PhaseSeconds::default() };
        assert_eq!(written(together), serde_json::json!({"total": 4.0}));
    }
}

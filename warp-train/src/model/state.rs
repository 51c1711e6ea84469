//! The state of all policies in a checkpoint: named tensors and numbers.

use super::{NamedBytes, NamedTensor};

/// A named array of f64, part of a learner's state.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistic {
    /// Its name, such as `obs_mean`.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its values, row-major.
    pub data: Vec<f64>,
}

/// Everything that a learner needs to continue: named tensors, the same for every backend.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LearnerState {
    /// Weights and biases, `<policy>.<layer>.weight` and `.bias`, and `<policy>.log_std`.
    pub weights: Vec<NamedTensor>,
    /// Adam's moments, `<policy>.<layer>.weight.exp_avg` and `.exp_avg_sq`.
    pub optimizer: Vec<NamedTensor>,
    /// Adam's steps per policy, by its name.
    pub optimizer_steps: Vec<(String, u64)>,
    /// What normalisers know, `<policy>.obs_mean` and so on, and counters.
    pub statistics: Vec<Statistic>,
    /// Replay memories and other state that persists from step to step, `<policy>.replay.obs` and so on.
    pub numbers: Vec<NamedTensor>,
    /// Flags of replay memories.
    pub flags: Vec<NamedBytes>,
}

impl LearnerState {
    /// Adds the tensors of a policy under its name.
    pub fn add_policy(
        &mut self,
        policy: &str,
        weights: Vec<NamedTensor>,
        optimizer: Vec<NamedTensor>,
        n_steps: u64,
    ) {
        let under = |tensor: NamedTensor| NamedTensor {
            name: format!("{policy}.{}", tensor.name),
            ..tensor
        };
        self.weights.extend(weights.into_iter().map(under));
        self.optimizer.extend(optimizer.into_iter().map(under));
        self.optimizer_steps.push((policy.into(), n_steps));
    }

    /// Adds the statistics of a policy under its name.
    pub fn add_statistics(&mut self, policy: &str, statistics: Vec<Statistic>) {
        let under = |statistic: Statistic| Statistic {
            name: format!("{policy}.{}", statistic.name),
            ..statistic
        };
        self.statistics.extend(statistics.into_iter().map(under));
    }

    /// Checks that all weights, moments and statistics are finite. It is not enough that a policy still
    /// acts: relu turns NaN into 0.
    ///
    /// # Errors
    /// The first number that is not, as a message.
    pub fn check_finite(&self) -> Result<(), String> {
        let wrong = |name: &str, at: usize, x: f64| {
            Err(format!("tensor \"{name}\" holds {x} as its element {at}"))
        };
        for NamedTensor { name, data, .. } in self.weights.iter().chain(&self.optimizer) {
            if let Some(at) = data.iter().position(|x| !x.is_finite()) {
                return wrong(name, at, data[at].into());
            }
        }
        for Statistic { name, data, .. } in &self.statistics {
            if let Some(at) = data.iter().position(|x| !x.is_finite()) {
                return wrong(name, at, data[at]);
            }
        }
        Ok(())
    }

    /// The statistics of a policy, without its name.
    #[must_use]
    pub fn statistics_of_policy(&self, policy: &str) -> Vec<Statistic> {
        let strip = |statistic: &Statistic| {
            let name = statistic.name.strip_prefix(policy)?.strip_prefix('.')?.into();
            Some(Statistic { name, ..statistic.clone() })
        };
        self.statistics.iter().filter_map(strip).collect()
    }

    /// The tensors of a policy, without its name: weights, optimiser, optimiser steps.
    #[must_use]
    pub fn of_policy(&self, policy: &str) -> (Vec<NamedTensor>, Vec<NamedTensor>, u64) {
        let own = |tensors: &[NamedTensor]| {
            let strip = |tensor: &NamedTensor| {
                let name = tensor.name.strip_prefix(policy)?.strip_prefix('.')?.into();
                Some(NamedTensor { name, ..tensor.clone() })
            };
            tensors.iter().filter_map(strip).collect()
        };
        let steps = self.optimizer_steps.iter().find(|(name, _)| name == policy);
        (own(&self.weights), own(&self.optimizer), steps.map_or(0, |(_, n)| *n))
    }
}

//! What a policy of the small path normalises by: see normalise.cuh.

use super::shared::NormaliserArgs;
use crate::algorithm::PolicyPlan;
use crate::engine::rollout::normalise::{CLIP, EPSILON};
use crate::error::Result;
use crate::fused::moments::{Moments, doubles, statistic, words};
use crate::model::{LearnerState, Statistic};
use warp_core::DType;
use warp_func::cuda::{Device, DeviceArray};

/// Which numbers of a run a policy normalises.
#[derive(Debug, Clone, Copy)]
pub(super) struct Normalised {
    norm_obs: bool,
    norm_reward: bool,
    /// Numbers of an observation.
    width: usize,
    /// Agents of all replicas.
    n_rows: usize,
    gamma: f64,
}

impl Normalised {
    /// What `plan` normalises, whose agents see `width` numbers each and are `n_rows` in all replicas.
    pub(super) fn new(plan: &PolicyPlan, width: usize, n_rows: usize) -> Self {
        let keys = &plan.config;
        let gamma = keys.gamma.at(0);
        Self { norm_obs: keys.norm_obs, norm_reward: keys.norm_reward, width, n_rows, gamma }
    }

    fn any(&self) -> bool {
        self.norm_obs || self.norm_reward
    }

    /// Numbers that have moments: those of an observation, then the discounted return.
    fn columns(&self) -> usize {
        if self.any() { self.width + 1 } else { 0 }
    }

    fn n_factors(&self) -> usize {
        if self.any() { 2 * self.columns() + 1 } else { 0 }
    }

    fn n_known(&self) -> usize {
        if self.any() { 3 * self.columns() + 1 } else { 0 }
    }

    fn n_running(&self) -> usize {
        if self.norm_reward { self.n_rows } else { 0 }
    }

    fn n_summed(&self) -> usize {
        usize::from(self.norm_obs) * self.width + usize::from(self.norm_reward)
    }

    /// What a run of `policy` begins with, from what [`Normalised::unpack`] gave.
    ///
    /// # Errors
    /// A statistic that is missing, or of another length.
    pub(super) fn pack(&self, policy: &str, state: &LearnerState) -> Result<Packed> {
        let mut packed = Packed::default();
        if !self.any() {
            return Ok(packed);
        }
        let statistics = state.statistics_of_policy(policy);
        let mut columns = vec![Moments::default(); self.columns()];
        if self.norm_obs {
            let obs = Moments::load(policy, &statistics, "obs", self.width)?;
            columns[..self.width].copy_from_slice(&obs);
        }
        if self.norm_reward {
            columns[self.width] = Moments::load(policy, &statistics, "reward", 1)?[0];
            let running = statistic(policy, &statistics, "discounted_return", self.n_rows)?;
            packed.running = running.to_vec();
        }
        let known = columns.iter().flat_map(|of| [of.count, of.mean, of.var]);
        packed.known = known.chain([self.gamma]).collect();
        packed.factors = factors(&columns);
        Ok(packed)
    }

    /// As [`crate::engine::rollout::normalise::Normaliser::state`], of run number `run` of those in `all`.
    pub(super) fn unpack(&self, all: &Packed, run: usize) -> Vec<Statistic> {
        let mut statistics = Vec::new();
        let known = &all.known[run * self.n_known()..][..self.n_known()];
        let each =
            known.chunks_exact(3).map(|of| Moments { count: of[0], mean: of[1], var: of[2] });
        let columns: Vec<Moments> = each.collect();
        if self.norm_obs {
            Moments::save(&columns[..self.width], "obs", &mut statistics);
        }
        if self.norm_reward {
            Moments::save(&columns[self.width..=self.width], "reward", &mut statistics);
            let data = all.running[run * self.n_rows..][..self.n_rows].to_vec();
            let (name, shape) = ("discounted_return".into(), vec![data.len()]);
            statistics.push(Statistic { name, shape, data });
        }
        statistics
    }

    /// Writes run number `run` of those in `all` into the statistics of `policy`.
    pub(super) fn store(&self, all: &Packed, run: usize, policy: &str, state: &mut LearnerState) {
        let own = format!("{policy}.");
        state.statistics.retain(|statistic| !statistic.name.starts_with(&own));
        state.add_statistics(policy, self.unpack(all, run));
    }
}

/// What runs normalise by, one after the other, as the host has it.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Packed {
    factors: Vec<f32>,
    /// Count, mean and variance of each column, then the discount.
    known: Vec<f64>,
    /// The discounted return of each row so far.
    running: Vec<f64>,
}

impl Packed {
    /// Adds another run.
    pub(super) fn extend(&mut self, other: &Self) {
        self.factors.extend(&other.factors);
        self.known.extend(&other.known);
        self.running.extend(&other.running);
    }
}

/// What some runs of a policy normalise by, on the device.
#[derive(Debug)]
pub(super) struct SmallNormaliser {
    of: Normalised,
    /// Parts of a rollout's sums.
    n_parts: u32,
    pub(super) factors: DeviceArray,
    pub(super) known: DeviceArray,
    pub(super) parts: DeviceArray,
    pub(super) running: DeviceArray,
}

impl SmallNormaliser {
    /// For `runs` runs, whose sums come in `n_parts` parts each.
    ///
    /// # Errors
    /// Too little memory.
    pub(super) fn new(gpu: &Device, of: Normalised, n_parts: usize, runs: usize) -> Result<Self> {
        let array = |name: &str, dtype, n: usize| {
            // An array has an element at least.
            DeviceArray::zeros(gpu, name, dtype, &[(runs * n).max(1)])
        };
        Ok(Self {
            of,
            n_parts: n_parts as u32,
            factors: array("factors", DType::F32, of.n_factors())?,
            known: array("moments", DType::U32, 2 * of.n_known())?,
            parts: array("parts of moments", DType::U32, 2 * 2 * of.n_summed() * n_parts)?,
            running: array("discounted_return", DType::U32, 2 * of.n_running())?,
        })
    }

    /// What kernels take of it.
    pub(super) fn args(&self) -> NormaliserArgs<'_> {
        let Self { factors, known, parts, running, n_parts, .. } = self;
        NormaliserArgs { factors, known, parts, running, n_parts: *n_parts }
    }

    /// What is there of all runs.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(super) fn pull(&self) -> Result<Packed> {
        if !self.of.any() {
            return Ok(Packed::default());
        }
        let running = match self.of.norm_reward {
            true => doubles(&self.running.pull::<u32>()?),
            false => Vec::new(),
        };
        let known = doubles(&self.known.pull::<u32>()?);
        Ok(Packed { factors: self.factors.pull()?, known, running })
    }

    /// Takes over `runs`, with zeros behind the last of them if there is room for more.
    ///
    /// # Errors
    /// More runs than there is room for, or whatever went wrong on the device.
    pub(super) fn push(&self, runs: &Packed) -> Result<()> {
        if !self.of.any() {
            return Ok(());
        }
        let filled = |array: &DeviceArray, doubles: &[f64]| {
            let mut words = words(doubles);
            words.resize(array.len(), 0);
            array.push(&words)
        };
        let mut factors = runs.factors.clone();
        factors.resize(self.factors.len(), 0.0);
        self.factors.push(&factors)?;
        filled(&self.known, &runs.known)?;
        Ok(filled(&self.running, &runs.running)?)
    }

    /// Which numbers it normalises.
    pub(super) fn of(&self) -> &Normalised {
        &self.of
    }
}

/// Mean and inverse deviation of each, then what observations are cut off at. Where nothing is known yet, they
/// stay as they are.
fn factors(columns: &[Moments]) -> Vec<f32> {
    let factor = |of: &Moments| match of.count > 0.0 {
        true => [of.mean as f32, (1.0 / (of.var + EPSILON).sqrt()) as f32],
        false => [0.0, 1.0],
    };
    let bound = if columns[0].count > 0.0 { CLIP } else { f32::MAX };
    columns.iter().flat_map(factor).chain([bound]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_normalised_before_anything_is_known() {
        let known = Moments { count: 2.0, mean: 3.0, var: 4.0 };
        assert_eq!(factors(&[known, Moments::default()]), [3.0, 0.5, 0.0, 1.0, CLIP]);
        assert_eq!(factors(&[Moments::default()]), [0.0, 1.0, f32::MAX]);
    }
}

//! What a policy of the small path normalises by: see normalise.cuh.

use super::shared::NormaliserArgs;
use crate::algorithm::PolicyPlan;
use crate::engine::rollout::normalise::{CLIP, EPSILON};
use crate::error::Result;
use crate::fused::moments::{Moments, doubles, statistic, words};
use crate::model::Statistic;
use warp_core::DType;
use warp_func::cuda::{Device, DeviceArray};

/// A policy's factors, and the moments that they are made of.
#[derive(Debug)]
pub(super) struct SmallNormaliser {
    norm_obs: bool,
    norm_reward: bool,
    /// Numbers of an observation.
    width: usize,
    gamma: f64,
    /// Parts of a rollout's sums.
    n_parts: u32,
    pub(super) factors: DeviceArray,
    pub(super) known: DeviceArray,
    pub(super) parts: DeviceArray,
    pub(super) running: DeviceArray,
}

impl SmallNormaliser {
    /// For observations of `width` numbers and `n_rows` rows, whose sums come in `n_parts` parts.
    ///
    /// # Errors
    /// Too little memory.
    pub(super) fn new(
        gpu: &Device,
        plan: &PolicyPlan,
        width: usize,
        n_rows: usize,
        n_parts: usize,
    ) -> Result<Self> {
        let keys = &plan.config;
        let summed = if keys.norm_obs { width } else { 0 } + usize::from(keys.norm_reward);
        let array = |name: &str, words: usize| {
            // An array has an element at least.
            DeviceArray::zeros(gpu, name, DType::U32, &[words.max(1)])
        };
        let columns = width + 1;
        Ok(Self {
            norm_obs: keys.norm_obs,
            norm_reward: keys.norm_reward,
            width,
            gamma: keys.gamma.at(0),
            n_parts: n_parts as u32,
            factors: DeviceArray::zeros(gpu, "factors", DType::F32, &[2 * columns + 1])?,
            known: array("moments", 2 * (3 * columns + 1))?,
            parts: array("parts of moments", 2 * 2 * summed * n_parts)?,
            running: array("discounted_return", if keys.norm_reward { 2 * n_rows } else { 0 })?,
        })
    }

    /// What kernels take of it.
    pub(super) fn args(&self) -> NormaliserArgs<'_> {
        let Self { factors, known, parts, running, n_parts, .. } = self;
        NormaliserArgs { factors, known, parts, running, n_parts: *n_parts }
    }

    /// As [`crate::engine::rollout::normalise::Normaliser::state`].
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(super) fn state(&self) -> Result<Vec<Statistic>> {
        let mut statistics = Vec::new();
        if !self.norm_obs && !self.norm_reward {
            return Ok(statistics);
        }
        let known = doubles(&self.known.pull::<u32>()?);
        let each =
            known.chunks_exact(3).map(|of| Moments { count: of[0], mean: of[1], var: of[2] });
        let columns: Vec<Moments> = each.collect();
        if self.norm_obs {
            Moments::save(&columns[..self.width], "obs", &mut statistics);
        }
        if self.norm_reward {
            Moments::save(&columns[self.width..=self.width], "reward", &mut statistics);
            let data = doubles(&self.running.pull::<u32>()?);
            let (name, shape) = ("discounted_return".into(), vec![data.len()]);
            statistics.push(Statistic { name, shape, data });
        }
        Ok(statistics)
    }

    /// Takes over what [`SmallNormaliser::state`] gave.
    ///
    /// # Errors
    /// A statistic that is missing, or of another length.
    pub(super) fn load(&self, policy: &str, statistics: &[Statistic]) -> Result<()> {
        let mut columns = vec![Moments::default(); self.width + 1];
        if self.norm_obs {
            let obs = Moments::load(policy, statistics, "obs", self.width)?;
            columns[..self.width].copy_from_slice(&obs);
        }
        if self.norm_reward {
            columns[self.width] = Moments::load(policy, statistics, "reward", 1)?[0];
            let n_rows = self.running.len() / 2;
            let running = statistic(policy, statistics, "discounted_return", n_rows)?;
            self.running.push(&words(running))?;
        }
        let known = columns.iter().flat_map(|of| [of.count, of.mean, of.var]);
        let known: Vec<f64> = known.chain([self.gamma]).collect();
        self.known.push(&words(&known))?;
        Ok(self.factors.push(&factors(&columns))?)
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

//! Filling a rollout: how a policy looks and acts at every step, and what is kept of it. Host side of
//! `rollout.cu`.

use super::network::Role;
use super::policy::{Rows, WidePolicy, all};
use crate::error::Result;
use warp_data::cuda::DeviceArray;
use warp_func::VecEnv;
use warp_func::cuda::{Arg, CudaVecEnv, Launch};

/// What a kernel that acts is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Act = 0,
    LastValues = 1,
    CutValues = 2,
}

impl WidePolicy {
    /// Looks, acts and hands over the actions of step `t`.
    pub(super) fn act(&self, t: usize, envs: &CudaVecEnv) -> Result<()> {
        self.normaliser.look(self)?;
        if !self.tensor.is_empty() {
            return self.tensor_act(Stage::Act, t, Some(envs));
        }
        if let Some(shape) = &self.fused {
            return self.fused_act(shape, Stage::Act, t, Some(envs));
        }
        if self.acts_few() {
            return self.act_few(t, envs);
        }
        self.store_inputs(t)?;
        let (a, s) = (&self.arrays, &self.sizes);
        for first in (0..s.rows).step_by(s.part) {
            let rows = s.part.min(s.rows - first);
            self.forward_from_rollout(t, first, rows)?;
            let args = [
                all(&self.places),
                all(&a.state),
                Arg::U64(envs.options().seed),
                Arg::U32(envs.options().first_replica),
                Arg::U32(t as u32),
                Arg::U32(s.rows as u32),
                Arg::U32(first as u32),
                Arg::U32(rows as u32),
                all(&a.outs),
                all(&a.parameters),
                all(&a.masks),
                all(&a.actions),
                all(&a.raws),
                all(&a.log_probs),
                all(&a.values),
            ];
            self.kit.launch("wide_act", &Launch::over(rows, 128), &args)?;
        }
        Ok(())
    }

    fn store_inputs(&self, t: usize) -> Result<()> {
        let (a, s) = (&self.arrays, &self.sizes);
        let threads = s.rows * self.network.observation_width();
        let args = [
            all(&self.places),
            Arg::U32(t as u32),
            Arg::U32(s.rows as u32),
            all(&a.obs),
            all(&a.masks),
            all(&a.weights),
            all(&self.normaliser.factors),
        ];
        self.kit.launch("wide_inputs", &Launch::over(threads, 256), &args)
    }

    fn forward_from_rollout(&self, t: usize, first: usize, rows: usize) -> Result<()> {
        let at = (t * self.sizes.rows + first) * self.network.observation_width();
        self.layers(&Rows { x: &self.arrays.obs, at, sampled: false, first: 0, rows })
    }

    /// Keeps what came of step `t`.
    pub(super) fn outcome(&self, t: usize) -> Result<()> {
        let (a, s) = (&self.arrays, &self.sizes);
        let args = [
            all(&self.places),
            Arg::U32(t as u32),
            Arg::U32(s.rows as u32),
            all(&a.rewards),
            all(&a.ended),
            all(&a.truncated_values),
            all(&a.cut_count),
            all(&a.cut_cell),
            all(&a.cut_obs),
            all(&self.normaliser.factors),
        ];
        self.kit.launch("wide_outcome", &Launch::over(s.rows, 128), &args)
    }

    /// Values of what follows the last step, and of the last observations of truncated episodes.
    pub(super) fn finish_rollout(&self) -> Result<()> {
        let (a, s) = (&self.arrays, &self.sizes);
        let cut = s.slots * s.rows;
        if let Some(shape) = &self.fused {
            self.fused_act(shape, Stage::LastValues, s.steps, None)?;
            if cut > 0 {
                self.fused_act(shape, Stage::CutValues, 0, None)?;
            }
        } else if self.tensor.is_empty() {
            self.store_inputs(s.steps)?;
            for first in (0..s.rows).step_by(s.part) {
                let rows = s.part.min(s.rows - first);
                self.forward_from_rollout(s.steps, first, rows)?;
                self.take_values(rows, &a.values, s.cells + first)?;
            }
            for first in (0..cut).step_by(s.part) {
                let rows = s.part.min(cut - first);
                let at = first * self.network.observation_width();
                self.layers(&Rows { x: &a.cut_obs, at, sampled: false, first: 0, rows })?;
                self.take_values(rows, &a.cut_values, first)?;
            }
        } else {
            self.tensor_act(Stage::LastValues, s.steps, None)?;
            if cut > 0 {
                self.tensor_act(Stage::CutValues, 0, None)?;
            }
        }
        if cut > 0 {
            let n = Arg::U32(cut as u32);
            let args = [all(&a.cut_cell), all(&a.cut_values), n, all(&a.truncated_values)];
            self.kit.launch("wide_scatter_cut", &Launch::over(cut, 128), &args)?;
        }
        Ok(())
    }

    fn take_values(&self, rows: usize, values: &DeviceArray, at: usize) -> Result<()> {
        let n = Arg::U32(rows as u32);
        let args = [all(&self.arrays.outs), n, all(values), Arg::U64(at as u64)];
        self.kit.launch("wide_take_values", &Launch::over(rows, 128), &args)
    }

    fn tensor_act(&self, stage: Stage, t: usize, envs: Option<&CudaVecEnv>) -> Result<()> {
        let (rows, before, after) = self.tower_args(stage, t, envs);
        for (tower, of) in self.tensor.iter().zip(&self.network.towers) {
            if stage != Stage::Act && of.role == Role::Actor {
                continue;
            }
            let weights = [all(&tower.image), all(&tower.biases)];
            let args = [&before[..], &weights, &after].concat();
            let launch = self.two_tiles_a_block(rows, tower.shape.act_bytes());
            tower.kit.launch("wide_tensor_act", &launch, &args)?;
        }
        Ok(())
    }

    /// Rows that a kernel of whole towers takes, and its arguments before and behind those that only some
    /// of them have.
    pub(super) fn tower_args(
        &self,
        stage: Stage,
        t: usize,
        envs: Option<&CudaVecEnv>,
    ) -> (usize, [Arg; 9], [Arg; 8]) {
        let (a, s) = (&self.arrays, &self.sizes);
        let rows = if stage == Stage::CutValues { s.slots * s.rows } else { s.rows };
        let values = if stage == Stage::CutValues { &a.cut_values } else { &a.values };
        let options = envs.map(VecEnv::options);
        let before = [
            all(&self.places),
            all(&a.state),
            Arg::U64(options.map_or(0, |o| o.seed)),
            Arg::U32(options.map_or(0, |o| o.first_replica)),
            Arg::U32(t as u32),
            Arg::U32(rows as u32),
            Arg::I32(stage as i32),
            all(&a.cut_obs),
            all(&a.parameters),
        ];
        let after = [
            all(&a.obs),
            all(&a.masks),
            all(&a.weights),
            all(&a.actions),
            all(&a.raws),
            all(&a.log_probs),
            all(values),
            all(&self.normaliser.factors),
        ];
        (rows, before, after)
    }
}

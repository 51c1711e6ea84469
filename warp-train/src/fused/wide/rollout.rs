//! Filling a rollout: what a policy observes and does at every step, and what is kept of it. Host side of
//! `rollout.cu` and `tensor/rollout.cu`.

use super::args::{
    ActArgs, InputsArgs, OutcomeArgs, ScatterCutArgs, TakeValuesArgs, TensorActArgs,
    TensorRolloutArgs, WideDone, WideSeen, WideStep,
};
use super::kernels::TensorRolloutKernels;
use super::lanes;
use super::network::Stage;
use super::policy::{Rows, WidePolicy};
use super::tensor::TensorTower;
use crate::error::Result;
use warp_data::cuda::DeviceArray;
use warp_func::VecEnv;
use warp_func::cuda::{CudaVecEnv, DeviceEnvs, KernelArgs, Launch, fork_join, programmatic_launch};

impl WidePolicy {
    /// Takes what is seen now into the moments of observations.
    pub(in super::super) fn sum_obs(&self) -> Result<()> {
        self.normaliser.sum_obs(self)
    }

    /// Acts and hands over the actions of step `t`.
    pub(in super::super) fn act(&self, t: usize, envs: &dyn DeviceEnvs) -> Result<()> {
        if t == 0 {
            self.begin_goals()?;
        }
        if !self.tensor.is_empty() {
            return self.tensor_act(Stage::Act, t, Some(envs));
        }
        if let Some(towers) = &self.fused {
            return self.fused_act(towers, Stage::Act, t, Some(envs));
        }
        if let Some(few) = self.acts_few() {
            return self.act_few(few, t, envs);
        }
        if let Some(tiled) = &self.tiled {
            return self.tiled_act(tiled, t, envs);
        }
        self.store_inputs(t)?;
        let (a, s) = (&self.arrays, &self.sizes);
        let step = self.step(t, s.rows, &a.values, Some(envs));
        for first in (0..s.rows).step_by(s.part) {
            let rows = s.part.min(s.rows - first);
            self.forward_from_rollout(t, first, rows)?;
            self.decide(step, first, rows)?;
        }
        Ok(())
    }

    /// Starts a whole rollout in one launch, if rollouts are; else says false.
    pub(super) fn roll_out(&self, envs: &mut CudaVecEnv) -> Result<bool> {
        if let Some(kernels) = &self.whole_rollout {
            self.tensor_roll_out(kernels, envs)?;
        } else if let Some(tiled) = &self.tiled
            && let Some(rollout) = &tiled.rollout
        {
            self.tiled_roll_out(tiled, rollout, envs)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn tensor_roll_out(&self, kernels: &TensorRolloutKernels, envs: &mut CudaVecEnv) -> Result<()> {
        let towers = self.tensor.iter().zip(&self.network.towers);
        let (rows, steps) = (self.sizes.rows, self.sizes.steps as u32);
        for (tower, _) in towers.filter(|(_, of)| Stage::Act.has(of.role)) {
            let act = self.tensor_act_args(tower, Stage::Act, 0, Some(envs));
            let args = TensorRolloutArgs { act, outcome: self.outcome_args(0), steps };
            let [tables, arrays, run] = envs.args().clone();
            let launch = self.blocks_that_roll_out(rows, &tower.shape);
            kernels.tensor_rollout.launch(&launch, &[tables, arrays, run, args.arg()])?;
        }
        Ok(envs.tick(steps)?)
    }

    /// Draws the actions of `rows` rows from `first` on, whose outputs are the first in `outs`.
    pub(super) fn decide(&self, step: WideStep<'_>, first: usize, rows: usize) -> Result<()> {
        let outs = &self.arrays.outs;
        let args = ActArgs { step, outs, first: first as u32, part: rows as u32 };
        let launch = Launch::over(rows * lanes::lanes_that_act(&self.plan), 128);
        Ok(self.kernels.act.launch(&launch, &[args.arg()])?)
    }

    /// Step `t` with so many rows, whose values go to `values`.
    pub(super) fn step<'a>(
        &'a self,
        t: usize,
        rows: usize,
        values: &'a DeviceArray,
        envs: Option<&dyn DeviceEnvs>,
    ) -> WideStep<'a> {
        let a = &self.arrays;
        let options = envs.map(VecEnv::options);
        let (actions, raws, log_probs) = (&a.actions, &a.raws, &a.log_probs);
        WideStep {
            places: &self.places,
            state: &a.state,
            parameters: &a.parameters,
            seed: options.map_or(0, |options| options.seed),
            first_replica: options.map_or(0, |options| options.first_replica),
            t: t as u32,
            rows: rows as u32,
            done: WideDone { masks: &a.masks, actions, raws, log_probs, values },
        }
    }

    /// Step `t` with so many rows for kernels of whole towers, at `stage`.
    pub(super) fn step_of_towers<'a>(
        &'a self,
        stage: Stage,
        t: usize,
        envs: Option<&dyn DeviceEnvs>,
    ) -> WideStep<'a> {
        let (a, s) = (&self.arrays, &self.sizes);
        match stage {
            Stage::Act | Stage::LastValues => self.step(t, s.rows, &a.values, envs),
            Stage::CutValues => self.step(t, s.slots * s.rows, &a.cut_values, envs),
            Stage::Values => self.step(t, s.cells, &a.values, envs),
        }
    }

    /// Where what agents see is stored.
    pub(super) fn seen(&self) -> WideSeen<'_> {
        let (a, factors) = (&self.arrays, &self.normaliser.factors);
        WideSeen { obs: &a.obs, masks: &a.masks, weights: &a.weights, factors }
    }

    fn store_inputs(&self, t: usize) -> Result<()> {
        let rows = self.sizes.rows;
        let threads = rows * self.network.observation_width();
        let (places, seen) = (&self.places, self.seen());
        let args = InputsArgs { places, t: t as u32, rows: rows as u32, seen };
        Ok(self.kernels.inputs.launch(&Launch::over(threads, 256), &[args.arg()])?)
    }

    fn forward_from_rollout(&self, t: usize, first: usize, rows: usize) -> Result<()> {
        let at = t * self.sizes.rows + first;
        self.layers(&Rows { x: &self.arrays.obs, at, sampled: false, first: 0, rows })
    }

    /// Keeps what came of step `t`.
    pub(in super::super) fn outcome(&self, t: usize) -> Result<()> {
        let (launch, args) = (Launch::over(self.sizes.rows, 128), self.outcome_args(t));
        self.kernels.outcome.launch(&launch, &[args.arg()])?;
        self.note_goals()
    }

    pub(super) fn outcome_args(&self, t: usize) -> OutcomeArgs<'_> {
        let (a, s) = (&self.arrays, &self.sizes);
        OutcomeArgs {
            places: &self.places,
            t: t as u32,
            rows: s.rows as u32,
            rewards: &a.rewards,
            ended: &a.ended,
            truncated_values: &a.truncated_values,
            cut_count: &a.cut_count,
            cut_cell: &a.cut_cell,
            cut_obs: &a.cut_obs,
            factors: &self.normaliser.factors,
        }
    }

    /// Values of what follows the last step, and of the last observations of truncated episodes.
    pub(in super::super) fn finish_rollout(&self) -> Result<()> {
        let (a, s) = (&self.arrays, &self.sizes);
        let cut = s.slots * s.rows;
        if let Some(towers) = &self.fused {
            self.fused_act(towers, Stage::LastValues, s.steps, None)?;
            if cut > 0 {
                self.fused_act(towers, Stage::CutValues, 0, None)?;
            }
        } else if self.tensor.is_empty() {
            if let Some(tiled) = &self.tiled {
                self.values_of_rollout(tiled)?;
            }
            self.store_inputs(s.steps)?;
            for first in (0..s.rows).step_by(s.part) {
                let rows = s.part.min(s.rows - first);
                self.forward_from_rollout(s.steps, first, rows)?;
                self.take_values(rows, &a.values, s.cells + first)?;
            }
            for first in (0..cut).step_by(s.part) {
                let rows = s.part.min(cut - first);
                self.layers(&Rows { x: &a.cut_obs, at: first, sampled: false, first: 0, rows })?;
                self.take_values(rows, &a.cut_values, first)?;
            }
        } else {
            let stages = [(Stage::LastValues, s.steps), (Stage::CutValues, 0), (Stage::Values, 0)];
            let stages =
                stages.into_iter().filter(|(stage, _)| *stage != Stage::CutValues || cut > 0);
            let works = stages.map(|(stage, t)| move || self.tensor_act(stage, t, None));
            fork_join(&self.device, works)?;
        }
        if cut > 0 {
            let args = ScatterCutArgs {
                cut_cell: &a.cut_cell,
                cut_values: &a.cut_values,
                n: cut as u32,
                truncated_values: &a.truncated_values,
            };
            self.kernels.scatter_cut.launch(&Launch::over(cut, 128), &[args.arg()])?;
        }
        Ok(())
    }

    pub(super) fn take_values(&self, rows: usize, values: &DeviceArray, at: usize) -> Result<()> {
        let outs = &self.arrays.outs;
        let state = &self.arrays.state;
        let args = TakeValuesArgs { state, outs, part: rows as u32, values, at: at as u64 };
        Ok(self.kernels.take_values.launch(&Launch::over(rows, 128), &[args.arg()])?)
    }

    fn tensor_act(&self, stage: Stage, t: usize, envs: Option<&dyn DeviceEnvs>) -> Result<()> {
        let towers = self.tensor.iter().zip(&self.network.towers);
        let towers = towers.filter(|(_, of)| stage.has(of.role));
        let act = |tower: &TensorTower| -> Result<()> {
            let args = self.tensor_act_args(tower, stage, t, envs);
            let launch = self.blocks_that_act(args.step.rows as usize, &tower.shape);
            if stage == Stage::Act && t > 0 {
                // Weights are loaded during the environment's step.
                programmatic_launch(&self.device)?;
            }
            Ok(tower.acts.tensor_act.launch(&launch, &[args.arg()])?)
        };
        fork_join(&self.device, towers.map(|(tower, _)| || act(tower)))
    }

    fn tensor_act_args<'a>(
        &'a self,
        tower: &'a TensorTower,
        stage: Stage,
        t: usize,
        envs: Option<&dyn DeviceEnvs>,
    ) -> TensorActArgs<'a> {
        let a = &self.arrays;
        let sums =
            self.normaliser.sums().filter(|_| stage == Stage::Act && self.sizes.obs_blocks > 0);
        TensorActArgs {
            step: self.step_of_towers(stage, t, envs),
            stage: stage as i32,
            given: &a.cut_obs,
            image: &tower.image,
            biases: &tower.biases,
            obs: &a.obs,
            masks: &a.masks,
            weights: &a.weights,
            factors: &self.normaliser.factors,
            sums_obs: i32::from(sums.is_some()),
            seen: sums.unwrap_or(&self.normaliser.factors),
        }
    }
}

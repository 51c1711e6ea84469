//! Whole networks in fp32: their launches. `shape` says which networks have them.

pub(super) mod shape;

use crate::error::Result;
use crate::fused::wide::args::{FusedActArgs, FusedLearnArgs};
use crate::fused::wide::kernels::FusedTowers;
use crate::fused::wide::network::Stage;
use crate::fused::wide::policy::WidePolicy;
use warp_data::cuda::DeviceArray;
use warp_func::cuda::{DeviceEnvs, KernelArgs};

impl WidePolicy {
    /// Gradients of a minibatch; returns how many blocks of loss sums it left.
    pub(super) fn fused_gradients(
        &self,
        towers: &FusedTowers,
        order: &DeviceArray,
    ) -> Result<usize> {
        let a = &self.arrays;
        let args = FusedLearnArgs {
            settings: &a.settings,
            state: &a.state,
            order,
            copies: self.sizes.copies as u32,
            obs: &a.obs,
            from: self.samples(),
            parameters: &a.parameters,
            partial: &a.partial,
            n_parameters: self.network.n_parameters as u32,
            parts: &a.losses,
        };
        let blocks = self.sizes.copies * towers.shape.towers;
        towers.learns.fused_learn.launch(&towers.shape.learns.launch(blocks), &[args.arg()])?;
        Ok(blocks)
    }

    /// Acts at step `t`, or computes values.
    pub(super) fn fused_act(
        &self,
        towers: &FusedTowers,
        stage: Stage,
        t: usize,
        envs: Option<&dyn DeviceEnvs>,
    ) -> Result<()> {
        let FusedTowers { shape, acts, .. } = towers;
        let (step, seen) = (self.step_of_towers(stage, t, envs), self.seen());
        let n_towers = if stage == Stage::Act { shape.towers } else { 1 };
        let multiprocessors = self.device.info().n_multiprocessors as usize;
        let rows = step.rows as usize;
        let blocks = n_towers * shape.acts.of_tower(rows, n_towers, multiprocessors);
        let given = &self.arrays.cut_obs;
        let args = FusedActArgs { step, seen, stage: stage as i32, given };
        Ok(acts.fused_act.launch(&shape.acts.launch(blocks), &[args.arg()])?)
    }
}

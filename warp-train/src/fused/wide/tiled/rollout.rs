//! Whole rollouts of layers on tensor cores one by one: their launch. Host side of `tiled/rollout.cu`.

use super::clusters::RolloutClusters;
use super::{TiledNetwork, Towers};
use crate::error::Result;
use crate::fused::wide::args::TiledRolloutArgs;
use crate::fused::wide::kernels::TiledRolloutKernels;
use crate::fused::wide::network::Role;
use crate::fused::wide::policy::{Rows, WidePolicy};
use warp_func::cuda::{CudaVecEnv, KernelArgs, Module};

/// What rolls out in one launch.
#[derive(Debug)]
pub(in super::super) struct TiledRollout {
    clusters: RolloutClusters,
    kernels: TiledRolloutKernels,
}

impl TiledRollout {
    /// By `clusters`, with the kernels of `unit`.
    ///
    /// # Errors
    /// A unit without them.
    pub(in super::super) fn new(clusters: RolloutClusters, unit: &Module) -> Result<Self> {
        Ok(Self { clusters, kernels: TiledRolloutKernels::of(unit)? })
    }
}

impl WidePolicy {
    /// Starts a whole rollout in one launch.
    pub(in super::super) fn tiled_roll_out(
        &self,
        tiled: &TiledNetwork,
        rollout: &TiledRollout,
        envs: &mut CudaVecEnv,
    ) -> Result<()> {
        let (a, steps) = (&self.arrays, self.sizes.steps as u32);
        let sums = self.normaliser.sums().filter(|_| self.sizes.obs_blocks > 0);
        let args = TiledRolloutArgs {
            step: self.step(0, self.sizes.rows, &a.values, Some(envs)),
            seen: self.seen(),
            outcome: self.outcome_args(0),
            steps,
            image: &tiled.image,
            image_tower: tiled.shape.end.image as u64,
            biases: &tiled.biases,
            biases_tower: tiled.shape.end.biases as u32,
            few: &tiled.few,
            sums_obs: i32::from(sums.is_some()),
            sums: sums.unwrap_or(&self.normaliser.factors),
        };
        let [tables, arrays, run] = envs.args().clone();
        let launch = rollout.clusters.launch(self.sizes.rows);
        rollout.kernels.tiled_rollout.launch(&launch, &[tables, arrays, run, args.arg()])?;
        Ok(envs.tick(steps)?)
    }

    /// Values of all that was seen in a rollout in one launch, if another tower has them than that which acted.
    pub(in super::super) fn values_of_rollout(&self, tiled: &TiledNetwork) -> Result<()> {
        let critic = tiled.shape.towers.iter().position(|tower| tower.role == Role::Critic);
        let (Some(first), Some(_)) = (critic, &tiled.rollout) else { return Ok(()) };
        let towers = Towers { first, n: 1 };
        let (a, s) = (&self.arrays, &self.sizes);
        let at_once = s.chunk.max(s.part);
        for at in (0..s.cells).step_by(at_once) {
            let rows = at_once.min(s.cells - at);
            let seen = Rows { x: &a.obs, at, sampled: false, first: 0, rows };
            self.tiled_towers(tiled, &seen, towers)?;
            self.take_values(rows, &a.values, at)?;
        }
        Ok(())
    }
}

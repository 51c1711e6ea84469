//! How far the actions of a rollout differ: metrics that no other kernel needs, in a unit of their own. Host side of
//! `spread.cu`.

use super::args::{SpreadArgs, SpreadMeansArgs};
use super::kernels::SpreadKernels;
use super::policy::WidePolicy;
use super::shared::{SPREAD_BLOCKS, SPREAD_WORDS};
use crate::error::Result;
use warp_core::DType::U32;
use warp_data::cuda::{Device, DeviceArray};
use warp_func::cuda::{KernelArgs, Launch, Module};

/// The kernels, and what their blocks found.
#[derive(Debug)]
pub(super) struct WideSpread {
    kernels: SpreadKernels,
    /// Sums of deviations, f64 `[3, SPREAD_BLOCKS]`.
    parts: DeviceArray,
}

impl WideSpread {
    pub(super) fn new(device: &Device, module: &Module) -> Result<Self> {
        let parts = DeviceArray::zeros(device, "spread of actions", U32, &[SPREAD_WORDS])?;
        Ok(Self { kernels: SpreadKernels::of(module)?, parts })
    }
}

impl WidePolicy {
    /// Sums up how far the actions of the rollout differ.
    pub(super) fn spread(&self) -> Result<()> {
        let (a, s, parts) = (&self.arrays, &self.sizes, &self.spread.parts);
        let (steps, rows) = (s.steps as u32, s.rows as u32);
        let args = SpreadArgs { actions: &a.actions, raws: &a.raws, steps, rows, parts };
        let launch = Launch::over(3 * SPREAD_BLOCKS * 256, 256);
        Ok(self.spread.kernels.spread.launch(&launch, &[args.arg()])?)
    }

    /// Those sums.
    pub(super) fn spread_parts(&self) -> &DeviceArray {
        &self.spread.parts
    }

    /// Makes figures of the sums of all ranks.
    pub(super) fn spread_means(&self, parts: &DeviceArray) -> Result<()> {
        let (steps, rows) = (self.sizes.steps as u32, self.sizes.rows as u32);
        let args = SpreadMeansArgs { parts, steps, rows, state: &self.arrays.state };
        Ok(self.spread.kernels.spread_means.launch(&Launch::over(256, 256), &[args.arg()])?)
    }
}

//! Networks that something else than this folder's kernels runs: a tensor library, on the same arrays.
//!
//! Everything around them stays as it is: observations, actions, samples, losses and Adam.

use crate::algorithm::PolicyPlan;
use crate::error::Result;
use std::fmt::Debug;
use std::ops::Range;
use warp_core::EnvSpec;
use warp_data::cuda::DeviceArray;

/// Bytes that a chunk of samples may take in a foreign network, forward and back.
const CHUNK_BYTES: usize = 16 << 30;
/// Numbers kept per unit: before and after the activation, biases added, and their gradients.
const PER_UNIT: usize = 8;

/// A network on the device. What it starts need not be on the device's stream, but must be ordered
/// with it: after everything that was started there before, before everything that comes later.
pub(crate) trait ForeignNetwork: Debug + Send {
    /// Starts the network on `rows` observations, which lie in `x` from element `at` on. `outs`, f32
    /// `[rows, n_outputs + 1]`, gets outputs and values. If it `learns`, what [`Self::backward`] needs
    /// is kept.
    ///
    /// # Errors
    /// Whatever the library says.
    fn forward(
        &mut self,
        x: &DeviceArray,
        at: usize,
        rows: usize,
        outs: &DeviceArray,
        learns: bool,
    ) -> Result<()>;

    /// Starts the backward pass of the last forward pass: `d_outs` is what `outs` was there, and
    /// `gradient`, f32 `[n_parameters]`, is written or, if it `adds`, added to.
    ///
    /// # Errors
    /// Whatever the library says.
    fn backward(&mut self, d_outs: &DeviceArray, gradient: &DeviceArray, adds: bool) -> Result<()>;
}

/// What a foreign network is made of.
#[derive(Debug)]
#[cfg_attr(not(feature = "tch"), allow(dead_code, reason = "no library is built in"))]
pub(crate) struct ForeignParts<'a> {
    /// The policy.
    pub(crate) plan: &'a PolicyPlan,
    /// The environment.
    pub(crate) spec: &'a EnvSpec,
    /// The parameters by name: where each lies in `parameters`, row-major `[outputs, inputs]` or `[n]`.
    pub(crate) places: Vec<(&'a str, Range<usize>)>,
    /// All parameters; changed in place by every update.
    pub(crate) parameters: &'a DeviceArray,
}

/// Makes the network of one policy.
pub(crate) type MakeForeign = fn(&ForeignParts<'_>) -> Result<Box<dyn ForeignNetwork>>;

/// Samples that go through a foreign network at once, at most.
pub(crate) fn rows_at_once(plan: &PolicyPlan, observation_width: usize) -> usize {
    let towers = if plan.config.shared_trunk { 1 } else { 2 };
    let hidden = plan.config.hidden.iter().sum::<usize>() * towers;
    let units = PER_UNIT * (hidden + plan.layout.output_width() + 1) + observation_width;
    (CHUNK_BYTES / (4 * units)).max(1)
}

//! Burn's networks on an NVIDIA GPU, through LibTorch.
//!
//! [`learner`] is the device's own learner with burn's networks in it: normalisers, losses, Adam and
//! checkpoints are the same object's, so none of them can be left out here.

use super::CudaLearner;
use crate::config::TrainConfig;
use crate::config::weights::initial_weights;
use crate::error::Result;
use crate::fused::CudaGradients;
use crate::network::burn::tch::{find_gpu, make};
use crate::network::foreign::{ForeignNetwork, ForeignParts};
use warp_data::cuda::{Device as Gpu, DeviceArray};
use warp_func::Registry;
use warp_func::cuda::Kernels;

/// The device's learner of the policies of `config`, whose networks are burn's perceptrons through
/// LibTorch; initialised from the seed as every learner's.
///
/// # Errors
/// A LibTorch that finds no GPU, or a key that learners on a GPU do not know.
pub fn learner(config: &TrainConfig, threads: usize) -> Result<CudaLearner> {
    find_gpu()?;
    CudaLearner::of_networks(config, threads, make)
}

/// The gradients of the same networks, for `gradcheck`.
///
/// # Errors
/// As [`learner`], or an environment that can't be made on the GPU.
pub fn gradients(
    config: &TrainConfig,
    registry: &Registry,
    kernels: &Kernels,
) -> Result<Option<CudaGradients>> {
    find_gpu()?;
    CudaGradients::of_networks(config, registry, kernels, make)
}

/// One policy's network by itself, given arrays as the device's learner gives them: for tests of what
/// waits for what.
#[doc(hidden)]
#[derive(Debug)]
pub struct TorchPass {
    network: Box<dyn ForeignNetwork>,
    n_parameters: usize,
    /// What a backward pass still reads.
    x: Option<DeviceArray>,
}

impl TorchPass {
    /// The network of policy number `index` of `config`, initialised from its seed.
    ///
    /// # Errors
    /// A LibTorch that finds no GPU, or no memory there.
    pub fn new(config: &TrainConfig, index: usize, gpu: &Gpu) -> Result<Self> {
        find_gpu()?;
        let weights = initial_weights(config, index)?;
        let (mut all, mut places) = (Vec::new(), Vec::new());
        for tensor in &weights {
            places.push((tensor.name.as_str(), all.len()..all.len() + tensor.data.len()));
            all.extend_from_slice(&tensor.data);
        }
        let n_parameters = all.len();
        let parameters = &DeviceArray::from_slice(gpu, "parameters", &[n_parameters], &all)?;
        let network = make(&ForeignParts {
            plan: &config.policies[index],
            spec: &config.spec,
            places,
            parameters,
        })?;
        Ok(Self { network, n_parameters, x: None })
    }

    /// Elements of a gradient.
    #[must_use]
    pub fn n_parameters(&self) -> usize {
        self.n_parameters
    }

    /// Starts the network on `rows` observations.
    ///
    /// # Errors
    /// Arrays that are too short, or an error of LibTorch.
    pub fn forward(
        &mut self,
        x: &DeviceArray,
        rows: usize,
        outs: &DeviceArray,
        learns: bool,
    ) -> Result<()> {
        self.network.forward(x, 0, rows, outs, learns)?;
        self.x = Some(x.clone());
        Ok(())
    }

    /// Starts the backward pass of the last forward pass that learned; `gradient` is written.
    ///
    /// # Errors
    /// As [`TorchPass::forward`].
    pub fn backward(&mut self, d_outs: &DeviceArray, gradient: &DeviceArray) -> Result<()> {
        self.network.backward(d_outs, gradient, false)
    }
}

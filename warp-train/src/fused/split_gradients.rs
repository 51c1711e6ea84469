//! Gradients of a minibatch that several GPUs of this process share, a thread each, for `gradcheck`.

use super::gradients::{CudaGradients, Products};
use crate::config::TrainConfig;
use crate::error::{Error, Result};
use crate::loss::{Loss, LossMetrics, Minibatch};
use crate::model::NamedTensor;
use crate::world::{LINK_TIMEOUT, World, on_threads, threads};
use warp_func::Registry;
use warp_func::cuda::Kernels;

/// The native learner's gradients on several GPUs, summed with the code of a run.
#[derive(Debug)]
pub struct CudaSplitGradients {
    ranks: Vec<CudaGradients>,
}

impl CudaSplitGradients {
    /// For the policies of `config` on the GPUs of `kernels`; nothing if they are not small enough for
    /// [`Products::Small`].
    ///
    /// # Errors
    /// An environment that can't be made on a GPU, or no GPU.
    pub fn new(
        config: &TrainConfig,
        registry: &Registry,
        kernels: &[Kernels],
        products: Products,
    ) -> Result<Option<Self>> {
        if kernels.is_empty() {
            return Err(Error::Invalid("gradients on GPUs need at least one".into()));
        }
        let n_ranks = kernels.len();
        let links = threads(n_ranks, LINK_TIMEOUT).into_iter().enumerate();
        let rank = |((rank, link), kernels)| {
            let made = CudaGradients::new(config, registry, kernels, products)?;
            Ok(made.map(|made| made.on_rank(World::new(rank, n_ranks, link))))
        };
        let ranks: Result<Option<Vec<_>>> = links.zip(kernels).map(rank).collect();
        Ok(ranks?.map(|ranks| Self { ranks }))
    }

    /// What is the same for all ranks.
    pub(crate) fn first(&self) -> &CudaGradients {
        &self.ranks[0]
    }

    /// As [`CudaGradients::of_minibatch`], of all ranks together: what each of them comes to.
    ///
    /// # Errors
    /// As [`CudaGradients::of_minibatch`]; GPUs of different models, or ranks that have lost each other.
    pub(crate) fn of_minibatch(
        &mut self,
        policy: usize,
        weights: &[NamedTensor],
        minibatch: &Minibatch<'_>,
        loss: &Loss,
    ) -> Result<Vec<(LossMetrics, Vec<NamedTensor>)>> {
        on_threads(
            self.ranks
                .iter_mut()
                .map(|rank| move || of_rank(rank, policy, weights, minibatch, loss.clone())),
        )
    }
}

/// What a rank comes to; if it fails, no other waits for it.
fn of_rank(
    rank: &mut CudaGradients,
    policy: usize,
    weights: &[NamedTensor],
    minibatch: &Minibatch<'_>,
    loss: Loss,
) -> Result<(LossMetrics, Vec<NamedTensor>)> {
    let world = rank.world().clone();
    let found = world
        .check_same_model(&rank.model())
        .and_then(|()| rank.of_minibatch(policy, weights, minibatch, loss));
    if let Err(error) = &found {
        world.give_up_for(error);
    }
    found
}

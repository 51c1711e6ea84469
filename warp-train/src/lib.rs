//! How policies learn.
#![doc = include_str!("../README.md")]

pub mod algorithm;
pub mod config;
mod digest;
pub mod engine;
pub mod error;
#[cfg(feature = "cuda")]
mod fused;
pub mod loss;
pub mod memory;
pub mod model;
mod network;
pub mod optimiser;
pub mod run;
mod vectors;
pub mod world;

pub use algorithm::schedule;
pub use engine::rollout::{self, batch, normalise};
pub use loss::{actions, gae};
pub use network::own_network;
pub use run::learner::{self, policies};
pub use run::{callback, checkpoint, episode, evaluate, fleet, gradcheck, half_precision};
pub use run::{confidence_interval, journal, league, metrics, resumption, trainer};

pub use actions::{Actions, ActionsRef};
pub use algorithm::Schedule;
pub use callback::Callback;
pub use checkpoint::Checkpoint;
pub use config::{ActionDistribution, Init, LogStd, PolicyConfig, RunConfig, TrainConfig};
pub use digest::digest;
pub use error::{Error, PolicyError, Result};
pub use learner::Learner;
pub use run::Run;
#[doc(hidden)]
pub use run::decode;
pub use trainer::Trainer;

/// What environments are written against and run by, re-exported so that versions agree.
pub use {warp_core, warp_func};

/// What a learner starts from.
pub mod begin {
    pub use crate::run::begin::*;
    pub use crate::run::init_from::read;
}

/// Policies whose networks run without a tensor library, several times faster than burn's; the default.
pub mod native {
    pub use crate::network::native::{Linear, NamedPolicy, Product};
    pub use crate::run::learner::NativeLearner;
    pub use crate::run::learner::native::learner;

    /// Whole iterations on an NVIDIA GPU, without the host.
    #[cfg(feature = "cuda")]
    pub mod cuda {
        pub use crate::fused::*;
        pub use crate::run::fleet::CudaFleet;
        pub use crate::run::learner::CudaLearner;
    }
}

/// Policies whose networks run on burn tensors, and a learner of them.
#[cfg(feature = "burn")]
pub mod burn {
    pub use crate::network::burn::*;
    pub use crate::run::learner::BurnLearner;

    /// Burn's networks on an NVIDIA GPU, through LibTorch.
    #[cfg(feature = "tch")]
    pub mod tch {
        pub use crate::run::learner::torch::*;
    }
}

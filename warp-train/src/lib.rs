//! How policies learn.
#![doc = include_str!("../README.md")]

pub mod actions;
pub mod algorithm;
mod aside;
pub mod batch;
pub mod begin;
#[cfg(feature = "burn")]
pub mod burn;
pub mod checkpoint;
mod choices;
pub mod config;
mod durable;
mod encoding;
pub mod engine;
pub mod error;
pub mod evaluate;
pub mod fleet;
pub mod gae;
pub mod gradcheck;
pub mod half;
mod interleave;
pub mod interval;
pub mod journal;
pub mod learner;
pub mod loss;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod native;
mod new_folder;
pub mod normalise;
pub mod optimiser;
pub mod own_network;
mod plan;
pub mod policies;
mod policy_check;
mod policy_config;
mod policy_error;
pub mod resumption;
pub mod rollout;
pub mod run;
pub mod schedule;
pub mod trainer;
mod vectors;

pub use actions::{Actions, ActionsRef};
pub use checkpoint::Checkpoint;
pub use config::{ActionDistribution, Init, LogStd, PolicyConfig, RunConfig, TrainConfig};
#[doc(hidden)]
pub use encoding::decode;
pub use error::{Error, Result};
pub use learner::Learner;
pub use policy_error::PolicyError;
pub use run::Run;
pub use schedule::Schedule;
pub use trainer::Trainer;

/// What environments are written against and run by, re-exported so that versions agree.
pub use {warp_core, warp_func};

//! How environments run.
#![doc = include_str!("../README.md")]

pub mod blueprint;
pub mod check;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod drawing;
pub mod episodes;
pub mod error;
pub mod executor;
pub mod group_actions;
pub mod host;
pub mod parity;
pub mod pool;
pub mod registry;
#[cfg(feature = "replicas")]
pub mod replicas;
pub mod thread_pool;
pub mod vec_env;
mod vectors;

pub use blueprint::{Blueprint, Body, SharedTable};
pub use check::check_vec_env;
pub use episodes::{EpisodeTotals, Spread};
pub use error::{Error, Result};
pub use executor::{CpuVecEnv, check_actions};
pub use group_actions::GroupActionsMut;
pub use parity::Parity;
pub use pool::{PoolSource, ResetPool, StateField};
pub use registry::{Entry, Maker, Registry};
#[cfg(feature = "replicas")]
pub use replicas::{AutoReset, Batch, Orders, ReplicaOptions, ReplicaQueue, Replicas};
pub use thread_pool::ThreadPool;

pub use vec_env::{ArrayIds, Start, VecEnv, VecOptions};
/// The contract that environments are written against, re-exported so that versions agree.
pub use warp_core;
/// Reading files and asking how much memory is free, for environments that have data of their own.
pub use warp_data::{file, memory};

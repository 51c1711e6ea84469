//! The commands, a file or a folder each, and what they share: choosing device, backend and threads.

pub mod bench;
pub mod config;
mod device;
pub mod envs;
pub mod episode;
pub mod eval;
mod eval_fleet;
pub mod export;
mod fleet;
mod folders;
pub mod gradcheck;
pub mod info;
pub mod league;
mod metric;
mod options;
#[cfg(feature = "cuda")]
pub mod parity;
pub mod play;
pub mod plot;
mod progress;
pub(crate) mod ranks;
pub mod render;
pub mod report;
pub mod scale;
mod stop;
pub mod top;
pub mod train;
pub mod translate;
pub mod watch;

use crate::output::{say, tell};
use anyhow::{Result, bail};
pub use device::Device;
pub use warp_func::thread_pool::thread_count;
#[cfg(feature = "burn")]
use warp_train::burn::BurnLearner;
use warp_train::league::LeagueLearner;
use warp_train::{Learner, TrainConfig};

/// The learner that `--backend` names.
///
/// # Errors
/// A name that is unknown, or a network that can't be built.
pub fn learner(backend: &str, config: &TrainConfig, threads: usize) -> Result<Box<dyn Learner>> {
    match backend {
        // The native learner has every network that a configuration can describe.
        "auto" | "native" => Ok(warp_train::native::learner(config, threads)?),
        #[cfg(feature = "burn")]
        "burn" => Ok(Box::new(BurnLearner::new(config, threads)?)),
        #[cfg(not(feature = "burn"))]
        "burn" => bail!(
            "--backend burn needs the feature burn, which this build does not have; use --backend native"
        ),
        _ => bail!(
            "--backend {backend}: expected auto, native, or burn in a build with that feature"
        ),
    }
}

/// The learner that `--backend` names, on `device`.
///
/// # Errors
/// As [`learner`]; or anything that the learner on a GPU does not support.
pub fn learner_on(
    device: &Device,
    backend: &str,
    config: &TrainConfig,
    threads: usize,
) -> Result<Box<dyn Learner>> {
    match (device, backend) {
        #[cfg(feature = "cuda")]
        (Device::Cuda(_), "auto" | "native") => {
            Ok(Box::new(warp_train::native::cuda::CudaLearner::new(config, threads)?))
        }
        #[cfg(feature = "tch")]
        (Device::Cuda(_), "burn") => Ok(Box::new(warp_train::burn::tch::learner(config, threads)?)),
        #[cfg(all(feature = "cuda", not(feature = "tch")))]
        (Device::Cuda(_), "burn") => bail!(
            "--backend burn on a GPU needs the feature tch, which this build does not have; use --backend native"
        ),
        _ => learner(backend, config, threads),
    }
}

/// The learner that `--backend` names, for training on `device`: with a `[league]` table, one whose policies play in it.
///
/// # Errors
/// As [`learner_on`].
pub fn training_learner(
    device: &Device,
    backend: &str,
    config: &TrainConfig,
    threads: usize,
) -> Result<Box<dyn Learner>> {
    let make = |config: &TrainConfig| learner_on(device, backend, config, threads);
    match config.league {
        Some(_) => Ok(Box::new(LeagueLearner::new(config, make)?)),
        None => make(config),
    }
}

/// So many of what `one` names, as in "1 episode" and "2 episodes".
fn counted(n: usize, one: &str) -> String {
    let ending = if n == 1 { "" } else { "s" };
    format!("{n} {one}{ending}")
}

/// The verb of `n` things.
fn were(n: usize) -> &'static str {
    if n == 1 { "was" } else { "were" }
}

/// Prints one JSON object.
fn print_json(value: &impl serde::Serialize) -> Result<()> {
    say(&serde_json::to_string_pretty(value)?)
}

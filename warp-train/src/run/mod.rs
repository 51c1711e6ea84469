//! Runs: what drives a learner, evaluates it, and writes down what came of it.

pub(crate) mod aside;
pub mod begin;
pub mod checkpoint;
pub(crate) mod durable;
mod encoding;
pub mod evaluate;
pub mod fleet;
pub mod gradcheck;
pub mod half;
pub mod interval;
pub mod journal;
pub mod learner;
pub mod metrics;
pub(crate) mod new_folder;
pub mod resumption;
mod run_folder;
pub mod trainer;

#[doc(hidden)]
pub use encoding::decode;
pub use run_folder::*;

//! Runs: what drives a learner, evaluates it, and writes down what came of it.

pub mod begin;
pub mod callback;
pub mod checkpoint;
pub mod confidence_interval;
pub(crate) mod durable;
pub mod episode;
pub mod evaluate;
mod evaluation;
mod evaluator;
pub mod fleet;
mod folder;
pub mod gradcheck;
pub mod half_precision;
pub(crate) mod init_from;
mod iteration_sum;
pub mod league;
pub mod learner;
mod memory_check;
pub mod metrics;
mod not_finite;
mod parallel;
pub mod resumption;
mod run_loop;
pub mod trainer;

#[doc(hidden)]
pub use checkpoint::encoding::decode;
pub use checkpoint::snapshot::Snapshot;
pub use durable::{remove, replace_folder, write_whole};
pub use evaluator::Evaluator;
pub use folder::{BackgroundWriter, Locked, Place, Run, Summary, Which, array_files, journal};
pub use run_loop::train;

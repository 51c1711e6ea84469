//! Runs: what drives a learner, evaluates it, and writes down what came of it.

pub mod array_files;
mod background_writer;
pub mod begin;
mod best;
pub mod callback;
pub mod checkpoint;
pub mod confidence_interval;
pub(crate) mod durable;
mod encoding;
mod env_state;
pub mod episode;
pub mod evaluate;
pub mod fleet;
pub mod gradcheck;
pub mod half_precision;
mod iteration_sum;
pub mod journal;
pub mod league;
pub mod learner;
pub mod metrics;
pub(crate) mod new_folder;
mod open_line;
mod parallel;
mod place;
mod recording;
pub mod resumption;
mod run_folder;
mod run_loop;
pub(crate) mod set_aside;
mod snapshot;
pub mod trainer;

pub use background_writer::BackgroundWriter;
pub use durable::{replace_folder, write_whole};
#[doc(hidden)]
pub use encoding::decode;
pub use place::{Place, Which};
pub use run_folder::*;
pub use run_loop::{Evaluator, train};
pub use snapshot::Snapshot;

//! Runs: what drives a learner, evaluates it, and writes down what came of it.

pub mod array_files;
pub(crate) mod aside;
pub mod begin;
mod best;
pub mod callback;
pub mod checkpoint;
pub(crate) mod durable;
mod encoding;
mod env_state;
pub mod episode;
pub mod evaluate;
pub mod fleet;
pub mod gradcheck;
pub mod half;
pub mod interval;
mod iteration_sum;
pub mod journal;
pub mod league;
pub mod learner;
pub mod metrics;
pub(crate) mod new_folder;
mod open_line;
mod place;
mod recording;
pub mod resumption;
mod run_folder;
mod scribe;
mod side_by_side;
pub mod trainer;
mod training;
mod whole;

pub use durable::{replace_folder, write_whole};
#[doc(hidden)]
pub use encoding::decode;
pub use place::{Place, Which};
pub use run_folder::*;
pub use scribe::Scribe;
pub use training::{Evaluator, train};
pub use whole::Snapshot;

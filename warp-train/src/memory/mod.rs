//! Memories of transitions that have been collected and are learned from.

mod importance;
mod priorities;
mod replay;
mod saved;

#[cfg(feature = "cuda")]
pub(crate) use priorities::Priorities;
#[cfg(feature = "cuda")]
pub(crate) use saved::{LARGEST, PRIORITY};

pub use importance::{Importance, PriorityStats};
pub use replay::{Batch, Ring, RingShape, Sampling, Transition};
pub(crate) use replay::{GOES_ON, TERMINATED, TRUNCATED};
pub(crate) use saved::ENDS;

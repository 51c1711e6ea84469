//! What has been collected and is learned from.

mod replay;

pub(crate) use replay::{TERMINATED, TRUNCATED};
pub use replay::{Batch, Ring, RingShape, Sampling, Transition};

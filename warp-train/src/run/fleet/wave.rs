//! The runs of a launch of a fleet on a GPU.

use crate::error::{Error, Result};
use crate::fused::small::PackedRuns;
use crate::model::LearnerState;
use crate::run::fleet::FleetRun;
use std::any::Any;

/// Runs that the device trains side by side, in the order of their numbers.
pub(super) struct Wave<'r> {
    pub(super) runs: &'r [FleetRun],
    /// The first run's place in the launch.
    pub(super) first: usize,
    pub(super) states: Vec<LearnerState>,
    /// Until the device has taken them on.
    pub(super) packed: Option<PackedRuns>,
}

/// What a thread that panicked came to.
pub(super) fn ended<T>(_: Box<dyn Any + Send>) -> Result<T> {
    Err(Error::Invalid("a thread of the fleet ended early".into()))
}

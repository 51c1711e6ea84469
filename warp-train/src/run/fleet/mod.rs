//! Many independent runs in one launch: seeds, and values of swept keys.
//!
//! `plan` lists the runs and which of them can share a launch, a [`FleetLearner`] trains those, `record`
//! thins out their records, and `folder` is a fleet's folder on disk. Where several processes train a fleet,
//! `processes` brings what they have to the one that writes. A run of a fleet is the run that its
//! seed and keys describe, whatever the number of other runs.

mod broadcast;
mod combinations;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "cuda")]
mod cuda_off_policy;
#[cfg(feature = "cuda")]
mod cuda_report;
mod ended_run;
mod ends;
mod fleet_json;
mod folder;
mod halving;
mod multi_device;
mod plan;
mod processes;
mod record;
mod records;
mod shared;
mod standing;
mod stored;
mod summary;
mod threads;
#[cfg(feature = "cuda")]
mod wave;
mod weight_files;
mod weights;

pub use broadcast::FleetBroadcast;
pub use combinations::combinations;
#[cfg(feature = "cuda")]
pub use cuda::CudaFleet;
pub use fleet_json::Listed;
pub use folder::Fleet;
pub use halving::{Halving, Round};
pub use multi_device::MultiDeviceFleet;
use plan::dealt;
pub use plan::{FleetRun, check_sweepable, launches, settings};
pub use processes::{Together, together};
pub use record::{FleetRecord, RECORDS};
pub use summary::{FleetSummary, GroupedReturns, Returns, RunSummary, SweptReturns};
pub use threads::ThreadFleet;
pub use weights::FleetWeights;

use crate::error::{Error, Result};
use crate::model::LearnerState;
use crate::run::metrics::IterationMetrics;
use std::ops::ControlFlow;

/// What a fleet reports of one of its runs.
#[derive(Debug)]
pub enum FleetEvent<'a> {
    /// Some iterations are done; one after the other.
    Iterations(&'a [IterationMetrics]),
    /// The run is at its end, or where it pauses, with this learner; a device may keep the optimiser's moments to itself.
    Finished(&'a LearnerState),
    /// The run can't go on; the others do.
    Broken(Error),
}

/// Is called at every event, with the run's number; possibly from several threads, but for each run in order.
/// Returning `Break` stops all runs.
pub type Watch<'a> = dyn Fn(usize, FleetEvent<'_>) -> ControlFlow<()> + Sync + 'a;

/// Something that trains many runs side by side.
pub trait FleetLearner {
    /// What it is called in summaries.
    fn backend(&self) -> String;

    /// Trains all `runs`, which differ in values alone (see [`launches`]), to their ends. A device may
    /// report everything after it is done; and a run that paused may begin anew and report iterations that it
    /// has reported before, which are the same.
    ///
    /// # Errors
    /// Runs that it can't take, none of which has begun then.
    fn launch(&mut self, runs: &[FleetRun], watch: &Watch<'_>) -> Result<()>;
}

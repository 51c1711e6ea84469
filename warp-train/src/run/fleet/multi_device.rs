//! A fleet over several devices: each trains its part of the runs, independently of the others.

use super::{FleetLearner, FleetRun, Watch};
use crate::error::{Error, Result};

/// Fleets side by side, a device each.
#[expect(missing_debug_implementations, reason = "what a program brings need not have it")]
pub struct MultiDeviceFleet<'a> {
    fleets: Vec<Box<dyn FleetLearner + Send + 'a>>,
}

impl<'a> MultiDeviceFleet<'a> {
    /// One fleet of `fleets`, which train side by side.
    ///
    /// # Errors
    /// There are none.
    pub fn new(fleets: Vec<Box<dyn FleetLearner + Send + 'a>>) -> Result<Self> {
        match fleets.is_empty() {
            true => Err(Error::Invalid("a fleet needs a device".into())),
            false => Ok(Self { fleets }),
        }
    }
}

impl FleetLearner for MultiDeviceFleet<'_> {
    fn backend(&self) -> String {
        self.fleets[0].backend()
    }

    fn launch(&mut self, runs: &[FleetRun], watch: &Watch<'_>) -> Result<()> {
        // Neighbours stay together: those that share a launch are most often next to each other.
        let share = runs.len().div_ceil(self.fleets.len()).max(1);
        let parts = self.fleets.iter_mut().zip(runs.chunks(share));
        std::thread::scope(|scope| {
            let parts: Vec<_> =
                parts.map(|(fleet, runs)| scope.spawn(|| fleet.launch(runs, watch))).collect();
            let panicked = |_| Err(Error::Invalid("a device's part of the fleet failed".into()));
            let done: Vec<Result<()>> =
                parts.into_iter().map(|part| part.join().unwrap_or_else(panicked)).collect();
            done.into_iter().collect()
        })
    }
}

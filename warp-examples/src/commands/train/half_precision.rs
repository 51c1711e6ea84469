//! Warns of what half precision loses of observations, if a learner on a GPU stores them in it.

use crate::commands::Device;
use crate::output::tell;
use warp_train::{Callback, Result, Trainer, half_precision};

/// Checks observations at the first checkpoint, the second, the fourth and so on, when the host has them, until there
/// was something to report, since a check goes through all observations.
pub(super) struct HalfWatch {
    looks: bool,
    /// Checkpoints so far.
    n_checkpoints: u64,
}

impl HalfWatch {
    /// For a run that has not begun, or continues: reports what its bounds and its current observations imply.
    pub(super) fn new(device: &Device, trainer: &Trainer) -> Self {
        let config = trainer.config();
        let backend = trainer.learner().backend();
        let looks = device.precision(backend, config) != "fp32";
        let mut watch = Self { looks, n_checkpoints: 0 };
        if watch.looks {
            watch.say(half_precision::by_bounds(config));
            watch.look(trainer);
        }
        watch
    }

    /// Checks the current observations, which the host must have.
    fn look(&mut self, trainer: &Trainer) {
        if self.looks {
            self.say(half_precision::by_data(trainer.config(), trainer.envs()));
        }
    }

    fn say(&mut self, warnings: Vec<String>) {
        self.looks &= warnings.is_empty();
        for warning in warnings {
            tell(&format!("warning: {warning}"));
        }
    }
}

impl Callback for HalfWatch {
    fn reads_envs(&self) -> bool {
        self.looks && (self.n_checkpoints + 1).is_power_of_two()
    }

    fn checkpoint(&mut self, trainer: &Trainer) -> Result<()> {
        self.n_checkpoints += 1;
        if self.n_checkpoints.is_power_of_two() {
            self.look(trainer);
        }
        Ok(())
    }
}

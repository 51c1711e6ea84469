//! Says what half precision loses of observations, where a learner on a GPU stores them in it.

use super::{Device, tell};
use warp_train::{Callback, Result, Trainer, half};

/// Looks at observations at the first checkpoint, the second, the fourth and so on, when the host has them, until there
/// was something to say: a look goes through all observations.
pub(super) struct HalfWatch {
    looks: bool,
    /// Checkpoints so far.
    n_checkpoints: u64,
}

impl HalfWatch {
    /// For a run that has not begun, or goes on: says what its bounds let expect, and what is to be seen.
    pub(super) fn new(device: &Device, trainer: &Trainer) -> Self {
        let config = trainer.config();
        let backend = trainer.learner().backend();
        let looks = device.precision(backend, config) != "fp32";
        let mut watch = Self { looks, n_checkpoints: 0 };
        if watch.looks {
            watch.say(half::by_bounds(config));
            watch.look(trainer);
        }
        watch
    }

    /// Looks at what the agents see now, which the host must know.
    fn look(&mut self, trainer: &Trainer) {
        if self.looks {
            self.say(half::by_data(trainer.config(), trainer.envs()));
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

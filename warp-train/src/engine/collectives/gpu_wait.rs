//! Waiting for the GPU, and looking after the other ranks in between.

use std::time::{Duration, Instant};

/// How often a wait for the GPU looks whether another rank is gone.
const LOOK: Duration = Duration::from_micros(50);
/// How long a wait stays awake.
const AWAKE: Duration = Duration::from_millis(20);

/// A wait for the GPU: at once awake when it is done, as long as that takes no time worth a sleep.
#[derive(Debug)]
pub(super) struct GpuWait {
    since: Instant,
    looked: Instant,
}

impl GpuWait {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { since: now, looked: now }
    }

    /// How long it has been.
    pub(super) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Lets others have a turn, and says whether it is time to look after the other ranks.
    pub(super) fn is_due(&mut self) -> bool {
        match self.since.elapsed() < AWAKE {
            true => std::thread::yield_now(),
            false => std::thread::sleep(LOOK),
        }
        let due = self.looked.elapsed() >= LOOK;
        if due {
            self.looked = Instant::now();
        }
        due
    }
}

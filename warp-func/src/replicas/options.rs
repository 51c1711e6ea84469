//! How replicas of their own are run.

use crate::error::{Error, Result};
use crate::thread_pool::cores;

warp_core::choices! {
    /// What follows the end of an episode.
    pub enum AutoReset {
        /// The next step of the replica begins an episode instead; its action is not used.
        NextStep = "next_step",
        /// The same step begins the next episode, and shows both its start and the last observation.
        SameStep = "same_step",
        /// Nothing: whoever steps it lets it begin one before.
        Disabled = "disabled",
    }
}

/// How replicas of their own are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaOptions {
    /// The seed of each; their number is that of the replicas, at least 1.
    pub seeds: Vec<u64>,
    /// Threads that step them, the caller's included; 0: one per core. Results do not depend on it.
    pub threads: usize,
    /// Core of the first thread that is not the caller's, the others following; none: wherever the system
    /// puts them.
    pub first_core: Option<usize>,
    /// What follows the end of an episode.
    pub auto_reset: AutoReset,
    /// Maximum number of steps in an episode, at least 1; none: the environment's own limit.
    pub max_episode_steps: Option<u32>,
}

impl ReplicaOptions {
    /// Replicas with these seeds, and all else as it usually is.
    #[must_use]
    pub fn new(seeds: Vec<u64>) -> Self {
        let auto_reset = AutoReset::NextStep;
        Self { seeds, threads: 0, first_core: None, auto_reset, max_episode_steps: None }
    }

    /// The core that the thread of this number belongs on, if any.
    pub(super) fn core_of(&self, index: usize) -> Option<usize> {
        self.first_core.map(|first| first.wrapping_add(index) % cores())
    }

    pub(super) fn check(&self) -> Result<()> {
        let invalid = |option, value: usize, reason: &str| {
            let (value, reason) = (value.to_string(), reason.into());
            Err(Error::InvalidOption { option, value, reason })
        };
        let n = self.seeds.len();
        if n == 0 {
            return invalid("num_envs", n, "at least one environment is needed");
        }
        if i32::try_from(n).is_err() {
            return invalid("num_envs", n, "environments are numbered with 31 bits");
        }
        if self.max_episode_steps == Some(0) {
            return invalid("max_episode_steps", 0, "an episode has at least one step");
        }
        if self.threads > MAX_THREADS {
            return invalid("num_threads", self.threads, "at most 1024 threads are possible");
        }
        Ok(())
    }
}

/// Threads at most.
const MAX_THREADS: usize = 1024;

/// Keeps the calling thread on a core; where the system does not let it, it goes on elsewhere.
pub(super) fn pin(core: usize) {
    #[cfg(target_os = "linux")]
    {
        let mut cores = rustix::thread::CpuSet::new();
        if core < rustix::thread::CpuSet::MAX_CPU {
            cores.set(core);
            // It is about speed alone.
            let _ = rustix::thread::sched_setaffinity(None, &cores);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = core;
}

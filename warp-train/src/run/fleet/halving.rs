//! Successive halving: all settings of a sweep begin, and round by round the better ones continue.
//!
//! A run is the run that its seed and keys describe, however far it comes: one that is stopped is the beginning of
//! the one that would have gone on. So a fleet that was interrupted finds the same settings to stop again.

use super::FleetRun;
use crate::config::TrainConfig;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// How settings are stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Halving {
    /// One in this many settings continues; each round is this many times as long as the one before.
    pub factor: u32,
}

/// One round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// Which one, from 1.
    pub number: usize,
    /// Steps that a run has done at its end are the run's whole length divided by this.
    pub part: u64,
    /// Maximum number of settings that continue; in the last round all of them are done.
    pub keep: usize,
}

impl Halving {
    /// One in `factor` continues.
    ///
    /// # Errors
    /// A factor below 2.
    pub fn new(factor: u32) -> Result<Self> {
        match factor {
            0 | 1 => Err(Error::Invalid(format!(
                "halving by {factor}: the factor must be at least 2, since one of so many settings \
                 continues"
            ))),
            _ => Ok(Self { factor }),
        }
    }

    /// The rounds for `n_settings`: enough to leave one setting in the last round, which has the full length.
    #[must_use]
    pub fn rounds(&self, n_settings: usize) -> Vec<Round> {
        let factor = u64::from(self.factor.max(2));
        let n = n_settings as u64;
        let n_rounds = 1 + n.max(1).ilog(factor);
        let round = |done: u32| Round {
            number: done as usize + 1,
            part: factor.pow(n_rounds - 1 - done),
            keep: (n / factor.pow((done + 1).min(n_rounds - 1))).max(1) as usize,
        };
        (0..n_rounds).map(round).collect()
    }
}

impl Round {
    /// Whether no round follows.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.part == 1
    }

    /// Environment steps of a run at the end of this round, in whole iterations.
    #[must_use]
    pub fn end_of(&self, config: &TrainConfig) -> u64 {
        let mut part = config.clone();
        part.run.total_steps = config.run.total_steps.div_ceil(self.part);
        part.end_after(0)
    }

    /// The run as far as this round goes.
    #[must_use]
    pub fn part_of(&self, run: &FleetRun) -> FleetRun {
        let mut part = run.clone();
        if !self.is_last() {
            part.config.run.total_steps = self.end_of(&run.config).min(run.config.run.total_steps);
            part.pauses = true;
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_round_is_whole_and_each_keeps_a_part() {
        let shown = |factor, n| -> Vec<(u64, usize)> {
            let rounds = Halving::new(factor).unwrap().rounds(n);
            rounds.iter().map(|round| (round.part, round.keep)).collect()
        };
        assert_eq!(shown(2, 8), [(8, 4), (4, 2), (2, 1), (1, 1)]);
        assert_eq!(shown(3, 20), [(9, 6), (3, 2), (1, 2)]);
        assert_eq!(shown(4, 3), [(1, 3)]);
        assert_eq!(shown(2, 1), [(1, 1)]);
        let error = Halving::new(1).unwrap_err().to_string();
        assert!(error.contains("halving by 1"), "{error}");
    }

    #[test]
    fn rounds_end_with_whole_iterations_and_never_behind_the_run() {
        let text = "env_id = \"cartpole\"\nnum_envs = 4\nnum_steps = 25\ntotal_steps = 1050";
        let table = text.parse().unwrap();
        let config = TrainConfig::resolve(&table, &warp_envs::registry()).unwrap();
        let rounds = Halving::new(2).unwrap().rounds(4);
        let ends: Vec<u64> = rounds.iter().map(|round| round.end_of(&config)).collect();
        assert_eq!(ends, [300, 600, 1100]);
        let run = FleetRun { number: 0, swept: Vec::new(), pauses: false, config };
        let part = rounds[1].part_of(&run);
        assert_eq!((part.config.run.total_steps, part.pauses), (600, true));
        assert_eq!(rounds[2].part_of(&run).config.run.total_steps, 1050);
    }
}

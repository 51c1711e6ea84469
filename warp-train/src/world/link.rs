//! The transport of bytes between ranks on the host.

use std::time::Duration;

/// Who receives what is gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receivers {
    /// Every rank.
    All,
    /// The first rank alone: what is gathered may be large.
    First,
}

/// A round of words.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// What it is about, as in "gradients".
    pub what: &'static str,
    /// Who receives it.
    pub receivers: Receivers,
    /// How long the first rank may keep the others waiting, if longer than ranks wait for each other.
    pub patience: Duration,
}

/// What kind of reason ends the rounds of a run's ranks, which decides what becomes of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Ranks have lost each other, which another start may mend.
    Lost,
    /// Something that the user can put right, for one rank as for all.
    Users,
    /// A run that broke by itself, as it would again.
    Broken,
}

/// Why there is no further round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Over {
    /// In a sentence: which rank is gone, late or in another round, doing what, since when; or why one gave up.
    pub why: String,
    /// Of which kind that is.
    pub cause: Cause,
}

impl Over {
    /// Ranks that have lost each other.
    pub fn lost(why: impl Into<String>) -> Self {
        Self { why: why.into(), cause: Cause::Lost }
    }

    /// The same, said by rank number `rank`.
    pub(super) fn of_rank(&self, rank: usize) -> Self {
        Self { why: format!("rank {rank} gave up: {}", self.why), cause: self.cause }
    }
}

/// Carries bytes between ranks, in rounds that all of them take part in.
pub trait Link: Send {
    /// Takes part in a round: what every rank says, in their order; nothing for those who do not receive it.
    ///
    /// # Errors
    /// A rank that is gone, late or in another round, or one that gave up. No round follows.
    fn gather(&mut self, round: Round, mine: &[u8]) -> Result<Vec<Vec<u8>>, Over>;

    /// Why there is no further round, if another rank has said so or is gone; looks without waiting.
    fn over(&mut self) -> Option<Over>;

    /// Ends the rounds for all ranks, which get `over` as their error.
    fn give_up(&mut self, over: &Over);
}

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

/// Carries bytes between ranks, in rounds that all of them take part in.
pub trait Link: Send {
    /// Takes part in a round: what every rank says, in their order; nothing for those who do not receive it.
    ///
    /// # Errors
    /// In a sentence: which rank is gone, late or in another round, doing what, since when; or why one gave
    /// up. No round follows.
    fn gather(&mut self, round: Round, mine: &[u8]) -> Result<Vec<Vec<u8>>, String>;

    /// Why there is no further round, if another rank has said so or is gone; looks without waiting.
    fn over(&mut self) -> Option<String>;

    /// Ends the rounds for all ranks, which get `why` as their error.
    fn give_up(&mut self, why: &str);
}

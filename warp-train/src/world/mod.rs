//! The ranks of a run: their number, the part of each, and their communication on the host.
//!
//! A rank is a GPU, or on the CPU a part of the machine, with its own replicas and the same weights as all
//! others. All ranks do the same in the same order; a run with one rank does not communicate.

mod frame;
mod launch;
mod link;
pub(crate) mod parts;
mod tcp;
mod threads;

pub use launch::{Launch, from_environment, is_host_and_port};
pub use link::{Cause, Link, Over, Receivers, Round};
pub use tcp::{Hello, Listener, MEETING, join};
pub(crate) use threads::on_threads;
pub use threads::threads;

use crate::error::{Error, Result};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long ranks wait for each other before they give up, unless `--link-timeout` says otherwise.
pub const LINK_TIMEOUT: Duration = Duration::from_secs(30);

/// How long other ranks wait while the first one compiles, evaluates, reads or writes. They notice at once when
/// its process ends, but not when a machine is cut off.
pub const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// What carries sums between GPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Carrier {
    /// Memory that all of them reach, and NCCL where they do not; unless the variable `WARP_LINK` says which.
    #[default]
    Suited,
    /// NCCL.
    Nccl,
    /// Memory that all of them reach.
    Peers,
}

/// The ranks of a run, seen from one of them.
#[derive(Clone, Default)]
pub struct World {
    rank: usize,
    /// Ranks beside the first.
    others: usize,
    /// Nothing where this rank is the only one.
    link: Option<Arc<Mutex<Box<dyn Link>>>>,
    timeout: Duration,
    carrier: Carrier,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.size())
    }
}

/// Two worlds are equal if they are of as many ranks and seen from the same one.
impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        (self.rank, self.others) == (other.rank, other.others)
    }
}

impl World {
    /// Rank number `rank` of `size`, which reach each other through `link`.
    #[must_use]
    pub fn new(rank: usize, size: usize, link: Box<dyn Link>) -> Self {
        let link = (size > 1).then(|| Arc::new(Mutex::new(link)));
        let others = size.max(1) - 1;
        Self { rank, others, link, timeout: LINK_TIMEOUT, carrier: Carrier::default() }
    }

    /// This world, in which kernels wait for each other for `timeout` at most.
    #[must_use]
    pub fn waiting(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// This world, in which `carrier` carries sums between GPUs, whatever `WARP_LINK` says; all ranks are to say the same.
    #[must_use]
    pub fn carried_by(self, carrier: Carrier) -> Self {
        Self { carrier, ..self }
    }

    /// What carries sums between GPUs.
    #[must_use]
    pub fn carrier(&self) -> Carrier {
        self.carrier
    }

    /// How long kernels wait for each other.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Does `work` on the first rank and then on the others: what it leaves behind they find. All ranks are to
    /// call it.
    ///
    /// # Errors
    /// Ranks that have lost each other.
    pub fn first_then_others<T>(&self, what: &'static str, work: impl FnOnce() -> T) -> Result<T> {
        let mut work = Some(work);
        let early = self.is_first().then(|| work.take()).flatten().map(|work| work());
        self.all_gather_within(what, &[], PATIENCE)?;
        let late = work.map(|work| work());
        early.or(late).ok_or_else(|| Error::Ranks(format!("nobody has done {what}")))
    }

    /// Why there is no further round, if that is so.
    #[must_use]
    pub fn over(&self) -> Option<Over> {
        let link = self.link.as_ref()?;
        link.lock().map_or_else(|_| Some(Over::lost("a rank has panicked")), |mut link| link.over())
    }

    /// This rank's number, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many ranks there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.others + 1
    }

    /// Whether there is only one rank.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.others == 0
    }

    /// Whether this is the rank that writes, prints, draws and evaluates.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.rank == 0
    }

    /// Which of `n` things, a multiple of the ranks, are this rank's.
    #[must_use]
    pub fn share(&self, n: usize) -> Range<usize> {
        let each = n / self.size();
        self.rank * each..(self.rank + 1) * each
    }

    /// What every rank has to say, in their order. `what` names it in errors: "gradients".
    ///
    /// # Errors
    /// A rank that disconnected, gave up, is late, or sent something unexpected.
    pub fn all_gather(&self, what: &'static str, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.exchange(Round { what, receivers: Receivers::All, patience: Duration::ZERO }, mine)
    }

    /// As [`World::all_gather`], where the first rank may keep the others waiting for `patience`: it evaluates, or writes.
    ///
    /// # Errors
    /// As [`World::all_gather`].
    pub fn all_gather_within(
        &self,
        what: &'static str,
        mine: &[u8],
        patience: Duration,
    ) -> Result<Vec<Vec<u8>>> {
        self.exchange(Round { what, receivers: Receivers::All, patience }, mine)
    }

    /// What every rank has to say, in their order, for the first rank alone; the others get nothing.
    ///
    /// # Errors
    /// As [`World::all_gather`].
    pub fn gather_to_first(&self, what: &'static str, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.exchange(Round { what, receivers: Receivers::First, patience: Duration::ZERO }, mine)
    }

    fn exchange(&self, round: Round, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let Some(link) = &self.link else { return Ok(vec![mine.to_vec()]) };
        let mut link = link.lock().map_err(|_| Error::Ranks("a rank has panicked".into()))?;
        link.gather(round, mine).map_err(Error::from)
    }

    /// What the first rank has to say.
    ///
    /// # Errors
    /// As [`World::all_gather`].
    pub fn broadcast(&self, what: &'static str, mine: &[u8]) -> Result<Vec<u8>> {
        self.broadcast_within(what, mine, Duration::ZERO)
    }

    /// What the first rank has to say, for which it may keep the others waiting for `patience`.
    ///
    /// # Errors
    /// As [`World::all_gather`].
    pub fn broadcast_within(
        &self,
        what: &'static str,
        mine: &[u8],
        patience: Duration,
    ) -> Result<Vec<u8>> {
        let mine = if self.is_first() { mine } else { &[] };
        Ok(self.all_gather_within(what, mine, patience)?.swap_remove(0))
    }

    /// Waits until all ranks are here.
    ///
    /// # Errors
    /// As [`World::all_gather`].
    pub fn barrier(&self, what: &'static str) -> Result<()> {
        self.all_gather(what, &[]).map(|_| ())
    }

    /// Whether it is so for any rank.
    ///
    /// # Errors
    /// As [`World::all_gather`].
    pub fn any(&self, what: &'static str, here: bool) -> Result<bool> {
        Ok(self.all_gather(what, &[u8::from(here)])?.iter().any(|said| said.contains(&1)))
    }

    /// The numbers of all ranks in double precision, rank after rank.
    ///
    /// # Errors
    /// As [`World::all_gather`].
    pub fn all_gather_f64(&self, what: &'static str, mine: &[f64]) -> Result<Vec<f64>> {
        let bytes: Vec<u8> = mine.iter().flat_map(|x| x.to_le_bytes()).collect();
        let parts = self.all_gather(what, &bytes)?;
        Ok(parts.iter().flat_map(|part| f64s(part)).collect())
    }

    /// The numbers of all ranks in single precision, rank after rank.
    ///
    /// # Errors
    /// As [`World::all_gather`].
    pub fn all_gather_f32(&self, what: &'static str, mine: &[f32]) -> Result<Vec<f32>> {
        let bytes: Vec<u8> = mine.iter().flat_map(|x| x.to_le_bytes()).collect();
        let parts = self.all_gather(what, &bytes)?;
        let numbers = |part: &Vec<u8>| {
            let (words, _) = part.as_chunks::<4>();
            words.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect::<Vec<_>>()
        };
        Ok(parts.iter().flat_map(numbers).collect())
    }

    /// Checks that all ranks have devices of one model, which `own` describes: sizes of launches, and with them the order
    /// of sums and what is exchanged, follow from it. To be called before anything else is exchanged.
    ///
    /// # Errors
    /// Devices that differ, on all ranks.
    pub fn check_same_model(&self, own: &str) -> Result<()> {
        same_model(&self.all_gather("the model of each GPU", own.as_bytes())?)
    }

    /// Tells the other ranks that this one failed, so that none waits for it and all end for the same reason.
    pub fn give_up(&self, over: &Over) {
        let Some(link) = &self.link else { return };
        if let Ok(mut link) = link.lock() {
            link.give_up(over);
        }
    }

    /// As [`World::give_up`], for an error of this rank.
    pub fn give_up_for(&self, error: &Error) {
        self.give_up(&Over { why: error.to_string(), cause: Cause::of(error) });
    }
}

impl Cause {
    /// The kind of reason that `error` is.
    #[must_use]
    pub fn of(error: &Error) -> Self {
        match error {
            Error::Ranks(_) => Self::Lost,
            error if error.is_users() => Self::Users,
            _ => Self::Broken,
        }
    }
}

impl From<Over> for Error {
    fn from(Over { why, cause }: Over) -> Self {
        match cause {
            Cause::Lost => Self::Ranks(why),
            Cause::Users => Self::GaveUp { why, is_users: true },
            Cause::Broken => Self::GaveUp { why, is_users: false },
        }
    }
}

/// Checks that all ranks, in their order, describe the same device.
fn same_model(all: &[Vec<u8>]) -> Result<()> {
    let described = all.iter().map(|text| String::from_utf8_lossy(text));
    let mut ranks = described.enumerate();
    let Some((_, first)) = ranks.next() else { return Ok(()) };
    match ranks.find(|(_, other)| *other != first) {
        Some((rank, other)) => Err(Error::Invalid(format!(
            "rank 0 has {first}, but rank {rank} has {other}; the ranks of a run need GPUs of one model"
        ))),
        None => Ok(()),
    }
}

/// The numbers in `bytes`.
fn f64s(bytes: &[u8]) -> Vec<f64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
}

#[cfg(test)]
mod tests;

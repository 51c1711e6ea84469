//! Ranks that are threads of one process.

use super::{Link, Over, Receivers, Round};
use crate::error::{Error, Result as RankResult};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a rank that waits for others stays awake: GPUs are idle meanwhile, and to be woken up would take as long.
const AWAKE: Duration = Duration::from_micros(200);

/// The links of `size` ranks, in their order; each waits for the others for at most `timeout`.
#[must_use]
pub fn threads(size: usize, timeout: Duration) -> Vec<Box<dyn Link>> {
    let meeting = Meeting { said: vec![None; size], ..Meeting::default() };
    let (meeting, changed, rounds) = (Mutex::new(meeting), Condvar::new(), AtomicU64::new(0));
    let room = Arc::new(Room { meeting, changed, rounds });
    let link =
        |rank| -> Box<dyn Link> { Box::new(Thread { rank, room: Arc::clone(&room), timeout }) };
    (0..size).map(link).collect()
}

/// What all ranks come to, in their order, each in a thread of its own.
///
/// # Errors
/// Of the first rank that fails.
pub(crate) fn on_threads<T: Send, F: FnOnce() -> RankResult<T> + Send>(
    ranks: impl IntoIterator<Item = F>,
) -> RankResult<Vec<T>> {
    std::thread::scope(|scope| {
        let ranks: Vec<_> = ranks.into_iter().map(|rank| scope.spawn(rank)).collect();
        let panicked = |_| Err(Error::Ranks("a rank panicked".into()));
        // All are waited for before one's error is the answer.
        let found: Vec<_> =
            ranks.into_iter().map(|rank| rank.join().unwrap_or_else(panicked)).collect();
        found.into_iter().collect()
    })
}

/// Where the threads meet.
#[derive(Debug, Default)]
struct Room {
    meeting: Mutex<Meeting>,
    changed: Condvar,
    /// Rounds that are over, for those who wait awake.
    rounds: AtomicU64,
}

/// A round on its way.
#[derive(Debug, Default)]
struct Meeting {
    /// Rounds that are over.
    round: u64,
    /// What the round is about, once somebody has come.
    what: &'static str,
    said: Vec<Option<Vec<u8>>>,
    /// Ranks that say no more.
    gone: Vec<usize>,
    /// What was said in the last round.
    last: Arc<Vec<Vec<u8>>>,
    /// Why there is no further round.
    over: Option<Over>,
}

#[derive(Debug)]
struct Thread {
    rank: usize,
    room: Arc<Room>,
    timeout: Duration,
}

impl Thread {
    fn meeting(&self) -> MutexGuard<'_, Meeting> {
        // A thread that panics has told the others so before (`Drop`).
        self.room.meeting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end of round `number`, but not for long.
    fn stay_awake(&self, number: u64, since: Instant) {
        while self.room.rounds.load(Acquire) == number && since.elapsed() < AWAKE {
            std::thread::yield_now();
        }
    }
}

impl Link for Thread {
    fn gather(&mut self, round: Round, mine: &[u8]) -> Result<Vec<Vec<u8>>, Over> {
        let Round { what, receivers, patience } = round;
        let (since, timeout) = (Instant::now(), self.timeout.max(patience));
        let mut meeting = self.meeting();
        if let Err(over) = meeting.enter(self.rank, what, mine) {
            // Nobody comes any more; those who sleep are to hear it now.
            self.room.changed.notify_all();
            return Err(over);
        }
        let number = meeting.round;
        if meeting.said.iter().all(Option::is_some) {
            let said = meeting.said.iter_mut().map(|part| part.take().unwrap_or_default());
            meeting.last = Arc::new(said.collect());
            meeting.round += 1;
            self.room.rounds.store(meeting.round, Release);
            self.room.changed.notify_all();
        } else {
            drop(meeting);
            self.stay_awake(number, since);
            meeting = self.meeting();
        }
        while meeting.round == number {
            if let Some(over) = &meeting.over {
                return Err(over.clone());
            }
            let left = timeout.saturating_sub(since.elapsed());
            if left.is_zero() {
                let late = meeting.late(what, timeout);
                meeting.over = Some(late.clone());
                self.room.changed.notify_all();
                return Err(late);
            }
            let waited = self.room.changed.wait_timeout(meeting, left);
            meeting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let last = Arc::clone(&meeting.last);
        drop(meeting);
        let hears = receivers == Receivers::All || self.rank == 0;
        Ok(if hears { last.to_vec() } else { Vec::new() })
    }

    fn over(&mut self) -> Option<Over> {
        self.meeting().over.clone()
    }

    fn give_up(&mut self, over: &Over) {
        let mut meeting = self.meeting();
        meeting.over.get_or_insert_with(|| over.of_rank(self.rank));
        self.room.changed.notify_all();
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.give_up(&Over::lost("it panicked"));
        }
        // Who still waits for this rank, or comes later, waits in vain.
        let mut meeting = self.meeting();
        meeting.gone.push(self.rank);
        if meeting.said.iter().any(Option::is_some) {
            meeting.end_without(self.rank);
        }
        self.room.changed.notify_all();
    }
}

impl Meeting {
    /// Says a rank's part of the round.
    fn enter(&mut self, rank: usize, what: &'static str, mine: &[u8]) -> Result<(), Over> {
        if let Some(over) = &self.over {
            return Err(over.clone());
        }
        if self.said.iter().all(Option::is_none) {
            self.what = what;
        } else if self.what != what {
            let over = Over::lost(format!("rank {rank} has reached {what}, others {}", self.what));
            self.over = Some(over.clone());
            return Err(over);
        }
        self.said[rank] = Some(mine.to_vec());
        match self.gone.first() {
            Some(gone) => Err(self.end_without(*gone)),
            None => Ok(()),
        }
    }

    /// Ends the rounds, since a rank is gone.
    fn end_without(&mut self, rank: usize) -> Over {
        let why = format!("rank {rank} disconnected; the others wait for {}", self.what);
        self.over.get_or_insert(Over::lost(why)).clone()
    }

    /// Who is missing.
    fn late(&self, what: &str, timeout: Duration) -> Over {
        let missing = self.said.iter().enumerate().filter(|(_, said)| said.is_none());
        let missing: Vec<String> = missing.map(|(rank, _)| rank.to_string()).collect();
        let seconds = timeout.as_secs_f64();
        Over::lost(format!("rank {} has not reached {what} for {seconds} s", missing.join(", ")))
    }
}

//! A fleet that several processes train: what they have goes to the first of them, which alone writes.
//!
//! Training does not communicate. Beside it a thread of each process takes part in a round now and then: it
//! sends what has ended, hears whether the fleet is to stop, and notices when a process is lost. Only where settings
//! are compared does training wait for other processes.

use super::Fleet;
use super::ended_run::EndedRun;
use super::standing::Standing;
use crate::error::{Error, Result};
use crate::run::parallel::each;
use crate::world::{Cause, Over, PATIENCE, World, parts};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time between two rounds.
const TURN: Duration = Duration::from_millis(100);
/// Bytes that a process sends in a round, about, at most: the others wait meanwhile.
const MOST_BYTES: usize = 16 << 20;

/// Threads of the first process that verify and write what another one has trained.
const TAKERS: usize = 8;

/// The processes that train a fleet, as training sees them.
#[expect(missing_debug_implementations, reason = "it has a function")]
pub struct Together<'a> {
    asked: &'a (dyn Fn() -> bool + Sync),
    /// Nothing where there is no other process.
    rounds: Option<&'a Rounds<'a>>,
}

impl Together<'_> {
    /// Whether training is to stop: this process is asked to, or another one, or one is lost.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        (self.asked)() || self.rounds.is_some_and(Rounds::is_over)
    }

    /// Waits until all processes are here, and hears how the runs of the others stand; not if training is to stop.
    pub fn compare(&self) {
        let Some(rounds) = self.rounds else { return };
        let mut comparison = rounds.comparison();
        *comparison = Comparison { own: Some(rounds.fleet.standings()), is_over: false };
        while !comparison.is_over && !rounds.is_over() {
            let waited = rounds.compared.wait_timeout(comparison, TURN);
            comparison = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Lets `train` train this process's runs of `fleet`, where other processes do the same with theirs. Returns when all
/// have, and the first has everything that they have trained. `asked` says whether somebody asks this one to stop, and
/// `cause_of` of which kind an error of `train` is, for which the others end, too.
///
/// # Errors
/// What `train` could not do, or what the first process could not write, which the others are told; or a process that is
/// lost.
pub fn together<T, E: From<Error> + Display>(
    fleet: &Fleet,
    world: &World,
    asked: &(dyn Fn() -> bool + Sync),
    cause_of: fn(&E) -> Cause,
    train: impl FnOnce(&Together<'_>) -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    if world.is_alone() {
        return train(&Together { asked, rounds: None });
    }
    let rounds = Rounds {
        fleet,
        world,
        asked,
        is_done: false.into(),
        is_over: false.into(),
        comparison: Mutex::default(),
        compared: Condvar::new(),
    };
    std::thread::scope(|scope| {
        let others = scope.spawn(|| rounds.all());
        // However training ends, the other thread is not to wait for it.
        let end = AtEnd(&rounds.is_done);
        let trained = train(&Together { asked, rounds: Some(&rounds) });
        if let Err(error) = &trained {
            world.give_up(&Over { why: format!("{error:#}"), cause: cause_of(error) });
        }
        drop(end);
        others.thread().unpark();
        let panicked = |_| Err(Error::Ranks("a thread of this rank ended early".into()));
        let ended = others.join().unwrap_or_else(panicked);
        let trained = trained?;
        ended?;
        Ok(trained)
    })
}

/// Says that something is done when it is dropped.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// What a process says in a round, before the runs that have ended.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Said {
    /// Whether somebody has asked it to stop.
    is_asked: bool,
    /// Whether all its runs are done and sent.
    is_done: bool,
    /// Whether runs have ended that are not in this message.
    has_more: bool,
    /// Environment steps since the round before.
    env_steps: u64,
    /// How its runs stand, once for each comparison.
    standings: Option<Vec<Standing>>,
}

/// What the first process answers.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Answer {
    /// Whether all are to stop.
    stop: bool,
    /// Whether all have done their part.
    is_done: bool,
    /// Whether somebody has more to say at once.
    has_more: bool,
    /// How all runs stand, when all processes have said it.
    standings: Option<Vec<Standing>>,
}

/// A comparison in which training takes part.
#[derive(Debug, Default)]
struct Comparison {
    /// What is still to be said.
    own: Option<Vec<Standing>>,
    is_over: bool,
}

/// What is kept from one round to the next.
#[derive(Debug, Default)]
struct Kept {
    /// Environment steps that were told: none at first, whatever training has done by then.
    env_steps: u64,
    /// In the first process: how runs stand, by the rank that has said it.
    standings: BTreeMap<usize, Vec<Standing>>,
}

/// The rounds of a process.
struct Rounds<'a> {
    fleet: &'a Fleet,
    world: &'a World,
    asked: &'a (dyn Fn() -> bool + Sync),
    /// Whether this process trains no more.
    is_done: AtomicBool,
    /// Whether it is to stop, whoever was asked to.
    is_over: AtomicBool,
    comparison: Mutex<Comparison>,
    /// Woken when a comparison is over.
    compared: Condvar,
}

impl Rounds<'_> {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn comparison(&self) -> MutexGuard<'_, Comparison> {
        self.comparison.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes part in rounds until all processes are done.
    fn all(&self) -> Result<()> {
        let mut kept = Kept::default();
        loop {
            let answer = self.next(&mut kept);
            if !matches!(answer, Ok(Answer { stop: false, .. })) {
                self.is_over.store(true, Ordering::Relaxed);
            }
            let Answer { is_done, has_more, standings, .. } = answer?;
            if let Some(standings) = standings {
                self.fleet.hear(&standings);
                self.comparison().is_over = true;
                self.compared.notify_all();
            }
            if is_done {
                return Ok(());
            }
            if !has_more {
                std::thread::park_timeout(TURN);
            }
        }
    }

    /// One round: what this process has to say, and what the first answers.
    fn next(&self, kept: &mut Kept) -> Result<Answer> {
        self.check_written()?;
        // Before what has ended is taken out: nothing is added behind that.
        let is_done = self.is_done.load(Ordering::Acquire);
        let standings = self.comparison().own.take();
        let (runs, is_all) = self.fleet.take_out(MOST_BYTES);
        let steps = self.fleet.progress().0;
        let env_steps = steps - std::mem::replace(&mut kept.env_steps, steps);
        let (is_done, has_more) = (is_done && is_all, !is_all);
        let said = Said { is_asked: (self.asked)(), is_done, has_more, env_steps, standings };
        let heard = self.world.gather_to_first("results of runs", &message(&said, &runs)?)?;
        let answer = match self.world.is_first() {
            true => self.answer(said, &heard, kept)?,
            false => Answer::default(),
        };
        self.check_written()?;
        let answer = serde_json::to_vec(&answer).map_err(|e| unsaid(&e))?;
        let answer = self.world.broadcast_within("whether to go on", &answer, PATIENCE)?;
        serde_json::from_slice(&answer).map_err(|e| unsaid(&e))
    }

    /// Takes in what the others have said, beside what the first process itself says.
    fn answer(&self, own: Said, heard: &[Vec<u8>], kept: &mut Kept) -> Result<Answer> {
        let Said { is_asked: stop, is_done, has_more, .. } = own;
        let mut answer = Answer { stop, is_done, has_more, standings: None };
        kept.standings.extend(own.standings.map(|standings| (0, standings)));
        for (rank, bytes) in heard.iter().enumerate().skip(1) {
            let unreadable =
                || Error::Ranks(format!("what rank {rank} has trained arrived damaged"));
            let parts = parts::split(bytes).ok_or_else(unreadable)?;
            let (said, runs) = parts.split_first().ok_or_else(unreadable)?;
            let said: Said = serde_json::from_slice(said).map_err(|_| unreadable())?;
            self.take_in(runs).ok_or_else(unreadable)?;
            self.fleet.count_steps(said.env_steps);
            kept.standings.extend(said.standings.map(|standings| (rank, standings)));
            answer.stop |= said.is_asked;
            answer.is_done &= said.is_done;
            answer.has_more |= said.has_more;
        }
        if kept.standings.len() == self.world.size() {
            let all = std::mem::take(&mut kept.standings);
            answer.standings = Some(all.into_values().flatten().collect());
        }
        Ok(answer)
    }

    /// Takes in runs that another process has trained, several at a time; nothing if one arrived damaged.
    fn take_in(&self, parts: &[Vec<u8>]) -> Option<()> {
        let runs: Vec<_> = parts.chunks(3).collect();
        let take = |i: usize| {
            let run = EndedRun::of_parts(runs[i], self.fleet.listed())?;
            // Breaks if it can't be written, which the caller looks for.
            let _ = self.fleet.take_in(run);
            Some(())
        };
        each(TAKERS, runs.len(), take).into_iter().collect()
    }

    /// Gives up if something could not be written.
    fn check_written(&self) -> Result<()> {
        let Some(failure) = self.fleet.take_failure() else { return Ok(()) };
        self.world.give_up_for(&failure);
        Err(failure)
    }
}

/// What is said, and the runs that have ended.
fn message(said: &Said, runs: &[EndedRun]) -> Result<Vec<u8>> {
    let mut all = vec![serde_json::to_vec(said).map_err(|e| unsaid(&e))?];
    for run in runs {
        all.extend(run.to_parts()?);
    }
    Ok(parts::join(&all))
}

fn unsaid(error: &dyn Display) -> Error {
    Error::Ranks(format!("a message between ranks can't be read: {error}"))
}

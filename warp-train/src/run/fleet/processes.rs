//! A fleet that several processes train: what they have goes to the first of them, which alone writes.
//!
//! Training does not communicate. Beside it a thread of each process takes part in a round now and then: it
//! sends what has ended, hears whether the fleet is to stop, and notices when a process is lost.

use super::Fleet;
use super::ended_run::EndedRun;
use crate::error::{Error, Result};
use crate::world::{PATIENCE, World, parts};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time between two rounds.
const TURN: Duration = Duration::from_millis(100);
/// Bytes that a process sends in a round, about, at most: the others wait meanwhile.
const MOST_BYTES: usize = 16 << 20;

/// Whether training is to stop.
pub type Asked<'a> = dyn Fn() -> bool + Sync + 'a;

/// Lets `train` train this process's runs of `fleet`, which is to stop where it is told so: where this process is
/// `asked` to, or another one, or one is lost. Returns when all processes have done the same and the first has
/// everything that they have trained.
///
/// # Errors
/// What `train` could not do, or what the first process could not write, which the others are told; or a process that is
/// lost.
pub fn together<T, E: From<Error> + Display>(
    fleet: &Fleet,
    world: &World,
    asked: &Asked<'_>,
    train: impl FnOnce(&Asked<'_>) -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    if world.is_alone() {
        return train(asked);
    }
    let rounds = Rounds { fleet, world, asked, is_done: false.into(), is_over: false.into() };
    std::thread::scope(|scope| {
        let others = scope.spawn(|| rounds.all());
        // However training ends, the other thread is not to wait for it.
        let end = AtEnd(&rounds.is_done);
        let trained = train(&|| asked() || rounds.is_over.load(Ordering::Relaxed));
        if let Err(error) = &trained {
            world.give_up(&format!("{error:#}"));
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
    /// Environment steps since the round before.
    env_steps: u64,
}

/// What the first process answers.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Answer {
    /// Whether all are to stop.
    stop: bool,
    /// Whether all have done their part.
    is_done: bool,
}

/// The rounds of a process.
struct Rounds<'a> {
    fleet: &'a Fleet,
    world: &'a World,
    asked: &'a Asked<'a>,
    /// Whether this process trains no more.
    is_done: AtomicBool,
    /// Whether it is to stop, whoever was asked to.
    is_over: AtomicBool,
}

impl Rounds<'_> {
    /// Takes part in rounds until all processes are done.
    fn all(&self) -> Result<()> {
        let mut sent_steps = self.fleet.progress().0;
        loop {
            let answer = self.next(&mut sent_steps);
            if !matches!(answer, Ok(Answer { stop: false, .. })) {
                self.is_over.store(true, Ordering::Relaxed);
            }
            if answer?.is_done {
                return Ok(());
            }
            std::thread::park_timeout(TURN);
        }
    }

    fn next(&self, sent_steps: &mut u64) -> Result<Answer> {
        self.check_written()?;
        // Before what has ended is taken out: nothing is added behind that.
        let is_done = self.is_done.load(Ordering::Acquire);
        let (runs, is_all) = self.fleet.take_out(MOST_BYTES);
        let steps = self.fleet.progress().0;
        let env_steps = steps - std::mem::replace(sent_steps, steps);
        let said = Said { is_asked: (self.asked)(), is_done: is_done && is_all, env_steps };
        let heard = self.world.collect("results of runs", &message(&said, &runs)?)?;
        let answer = match self.world.is_first() {
            true => self.answer(&said, &heard)?,
            false => Answer::default(),
        };
        self.check_written()?;
        let answer = serde_json::to_vec(&answer).map_err(|e| unsaid(&e))?;
        let answer = self.world.tell_within("whether to go on", &answer, PATIENCE)?;
        serde_json::from_slice(&answer).map_err(|e| unsaid(&e))
    }

    /// Takes in what the others have said, beside what the first process itself says.
    fn answer(&self, own: &Said, heard: &[Vec<u8>]) -> Result<Answer> {
        let mut answer = Answer { stop: own.is_asked, is_done: own.is_done };
        for (rank, bytes) in heard.iter().enumerate().skip(1) {
            let unreadable =
                || Error::Ranks(format!("what rank {rank} has trained arrived damaged"));
            let parts = parts::split(bytes).ok_or_else(unreadable)?;
            let (said, runs) = parts.split_first().ok_or_else(unreadable)?;
            let said: Said = serde_json::from_slice(said).map_err(|_| unreadable())?;
            for run in runs.chunks(3) {
                let run = EndedRun::of_parts(run, self.fleet.listed()).ok_or_else(unreadable)?;
                // Breaks if it can't be written, which the caller looks for.
                let _ = self.fleet.take_in(run);
            }
            self.fleet.count_steps(said.env_steps);
            answer.stop |= said.is_asked;
            answer.is_done &= said.is_done;
        }
        Ok(answer)
    }

    /// Gives up if something could not be written.
    fn check_written(&self) -> Result<()> {
        let Some(failure) = self.fleet.take_failure() else { return Ok(()) };
        self.world.give_up(&failure.to_string());
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

//! Pending and finished work, under one lock: an idle thread takes some rows of a job, and appends their
//! results to a ring, from which the owner takes what is finished first.
//!
//! A thread is here once for each piece, which is some microseconds of work; so a lock is cheap, and there is
//! nothing else to get wrong. `model.rs` has loom try every order.

use super::sync::{Condvar, Mutex, lock, wait};
use std::collections::VecDeque;
use std::ops::Range;

/// Some rows of a job.
#[derive(Debug)]
pub(super) struct Piece<J> {
    pub(super) job: J,
    pub(super) rows: Range<usize>,
}

/// A place in the ring: rows `first..first + rows`, of which those beyond its end lie at its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) first: usize,
    pub(super) rows: usize,
}

/// Jobs and the rows that came of them. `R` is the ring's memory.
#[derive(Debug)]
pub(super) struct Board<J, R> {
    state: Mutex<State<J, R>>,
    /// There is something to do, or it is over.
    to_do: Condvar,
    /// Rows were finished.
    finished: Condvar,
}

#[derive(Debug)]
struct State<J, R> {
    jobs: VecDeque<Piece<J>>,
    ring: R,
    /// Rows of the ring.
    size: usize,
    /// The ring's oldest row.
    first: usize,
    /// Rows that are finished and not yet taken.
    filled: usize,
    /// Rows that are taken at a time.
    piece: usize,
    over: bool,
    /// A piece that panicked is never finished, and nobody may wait for it.
    broken: bool,
}

/// What the owner is to do next.
pub(super) enum Turn<J> {
    /// The rows are there.
    Taken,
    /// They are not, but there is something to do meanwhile.
    Help(Piece<J>),
    /// A piece has panicked.
    Broken,
}

impl<J: Clone, R> Board<J, R> {
    pub(super) fn new(ring: R, size: usize) -> Self {
        let jobs = VecDeque::new();
        let (over, broken) = (false, false);
        let state = State { jobs, ring, size, first: 0, filled: 0, piece: 1, over, broken };
        Self { state: Mutex::new(state), to_do: Condvar::new(), finished: Condvar::new() }
    }

    /// Adds a job of some rows, of which `piece` are taken at a time. No more rows may be on the board than
    /// the ring has.
    pub(super) fn post(&self, job: J, rows: usize, piece: usize) {
        let mut state = lock(&self.state);
        state.jobs.push_back(Piece { job, rows: 0..rows });
        state.piece = piece.max(1);
        drop(state);
        self.to_do.notify_all();
    }

    /// The next piece, for a thread that has nothing else to do; none when it is over.
    pub(super) fn next(&self) -> Option<Piece<J>> {
        let mut state = lock(&self.state);
        loop {
            if state.over {
                return None;
            }
            if let Some(piece) = state.take() {
                return Some(piece);
            }
            state = wait(&self.to_do, state);
        }
    }

    /// Puts `rows` rows that came of a piece at the end of the ring.
    pub(super) fn deliver(&self, rows: usize, put: impl FnOnce(&mut R, Place)) {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let place = Place { first: (state.first + state.filled) % state.size, rows };
        put(&mut state.ring, place);
        state.filled += rows;
        drop(guard);
        self.finished.notify_one();
    }

    /// Says that a piece will never be delivered.
    pub(super) fn give_up(&self) {
        lock(&self.state).broken = true;
        self.finished.notify_one();
    }

    /// Takes the `rows` rows that were finished first, or says what can be done until they are there. Sleeps
    /// only while others are at work.
    pub(super) fn take(&self, rows: usize, get: impl FnOnce(&mut R, Place)) -> Turn<J> {
        let mut guard = lock(&self.state);
        loop {
            let state = &mut *guard;
            if state.filled >= rows {
                get(&mut state.ring, Place { first: state.first, rows });
                state.first = (state.first + rows) % state.size;
                state.filled -= rows;
                return Turn::Taken;
            }
            if state.broken {
                return Turn::Broken;
            }
            if let Some(piece) = state.take() {
                return Turn::Help(piece);
            }
            guard = wait(&self.finished, guard);
        }
    }

    /// Lets every thread go.
    pub(super) fn close(&self) {
        lock(&self.state).over = true;
        self.to_do.notify_all();
    }
}

impl<J: Clone, R> State<J, R> {
    fn take(&mut self) -> Option<Piece<J>> {
        let front = self.jobs.front_mut()?;
        let end = front.rows.end.min(front.rows.start + self.piece);
        if end == front.rows.end {
            return self.jobs.pop_front();
        }
        let piece = Piece { job: front.job.clone(), rows: front.rows.start..end };
        front.rows.start = end;
        Some(piece)
    }
}

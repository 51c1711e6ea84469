//! Asynchronous replicas: some are sent off, and those that finish first are received first.
//!
//! `board` is where threads find work and leave results; `model.rs` has loom try every order of their
//! accesses. A receiver helps until its rows are finished, so nothing depends on whether the system
//! schedules other threads.

mod board;
#[cfg(all(test, loom))]
mod model;
mod sync;

use super::batch::Batch;
use super::runner::{Mover, Part};
use super::{CHUNK, Identity, Orders, Replicas};
use crate::error::{Error, Result};
use crate::thread_pool::thread_count;
use board::{Board, Piece, Place, Turn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

/// What a piece of work is to take, ns: long against a lock, short against what others wait for.
const PIECE: u32 = 20_000;
/// Rows of a piece at most: four tiles.
const MOST_ROWS: usize = 4 * CHUNK;

/// Replicas that are sent and received.
#[derive(Debug)]
pub struct ReplicaQueue {
    replicas: Replicas,
    identity: Identity,
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// What the owner's own pieces show.
    scratch: Batch,
    /// Whether each replica was sent and not yet received.
    under_way: Vec<bool>,
    n_under_way: usize,
}

/// What all threads have.
#[derive(Debug)]
struct Shared {
    board: Board<Arc<Orders>, Batch>,
    mover: Arc<dyn Mover>,
    /// What moving one replica took of late, ns.
    cost: AtomicU32,
}

impl Shared {
    /// Moves some replicas and leaves what they show on the board.
    fn work(&self, piece: &Piece<Arc<Orders>>, scratch: &mut Batch) {
        let rows = piece.rows.len();
        let began = Instant::now();
        let part =
            Part { orders: &piece.job, rows: piece.rows.clone(), out: scratch.columns(), to: 0 };
        let move_them = || {
            // SAFETY: a piece is given to one thread; a replica is sent once until it is received, which
            // `ReplicaQueue` checks before it posts; the scratch is this thread's.
            unsafe { self.mover.advance(&part) };
        };
        if let Err(payload) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move_them)) {
            // Dropping it could panic again, and who receives would wait for ever.
            std::mem::forget(payload);
            return self.board.give_up();
        }
        let took = began.elapsed().as_nanos() as u64 / rows as u64;
        let (took, before) = (took.min(u64::from(PIECE)) as u32, self.cost.load(Ordering::Relaxed));
        self.cost
            .store(if before == 0 { took } else { (before * 7 + took) / 8 }, Ordering::Relaxed);
        self.board.deliver(rows, |ring, Place { first, rows }| {
            let size = ring.rows();
            let before_end = rows.min(size - first);
            ring.copy_rows(first, scratch, 0..before_end);
            ring.copy_rows(0, scratch, before_end..rows);
        });
    }

    /// Rows of a piece: as many as take about as long as a piece is to take.
    fn piece(&self, rows: usize, threads: usize) -> usize {
        let cost = self.cost.load(Ordering::Relaxed).max(1);
        let most = ((PIECE / cost) as usize).clamp(1, MOST_ROWS);
        most.min(rows.div_ceil(threads + 1)).max(1)
    }
}

impl ReplicaQueue {
    /// Lets `replicas` be sent and received. Threads are those of their options.
    ///
    /// # Errors
    /// Too little memory.
    pub fn new(replicas: Replicas) -> Result<Self> {
        let n = replicas.options().seeds.len();
        let board = Board::new(replicas.new_batch(n)?, n);
        let shared = Shared { board, mover: Arc::clone(&replicas.mover), cost: AtomicU32::new(0) };
        let shared = Arc::new(shared);
        let scratch = replicas.new_batch(MOST_ROWS)?;
        let n_workers = thread_count(replicas.options().threads);
        // Before threads are there that an error would leave behind.
        let scratches = (0..n_workers).map(|_| replicas.new_batch(MOST_ROWS));
        let scratches = scratches.collect::<Result<Vec<_>>>()?;
        let mut workers = Vec::new();
        for (index, mut scratch) in scratches.into_iter().enumerate() {
            let shared = Arc::clone(&shared);
            let core = replicas.options().core_of(index);
            let serve = move || {
                core.into_iter().for_each(super::options::pin);
                while let Some(piece) = shared.board.next() {
                    shared.work(&piece, &mut scratch);
                }
            };
            let named = std::thread::Builder::new().name(format!("warp-env-{index}"));
            // Who receives does what no thread does, so fewer threads are fine.
            workers.extend(named.spawn(serve).ok());
        }
        let under_way = vec![false; n];
        let identity = replicas.identity();
        Ok(Self { replicas, identity, shared, workers, scratch, under_way, n_under_way: 0 })
    }

    /// Sends replicas off with their actions.
    ///
    /// # Errors
    /// As [`Replicas::step`], a replica that is under way, or replicas that were exchanged for others (by
    /// [`ReplicaQueue::replicas_mut`]); nothing has been sent then.
    pub fn send(&mut self, mut orders: Orders) -> Result<()> {
        self.replicas.check_identity(&self.identity)?;
        self.check_idle(&orders.ids)?;
        self.replicas.check_orders(&mut orders)?;
        let rows = orders.ids.len();
        if rows == 0 {
            return Ok(());
        }
        orders.ids.iter().for_each(|id| self.under_way[*id as usize] = true);
        self.n_under_way += rows;
        let piece = self.shared.piece(rows, self.workers.len());
        self.shared.board.post(Arc::new(orders), rows, piece);
        Ok(())
    }

    /// Waits for the `rows` replicas that are finished first and shows them in `batch`, in that order.
    ///
    /// # Errors
    /// More rows than are under way, a batch that is too small or was made by others, or a body that
    /// panicked.
    pub fn recv(&mut self, rows: usize, batch: &mut Batch) -> Result<()> {
        if rows > self.n_under_way {
            return Err(Error::TooFewUnderWay { wanted: rows, under_way: self.n_under_way });
        }
        self.replicas.check_batch(rows, batch)?;
        loop {
            let turn = self.shared.board.take(rows, |ring, Place { first, rows }| {
                let before_end = rows.min(ring.rows() - first);
                batch.copy_rows(0, ring, first..first + before_end);
                batch.copy_rows(before_end, ring, 0..rows - before_end);
            });
            match turn {
                Turn::Taken => break,
                Turn::Help(piece) => self.shared.work(&piece, &mut self.scratch),
                Turn::Broken => return Err(Error::Panicked),
            }
        }
        for id in &batch.env_ids()[..rows] {
            self.under_way[*id as usize] = false;
        }
        self.n_under_way -= rows;
        Ok(())
    }

    /// How many replicas were sent and not yet received.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.n_under_way
    }

    /// Room for what `rows` replicas show.
    ///
    /// # Errors
    /// Too little memory.
    pub fn new_batch(&self, rows: usize) -> Result<Batch> {
        self.replicas.new_batch(rows)
    }

    /// The replicas, to be stepped and changed, while none is in flight.
    ///
    /// # Errors
    /// A replica that is.
    pub fn replicas_mut(&mut self) -> Result<&mut Replicas> {
        match self.under_way.iter().position(|under_way| *under_way) {
            Some(replica) => Err(Error::UnderWay { replica }),
            None => Ok(&mut self.replicas),
        }
    }

    /// Makes replicas that are not in flight begin an episode when they are next stepped.
    ///
    /// # Errors
    /// A replica that is under way, or does not exist.
    pub fn mark_new(&mut self, ids: &[u32]) -> Result<()> {
        self.check_idle(ids)?;
        self.replicas.mark_new(ids)
    }

    fn check_idle(&self, ids: &[u32]) -> Result<()> {
        let is_under_way = |id: &&u32| self.under_way.get(**id as usize).is_some_and(|sent| *sent);
        match ids.iter().find(is_under_way) {
            Some(id) => Err(Error::UnderWay { replica: *id as usize }),
            None => Ok(()),
        }
    }
}

impl Drop for ReplicaQueue {
    fn drop(&mut self) {
        self.shared.board.close();
        for worker in self.workers.drain(..) {
            // What panicked was told to who received.
            let _ = worker.join();
        }
    }
}

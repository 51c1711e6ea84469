//! A small thread pool: tasks are handed to all threads at once, without a lock and without an
//! allocation, because a step of a thousand small environments takes microseconds.
//!
//! Tasks are claimed one by one, so a thread that the system has put aside delays nobody: the
//! others do its share, and only claimed tasks are waited for. `model.rs` has loom try every order in
//! which two threads can go through a round.
#![expect(unsafe_code, reason = "lends a borrowed closure to threads that outlive the borrow")]

#[cfg(all(test, loom))]
mod model;
mod sync;

use sync::{
    Arc, AtomicBool, AtomicU64, AtomicUsize, Builder, JoinHandle, Ordering, SPINS, Thread,
    UnsafeCell, park, yield_now,
};

/// Cores that the system gives this process, at least 1.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The number of threads that `threads` means: 0 is one per core.
#[must_use]
pub fn thread_count(threads: usize) -> usize {
    if threads == 0 { cores() } else { threads }
}

type Job = *const (dyn Fn(usize) + Sync);

struct Shared {
    /// The round (upper half), the next task and the number of tasks (a quarter each), in one word
    /// so that a claim can't mix two rounds.
    claims: AtomicU64,
    job: UnsafeCell<Option<Job>>,
    /// Tasks of this round that have been finished.
    finished: AtomicUsize,
    panicked: AtomicBool,
    stop: AtomicBool,
}

// SAFETY: `job` is written by the owner only between rounds, when every task has been finished, and
// read only by who has claimed a task, which the owner then waits for.
unsafe impl Sync for Shared {}
// SAFETY: the job pointer is only followed while the owner waits in `run` (see there).
unsafe impl Send for Shared {}

impl Shared {
    /// Claims the next task of the current round.
    fn claim(&self) -> Option<usize> {
        let mut word = self.claims.load(Ordering::Acquire);
        loop {
            let (next, n) = (word >> 16 & 0xffff, word & 0xffff);
            if next >= n {
                return None;
            }
            let claimed = word + (1 << 16);
            match self.claims.compare_exchange_weak(
                word,
                claimed,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(next as usize),
                Err(now) => word = now,
            }
        }
    }

    /// Runs tasks until none is left.
    fn work(&self) {
        while let Some(task) = self.claim() {
            // SAFETY: a claimed task keeps the owner in `run`, so the job is the one that the task
            // belongs to and still lives; the Acquire in `claim` makes its write visible.
            let job = self.job.with(|job| unsafe { (*job).map(|job| &*job) });
            let run = || {
                if let Some(job) = job {
                    job(task)
                }
            };
            if let Err(payload) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
                // The payload is somebody's type, which may panic when it is dropped; nobody may
                // leave here before the task counts as finished.
                std::mem::forget(payload);
                self.panicked.store(true, Ordering::Relaxed);
            }
            self.finished.fetch_add(1, Ordering::Release);
        }
    }
}

/// The threads; the owner's is one of them.
pub struct ThreadPool {
    shared: Arc<Shared>,
    workers: Vec<(Thread, Option<JoinHandle<()>>)>,
}

impl std::fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadPool").field("threads", &(self.workers.len() + 1)).finish()
    }
}

impl ThreadPool {
    /// A thread pool of `size` threads, the caller's included; fewer if the system refuses some.
    pub fn new(size: usize) -> Self {
        Self::starting(size, |_| {})
    }

    /// As [`ThreadPool::new`]; each thread but the caller's begins with `start`, given its number from 1.
    pub fn starting(size: usize, start: impl Fn(usize) + Send + Sync + 'static) -> Self {
        Self::beginning_with(size, Box::new(start))
    }

    /// As [`ThreadPool::starting`], compiled once for any `start`.
    fn beginning_with(size: usize, start: Box<dyn Fn(usize) + Send + Sync>) -> Self {
        let start = Arc::new(start);
        let shared = Arc::new(Shared {
            claims: AtomicU64::new(0),
            job: UnsafeCell::new(None),
            finished: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let mut workers = Vec::new();
        for index in 1..size.max(1) {
            let shared = Arc::clone(&shared);
            let (name, start) = (format!("warp-{index}"), Arc::clone(&start));
            let begin = move || {
                start(index);
                serve(&shared);
            };
            match Builder::new().name(name).spawn(begin) {
                Ok(handle) => workers.push((handle.thread().clone(), Some(handle))),
                Err(_) => break,
            }
        }
        Self { shared, workers }
    }

    /// Runs `job(0..n_tasks)`, each once, and returns when all have finished.
    ///
    /// # Panics
    /// If the job panicked, on whichever thread; or for 65,536 tasks or more.
    pub fn run(&mut self, n_tasks: usize, job: &(dyn Fn(usize) + Sync)) {
        // A lone task is not worth waking anyone.
        if self.workers.is_empty() || n_tasks <= 1 {
            return (0..n_tasks).for_each(job);
        }
        assert!(n_tasks < 1 << 16, "a round has fewer tasks");
        // SAFETY: only the lifetime is changed. The pointer is followed for claimed tasks only, and
        // this function returns after all tasks have been finished.
        let erased: Job = unsafe {
            std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(job)
        };
        // SAFETY: all tasks of the last round are finished, so nobody reads the cell.
        self.shared.job.with_mut(|job| unsafe { *job = Some(erased) });
        self.shared.finished.store(0, Ordering::Relaxed);
        let round = (self.shared.claims.load(Ordering::Relaxed) >> 32).wrapping_add(1);
        self.shared.claims.store(round << 32 | n_tasks as u64, Ordering::Release);
        for (thread, _) in &self.workers {
            thread.unpark();
        }
        self.shared.work();
        let mut spins = 0_u32;
        while self.shared.finished.load(Ordering::Acquire) != n_tasks {
            // Saturating, since a panic here would leave workers with a job that is gone.
            spins = spins.saturating_add(1);
            if spins < SPINS { std::hint::spin_loop() } else { yield_now() }
        }
        assert!(!self.shared.panicked.swap(false, Ordering::Relaxed), "a task panicked");
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let round = (self.shared.claims.load(Ordering::Relaxed) >> 32).wrapping_add(1);
        self.shared.claims.store(round << 32, Ordering::Release);
        for (thread, handle) in &mut self.workers {
            thread.unpark();
            if let Some(handle) = handle.take() {
                // Tasks' panics are caught, so there is nothing to learn from the result.
                let _ = handle.join();
            }
        }
    }
}

fn serve(shared: &Shared) {
    let mut seen = 0;
    loop {
        let mut spins = 0_u32;
        let round = loop {
            let round = shared.claims.load(Ordering::Acquire) >> 32;
            if round != seen {
                break round;
            }
            spins = spins.saturating_add(1);
            // An `unpark` that comes before `park` is kept, so no round is slept through.
            if spins < SPINS { std::hint::spin_loop() } else { park() }
        };
        seen = round;
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        shared.work();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_task_of_every_round_runs_once() {
        let mut thread_pool = ThreadPool::new(3);
        let sum = AtomicU64::new(0);
        for round in 0..1_000 {
            thread_pool.run(5, &|task| {
                sum.fetch_add(round * 10 + task as u64, Ordering::Relaxed);
            });
        }
        assert_eq!(sum.load(Ordering::Relaxed), 5 * 10 * 499_500 + 10 * 1_000);
    }

    #[test]
    fn sleepers_wake_up_and_panics_are_reported() {
        let mut thread_pool = ThreadPool::new(2);
        std::thread::sleep(std::time::Duration::from_millis(20));
        let count = AtomicU64::new(0);
        thread_pool.run(2, &|_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.load(Ordering::Relaxed), 2);
        let bad = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            thread_pool.run(2, &|task| assert_eq!(task, 0, "only the first is fine"));
        }));
        assert!(bad.is_err());
    }
    #[test]
    fn all_tasks_finish_even_if_a_panic_can_not_be_dropped() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("nobody drops this");
            }
        }
        let mut thread_pool = ThreadPool::new(3);
        let finished = AtomicUsize::new(0);
        let bad = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            thread_pool.run(8, &|task| {
                if task % 2 == 0 {
                    std::panic::panic_any(Bomb);
                }
                std::thread::sleep(std::time::Duration::from_millis(30));
                finished.fetch_add(1, Ordering::Relaxed);
            });
        }));
        // Nobody may use `finished` once `run` has let go of it.
        assert_eq!(finished.load(Ordering::Relaxed), 4);
        let said = bad.unwrap_err();
        assert_eq!(said.downcast_ref::<&str>(), Some(&"a task panicked"));
    }
}

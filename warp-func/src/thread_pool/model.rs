//! The hand-over of a job, tried by loom in every order of the threads' steps, under the memory
//! model of Rust: `cargo xtask loom`.

use super::ThreadPool;
use loom::cell::UnsafeCell;

/// What a task owns; loom says if two threads are ever at it without an order between them.
struct Places(Vec<UnsafeCell<u32>>);

// SAFETY: loom's cells check every access.
unsafe impl Sync for Places {}

impl Places {
    fn new(n: usize) -> Self {
        Self((0..n).map(|_| UnsafeCell::new(0)).collect())
    }

    fn add(&self, task: usize, number: u32) {
        // SAFETY: loom has checked that nobody else is at it.
        self.0[task].with_mut(|place| unsafe { *place += number });
    }

    fn take(&mut self) -> Vec<u32> {
        // SAFETY: as above.
        let take =
            |place: &UnsafeCell<u32>| place.with_mut(|at| unsafe { std::mem::take(&mut *at) });
        self.0.iter().map(take).collect()
    }
}

fn check(threads: usize, rounds: &'static [usize]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let mut thread_pool = ThreadPool::new(threads);
        let mut places = Places::new(3);
        for n_tasks in rounds {
            // The owner writes before a round and reads after it, tasks write in between.
            places.add(0, 10);
            thread_pool.run(*n_tasks, &|task| places.add(task, 1));
            let expected: Vec<u32> = (0..3)
                .map(|task| u32::from(task < *n_tasks) + if task == 0 { 10 } else { 0 })
                .collect();
            assert_eq!(places.take(), expected);
        }
    });
}

#[test]
fn two_threads_run_every_task_once_in_every_order() {
    check(2, &[2, 3]);
}

#[test]
fn three_threads_run_every_task_once_in_every_order() {
    check(3, &[2]);
}

#[test]
fn a_panic_reaches_the_owner_when_all_have_finished() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let mut thread_pool = ThreadPool::new(2);
        let mut places = Places::new(2);
        let run = std::panic::AssertUnwindSafe(|| {
            thread_pool.run(2, &|task| {
                places.add(task, 1);
                assert_eq!(task, 1, "the first one panics");
            });
        });
        assert!(std::panic::catch_unwind(run).is_err());
        assert_eq!(places.take(), [1, 1]);
    });
}

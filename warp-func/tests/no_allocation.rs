//! The step path allocates nothing: shown with an allocator that counts. A binary of its own with a
//! single test on the main thread, so that nobody else allocates meanwhile: libtest's main thread does
//! when it begins to wait for its test, which may be late.
#![expect(unsafe_code, reason = "a counting allocator stands in front of the system's")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod worlds;

use libtest_mimic::{Arguments, Trial};
use std::alloc::{GlobalAlloc, Layout, System};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use warp_core::Env;
use warp_func::{Start, VecEnv, VecOptions};
use worlds::crowd::{Crowd, CrowdConfig};
use worlds::scalars::{Cart, Glide, RoadConfig, Slip};

fn main() -> ExitCode {
    let test = Trial::test("steps_and_restarts_allocate_nothing", || {
        steps_and_restarts_allocate_nothing();
        Ok(())
    });
    let one_thread = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&one_thread, vec![test]).exit_code()
}

/// Calls of the allocator, by whichever thread.
static CALLS: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the caller's promises are `System`'s conditions.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        CALLS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Calls of the allocator during `work`.
fn calls(work: impl FnOnce()) -> u64 {
    let before = CALLS.load(Ordering::SeqCst);
    work();
    CALLS.load(Ordering::SeqCst) - before
}

/// Steps with actions that vary from step to step, written without an allocation; returns how many
/// episodes ended.
fn steps(envs: &mut dyn VecEnv, sizes: &[Vec<i32>], n: i32) -> usize {
    let mut ended = 0;
    for step in 0..n {
        for (g, sizes) in sizes.iter().enumerate() {
            if sizes.is_empty() {
                let push = (step % 3) as f32 * 0.25 - 0.2;
                envs.actions_mut(g).unwrap().continuous().fill(push);
                continue;
            }
            let actions = envs.actions_mut(g).unwrap().discrete().iter_mut();
            for (i, (action, size)) in actions.zip(sizes.iter().cycle()).enumerate() {
                *action = (i as i32 + step) / 3 % size;
            }
        }
        assert!(envs.step().is_ok());
        let (ids, store) = (envs.ids(), envs.store());
        let flags = store.slice::<u8>(ids.terminated).iter().zip(store.slice::<u8>(ids.truncated));
        ended += flags.filter(|(a, b)| **a | **b != 0).count();
    }
    ended
}

fn allocates_nothing<E: Env>(config: &E::Config) {
    for (threads, start) in [(1, Start::Fresh), (2, Start::Fresh), (2, Start::Pool)] {
        let options = VecOptions { n_envs: 200, threads, start, ..VecOptions::default() };
        let mut envs = worlds::make_with::<E>(config, options);
        let heads = |group: &warp_core::GroupSpec| {
            group.action.head_sizes().iter().map(|n| *n as i32).collect()
        };
        let sizes: Vec<Vec<i32>> = envs.spec().groups.iter().map(heads).collect();
        steps(&mut envs, &sizes, 50);
        let mut ended = 0;
        // A thread allocates when it starts, and may start late; what steps allocate, all rounds have.
        let rounds = if threads > 1 { 5 } else { 1 };
        let least = (0..rounds).map(|_| calls(|| ended = steps(&mut envs, &sizes, 500))).min();
        assert!(ended > 1000, "{} ended only {ended} episodes", E::NAME);
        let what = format!("{} with {threads} threads, {start:?} and {ended} restarts", E::NAME);
        assert_eq!(least, Some(0), "{what}");
    }
}

fn steps_and_restarts_allocate_nothing() {
    assert!(calls(|| drop(std::hint::black_box(vec![1u8; 100]))) >= 2, "the allocator counts");
    allocates_nothing::<Cart>(&RoadConfig::default());
    allocates_nothing::<Slip>(&RoadConfig::default());
    allocates_nothing::<Glide>(&RoadConfig::default());
    allocates_nothing::<Crowd>(&CrowdConfig::default());
}

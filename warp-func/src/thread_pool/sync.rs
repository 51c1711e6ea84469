//! The threads and atomics that the thread pool is made of: the standard library's, or loom's, which runs
//! a test once for every order that the threads' steps can take.

#[cfg(loom)]
pub(super) use loom::{
    cell::UnsafeCell,
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    thread::{Builder, JoinHandle, Thread, park, yield_now},
};
#[cfg(not(loom))]
pub(super) use std::{
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    thread::{Builder, JoinHandle, Thread, park, yield_now},
};

/// Rounds of waiting in a loop before a thread goes to sleep.
pub(super) const SPINS: u32 = if cfg!(loom) { 0 } else { 4_000 };

/// A cell that is reached as loom's is.
#[cfg(not(loom))]
pub(super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(super) fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }
    #[inline(always)]
    pub(super) fn with<R>(&self, work: impl FnOnce(*const T) -> R) -> R {
        work(self.0.get())
    }
    #[inline(always)]
    pub(super) fn with_mut<R>(&self, work: impl FnOnce(*mut T) -> R) -> R {
        work(self.0.get())
    }
}

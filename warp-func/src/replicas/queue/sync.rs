//! The locks and threads that the queue is made of: the standard library's, or loom's, which runs a test
//! once for every order that the threads' steps can take.

#[cfg(all(test, loom))]
pub(super) use loom::sync::Arc;
#[cfg(loom)]
pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};

/// Locks, whoever has panicked meanwhile: what is locked here is changed in single steps.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Sleeps until somebody says that something has changed.
pub(super) fn wait<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    changed.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner())
}

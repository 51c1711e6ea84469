//! What an object of Python's holds until it is closed, in the process that made it.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// A value with threads or a device behind it: no process that is forked has those.
#[derive(Debug)]
pub(super) struct Held<T> {
    /// None once it is closed.
    value: Option<T>,
    /// Who made it.
    process: u32,
}

impl<T> Held<T> {
    pub(super) fn new(value: T) -> Self {
        Self { value: Some(value), process: std::process::id() }
    }

    /// Says whether the value can be used.
    ///
    /// Raises RuntimeError in a process that was forked, and once it is closed.
    pub(super) fn check(&self) -> PyResult<()> {
        if self.process != std::process::id() {
            return Err(PyRuntimeError::new_err(
                "these environments were created before this process was forked: create new ones \
                 here",
            ));
        }
        self.open().map(|_| ())
    }

    /// The value; RuntimeError once it is closed. `check` comes first, for asking whose process this is takes time.
    pub(super) fn open(&self) -> PyResult<&T> {
        self.value.as_ref().ok_or_else(closed)
    }

    /// What is held, to be changed.
    pub(super) fn open_mut(&mut self) -> PyResult<&mut T> {
        self.value.as_mut().ok_or_else(closed)
    }

    /// Lets go of the value.
    pub(super) fn close(&mut self) {
        let value = self.value.take();
        if self.process != std::process::id() {
            // Its threads, or its context of CUDA's, were not forked, and nobody can wait for them.
            std::mem::forget(value);
        }
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        self.close();
    }
}

fn closed() -> PyErr {
    PyRuntimeError::new_err("these environments are closed")
}

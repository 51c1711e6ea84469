//! The use of an object of Python's by one call at a time.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::False;
use pyo3::{PyClass, PyClassGuardMut};
use std::ops::{Deref, DerefMut};

/// An object that a method has to itself while it runs, as `&mut self` has, of which PyO3 would say no more than
/// "Already borrowed" to others.
pub(super) struct Sole<'a, T: PyClass<Frozen = False>>(PyClassGuardMut<'a, T>);

impl<'a, 'py, T: PyClass<Frozen = False>> TryFrom<&'a Bound<'py, T>> for Sole<'a, T> {
    type Error = PyErr;

    fn try_from(object: &'a Bound<'py, T>) -> PyResult<Self> {
        PyClassGuardMut::try_from(object).map(Self).map_err(|_| {
            PyRuntimeError::new_err(
                "these environments are in use by another call, which has not returned: only one \
                 thread at a time may use them, so share a lock or create some for each thread",
            )
        })
    }
}

impl<T: PyClass<Frozen = False>> Deref for Sole<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: PyClass<Frozen = False>> DerefMut for Sole<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

//! What knows Python: everything in this folder, and nothing outside it.
//!
//! `pool` is replicas as a Python object, `held` how long it has them, `sole` who uses it, `engine` how they are moved,
//! `slot` the memory that a step shows itself in and `array` NumPy's arrays over it; `actions`, `numbers` and `options`
//! read what Python hands over, `config` and `describe` translate configurations and spaces. `cuda` is replicas on a
//! GPU, `picture` draws them. `training` and `policy` are runs, `foreign` is environments in Python that are trained in,
//! `xla` environments in programs of JAX, `command` is the command line.

mod actions;
mod array;
mod command;
mod config;
#[cfg(feature = "cuda")]
mod cuda;
mod describe;
mod engine;
mod foreign;
mod held;
mod numbers;
mod options;
mod picture;
mod policy;
mod pool;
mod slot;
mod sole;
mod state;
mod training;
mod xla;

use pyo3::PyErr;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// Letters of a value in an error at most, as `_checks.py` has them.
const WIDEST: usize = 200;

/// A value in an error, no longer than is of use.
fn shortened(value: &str) -> String {
    match value.char_indices().nth(WIDEST) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.to_string(),
    }
}

/// An error of the framework as Python's.
fn raised(mut error: warp_func::Error) -> PyErr {
    use warp_core::Error as Core;
    use warp_func::Error;
    if let Error::Core(Core::WrongType { value, .. } | Core::InvalidValue { value, .. })
    | Error::InvalidOption { value, .. } = &mut error
    {
        *value = shortened(value);
    }
    match error {
        Error::UnderWay { .. } | Error::TooFewUnderWay { .. } | Error::Panicked => {
            PyRuntimeError::new_err(error.to_string())
        }
        Error::InvalidAction { replica, action, space, .. } => {
            let reason =
                format!("actions hold {action} for environment {replica}, which is not in {space}");
            PyValueError::new_err(reason)
        }
        _ => PyValueError::new_err(error.to_string()),
    }
}

/// The native half of `warp_rl`.
#[pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use super::array::Frame;
    #[pymodule_export]
    use super::command::command;
    #[cfg(feature = "cuda")]
    #[pymodule_export]
    use super::cuda::{CudaBuffer, CudaPool};
    #[pymodule_export]
    use super::describe::{describe, names};
    #[pymodule_export]
    use super::picture::Picture;
    #[pymodule_export]
    use super::policy::Policy;
    #[pymodule_export]
    use super::pool::Pool;
    #[pymodule_export]
    use super::training::train;
    #[pymodule_export]
    use super::xla::{xla_number, xla_targets};
}

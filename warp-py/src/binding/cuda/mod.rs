//! Environments on a GPU: `pool` moves them, `buffer` is what is shown of them, `dlpack` how tensors are handed over,
//! `given` takes arrays that lie on the GPU, `envs` is environments in Python that are trained in there, `streams` orders work with that of other libraries.

mod buffer;
mod dlpack;
mod envs;
mod given;
mod pool;
mod streams;

pub(super) use buffer::CudaBuffer;
pub(super) use envs::PythonStepper;
pub(super) use pool::{CudaPool, is_now};

use super::raised;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use warp_func::cuda::{Device, Kernels};

/// The GPUs that were asked for, each with its compiled kernels. A process has one stream on each.
static OPENED: Mutex<BTreeMap<usize, Kernels>> = Mutex::new(BTreeMap::new());

/// GPU number `ordinal`.
fn kernels(ordinal: usize) -> PyResult<Kernels> {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kernels) = opened.get(&ordinal) {
        return Ok(kernels.clone());
    }
    let device = Device::open(ordinal).map_err(|error| raised(error.into()))?;
    let kernels = Kernels::new(&device);
    opened.insert(ordinal, kernels.clone());
    Ok(kernels)
}

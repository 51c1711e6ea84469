//! Environments in Python whose arrays lie on the GPU, as ones that policies are trained in there.
//!
//! Python's half (`_foreign.py`) hands over whatever they hold; actions are handed out and answers taken by DLPack, in
//! the order of the streams, so that nobody waits for the GPU.

use super::super::array::Dtype;
use super::super::foreign::{Raised, action_shape};
use super::buffer::CudaBuffer;
use super::given::take_array;
use pyo3::prelude::*;
use pyo3::types::PyAny;
use warp_core::{DType, EnvSpec};
use warp_func::cuda::{Device, DeviceArray, GivenArray, Moved, Stepper};
use warp_func::{Error, Result};

/// Environments that Python steps on the GPU.
#[derive(Debug)]
pub(in super::super) struct PythonStepper {
    pub(in super::super) envs: Py<PyAny>,
    pub(in super::super) device: Device,
    pub(in super::super) spec: EnvSpec,
    pub(in super::super) raised: Raised,
}

impl PythonStepper {
    /// Does `work` with Python's lock, and keeps what is raised.
    fn attach<T>(&self, work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
        Python::attach(work).map_err(|error| self.raised.keep(error))
    }

    fn advance(&self, py: Python<'_>, actions: &DeviceArray) -> PyResult<Moved> {
        // Ctrl-C.
        py.check_signals()?;
        // Whole numbers of 64 bits are two words each.
        let dtype = if actions.dtype() == DType::F32 { Dtype::F32 } else { Dtype::I64 };
        let shape = action_shape(&self.spec, actions.shape()[0]);
        let buffer = Py::new(py, CudaBuffer::new(actions.clone(), dtype, shape))?;
        let shown = self.envs.call_method1(py, "step", (buffer,))?;
        let [obs, reward, terminated, truncated, last]: [Bound<'_, PyAny>; 5] =
            shown.bind(py).extract()?;
        let take = |name: &str, value: &Bound<'_, PyAny>| take_array(&self.device, name, value);
        Ok(Moved {
            obs: take("obs", &obs)?,
            reward: take("reward", &reward)?,
            terminated: take("terminated", &terminated)?,
            truncated: take("truncated", &truncated)?,
            final_obs: match last.is_none() {
                true => None,
                false => Some(take("final_obs", &last)?),
            },
        })
    }
}

impl Stepper for PythonStepper {
    fn reset(&mut self, seed: u64) -> Result<GivenArray> {
        self.attach(|py| {
            let obs = self.envs.call_method1(py, "reset", (seed,))?;
            take_array(&self.device, "obs", obs.bind(py))
        })
    }

    fn step(&mut self, actions: &DeviceArray) -> std::result::Result<Moved, Error> {
        self.attach(|py| self.advance(py, actions))
    }
}

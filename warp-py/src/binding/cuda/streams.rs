//! Order with streams of other libraries, which are numbers to Python.
#![expect(unsafe_code, reason = "streams of other libraries have handles that they say")]

use super::super::raised;
use pyo3::prelude::*;
use warp_func::cuda::Device;

/// Lets what is put on `stream` from now on wait for what is on the device's.
pub(super) fn make_stream_wait(device: &Device, stream: u64) -> PyResult<()> {
    // SAFETY: whoever calls from Python names a stream of this GPU that lives, as DLPack asks.
    unsafe { device.make_stream_wait(stream) }.map_err(|error| raised(error.into()))
}

/// Lets what is put on the device's stream from now on wait for what is on `stream`.
pub(super) fn wait_for_stream(device: &Device, stream: u64) -> PyResult<()> {
    // SAFETY: as in `lead`.
    unsafe { device.wait_for_stream(stream) }.map_err(|error| raised(error.into()))
}

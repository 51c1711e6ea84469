//! Launches recorded once and replayed as one: a launch then costs half a microsecond.
#![expect(unsafe_code, reason = "handles the driver's graphs")]

use crate::error::{Error, Result};
use warp_data::cuda::Device;
use warp_data::cuda::cudarc::driver::{DriverError, result, sys};

/// Launches that are replayed in the order in which they were recorded.
#[derive(Debug)]
pub struct Graph {
    device: Device,
    graph: sys::CUgraph,
    executable: sys::CUgraphExec,
}

// SAFETY: the handles are used by one thread at a time, through `&mut self`, with the context made
// current.
unsafe impl Send for Graph {}

impl Graph {
    /// Records what `work` launches on the device's stream; nothing runs yet. What the kernels were
    /// passed is recorded with them: arrays must outlive the graph.
    ///
    /// # Errors
    /// What `work` returns, or work that can't be recorded (waiting, allocating, copying from the
    /// host).
    pub fn capture(device: &Device, work: impl FnOnce() -> Result<()>) -> Result<Self> {
        device.bind()?;
        let stream = device.stream().cu_stream();
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives as long as the device, and the capture is ended below.
        unsafe { result::stream::begin_capture(stream, mode) }.map_err(failed)?;
        let worked = work();
        // SAFETY: the capture was begun above.
        let graph = unsafe { result::stream::end_capture(stream) };
        worked?;
        let graph = graph.map_err(failed)?;
        // SAFETY: the graph was just recorded.
        let executable =
            unsafe { result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) };
        let executable = executable.map_err(|e| {
            // SAFETY: the graph is not used again.
            let _ = unsafe { result::graph::destroy(graph) };
            failed(e)
        })?;
        Ok(Self { device: device.clone(), graph, executable })
    }

    /// Starts all recorded launches and returns at once.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn launch(&mut self) -> Result<()> {
        self.device.bind()?;
        // SAFETY: the executable lives as long as `self`.
        unsafe { result::graph::launch(self.executable, self.device.stream().cu_stream()) }
            .map_err(failed)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // It may still run; nothing can be done about an error here.
        let _ = self.device.synchronize();
        if self.device.bind().is_ok() {
            // SAFETY: both were made by `capture` and are destroyed once.
            unsafe {
                let _ = result::graph::exec_destroy(self.executable);
                let _ = result::graph::destroy(self.graph);
            }
        }
    }
}

fn failed(error: DriverError) -> Error {
    let reason = error.to_string();
    Error::Data(warp_data::Error::Cuda { doing: "recording or replaying launches".into(), reason })
}

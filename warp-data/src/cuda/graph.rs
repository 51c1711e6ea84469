//! Launches recorded once and replayed as one: a launch then costs half a microsecond.
#![expect(unsafe_code, reason = "handles the driver's graphs")]

use super::device::{Device, Kept, device_error};
use crate::error::{Error, Result};
use cudarc::driver::{DriverError, result, sys};
use std::ptr;

/// Launches that are replayed in the order in which they were recorded. What they work on stays
/// alive as long as the graph.
#[derive(Debug)]
pub struct Graph {
    device: Device,
    executable: sys::CUgraphExec,
    _recorded: Recorded,
    _kept: Kept,
}

// SAFETY: the handles are used by one thread at a time, through `&mut self`, with the context made
// current.
unsafe impl Send for Graph {}

impl Graph {
    /// Records what `work` launches on the device's stream; nothing runs yet. However `work` ends,
    /// the stream runs launches again afterwards.
    ///
    /// # Errors
    /// What `work` returns, or work that can't be recorded (waiting, allocating, copying from or to
    /// the host).
    pub fn capture<E: From<Error>>(
        device: &Device,
        work: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<Self, E> {
        let capture = Capture::begin(device)?;
        work()?;
        Ok(capture.finish()?)
    }

    /// Starts all recorded launches and returns at once.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn launch(&mut self) -> Result<()> {
        self.device.bind()?;
        // SAFETY: the executable lives as long as `self`, and so does all that it works on.
        unsafe { result::graph::launch(self.executable, self.device.stream().cu_stream()) }
            .map_err(failed)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // It may still run; nothing can be done about an error here.
        let _ = self.device.synchronize();
        if self.device.bind().is_ok() {
            // SAFETY: made by `Capture::finish`, and destroyed once.
            let _ = unsafe { result::graph::exec_destroy(self.executable) };
        }
    }
}

/// Does each of `works` in turn. While launches are recorded, none of them waits for another's, so that a
/// replay runs them side by side; what is recorded afterwards waits for all of them. They must not touch what
/// another of them writes.
///
/// # Errors
/// The first that a work returns, or a driver that refuses.
pub fn side_by_side<E: From<Error>, W: FnOnce() -> std::result::Result<(), E>>(
    device: &Device,
    works: impl IntoIterator<Item = W>,
) -> std::result::Result<(), E> {
    let Some(before) = last_recorded(device)? else {
        return works.into_iter().try_for_each(|work| work());
    };
    let mut ends = Vec::new();
    for work in works {
        wait_for_recorded(device, &before)?;
        work()?;
        let last = last_recorded(device)?.unwrap_or_default();
        // Several works that record nothing end with the same; launches name what they wait for once.
        let new: Vec<_> = last.into_iter().filter(|node| !ends.contains(node)).collect();
        ends.extend(new);
    }
    // Where there is no work, the order stays what it was.
    Ok(wait_for_recorded(device, if ends.is_empty() { &before } else { &ends })?)
}

/// The launches that the next one to be recorded waits for; none while nothing is recorded.
fn last_recorded(device: &Device) -> Result<Option<Vec<sys::CUgraphNode>>> {
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    let (mut nodes, mut edges, mut n) = (ptr::null(), ptr::null(), 0);
    let (id, graph) = (ptr::null_mut(), ptr::null_mut());
    let stream = device.stream().cu_stream();
    // SAFETY: the stream lives as long as the device; the driver writes to the given places alone.
    let asked = unsafe {
        sys::cuStreamGetCaptureInfo_v3(
            stream,
            &raw mut status,
            id,
            graph,
            &raw mut nodes,
            &raw mut edges,
            &raw mut n,
        )
    };
    asked.result().map_err(failed)?;
    if status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE {
        return Ok(None);
    }
    if n == 0 {
        return Ok(Some(Vec::new()));
    }
    // SAFETY: the driver's array of `n` nodes, which it keeps until the stream records something else.
    Ok(Some(unsafe { std::slice::from_raw_parts(nodes, n) }.to_vec()))
}

/// Has the next launch to be recorded wait for `nodes`.
fn wait_for_recorded(device: &Device, nodes: &[sys::CUgraphNode]) -> Result<()> {
    let flags = sys::CUstreamUpdateCaptureDependencies_flags::CU_STREAM_SET_CAPTURE_DEPENDENCIES;
    let (stream, mut nodes) = (device.stream().cu_stream(), nodes.to_vec());
    // SAFETY: nodes of the graph that this stream records; without data their edges are full ones.
    let said = unsafe {
        sys::cuStreamUpdateCaptureDependencies_v2(
            stream,
            nodes.as_mut_ptr(),
            ptr::null(),
            nodes.len(),
            flags as u32,
        )
    };
    said.result().map_err(failed)
}

/// A stream that records; it stops when this is dropped, by a panic too.
struct Capture<'a> {
    device: &'a Device,
    open: bool,
}

impl<'a> Capture<'a> {
    fn begin(device: &'a Device) -> Result<Self> {
        device.bind()?;
        let mut turn = device.turn();
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives as long as the device, and `end` ends the capture.
        unsafe { result::stream::begin_capture(device.stream().cu_stream(), mode) }
            .map_err(failed)?;
        turn.begin_recording();
        Ok(Self { device, open: true })
    }

    fn finish(mut self) -> Result<Graph> {
        let (recorded, kept) = self.end();
        let recorded = recorded?;
        let flags = sys::CUgraphInstantiate_flags(0);
        // SAFETY: the graph was just recorded.
        let executable =
            unsafe { result::graph::instantiate(recorded.0, flags) }.map_err(failed)?;
        let device = self.device.clone();
        Ok(Graph { device, executable, _recorded: recorded, _kept: kept })
    }

    fn end(&mut self) -> (Result<Recorded>, Kept) {
        self.open = false;
        let mut turn = self.device.turn();
        // SAFETY: the capture was begun by `begin`, on this thread, and is ended once.
        let graph = unsafe { result::stream::end_capture(self.device.stream().cu_stream()) };
        (graph.map(Recorded).map_err(failed), turn.end_recording())
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.open {
            drop(self.end());
        }
    }
}

/// The driver's graph.
#[derive(Debug)]
struct Recorded(sys::CUgraph);

impl Drop for Recorded {
    fn drop(&mut self) {
        // SAFETY: made by `Capture::end`, and destroyed once; nothing can be done about an error.
        let _ = unsafe { result::graph::destroy(self.0) };
    }
}

fn failed(error: DriverError) -> Error {
    device_error("recording or replaying launches", error)
}

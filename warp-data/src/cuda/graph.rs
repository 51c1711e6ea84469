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
    /// Launches that are being recorded, or a driver that refuses.
    pub fn launch(&mut self) -> Result<()> {
        self.device.bind()?;
        let lock = self.device.lock_stream();
        // A graph that records it would not keep alive what this one works on.
        lock.refuse_recording("replaying launches")?;
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
pub fn fork_join<E: From<Error>, W: FnOnce() -> std::result::Result<(), E>>(
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

/// Programmatic dependent launch, while launches are recorded: lets the next one, which must be a kernel, begin as soon as
/// all blocks of the one that it waits for allow it (`griddepcontrol.launch_dependents`) or have ended. Before it reads
/// what that one or those before it write, and before it writes what they read or write, it has to wait for it by itself
/// (`griddepcontrol.wait`). Where it waits for anything but a single kernel, or the GPU or its driver can't do this, it
/// begins after that, as ever.
///
/// # Errors
/// A driver that refuses to say what was recorded.
pub fn programmatic_launch(device: &Device) -> Result<()> {
    let Some(&[before]) = last_recorded(device)?.as_deref() else { return Ok(()) };
    if !device.has_programmatic_launch() || !is_kernel(before)? {
        return Ok(());
    }
    if wait_by_edges(device, &[before], Some(&EARLY)).is_err() {
        device.disable_programmatic_launch();
        return wait_for_recorded(device, &[before]);
    }
    Ok(())
}

/// An edge between kernels of which the second begins early.
static EARLY: sys::CUgraphEdgeData = sys::CUgraphEdgeData {
    from_port: sys::CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC as u8,
    to_port: 0,
    type_: sys::CUgraphDependencyType::CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC as u8,
    reserved: [0; 5],
};
static FULL: sys::CUgraphEdgeData =
    sys::CUgraphEdgeData { from_port: 0, to_port: 0, type_: 0, reserved: [0; 5] };

fn is_kernel(node: sys::CUgraphNode) -> Result<bool> {
    let mut kind = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
    // SAFETY: a node of the graph that is being recorded.
    unsafe { sys::cuGraphNodeGetType(node, &raw mut kind) }.result().map_err(failed)?;
    Ok(kind == sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL)
}

/// Has the next launch to be recorded wait for `nodes`.
fn wait_for_recorded(device: &Device, nodes: &[sys::CUgraphNode]) -> Result<()> {
    wait_by_edges(device, nodes, None)
}

/// Has the next launch to be recorded wait for `nodes`: for the only one by this `edge`; without it, by full ones.
fn wait_by_edges(
    device: &Device,
    nodes: &[sys::CUgraphNode],
    edge: Option<&sys::CUgraphEdgeData>,
) -> Result<()> {
    let flags = sys::CUstreamUpdateCaptureDependencies_flags::CU_STREAM_SET_CAPTURE_DEPENDENCIES;
    let (stream, mut nodes) = (device.stream().cu_stream(), nodes.to_vec());
    // SAFETY: nodes of the graph that this stream records, and as many edges, if any.
    let said = unsafe {
        sys::cuStreamUpdateCaptureDependencies_v2(
            stream,
            nodes.as_mut_ptr(),
            edge.map_or(ptr::null(), ptr::from_ref),
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
        let mut lock = device.lock_stream();
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives as long as the device, and `end` ends the capture.
        unsafe { result::stream::begin_capture(device.stream().cu_stream(), mode) }
            .map_err(failed)?;
        lock.begin_recording();
        Ok(Self { device, open: true })
    }

    fn finish(mut self) -> Result<Graph> {
        let (recorded, kept) = self.end();
        let recorded = recorded?;
        let executable = match recorded.executable() {
            // It may be that the driver has no kernels begin early: then all begin after those that they wait for.
            Err(_) if recorded.replace_early_edges()? => {
                let executable = recorded.executable()?;
                self.device.disable_programmatic_launch();
                executable
            }
            made => made?,
        };
        let device = self.device.clone();
        Ok(Graph { device, executable, _recorded: recorded, _kept: kept })
    }

    fn end(&mut self) -> (Result<Recorded>, Kept) {
        self.open = false;
        let mut lock = self.device.lock_stream();
        // SAFETY: the capture was begun by `begin`, on this thread, and is ended once.
        let graph = unsafe { result::stream::end_capture(self.device.stream().cu_stream()) };
        (graph.map(Recorded).map_err(failed), lock.end_recording())
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

/// Edges of a graph, as the driver lists them.
struct Edges {
    from: Vec<sys::CUgraphNode>,
    to: Vec<sys::CUgraphNode>,
    kinds: Vec<sys::CUgraphEdgeData>,
}

impl Recorded {
    fn executable(&self) -> Result<sys::CUgraphExec> {
        let flags = sys::CUgraphInstantiate_flags(0);
        // SAFETY: the graph was recorded, and lives as long as `self`.
        unsafe { result::graph::instantiate(self.0, flags) }.map_err(failed)
    }

    /// Replaces the edges of [`programmatic_launch`] by full ones; false if there are none.
    fn replace_early_edges(&self) -> Result<bool> {
        let Edges { from, to, kinds } = self.edges()?;
        let mut replaced = false;
        for i in (0..kinds.len()).filter(|i| kinds[*i] == EARLY) {
            let (from, to) = (&raw const from[i], &raw const to[i]);
            // SAFETY: an edge of this graph, which is replaced by another between the same nodes.
            unsafe {
                sys::cuGraphRemoveDependencies_v2(self.0, from, to, &raw const EARLY, 1)
                    .result()
                    .map_err(failed)?;
                sys::cuGraphAddDependencies_v2(self.0, from, to, &raw const FULL, 1)
                    .result()
                    .map_err(failed)?;
            }
            replaced = true;
        }
        Ok(replaced)
    }

    fn edges(&self) -> Result<Edges> {
        // The driver says how many there are only where there is room for more.
        let mut room = 4096;
        loop {
            let (mut from, mut to) = (vec![ptr::null_mut(); room], vec![ptr::null_mut(); room]);
            let (mut kinds, mut n) = (vec![FULL; room], room);
            let (froms, tos) = (from.as_mut_ptr(), to.as_mut_ptr());
            // SAFETY: the driver writes at most `n` edges, for which there is room.
            unsafe {
                sys::cuGraphGetEdges_v2(self.0, froms, tos, kinds.as_mut_ptr(), &raw mut n)
                    .result()
                    .map_err(failed)?;
            }
            if n < room {
                from.truncate(n);
                to.truncate(n);
                kinds.truncate(n);
                return Ok(Edges { from, to, kinds });
            }
            room *= 2;
        }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        // SAFETY: made by `Capture::end`, and destroyed once; nothing can be done about an error.
        let _ = unsafe { result::graph::destroy(self.0) };
    }
}

fn failed(error: DriverError) -> Error {
    device_error("recording or replaying launches", error)
}

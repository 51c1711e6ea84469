//! Pinned memory of the host through which arrays on another library's stream go down and come up.
#![expect(
    unsafe_code,
    reason = "copies between memory that other libraries name and memory that the driver pins"
)]

use super::call::Failure;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};
use warp_data::cuda::cudarc::driver::{DriverError, sys};

type Result<T> = std::result::Result<T, Failure>;

/// Memory that was used, for whoever needs some next.
static KEPT: Mutex<Vec<Staging>> = Mutex::new(Vec::new());
/// As many pieces are kept; calls that come one after another need two.
const MOST_KEPT: usize = 8;

/// An array on a GPU, and where it is in the memory of a [`Staging`].
#[derive(Debug, Clone)]
pub(super) struct Passage {
    /// Its address on the GPU.
    pub(super) address: u64,
    /// Its bytes here.
    pub(super) bytes: Range<usize>,
}

/// A stream of another library's, made current with its context while this lives.
#[derive(Debug)]
pub(super) struct ForeignStream {
    stream: sys::CUstream,
    context: sys::CUcontext,
}

/// Pinned memory, and when a GPU is done with it.
#[derive(Debug)]
pub(super) struct Staging {
    memory: NonNull<u8>,
    len: usize,
    context: sys::CUcontext,
    used: sys::CUevent,
}

// SAFETY: memory and event belong to their only owner; the driver takes both from any thread.
unsafe impl Send for Staging {}

impl ForeignStream {
    /// The stream of this handle; its context is the calling thread's until this is dropped.
    ///
    /// # Errors
    /// A driver that refuses.
    ///
    /// # Safety
    /// The stream lives as long as this.
    pub(super) unsafe fn enter(handle: u64) -> Result<Self> {
        let doing = |e| refused("entering the context of another library's stream", e);
        let stream = handle as sys::CUstream;
        let mut context: sys::CUcontext = std::ptr::null_mut();
        // SAFETY: the caller vouches for the stream; its context lives as long.
        unsafe {
            sys::cuStreamGetCtx(stream, &raw mut context).result().map_err(doing)?;
            sys::cuCtxPushCurrent_v2(context).result().map_err(doing)?;
        }
        Ok(Self { stream, context })
    }

    /// Memory of at least `len` bytes that no GPU is using.
    ///
    /// # Errors
    /// Memory that can't be pinned.
    pub(super) fn staging(&self, len: usize) -> Result<Staging> {
        let mut kept = kept();
        let fits = |one: &Staging| one.context == self.context && one.len >= len && one.is_free();
        match kept.iter().position(fits) {
            Some(at) => Ok(kept.swap_remove(at)),
            None => Staging::new(self.context, len.next_power_of_two().max(4096)),
        }
    }

    /// Copies arrays down and waits until they are there.
    ///
    /// # Errors
    /// Whatever went wrong on the GPU before.
    ///
    /// # Safety
    /// The arrays are on this stream's GPU and have as many bytes.
    pub(super) unsafe fn down(&self, staging: &mut Staging, arrays: &[Passage]) -> Result<()> {
        let doing = |e| refused("copying arrays of another library from the GPU", e);
        for array in arrays.iter().filter(|array| !array.bytes.is_empty()) {
            let to = staging.slice(&array.bytes).as_mut_ptr().cast::<c_void>();
            // SAFETY: the caller vouches for the array; `to` has as many bytes, which nobody reads before the wait.
            unsafe { sys::cuMemcpyDtoHAsync_v2(to, array.address, array.bytes.len(), self.stream) }
                .result()
                .map_err(doing)?;
        }
        // SAFETY: the stream lives.
        unsafe { sys::cuStreamSynchronize(self.stream) }.result().map_err(doing)
    }

    /// Copies to arrays, behind what is on the stream, and waits for nothing.
    ///
    /// # Errors
    /// A driver that refuses.
    ///
    /// # Safety
    /// As [`ForeignStream::down`].
    pub(super) unsafe fn up(&self, mut staging: Staging, arrays: &[Passage]) -> Result<()> {
        let doing = |e| refused("copying to arrays of another library on the GPU", e);
        let mut copied = Ok(());
        for array in arrays.iter().filter(|array| !array.bytes.is_empty()) {
            let from = staging.slice(&array.bytes).as_ptr().cast::<c_void>();
            // SAFETY: the caller vouches for the array; `from` has as many bytes, and is not written again before the
            // event that is recorded below.
            let one = unsafe {
                sys::cuMemcpyHtoDAsync_v2(array.address, from, array.bytes.len(), self.stream)
            };
            copied = copied.and(one.result());
        }
        // SAFETY: stream and event are of this context.
        let recorded = unsafe { sys::cuEventRecord(staging.used, self.stream) }.result();
        match recorded {
            Ok(()) => keep(staging),
            // When it is done with them is not known.
            Err(_) => std::mem::forget(staging),
        }
        copied.and(recorded).map_err(doing)
    }
}

impl Drop for ForeignStream {
    fn drop(&mut self) {
        let mut popped: sys::CUcontext = std::ptr::null_mut();
        // SAFETY: it was pushed by `enter`, on this thread: this type is not `Send`.
        let _ = unsafe { sys::cuCtxPopCurrent_v2(&raw mut popped) };
    }
}

impl Staging {
    /// Memory of `len` bytes, which is not 0; `context` is current.
    fn new(context: sys::CUcontext, len: usize) -> Result<Self> {
        let doing = |e| refused("pinning memory of the host", e);
        let mut used: sys::CUevent = std::ptr::null_mut();
        let flags = sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: the call writes the handle of an event that is this memory's.
        unsafe { sys::cuEventCreate(&raw mut used, flags) }.result().map_err(doing)?;
        let mut address: *mut c_void = std::ptr::null_mut();
        // SAFETY: the call writes the address of memory that is this one's until it is dropped.
        let pinned =
            unsafe { sys::cuMemHostAlloc(&raw mut address, len, sys::CU_MEMHOSTALLOC_PORTABLE) };
        match (pinned.result(), NonNull::new(address.cast::<u8>())) {
            (Ok(()), Some(memory)) => {
                // SAFETY: as many bytes, which nobody else knows yet.
                unsafe { memory.write_bytes(0, len) };
                Ok(Self { memory, len, context, used })
            }
            (failed, _) => {
                // SAFETY: the event was just made, and nobody has it.
                let _ = unsafe { sys::cuEventDestroy_v2(used) };
                let none = DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY);
                Err(doing(failed.err().unwrap_or(none)))
            }
        }
    }

    /// All bytes.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: they are this memory's, written when it was made, and no GPU writes any but in `down`, which waits.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
    }

    fn slice(&mut self, bytes: &Range<usize>) -> &mut [u8] {
        &mut self.bytes()[bytes.clone()]
    }

    fn is_free(&self) -> bool {
        // SAFETY: the event is there until this is dropped.
        unsafe { sys::cuEventQuery(self.used) }.result().is_ok()
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let mut popped: sys::CUcontext = std::ptr::null_mut();
        // SAFETY: the context outlives what other libraries do on the GPU; both were made by `new`, are freed once,
        // and nobody reads the memory any more.
        unsafe {
            if sys::cuCtxPushCurrent_v2(self.context).result().is_ok() {
                let _ = sys::cuEventSynchronize(self.used);
                let _ = sys::cuEventDestroy_v2(self.used);
                let _ = sys::cuMemFreeHost(self.memory.as_ptr().cast());
                let _ = sys::cuCtxPopCurrent_v2(&raw mut popped);
            }
        }
    }
}

fn refused(doing: &str, error: DriverError) -> Failure {
    format!("{doing} failed: {error}").into()
}

fn keep(staging: Staging) {
    let mut kept = kept();
    if kept.len() < MOST_KEPT {
        kept.push(staging);
    }
}

fn kept() -> MutexGuard<'static, Vec<Staging>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

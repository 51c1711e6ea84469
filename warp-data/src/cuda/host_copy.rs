//! Copies of arrays that come to the host while the host, and the stream behind them, go on.
#![expect(unsafe_code, reason = "owns memory of the host that the driver writes to meanwhile")]

use super::array::DeviceArray;
use super::device::{Device, device_error};
use super::order::Event;
use crate::error::{Error, Result};
use cudarc::driver::result;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a copy at most: what is pinned is no longer the system's to move.
const MOST_BYTES: usize = 1 << 30;

/// Where copies come to: pinned memory of the host, used again by later copies, since it takes longer to pin than to
/// fill.
#[derive(Debug, Clone, Default)]
pub struct PinnedBuffers(Arc<Mutex<Vec<Pinned>>>);

/// Arrays as they were at one place in the stream's order.
#[derive(Debug)]
pub struct HostCopy {
    arrays: Vec<DeviceArray>,
    /// Behind the copies; none if they could not all be begun.
    done: Option<Event>,
    /// Given back at the end.
    memory: Option<Pinned>,
    buffers: PinnedBuffers,
}

impl PinnedBuffers {
    /// Begins to copy `arrays` of `device` as they are behind everything that is on the stream now; what comes on the
    /// stream after that may change them. Nothing if they are too large, or the host's memory can't be pinned.
    ///
    /// # Errors
    /// Arrays of another device or stream, or a driver that refuses.
    pub fn copy<'a>(
        &self,
        device: &Device,
        arrays: impl IntoIterator<Item = &'a DeviceArray>,
    ) -> Result<Option<HostCopy>> {
        let lock = device.lock_stream();
        lock.refuse_recording("copying arrays from the GPU")?;
        drop(lock);
        let arrays: Vec<_> = arrays.into_iter().cloned().collect();
        let here = |array: &DeviceArray| Arc::ptr_eq(array.device().stream(), device.stream());
        if let Some(other) = arrays.iter().find(|array| !here(array)) {
            let doing = format!("copying array \"{}\" to the host", other.name());
            return Err(Error::Cuda { doing, reason: "it is on another GPU or stream".into() });
        }
        let add = |sum: usize, array: &DeviceArray| sum.checked_add(array.bytes());
        let bytes = arrays.iter().try_fold(0, add);
        device.bind()?;
        let Some(memory) = bytes.and_then(|bytes| self.take(device, bytes)) else {
            return Ok(None);
        };
        let buffers = self.clone();
        let mut copy = HostCopy { arrays, done: None, memory: Some(memory), buffers };
        copy.begin(device)?;
        Ok(Some(copy))
    }

    /// Memory that no copy uses, of `bytes` at least; none if it can't be pinned.
    fn take(&self, device: &Device, bytes: usize) -> Option<Pinned> {
        let mut free = self.free();
        if let Some(place) = free.iter().position(|memory| memory.bytes >= bytes) {
            return Some(free.swap_remove(place));
        }
        // Too small for what is copied now, and so for what follows.
        let too_small = free.pop();
        drop(free);
        drop(too_small);
        (bytes <= MOST_BYTES).then(|| Pinned::zeros(device, bytes))?
    }

    fn free(&self) -> MutexGuard<'_, Vec<Pinned>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostCopy {
    fn begin(&mut self, device: &Device) -> Result<()> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let stream = device.stream().cu_stream();
        let lock = device.lock_stream();
        lock.refuse_recording("copying arrays from the GPU")?;
        for (array, start) in self.arrays.iter().zip(starts(&self.arrays)) {
            // SAFETY: `memory` has room for all arrays behind each other, and nobody else reads or writes it before
            // `done` is past.
            let place = unsafe {
                let start = memory.start.add(start);
                std::slice::from_raw_parts_mut(start.as_ptr(), array.bytes())
            };
            if place.is_empty() || array.is_planned() {
                continue;
            }
            // SAFETY: the array has as many bytes; `drop` waits before the memory is used for anything else.
            unsafe { result::memcpy_dtoh_async(place, array.ptr(), stream) }
                .map_err(|e| device_error(&format!("copying array \"{}\"", array.name()), e))?;
        }
        drop(lock);
        self.done = Some(device.record_event()?);
        Ok(())
    }

    /// The arrays with their bytes, as soon as they are there; any thread may wait for them.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub fn wait(&self) -> Result<Vec<(&DeviceArray, &[u8])>> {
        let (Some(done), Some(memory)) = (&self.done, &self.memory) else { return Ok(Vec::new()) };
        done.wait()?;
        // SAFETY: the copies are over, and the next ones there are not made before this is dropped.
        let all = unsafe { std::slice::from_raw_parts(memory.start.as_ptr(), memory.bytes) };
        let arrays = self.arrays.iter().zip(starts(&self.arrays));
        Ok(arrays.map(|(array, start)| (array, &all[start..start + array.bytes()])).collect())
    }
}

impl Drop for HostCopy {
    fn drop(&mut self) {
        let (Some(memory), first) = (self.memory.take(), self.arrays.first()) else { return };
        let over = match (&self.done, first) {
            (Some(done), _) => done.wait(),
            (None, Some(array)) => array.device().synchronize(),
            (None, None) => Ok(()),
        };
        match over {
            Ok(()) => self.buffers.free().push(memory),
            // The GPU may still write to it.
            Err(_) => std::mem::forget(memory),
        }
    }
}

/// Where each of `arrays` begins, in bytes, when they are behind each other.
fn starts(arrays: &[DeviceArray]) -> impl Iterator<Item = usize> {
    arrays.iter().scan(0, |end, array| {
        let start = *end;
        *end += array.bytes();
        Some(start)
    })
}

/// Bytes of the host that the driver keeps in their place, so that a GPU writes there by itself.
#[derive(Debug)]
pub(super) struct Pinned {
    start: NonNull<u8>,
    bytes: usize,
    device: Device,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Pinned {}
// SAFETY: a shared one gives out an address alone.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Nothing if the driver or the system does not allow it.
    pub(super) fn zeros(device: &Device, bytes: usize) -> Option<Self> {
        // SAFETY: the memory is this value's until it is dropped. The size is not zero.
        let start = unsafe { result::malloc_host(bytes.max(1), 0) }.ok()?;
        let start = NonNull::<u8>::new(start.cast())?;
        // SAFETY: that many bytes, which nobody else knows yet.
        unsafe { start.write_bytes(0, bytes) };
        Some(Self { start, bytes, device: device.clone() })
    }

    /// Where it begins.
    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // SAFETY: allocated by `zeros`, freed once, and no copy is on its way to it.
            let _ = unsafe { result::free_host(self.start.as_ptr().cast()) };
        }
    }
}

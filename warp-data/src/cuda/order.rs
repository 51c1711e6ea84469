//! Order between a device's stream and streams of other libraries, without a host that waits.
#![expect(unsafe_code, reason = "streams of other libraries have handles that they say")]

use super::device::{Device, StreamLock, device_error};
use crate::error::Result;
use cudarc::driver::{CudaEvent, sys};

/// A position in the order of a device's stream: one of CUDA's events, recorded once.
#[derive(Debug)]
pub struct Event(CudaEvent);

impl Event {
    /// Whether everything before it has finished.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    /// Waits until everything before it has finished.
    ///
    /// # Errors
    /// Whatever went wrong in the meantime.
    pub fn wait(&self) -> Result<()> {
        self.0.synchronize().map_err(|e| device_error("waiting for the GPU", e))
    }
}

impl Device {
    /// An event behind everything that is on the stream now.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn record_event(&self) -> Result<Event> {
        self.record_event_in(&self.lock_stream())
    }

    /// An event behind everything that is on the stream now, which the caller has locked.
    pub(super) fn record_event_in(&self, lock: &StreamLock<'_>) -> Result<Event> {
        lock.refuse_recording("recording an event")?;
        let fail = |e| device_error("recording an event", e);
        let event = self.context().new_event(None).map_err(fail)?;
        event.record(self.stream()).map_err(fail)?;
        Ok(Event(event))
    }

    /// Lets what is put on the stream `other` from now on wait for everything that is on this device's now.
    ///
    /// # Errors
    /// A driver that refuses.
    ///
    /// # Safety
    /// `other` is a stream of this device that lives: a handle of the driver's, 1 (the legacy default stream)
    /// or 2 (the calling thread's).
    pub unsafe fn make_stream_wait(&self, other: u64) -> Result<()> {
        let Event(event) = self.record_event()?;
        // SAFETY: the event was just made; the caller vouches for the stream.
        unsafe { sys::cuStreamWaitEvent(other as sys::CUstream, event.cu_event(), 0) }
            .result()
            .map_err(|e| device_error("letting another stream wait", e))
    }

    /// Lets what is put on this device's stream from now on wait for everything that is on `other` now.
    ///
    /// # Errors
    /// A driver that refuses.
    ///
    /// # Safety
    /// As [`Device::make_stream_wait`].
    pub unsafe fn wait_for_stream(&self, other: u64) -> Result<()> {
        let doing = "waiting for another stream";
        let lock = self.lock_stream();
        lock.refuse_recording(doing)?;
        let fail = |e| device_error(doing, e);
        let event = self.context().new_event(None).map_err(fail)?;
        // SAFETY: the event was just made; the caller vouches for the stream.
        unsafe { sys::cuEventRecord(event.cu_event(), other as sys::CUstream) }
            .result()
            .map_err(fail)?;
        self.stream().wait(&event).map_err(fail)
    }
}

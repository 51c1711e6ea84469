//! Order between a device's stream and streams of other libraries, without a host that waits.
#![expect(unsafe_code, reason = "streams of other libraries have handles that they say")]

use super::device::{Device, Turn, device_error};
use crate::error::Result;
use cudarc::driver::{CudaEvent, sys};

/// A place in the order of a device's stream.
#[derive(Debug)]
pub struct Mark(CudaEvent);

impl Mark {
    /// Whether everything before it has finished.
    #[must_use]
    pub fn is_past(&self) -> bool {
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
    /// A mark behind everything that is on the stream now.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn mark(&self) -> Result<Mark> {
        self.mark_in(&self.turn())
    }

    /// The same in a turn of the calling thread.
    pub(super) fn mark_in(&self, turn: &Turn<'_>) -> Result<Mark> {
        turn.refuse_recording("marking a place in the stream's order")?;
        let fail = |e| device_error("marking a place in the stream's order", e);
        let event = self.context().new_event(None).map_err(fail)?;
        event.record(self.stream()).map_err(fail)?;
        Ok(Mark(event))
    }

    /// Lets what is put on the stream `other` from now on wait for everything that is on this device's now.
    ///
    /// # Errors
    /// A driver that refuses.
    ///
    /// # Safety
    /// `other` is a stream of this device that lives: a handle of the driver's, 1 (the legacy default stream)
    /// or 2 (the calling thread's).
    pub unsafe fn lead(&self, other: u64) -> Result<()> {
        let Mark(event) = self.mark()?;
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
    /// As [`Device::lead`].
    pub unsafe fn follow(&self, other: u64) -> Result<()> {
        let doing = "waiting for another stream";
        let turn = self.turn();
        turn.refuse_recording(doing)?;
        let fail = |e| device_error(doing, e);
        let event = self.context().new_event(None).map_err(fail)?;
        // SAFETY: the event was just made; the caller vouches for the stream.
        unsafe { sys::cuEventRecord(event.cu_event(), other as sys::CUstream) }
            .result()
            .map_err(fail)?;
        self.stream().wait(&event).map_err(fail)
    }
}

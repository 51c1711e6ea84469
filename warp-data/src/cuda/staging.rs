//! Copies arrays of the host to the GPU asynchronously: through pinned memory, so that the host need not wait for the
//! work before them.
#![expect(unsafe_code, reason = "the driver reads pinned memory of the host meanwhile")]

use super::array::DeviceArray;
use super::device::{Device, device_error};
use super::host_copy::Pinned;
use super::order::Event;
use crate::array::Element;
use crate::error::Result;
use cudarc::driver::result;

/// Pinned memory of the host from which arrays are filled, used again when they have been.
///
/// From other memory the driver copies by itself, but what is large has to wait for its turn on the stream, and what is
/// small goes where launches go, which wait for each other then.
#[derive(Debug, Default)]
pub struct Staging {
    /// With the place behind the copies from it.
    memory: Vec<(Pinned, Event)>,
}

impl Staging {
    /// As [`DeviceArray::push`], behind what is on the stream.
    ///
    /// # Errors
    /// As [`DeviceArray::push`].
    pub fn push<T: Element>(&mut self, array: &DeviceArray, data: &[T]) -> Result<()> {
        let device = array.device();
        // An array of another type or length is refused there.
        let fits = array.dtype() == T::DTYPE && array.len() == data.len() && !data.is_empty();
        if !fits || array.is_planned() {
            return array.push(data);
        }
        let doing = || format!("copying array \"{}\" to the GPU", array.name());
        let lock = device.lock_stream();
        // Also to ask whether it is idle would end a recording.
        lock.refuse_recording(&doing())?;
        let memory = if device.is_idle()? { None } else { self.take(device, array.bytes()) };
        let Some(memory) = memory else {
            drop(lock);
            return array.push(data);
        };
        let start = memory.start().cast::<T>();
        // SAFETY: there is room for all elements, whose places are aligned as pages are, and no copy reads them any more.
        let staged = unsafe {
            start.copy_from_nonoverlapping(data.as_ptr(), data.len());
            std::slice::from_raw_parts(start, data.len())
        };
        // SAFETY: the array has as many elements of this type; `staged` is neither changed nor freed before the event behind
        // the copy is past.
        let copied =
            unsafe { result::memcpy_htod_async(array.ptr(), staged, device.stream().cu_stream()) };
        let copied = copied.map_err(|e| device_error(&doing(), e));
        match copied.and_then(|()| device.record_event_in(&lock)) {
            Ok(event) => self.memory.push((memory, event)),
            Err(error) => {
                // The GPU may still read it.
                std::mem::forget(memory);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Memory that no copy reads, of `bytes` at least; none if it can't be pinned.
    fn take(&mut self, device: &Device, bytes: usize) -> Option<Pinned> {
        let all = self.memory.iter().enumerate();
        let free =
            all.filter(|(_, (memory, event))| memory.bytes() >= bytes && event.is_complete());
        let smallest = free.min_by_key(|(_, (memory, _))| memory.bytes()).map(|(place, _)| place);
        match smallest {
            Some(place) => Some(self.memory.swap_remove(place).0),
            None => Pinned::zeros(device, bytes),
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        for (memory, event) in self.memory.drain(..) {
            // The GPU may still read it.
            if event.wait().is_err() {
                std::mem::forget(memory);
            }
        }
    }
}

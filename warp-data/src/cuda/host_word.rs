//! A word of the host's memory that kernels see while they run.
#![expect(unsafe_code, reason = "owns a word that the driver has pinned")]

use super::device::{Device, device_error};
use crate::error::Result;
use cudarc::driver::{DriverError, sys};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A word that the host and kernels write and read meanwhile, at one address for all GPUs.
#[derive(Debug)]
pub struct HostWord {
    word: NonNull<AtomicU32>,
    device: Device,
}

// SAFETY: the word is atomic, and freed with its only owner.
unsafe impl Send for HostWord {}
// SAFETY: a shared word is read and written atomically.
unsafe impl Sync for HostWord {}

impl HostWord {
    /// A word of 0.
    ///
    /// # Errors
    /// Memory that can't be pinned.
    pub fn new(device: &Device) -> Result<Self> {
        device.bind()?;
        let fail = |e| device_error("pinning a word of the host's memory", e);
        let mut address: *mut c_void = std::ptr::null_mut();
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: the call writes the address of memory that is this word's until it is dropped.
        unsafe { sys::cuMemHostAlloc(&raw mut address, 64, flags) }.result().map_err(fail)?;
        let none =
            || device_error("pinning a word", DriverError(sys::CUresult::CUDA_ERROR_UNKNOWN));
        let word = NonNull::new(address.cast::<AtomicU32>()).ok_or_else(none)?;
        // SAFETY: 64 bytes that nobody else knows yet, aligned to pages.
        unsafe { word.write(AtomicU32::new(0)) };
        Ok(Self { word, device: device.clone() })
    }

    /// Where kernels find it.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.word.as_ptr() as u64
    }

    /// What it is now: the host's last value, or a kernel's.
    #[must_use]
    pub fn get(&self) -> u32 {
        // SAFETY: it is there until this is dropped.
        unsafe { self.word.as_ref() }.load(Ordering::SeqCst)
    }

    /// Writes it.
    pub fn set(&self, value: u32) {
        // SAFETY: it is there until this is dropped.
        unsafe { self.word.as_ref() }.store(value, Ordering::SeqCst);
    }
}

impl Drop for HostWord {
    fn drop(&mut self) {
        // If the GPU may still write to it, it is never freed.
        if self.device.synchronize().is_ok() && self.device.bind().is_ok() {
            // SAFETY: allocated by `new`, freed once, and the GPU does nothing any more.
            let _ = unsafe { sys::cuMemFreeHost(self.word.as_ptr().cast()) };
        }
    }
}

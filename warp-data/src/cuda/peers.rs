//! Memory that several GPUs of one machine can access: each has an array of the same size, and the addresses
//! of all of them.
//!
//! Within a process, one context is given access to another; between processes, the driver exports memory by
//! handle.
#![expect(unsafe_code, reason = "lets contexts into each other and opens another process's memory")]

use super::array::DeviceArray;
use super::device::{Device, device_error};
use crate::error::{Error, Result};
use cudarc::driver::{CudaContext, DriverError, sys};
use std::sync::Arc;
use warp_core::DType;

/// The driver hands over whole blocks of this size: what is less would share its block with strangers.
const BLOCK: usize = 1 << 21;
/// Bytes of the driver's name for memory.
const NAME: usize = 64;
/// Bytes of an export before the machine's name.
const HEAD: usize = 16 + NAME;

/// This rank's array, not known to the others yet.
#[derive(Debug)]
pub struct PeerExport {
    own: DeviceArray,
    bytes: Vec<u8>,
}

/// Arrays of all ranks, this one's among them.
#[derive(Debug)]
pub struct Window {
    own: DeviceArray,
    /// The address of each rank's array, of two words, u32 `[2 ranks]`.
    addresses: DeviceArray,
    /// What is closed at the end.
    opened: Vec<Opened>,
    device: Device,
}

#[derive(Debug)]
enum Opened {
    /// Another context of this process, which stays as long as its memory is used.
    Context(#[expect(dead_code, reason = "held for its destructor")] Arc<CudaContext>),
    /// Another process's memory.
    Memory(u64),
}

impl PeerExport {
    /// An array of `words` zeros for others to write into.
    ///
    /// # Errors
    /// Too little memory, or a driver that does not hand it over.
    pub fn new(device: &Device, name: &str, words: usize) -> Result<Self> {
        let words = (4 * words).next_multiple_of(BLOCK) / 4;
        let own = DeviceArray::zeros(device, name, DType::U32, &[words])?;
        device.synchronize()?;
        let mut handle = sys::CUipcMemHandle { reserved: [0; NAME] };
        // SAFETY: the address is one that the driver gave; the handle is written by the call.
        let named = unsafe { sys::cuIpcGetMemHandle(&raw mut handle, own.ptr()) };
        named.result().map_err(failed("exporting memory to other GPUs"))?;
        let mut bytes = std::process::id().to_le_bytes().to_vec();
        bytes.extend((device.info().ordinal as u32).to_le_bytes());
        bytes.extend(own.ptr().to_le_bytes());
        bytes.extend(handle.reserved.map(|byte| byte as u8));
        bytes.extend(machine().bytes());
        Ok(Self { own, bytes })
    }

    /// What the other ranks are to be told.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Opens the arrays that all ranks export, in their order; this rank is number `rank`.
    ///
    /// # Errors
    /// A rank whose memory is not accessible: on another machine, or on a GPU without peer access to this
    /// one.
    pub fn open(self, all: &[Vec<u8>], rank: usize) -> Result<Window> {
        let device = self.own.device().clone();
        device.bind()?;
        let (mut addresses, mut opened) = (Vec::new(), Vec::new());
        for (other, export) in all.iter().enumerate() {
            let (address, keep) = match other == rank {
                true => (self.own.ptr(), None),
                false => reach(&device, export, other)?,
            };
            addresses.extend([address as u32, (address >> 32) as u32]);
            opened.extend(keep);
        }
        let shape = [addresses.len()];
        let addresses = DeviceArray::from_slice(&device, "addresses", &shape, &addresses)?;
        device.synchronize()?;
        Ok(Window { own: self.own, addresses, opened, device })
    }
}

impl Window {
    /// The address of each rank's array, of two words, u32 `[2 ranks]`.
    #[must_use]
    pub fn addresses(&self) -> &DeviceArray {
        &self.addresses
    }

    /// This rank's array, u32.
    #[must_use]
    pub fn own(&self) -> &DeviceArray {
        &self.own
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let _ = self.device.synchronize();
        if self.device.bind().is_err() {
            return;
        }
        for opened in &self.opened {
            if let Opened::Memory(address) = opened {
                // SAFETY: opened by `reach`, closed once, and this GPU does nothing any more.
                let _ = unsafe { sys::cuIpcCloseMemHandle(*address) };
            }
        }
    }
}

/// Where the array of rank `other` lies for `device`, and what keeps it there.
fn reach(device: &Device, export: &[u8], other: usize) -> Result<(u64, Option<Opened>)> {
    let doing = format!("reaching the memory of rank {other}");
    let out_of_reach = |reason: &str| Error::Cuda { doing: doing.clone(), reason: reason.into() };
    let Some((head, place)) = export.split_at_checked(HEAD) else {
        return Err(out_of_reach("it exports none"));
    };
    let word = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let (process, ordinal) = (word(0), word(4) as usize);
    let address = u64::from(word(8)) | u64::from(word(12)) << 32;
    if place != machine().as_bytes() {
        return Err(out_of_reach("it is on another machine"));
    }
    if process == std::process::id() {
        let context = CudaContext::new(ordinal).map_err(failed(&doing))?;
        let mut can = 0;
        // SAFETY: both numbers are those of GPUs that were opened.
        let asked = unsafe {
            sys::cuDeviceCanAccessPeer(
                &raw mut can,
                device.context().cu_device(),
                context.cu_device(),
            )
        };
        asked.result().map_err(failed(&doing))?;
        if can == 0 {
            return Err(out_of_reach("the GPUs can't access each other's memory"));
        }
        device.bind()?;
        // SAFETY: the context is that of another GPU, and stays as long as the window.
        let entered = unsafe { sys::cuCtxEnablePeerAccess(context.cu_ctx(), 0) };
        if entered != sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED {
            entered.result().map_err(failed(&doing))?;
        }
        return Ok((address, Some(Opened::Context(context))));
    }
    let mut handle = sys::CUipcMemHandle { reserved: [0; NAME] };
    for (to, from) in handle.reserved.iter_mut().zip(&head[16..]) {
        *to = *from as _;
    }
    let mut here = 0;
    let flags = sys::CUipcMem_flags_enum::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
    // SAFETY: the name is one that the driver gave another process of this machine for a whole block, which
    // keeps it until it has met the others at the end.
    let opened = unsafe { sys::cuIpcOpenMemHandle_v2(&raw mut here, handle, flags) };
    opened.result().map_err(failed(&doing))?;
    Ok((here, Some(Opened::Memory(here))))
}

fn failed(doing: &str) -> impl Fn(DriverError) -> Error {
    move |error| device_error(doing, error)
}

/// What this machine calls itself since it was started: names of memory are known there alone.
fn machine() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().into()
}

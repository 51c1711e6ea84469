//! A GPU: its context, the one stream on which all work is ordered, and what it is.
#![expect(
    unsafe_code,
    reason = "asks whether the driver can be opened; a context's tracking of arrays"
)]

use super::library::{incomplete, searched};
use crate::error::{Error, Result};
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::{CudaContext, CudaStream, DriverError, sys};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use warp_core::DType;

/// Functions of the driver that came last, of all that are called.
const NEEDED: [(&str, &str); 2] = [("cuInit", "1.0"), ("cuFuncGetParamInfo", "12.4")];

/// A GPU; cloning it clones the handle.
#[derive(Debug, Clone)]
pub struct Device(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    stream: Arc<CudaStream>,
    info: DeviceInfo,
    /// Arrays that are allocated, by address.
    allocated: Mutex<BTreeMap<u64, Allocation>>,
    /// What the launches that are being recorded work on; none while nothing is recorded.
    recorded: Mutex<Option<Kept>>,
    /// Bytes of the arrays that are being planned; none while arrays are allocated.
    planned: Mutex<Option<u128>>,
    /// Whether recorded kernels may begin before those that they wait for have ended.
    has_programmatic_launch: AtomicBool,
}

/// What recorded launches work on: arrays and machine code.
pub(super) type Kept = Vec<Box<dyn Any + Send>>;

/// The lock of a device's stream: who holds it may put work on the stream, or begin or end to record it.
#[derive(Debug)]
pub struct StreamLock<'a>(MutexGuard<'a, Option<Kept>>);

impl StreamLock<'_> {
    /// If work is being recorded, keeps what it needs as long as it can be replayed.
    pub fn keep<T: Send + 'static>(&mut self, what: impl FnOnce() -> T) {
        if let Some(kept) = &mut *self.0 {
            kept.push(Box::new(what()));
        }
    }

    /// Refuses what would be replayed with memory of the host that is gone by then, or not at all.
    pub(super) fn refuse_recording(&self, doing: &str) -> Result<()> {
        if self.0.is_none() {
            return Ok(());
        }
        let reason = "launches are being recorded, and this can't be".into();
        Err(Error::Cuda { doing: doing.into(), reason })
    }

    pub(super) fn begin_recording(&mut self) {
        *self.0 = Some(Kept::new());
    }

    pub(super) fn end_recording(&mut self) -> Kept {
        self.0.take().unwrap_or_default()
    }
}

/// An array in a GPU's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// Its name.
    pub name: Arc<str>,
    /// Its element type.
    pub dtype: DType,
    /// Its shape.
    pub shape: Arc<[usize]>,
    /// Bytes that it takes.
    pub bytes: u64,
}

/// What a GPU is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number among the machine's GPUs.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Its unique number, in hexadecimal.
    pub uuid: String,
    /// The newest version of CUDA that its driver supports: major and minor.
    pub driver: (u32, u32),
    /// Compute capability: major and minor version.
    pub capability: (u32, u32),
    /// Multiprocessors.
    pub n_multiprocessors: u32,
    /// Memory in bytes.
    pub total_bytes: u64,
    /// Shared memory that one block may have, in bytes.
    pub shared_per_block: u32,
    /// Shared memory of one multiprocessor, in bytes.
    pub shared_per_multiprocessor: u32,
    /// Second-level cache in bytes.
    pub l2_bytes: u32,
}

impl DeviceInfo {
    /// What sizes of launches depend on, in words: the same text for two GPUs of one model, whatever their memory.
    #[must_use]
    pub fn model(&self) -> String {
        let (major, minor) = self.capability;
        format!(
            "{} (compute capability {major}.{minor}, {} multiprocessors with {} bytes of shared memory, {} for a block)",
            self.name,
            self.n_multiprocessors,
            self.shared_per_multiprocessor,
            self.shared_per_block
        )
    }
}

impl Device {
    /// GPU number `ordinal`, with a stream of its own.
    ///
    /// # Errors
    /// No driver (the message says which library was searched for), or no such GPU.
    pub fn open(ordinal: usize) -> Result<Self> {
        if !driver_is_present() {
            return Err(Error::NoDriver { searched: searched("cuda") });
        }
        if let Some(error) = incomplete("libcuda.so", &NEEDED, driver_has) {
            return Err(error);
        }
        let fail = |e| device_error(&format!("opening GPU {ordinal}"), e);
        let count = {
            cudarc::driver::result::init().map_err(fail)?;
            CudaContext::device_count().map_err(fail)?
        };
        if ordinal >= usize::try_from(count).unwrap_or(0) {
            return Err(Error::NoDevice { ordinal, count: count.unsigned_abs() as usize });
        }
        let context = CudaContext::new(ordinal).map_err(fail)?;
        let info = DeviceInfo::read(&context, ordinal).map_err(fail)?;
        let stream = own_stream(&context).map_err(fail)?;
        let has_programmatic_launch = AtomicBool::new(info.capability.0 >= 9);
        Ok(Self(Arc::new(Inner {
            stream,
            info,
            allocated: Mutex::default(),
            recorded: Mutex::default(),
            planned: Mutex::default(),
            has_programmatic_launch,
        })))
    }

    /// Whether a driver is installed and finds a GPU.
    #[must_use]
    pub fn is_available() -> bool {
        driver_is_present()
            && incomplete("libcuda.so", &NEEDED, driver_has).is_none()
            && cudarc::driver::result::init().is_ok()
            && CudaContext::device_count().is_ok_and(|count| count > 0)
    }

    /// What it is.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// The stream on which everything of this device is ordered.
    #[must_use]
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.0.stream
    }

    /// The context, shared with every other library of the process.
    #[must_use]
    pub fn context(&self) -> &Arc<CudaContext> {
        self.0.stream.context()
    }

    /// Makes this the calling thread's device.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn bind(&self) -> Result<()> {
        self.context().bind_to_thread().map_err(|e| device_error("choosing the GPU", e))
    }

    /// Whether its kernels could work on the memory of `other`, another GPU of this process.
    #[must_use]
    pub fn reaches(&self, other: &Self) -> bool {
        let (here, there) = (self.context().cu_device(), other.context().cu_device());
        let mut can = 0;
        // SAFETY: both are GPUs that were opened.
        let asked = unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, here, there) };
        here != there && asked.result().is_ok() && can != 0
    }

    /// Bytes that can be allocated now.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn free_bytes(&self) -> Result<u64> {
        let info = self.context().mem_get_info();
        info.map(|(free, _)| free as u64).map_err(|e| device_error("asking for free memory", e))
    }

    /// Bytes of all arrays that `make` creates, whose result is dropped: none but the smallest are allocated, and
    /// nothing is copied to or from the others. `make` must not start kernels that read or write them.
    ///
    /// # Errors
    /// What `make` says.
    pub fn plan<T, E>(
        &self,
        make: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<u128, E> {
        *self.planning() = Some(0);
        let made = make();
        let bytes = self.planning().take().unwrap_or(0);
        made.map(|_| bytes)
    }

    pub(super) fn planning(&self) -> MutexGuard<'_, Option<u128>> {
        self.0.planned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether recorded kernels may begin before those that they wait for have ended: from compute capability 9 on, until
    /// the driver refuses.
    pub(super) fn has_programmatic_launch(&self) -> bool {
        self.0.has_programmatic_launch.load(Relaxed)
    }

    pub(super) fn disable_programmatic_launch(&self) {
        self.0.has_programmatic_launch.store(false, Relaxed);
    }

    /// Every array that was allocated on it and not freed since, in the order of their addresses.
    #[must_use]
    pub fn allocations(&self) -> Vec<Allocation> {
        self.allocated().values().cloned().collect()
    }

    /// What is allocated, by address.
    pub(super) fn allocated(&self) -> MutexGuard<'_, BTreeMap<u64, Allocation>> {
        self.0.allocated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the stream for the calling thread: held while work is enqueued, and records which resources the work
    /// needs.
    #[must_use]
    pub fn lock_stream(&self) -> StreamLock<'_> {
        StreamLock(self.0.recorded.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether everything that was started has finished.
    ///
    /// # Errors
    /// Whatever went wrong in the meantime.
    pub fn is_idle(&self) -> Result<bool> {
        self.bind()?;
        // SAFETY: the stream is this device's own, and stays as long as it.
        match unsafe { sys::cuStreamQuery(self.stream().cu_stream()) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => other.result().map(|()| true).map_err(|e| device_error("asking the GPU", e)),
        }
    }

    /// Waits until everything that was started has finished.
    ///
    /// # Errors
    /// Whatever went wrong in the meantime.
    pub fn synchronize(&self) -> Result<()> {
        self.stream().synchronize().map_err(|e| device_error("waiting for the GPU", e))
    }
}

impl DeviceInfo {
    fn read(
        context: &Arc<CudaContext>,
        ordinal: usize,
    ) -> std::result::Result<DeviceInfo, DriverError> {
        let attribute = |a| context.attribute(a).map(|value| value.unsigned_abs());
        let (major, minor) = context.compute_capability()?;
        Ok(DeviceInfo {
            ordinal,
            name: context.name()?,
            uuid: context.uuid()?.bytes.iter().map(|byte| format!("{:02x}", *byte as u8)).collect(),
            driver: driver_version()?,
            capability: (major.unsigned_abs(), minor.unsigned_abs()),
            n_multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            total_bytes: context.total_mem()? as u64,
            shared_per_block: attribute(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            )?,
            shared_per_multiprocessor: attribute(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
            )?,
            l2_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
        })
    }
}

/// A driver's refusal, with what was being done.
pub(crate) fn device_error(doing: &str, error: DriverError) -> Error {
    Error::Cuda { doing: doing.into(), reason: error.to_string() }
}

/// A stream that does not wait for the legacy default stream: order with others is explicit.
///
/// Its context would first wait for all that the GPU does, for arrays of cudarc's that it tracks; that ends
/// every recording of the process.
fn own_stream(context: &Arc<CudaContext>) -> std::result::Result<Arc<CudaStream>, DriverError> {
    // SAFETY: nobody else has the context yet, so there are no arrays that it could track.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream();
    // SAFETY: as above; none have been made in between.
    unsafe { context.enable_event_tracking() };
    stream
}

fn driver_is_present() -> bool {
    // SAFETY: tries to open the driver's library, whose initialisers are the system's own.
    unsafe { sys::is_culib_present() }
}

/// Whether the driver, which is present, has a function of this name, which ends with a zero.
fn driver_has(name: &[u8]) -> bool {
    // SAFETY: the library is present; the address is only looked up.
    unsafe { sys::culib().get::<*const ()>(name) }.is_ok()
}

fn driver_version() -> std::result::Result<(u32, u32), DriverError> {
    let mut version = 0;
    // SAFETY: writes one integer.
    unsafe { sys::cuDriverGetVersion(&raw mut version).result()? };
    let version = version.unsigned_abs();
    Ok((version / 1000, version % 1000 / 10))
}

//! One array on a device: allocated once, at an address that never changes.
#![expect(unsafe_code, reason = "owns device memory and copies to and from it")]

use super::device::{Allocation, Device, device_error};
use crate::array::Element;
use crate::array::bytes_of;
use crate::error::{Error, Result};
use cudarc::driver::result;
use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use warp_core::DType;

/// What large allocations are rounded up to, in bytes.
const ALLOCATED: u128 = 512;
/// Arrays up to this size are there while others are planned, so that kernels can say what they need.
const LEAST_PLANNED: u128 = 64 << 10;

/// A named array on a device; cloning it clones the handle, not the numbers.
#[derive(Debug, Clone)]
pub struct DeviceArray {
    name: Arc<str>,
    dtype: DType,
    shape: Arc<[usize]>,
    memory: Arc<Memory>,
    /// Arrays whose addresses are the elements, if they are addresses.
    targets: Arc<[DeviceArray]>,
}

/// Device memory, its own or somebody else's.
struct Memory {
    device: Device,
    address: u64,
    owner: Owner,
}

enum Owner {
    /// Freed with the last handle.
    Us,
    /// Nobody: it is not there, see [`Device::plan`].
    Nobody,
    /// Kept alive by keeping this.
    Other(#[expect(dead_code, reason = "held for its destructor")] Box<dyn Any + Send + Sync>),
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({:#x})", self.address)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Owner::Us = self.owner {
            self.device.allocated().remove(&self.address);
            // A kernel may still be at work on it; nothing can be done about an error here.
            let _ = self.device.synchronize();
            if self.device.bind().is_ok() {
                // SAFETY: allocated by `zeros`, freed once, and no kernel uses it any more.
                let _ = unsafe { result::free_sync(self.address) };
            }
        }
    }
}

impl DeviceArray {
    /// Zeros of `shape`.
    ///
    /// # Errors
    /// Not enough free memory on the device.
    pub fn zeros(device: &Device, name: &str, dtype: DType, shape: &[usize]) -> Result<Self> {
        let bytes = bytes_of(dtype, shape);
        if let Some(planned) = &mut *device.planning() {
            *planned = planned.saturating_add(bytes.next_multiple_of(ALLOCATED));
            if bytes > LEAST_PLANNED {
                return Ok(Self::planned(device, name, dtype, shape));
            }
        }
        let free = device.free_bytes()?;
        let what = || format!("array \"{name}\" of shape {shape:?} on the GPU");
        if bytes > u128::from(free) {
            let lower = "num_envs or num_steps".into();
            return Err(Error::OutOfMemory { what: what(), needed: bytes, free, lower });
        }
        device.bind()?;
        // At least one cache line, since a zero-sized allocation has no address.
        let bytes = (bytes as usize).max(64);
        let fail = |e| device_error(&format!("allocating {}", what()), e);
        let lock = device.lock_stream();
        lock.refuse_recording(&format!("allocating {}", what()))?;
        // SAFETY: the size is not zero; the memory belongs to `Memory`, which frees it.
        let address = unsafe { result::malloc_sync(bytes) }.map_err(fail)?;
        let memory = Memory { device: device.clone(), address, owner: Owner::Us };
        // SAFETY: the whole of the block that was just allocated.
        unsafe { result::memset_d8_async(address, 0, bytes, device.stream().cu_stream()) }
            .map_err(fail)?;
        drop(lock);
        let (name, shape, bytes) = (Arc::from(name), Arc::from(shape), bytes as u64);
        let allocation =
            Allocation { name: Arc::clone(&name), dtype, shape: Arc::clone(&shape), bytes };
        device.allocated().insert(address, allocation);
        Ok(Self { name, dtype, shape, memory: Arc::new(memory), targets: Arc::default() })
    }

    /// An array that is not there.
    fn planned(device: &Device, name: &str, dtype: DType, shape: &[usize]) -> Self {
        let memory = Memory { device: device.clone(), address: 0, owner: Owner::Nobody };
        let (name, shape, memory) = (name.into(), shape.into(), Arc::new(memory));
        Self { name, dtype, shape, memory, targets: Arc::default() }
    }

    /// Whether it, or an array whose address it holds, is not there, since it was created by [`Device::plan`].
    #[must_use]
    pub fn is_planned(&self) -> bool {
        matches!(self.memory.owner, Owner::Nobody) || self.targets.iter().any(Self::is_planned)
    }

    /// `data` on the device.
    ///
    /// # Errors
    /// As [`DeviceArray::zeros`], or data of another length than `shape`.
    pub fn from_slice<T: Element>(
        device: &Device,
        name: &str,
        shape: &[usize],
        data: &[T],
    ) -> Result<Self> {
        let array = Self::zeros(device, name, T::DTYPE, shape)?;
        array.push(data)?;
        Ok(array)
    }

    /// Addresses of other arrays, in two words each, u32 `[2 n]`; 0 for none. They stay alive as long
    /// as this array.
    ///
    /// # Errors
    /// As [`DeviceArray::zeros`].
    pub fn addresses(device: &Device, name: &str, of: &[Option<&DeviceArray>]) -> Result<Self> {
        let address = |array: &Option<&DeviceArray>| array.map_or(0, DeviceArray::ptr);
        let words = of.iter().map(address).flat_map(|a| [a as u32, (a >> 32) as u32]);
        let words: Vec<u32> = words.collect();
        let array = Self::from_slice(device, name, &[words.len()], &words)?;
        let targets = of.iter().flatten().map(|array| (*array).clone()).collect();
        Ok(Self { targets, ..array })
    }

    /// Memory of another library (a tensor's, say), seen as an array without a copy. `keep` is what
    /// keeps it alive.
    ///
    /// # Safety
    /// `address` must point to `shape` elements of `dtype` on `device`, for as long as `keep` lives,
    /// and all other users of them must order their work with the device's stream.
    #[must_use]
    pub unsafe fn borrow(
        device: &Device,
        (name, dtype, shape): (&str, DType, &[usize]),
        address: u64,
        keep: Box<dyn Any + Send + Sync>,
    ) -> Self {
        let memory = Memory { device: device.clone(), address, owner: Owner::Other(keep) };
        let (name, shape, memory) = (name.into(), shape.into(), Arc::new(memory));
        Self { name, dtype, shape, memory, targets: Arc::default() }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes of all elements.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.len() * self.dtype.size()
    }

    /// Whether it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// This array's memory, seen as its bytes, u8 `[n_bytes]`.
    #[must_use]
    pub fn as_bytes(&self) -> Self {
        Self { dtype: DType::U8, shape: Arc::from([self.bytes()]), ..self.clone() }
    }

    /// This array's memory, seen as its first `n` elements, or all of them if there are fewer.
    #[must_use]
    pub fn first(&self, n: usize) -> Self {
        Self { shape: Arc::from([n.min(self.len())]), ..self.clone() }
    }

    /// The device on which it is stored.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.memory.device
    }

    /// Its address on the device: valid as long as any handle lives, and never changed. Work on it
    /// belongs on the device's stream, or must be ordered with it.
    #[must_use]
    pub fn ptr(&self) -> u64 {
        self.memory.address
    }

    /// Copies `data` to the device.
    ///
    /// # Errors
    /// Another element type or number of elements.
    pub fn push<T: Element>(&self, data: &[T]) -> Result<()> {
        self.check::<T>(data.len())?;
        if self.is_planned() {
            return Ok(());
        }
        self.device().bind()?;
        let doing = || format!("copying array \"{}\" to the GPU", self.name);
        let lock = self.device().lock_stream();
        lock.refuse_recording(&doing())?;
        // SAFETY: the array has as many elements of this type; pageable host memory is copied from
        // before the call returns, unless it is recorded.
        unsafe { result::memcpy_htod_async(self.ptr(), data, self.device().stream().cu_stream()) }
            .map_err(|e| device_error(&doing(), e))
    }

    /// Makes all elements zero, on the device.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn clear(&self) -> Result<()> {
        if self.is_planned() || self.is_empty() {
            return Ok(());
        }
        self.device().bind()?;
        let mut lock = self.device().lock_stream();
        lock.keep(|| self.clone());
        let stream = self.device().stream().cu_stream();
        // SAFETY: the array has as many bytes.
        unsafe { result::memset_d8_async(self.ptr(), 0, self.bytes(), stream) }
            .map_err(|e| device_error(&format!("clearing array \"{}\"", self.name), e))
    }

    /// Copies the array into `data` and waits until everything before that has finished.
    ///
    /// # Errors
    /// Another element type or number of elements, or whatever went wrong on the device before.
    pub fn pull_into<T: Element>(&self, data: &mut [T]) -> Result<()> {
        self.check::<T>(data.len())?;
        if self.is_planned() {
            return Ok(());
        }
        self.device().bind()?;
        let doing = || format!("copying array \"{}\" from the GPU", self.name);
        let lock = self.device().lock_stream();
        lock.refuse_recording(&doing())?;
        // SAFETY: the array has as many elements of this type, all bit patterns of which are valid,
        // and `data` is borrowed until they are there.
        unsafe { result::memcpy_dtoh_async(data, self.ptr(), self.device().stream().cu_stream()) }
            .map_err(|e| device_error(&doing(), e))?;
        drop(lock);
        self.device().synchronize()
    }

    /// The array's elements on the host.
    ///
    /// # Errors
    /// As [`DeviceArray::pull_into`].
    pub fn pull<T: Element + Default>(&self) -> Result<Vec<T>> {
        let mut data = vec![T::default(); self.len()];
        self.pull_into(&mut data)?;
        Ok(data)
    }

    /// Copies all of `from`, of the same type and length, into this array, on the device.
    ///
    /// # Errors
    /// Another element type or number of elements.
    pub fn copy_from(&self, from: &DeviceArray) -> Result<()> {
        self.check_against(from.dtype, from.len())?;
        if self.is_planned() || from.is_planned() {
            return Ok(());
        }
        let bytes = self.len() * self.dtype.size();
        let stream = self.device().stream().cu_stream();
        self.device().bind()?;
        let mut lock = self.device().lock_stream();
        lock.keep(|| [self.clone(), from.clone()]);
        // SAFETY: both arrays have `bytes` bytes.
        unsafe { result::memcpy_dtod_async(self.ptr(), from.ptr(), bytes, stream) }
            .map_err(|e| device_error(&format!("copying array \"{}\"", self.name), e))
    }

    /// Copies `elements` of `from`, of the same type, to element `at` and on, on the device.
    ///
    /// # Errors
    /// Another element type, or elements that one of the two does not have.
    pub fn copy_part(&self, at: usize, from: &DeviceArray, elements: Range<usize>) -> Result<()> {
        self.check_type(from.dtype)?;
        let fits = at.checked_add(elements.len()).is_some_and(|end| end <= self.len());
        if !fits || elements.end > from.len() {
            let (name, shape) = (self.name.to_string(), self.shape.to_vec());
            let (expected, given) = (self.len(), at.saturating_add(elements.len()));
            return Err(Error::WrongLength { name, shape, expected, given });
        }
        let size = self.dtype.size();
        let (to, source) =
            (self.ptr() + (at * size) as u64, from.ptr() + (elements.start * size) as u64);
        let (bytes, stream) = (elements.len() * size, self.device().stream().cu_stream());
        if bytes == 0 || self.is_planned() || from.is_planned() {
            return Ok(());
        }
        self.device().bind()?;
        let mut lock = self.device().lock_stream();
        lock.keep(|| [self.clone(), from.clone()]);
        // SAFETY: both arrays have these bytes, as checked above.
        unsafe { result::memcpy_dtod_async(to, source, bytes, stream) }
            .map_err(|e| device_error(&format!("copying array \"{}\"", self.name), e))
    }

    fn check<T: Element>(&self, given: usize) -> Result<()> {
        self.check_against(T::DTYPE, given)
    }

    fn check_type(&self, asked: DType) -> Result<()> {
        if self.dtype == asked {
            return Ok(());
        }
        let (name, shape) = (self.name.to_string(), self.shape.to_vec());
        Err(Error::WrongType { name, shape, held: self.dtype, asked })
    }

    fn check_against(&self, asked: DType, given: usize) -> Result<()> {
        self.check_type(asked)?;
        if given == self.len() {
            return Ok(());
        }
        let (name, shape) = (self.name.to_string(), self.shape.to_vec());
        Err(Error::WrongLength { name, shape, expected: self.len(), given })
    }
}

//! DLPack: tensors in capsules, made of arrays of ours and taken from other libraries.
#![expect(unsafe_code, reason = "DLPack is structs of C in capsules")]

use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use warp_func::cuda::DeviceArray;

/// The processor's memory, as DLPack counts devices.
pub(super) const CPU: i32 = 1;
/// Memory of an NVIDIA GPU.
pub(super) const CUDA: i32 = 2;
/// Whole numbers with a sign, whole numbers without, real ones, truth values.
pub(super) const INT: u8 = 0;
pub(super) const UINT: u8 = 1;
pub(super) const FLOAT: u8 = 2;
pub(super) const BOOL: u8 = 6;

const PLAIN: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const USED_PLAIN: &CStr = c"used_dltensor";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";
/// A bit of `flags`: the tensor is a copy.
const COPIED: u64 = 2;

/// `DLDataType` with one lane.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataType {
    pub(super) code: u8,
    pub(super) bits: u8,
    pub(super) lanes: u16,
}

/// `DLDevice`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) kind: i32,
    pub(super) number: i32,
}

/// `DLTensor`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Tensor {
    data: *mut c_void,
    place: Place,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct ManagedVersioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: Tensor,
}

/// What a tensor of ours needs as long as somebody has it.
struct Kept {
    _array: DeviceArray,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

/// What is handed over of an array.
#[derive(Debug)]
pub(super) struct Export {
    pub(super) array: DeviceArray,
    pub(super) dtype: DataType,
    /// No more elements than the array has.
    pub(super) shape: Vec<usize>,
    pub(super) copied: bool,
    pub(super) versioned: bool,
}

impl Export {
    /// A capsule that frees the tensor unless somebody has taken it.
    pub(super) fn capsule(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let shape: Vec<i64> = self.shape.iter().map(|n| *n as i64).collect();
        let mut strides = vec![1_i64; shape.len()];
        for d in (1..strides.len()).rev() {
            strides[d - 1] = strides[d] * shape[d];
        }
        let place = Place { kind: CUDA, number: self.array.device().info().ordinal as i32 };
        let address = self.array.ptr();
        let mut kept = Box::new(Kept { _array: self.array, shape, strides });
        let tensor = Tensor {
            data: address as *mut c_void,
            place,
            ndim: kept.shape.len() as i32,
            dtype: self.dtype,
            shape: kept.shape.as_mut_ptr(),
            strides: kept.strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let context = Box::into_raw(kept).cast::<c_void>();
        let (pointer, name) = if self.versioned {
            let flags = if self.copied { COPIED } else { 0 };
            let deleter = Some(free_versioned as unsafe extern "C" fn(*mut ManagedVersioned));
            let managed = ManagedVersioned { version: [1, 0], context, deleter, flags, tensor };
            (Box::into_raw(Box::new(managed)).cast::<c_void>(), VERSIONED)
        } else {
            let deleter = Some(free as unsafe extern "C" fn(*mut Managed));
            let managed = Managed { tensor, context, deleter };
            (Box::into_raw(Box::new(managed)).cast::<c_void>(), PLAIN)
        };
        // SAFETY: the pointer is not null, the name lives for ever, and the destructor is for such a capsule.
        unsafe {
            let capsule = ffi::PyCapsule_New(pointer, name.as_ptr(), Some(free_unused));
            Bound::from_owned_ptr_or_err(py, capsule)
        }
    }
}

/// The deleter of a tensor of ours.
unsafe extern "C" fn free(managed: *mut Managed) {
    // SAFETY: both were leaked by `capsule`, and a consumer calls its deleter once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Kept>()));
    }
}

/// Frees a versioned tensor and what it holds.
unsafe extern "C" fn free_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: as above.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Kept>()));
    }
}

/// The destructor of a capsule: whoever takes a tensor gives its capsule another name.
unsafe extern "C" fn free_unused(capsule: *mut ffi::PyObject) {
    // SAFETY: the capsule is ours, and under its first name it still holds what it was made with.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, PLAIN.as_ptr()) == 1 {
            free(ffi::PyCapsule_GetPointer(capsule, PLAIN.as_ptr()).cast());
        } else if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            free_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}

/// A tensor of another library, given back when this is dropped.
#[derive(Debug)]
pub(super) struct Import {
    owner: Owner,
    tensor: Tensor,
}

#[derive(Debug)]
enum Owner {
    Plain(NonNull<Managed>),
    Versioned(NonNull<ManagedVersioned>),
}

// SAFETY: DLPack lets any thread call the deleter; nothing else is written.
unsafe impl Send for Import {}
// SAFETY: as above.
unsafe impl Sync for Import {}

impl Drop for Import {
    fn drop(&mut self) {
        // Other libraries keep objects of Python's with their tensors. Once it has ended, nobody has them.
        let _ = Python::try_attach(|_| self.free());
    }
}

impl Import {
    fn free(&self) {
        // SAFETY: taken from a capsule by `take`, whose deleter is called once, when this is dropped.
        unsafe {
            match self.owner {
                Owner::Plain(managed) => {
                    let deleter = managed.as_ref().deleter;
                    deleter.into_iter().for_each(|free| free(managed.as_ptr()));
                }
                Owner::Versioned(managed) => {
                    let deleter = managed.as_ref().deleter;
                    deleter.into_iter().for_each(|free| free(managed.as_ptr()));
                }
            }
        }
    }

    /// The tensor in a capsule, which nobody else can take then.
    pub(super) fn take(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        let raw = capsule.as_ptr();
        // SAFETY: a valid capsule of these names holds what DLPack says of them; renamed, it frees it no more.
        unsafe {
            if ffi::PyCapsule_IsValid(raw, VERSIONED.as_ptr()) == 1 {
                let pointer = ffi::PyCapsule_GetPointer(raw, VERSIONED.as_ptr());
                let managed = NonNull::new(pointer.cast::<ManagedVersioned>()).ok_or_else(empty)?;
                if managed.as_ref().version[0] != 1 {
                    let version = managed.as_ref().version[0];
                    let reason =
                        format!("a tensor of DLPack {version} is not supported; version 1 is");
                    return Err(PyBufferError::new_err(reason));
                }
                ffi::PyCapsule_SetName(raw, USED_VERSIONED.as_ptr());
                let tensor = managed.as_ref().tensor;
                return Ok(Self { owner: Owner::Versioned(managed), tensor });
            }
            if ffi::PyCapsule_IsValid(raw, PLAIN.as_ptr()) == 1 {
                let pointer = ffi::PyCapsule_GetPointer(raw, PLAIN.as_ptr());
                let managed = NonNull::new(pointer.cast::<Managed>()).ok_or_else(empty)?;
                ffi::PyCapsule_SetName(raw, USED_PLAIN.as_ptr());
                let tensor = managed.as_ref().tensor;
                return Ok(Self { owner: Owner::Plain(managed), tensor });
            }
        }
        Err(PyValueError::new_err("__dlpack__ gave no capsule of a tensor"))
    }

    pub(super) fn dtype(&self) -> DataType {
        self.tensor.dtype
    }

    pub(super) fn place(&self) -> Place {
        self.tensor.place
    }

    /// The address of its first element.
    pub(super) fn address(&self) -> u64 {
        self.tensor.data as u64 + self.tensor.byte_offset
    }

    pub(super) fn shape(&self) -> Vec<usize> {
        self.numbers(self.tensor.shape).iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect()
    }

    /// Elements from one to the next, by dimension; none: one after another.
    pub(super) fn strides(&self) -> Option<Vec<i64>> {
        (!self.tensor.strides.is_null()).then(|| self.numbers(self.tensor.strides).to_vec())
    }

    fn numbers(&self, at: *mut i64) -> &[i64] {
        let n = usize::try_from(self.tensor.ndim).unwrap_or(0);
        if at.is_null() || n == 0 {
            return &[];
        }
        // SAFETY: shape and strides have a number for each dimension, for as long as the tensor lives.
        unsafe { std::slice::from_raw_parts(at, n) }
    }
}

fn empty() -> PyErr {
    PyValueError::new_err("__dlpack__ gave a capsule of nothing")
}

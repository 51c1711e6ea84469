//! NumPy arrays over memory of ours, without a copy.
#![expect(
    unsafe_code,
    reason = "NumPy's arrays are made over memory that an object of ours keeps alive"
)]

use numpy::npyffi::{NPY_ARRAY_CARRAY, NPY_TYPES, NpyTypes, PY_ARRAY_API, get_type_object};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU64, Ordering};
use warp_data::Array;

/// The type of an array's elements, as NumPy calls them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dtype {
    /// `bool`.
    Bool,
    /// `int8`.
    I8,
    /// `int32`.
    I32,
    /// `int64`.
    I64,
    /// `uint32`.
    U32,
    /// `float32`.
    F32,
    /// `float64`.
    F64,
}

impl Dtype {
    /// As NumPy calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Dtype::Bool => "bool",
            Dtype::I8 => "int8",
            Dtype::I32 => "int32",
            Dtype::I64 => "int64",
            Dtype::U32 => "uint32",
            Dtype::F32 => "float32",
            Dtype::F64 => "float64",
        }
    }

    /// Bytes of an element.
    pub(super) fn size(self) -> usize {
        match self {
            Dtype::Bool | Dtype::I8 => 1,
            Dtype::I32 | Dtype::U32 | Dtype::F32 => 4,
            Dtype::I64 | Dtype::F64 => 8,
        }
    }

    fn number(self) -> NPY_TYPES {
        match self {
            Dtype::Bool => NPY_TYPES::NPY_BOOL,
            Dtype::I8 => NPY_TYPES::NPY_BYTE,
            Dtype::I32 => NPY_TYPES::NPY_INT,
            Dtype::I64 => NPY_TYPES::NPY_LONG,
            Dtype::U32 => NPY_TYPES::NPY_UINT,
            Dtype::F32 => NPY_TYPES::NPY_FLOAT,
            Dtype::F64 => NPY_TYPES::NPY_DOUBLE,
        }
    }
}

/// Numbers that no array of the framework holds; written by whoever holds Python's lock.
#[derive(Debug)]
pub(super) enum Cells {
    /// `int32`.
    I32(Box<[AtomicI32]>),
    /// `int64`.
    I64(Box<[AtomicI64]>),
    /// The bits of `float64`.
    F64(Box<[AtomicU64]>),
}

impl Cells {
    /// `n` zeros of a type.
    pub(super) fn zeros(dtype: Dtype, n: usize) -> Self {
        match dtype {
            Dtype::I32 => Cells::I32((0..n).map(|_| AtomicI32::new(0)).collect()),
            Dtype::I64 => Cells::I64((0..n).map(|_| AtomicI64::new(0)).collect()),
            _ => Cells::F64((0..n).map(|_| AtomicU64::new(0)).collect()),
        }
    }

    /// Writes whole numbers from the first cell on.
    pub(super) fn write_integers(&self, values: impl Iterator<Item = i64>) {
        match self {
            Cells::I32(cells) => {
                cells
                    .iter()
                    .zip(values)
                    .for_each(|(to, value)| to.store(value as i32, Ordering::Relaxed));
            }
            Cells::I64(cells) => {
                cells.iter().zip(values).for_each(|(to, value)| to.store(value, Ordering::Relaxed));
            }
            Cells::F64(_) => {}
        }
    }

    /// Writes real numbers from the first cell on.
    pub(super) fn write_reals(&self, values: impl Iterator<Item = f64>) {
        if let Cells::F64(cells) = self {
            let each = cells.iter().zip(values);
            each.for_each(|(to, value)| to.store(value.to_bits(), Ordering::Relaxed));
        }
    }

    fn address(&self) -> *mut u8 {
        match self {
            Cells::I32(cells) => cells.as_ptr().cast_mut().cast(),
            Cells::I64(cells) => cells.as_ptr().cast_mut().cast(),
            Cells::F64(cells) => cells.as_ptr().cast_mut().cast(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Cells::I32(cells) => cells.len(),
            Cells::I64(cells) => cells.len(),
            Cells::F64(cells) => cells.len(),
        }
    }
}

/// Keeps memory alive for as long as an array of Python's shows it.
#[pyclass(frozen, module = "warp_rl._native")]
#[derive(Debug)]
pub(super) struct Frame {
    arrays: Vec<Array>,
    cells: Vec<Cells>,
}

/// Which memory of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// One of its arrays.
    Array(usize),
    /// One of its cells.
    Cells(usize),
}

impl Frame {
    pub(super) fn new(arrays: Vec<Array>, cells: Vec<Cells>) -> Self {
        Self { arrays, cells }
    }

    pub(super) fn cells(&self, index: usize) -> &Cells {
        &self.cells[index]
    }

    /// Whether nobody has `frame` but who asks.
    pub(super) fn is_lone(frame: &Py<Self>) -> bool {
        // SAFETY: the pointer is that of a living object, whose count is read while Python's lock is held.
        unsafe { pyo3::ffi::Py_REFCNT(frame.as_ptr()) == 1 }
    }

    /// Some memory as it is while Python's lock is held.
    pub(super) fn bytes<'a>(&'a self, _: Python<'a>, memory: Memory) -> &'a [u8] {
        let (address, bytes) = self.place(memory);
        // SAFETY: the memory is so large and lives as long as the frame. It is written by whoever has the pool, with
        // Python's lock for cells, and by its steps for arrays: nobody while it is read by the pool's own borrow.
        unsafe { std::slice::from_raw_parts(address, bytes) }
    }

    /// Address and size of some memory, in bytes.
    fn place(&self, memory: Memory) -> (*mut u8, usize) {
        match memory {
            Memory::Array(index) => {
                let array = &self.arrays[index];
                (array.as_ptr(), array.len() * array.dtype().size())
            }
            Memory::Cells(index) => {
                let cells = &self.cells[index];
                let size = if matches!(cells, Cells::I32(_)) { 4 } else { 8 };
                (cells.address(), cells.len() * size)
            }
        }
    }
}

/// An array of `shape` over the beginning of some memory of a frame, which it keeps alive.
pub(super) fn over<'py>(
    frame: &Bound<'py, Frame>,
    memory: Memory,
    dtype: Dtype,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let py = frame.py();
    let (address, bytes) = frame.get().place(memory);
    let size = dtype.size();
    assert!(shape.iter().product::<usize>() * size <= bytes, "an array lies within its memory");
    let mut dims = [0_isize; 8];
    dims.iter_mut().zip(shape).for_each(|(dim, n)| *dim = *n as isize);
    // SAFETY: the memory is as large as was just checked, aligned to its elements, initialised, and lives as
    // long as the frame, which becomes the array's base. Every bit pattern of the frame's numbers is one of
    // `dtype`: flags are 0 or 1. Nobody has a reference into it while Python runs: it is written by steps,
    // into frames that no array shows, or shared on purpose, as NumPy shares memory.
    unsafe {
        let array = PY_ARRAY_API.PyArray_New(
            py,
            get_type_object(py, NpyTypes::PyArray_Type),
            shape.len() as _,
            dims.as_mut_ptr(),
            dtype.number() as _,
            std::ptr::null_mut(),
            address.cast(),
            size as _,
            NPY_ARRAY_CARRAY,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        // Takes over a reference to the frame, even if it fails.
        let base = frame.clone().into_any().into_ptr();
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base) != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(array)
    }
}

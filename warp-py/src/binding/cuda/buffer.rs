//! Memory of the GPU that other libraries look at without a copy.

use super::super::array::Dtype;
use super::super::raised;
use super::dlpack::{BOOL, CPU, CUDA, DataType, Export, FLOAT, INT, UINT};
use super::streams;
use numpy::PyArray1;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use warp_core::DType;
use warp_func::cuda::DeviceArray;

/// An array on the GPU, at an address that never changes; it outlives its environments.
#[pyclass(frozen, module = "warp_rl._native")]
#[derive(Debug)]
pub(in super::super) struct CudaBuffer {
    array: DeviceArray,
    dtype: Dtype,
    shape: Vec<usize>,
}

impl CudaBuffer {
    /// The first elements of an array, as many as `shape` has, each of `dtype`.
    pub(super) fn new(array: DeviceArray, dtype: Dtype, shape: Vec<usize>) -> Self {
        Self { array, dtype, shape }
    }

    fn place(&self) -> (i32, i32) {
        (CUDA, self.array.device().info().ordinal as i32)
    }

    fn data_type(&self) -> DataType {
        let (code, bits) = match self.dtype {
            Dtype::Bool => (BOOL, 8),
            Dtype::I8 => (INT, 8),
            Dtype::I32 => (INT, 32),
            Dtype::I64 => (INT, 64),
            Dtype::U32 => (UINT, 32),
            Dtype::F32 => (FLOAT, 32),
            Dtype::F64 => (FLOAT, 64),
        };
        DataType { code, bits, lanes: 1 }
    }

    fn copied(&self) -> PyResult<DeviceArray> {
        let array = &self.array;
        let copy = DeviceArray::zeros(array.device(), "copy", array.dtype(), array.shape())
            .and_then(|copy| copy.copy_from(array).map(|()| copy));
        copy.map_err(|error| raised(error.into()))
    }
}

#[pymethods]
impl CudaBuffer {
    /// Its shape, environments first.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// The type of its elements, as NumPy has it.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("numpy")?.call_method1("dtype", (typestr(self.dtype),))
    }

    /// Address, shape and type, and the stream behind whose work it is to be read.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let said = PyDict::new(py);
        said.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        said.set_item("typestr", typestr(self.dtype))?;
        said.set_item("data", (self.array.ptr(), false))?;
        said.set_item("strides", py.None())?;
        said.set_item("version", 3)?;
        said.set_item("stream", self.array.device().stream().cu_stream() as u64)?;
        Ok(said)
    }

    /// The GPU.
    fn __dlpack_device__(&self) -> (i32, i32) {
        self.place()
    }

    /// A capsule over the memory; the consumer's stream waits for what is under way.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let asked = dl_device.unwrap_or_else(|| self.place());
        if asked == (CPU, 0) && copy != Some(false) {
            let given = PyDict::new(py);
            given.set_item("max_version", max_version)?;
            return self.numpy(py)?.call_method("__dlpack__", (), Some(&given));
        }
        if asked != self.place() {
            let own = self.place();
            let reason = format!(
                "dl_device is {asked:?}, but the memory is that of {own:?} and is not to be copied"
            );
            return Err(PyBufferError::new_err(reason));
        }
        let copied = copy == Some(true);
        let array = if copied { self.copied()? } else { self.array.clone() };
        let consumer = match stream {
            None | Some(1) => Some(1),
            Some(-1) => None,
            Some(handle) if handle >= 2 => Some(handle as u64),
            Some(other) => {
                let reason = format!(
                    "stream is {other}, but it is None, -1 (no order), 1 or 2 (default streams) or a handle"
                );
                return Err(PyBufferError::new_err(reason));
            }
        };
        if let Some(consumer) = consumer {
            streams::make_stream_wait(self.array.device(), consumer)?;
        }
        let versioned = max_version.is_some_and(|version| version.0 >= 1);
        let shape = self.shape.clone();
        Export { array, dtype: self.data_type(), shape, copied, versioned }.capsule(py)
    }

    /// A copy in the processor's memory; waits for the GPU.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let array = &self.array;
        let pulled = match array.dtype() {
            DType::F32 => pulled::<f32>(py, array)?,
            DType::I32 => pulled::<i32>(py, array)?,
            DType::U32 => pulled::<u32>(py, array)?,
            DType::U8 => pulled::<u8>(py, array)?,
        };
        let seen = pulled.call_method1("view", (typestr(self.dtype),))?;
        let elements: usize = self.shape.iter().product();
        let first = pyo3::types::PySlice::new(py, 0, elements as isize, 1);
        seen.get_item(first)?.call_method1("reshape", (PyTuple::new(py, &self.shape)?,))
    }

    fn __len__(&self) -> usize {
        self.shape[0]
    }

    fn __repr__(&self) -> String {
        let (shape, gpu) = (super::super::numbers::tuple(&self.shape), self.place().1);
        format!("CudaBuffer(shape={shape}, dtype='{}', GPU {gpu})", typestr(self.dtype))
    }
}

/// All of an array's elements, one after another.
fn pulled<'py, T: warp_data::Element + Default + numpy::Element>(
    py: Python<'py>,
    array: &DeviceArray,
) -> PyResult<Bound<'py, PyAny>> {
    let values = py.detach(|| array.pull::<T>()).map_err(|error| raised(error.into()))?;
    Ok(PyArray1::from_vec(py, values).into_any())
}

/// A type as the array interface has it.
fn typestr(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool => "|b1",
        Dtype::I8 => "|i1",
        Dtype::I32 => "<i4",
        Dtype::I64 => "<i8",
        Dtype::U32 => "<u4",
        Dtype::F32 => "<f4",
        Dtype::F64 => "<f8",
    }
}

//! Arrays that lie on the GPU, taken without a copy: by DLPack, or by CUDA's array interface.
#![expect(unsafe_code, reason = "borrows memory of other libraries")]

use super::super::actions::{Form, OfGroup};
use super::super::numbers::tuple;
use super::dlpack::{BOOL, CUDA, FLOAT, INT, Import, UINT};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::any::Any;
use warp_func::cuda::{Device, GivenArray, NumberKind, Tensor};

/// Whether a value lies on a GPU.
pub(super) fn is_on_gpu(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    if value.hasattr(intern!(py, "__dlpack_device__"))? {
        let place: (i32, i32) = value.call_method0(intern!(py, "__dlpack_device__"))?.extract()?;
        return Ok(place.0 == CUDA);
    }
    value.hasattr(intern!(py, "__cuda_array_interface__"))
}

/// What another library says of a tensor.
struct Found {
    kind: Option<NumberKind>,
    /// Whether its numbers are truth values, a byte each.
    truth: bool,
    bits: u32,
    /// Its type, for errors.
    dtype: String,
    shape: Vec<usize>,
    strides: Option<Vec<i64>>,
    address: u64,
    keep: Box<dyn Any + Send + Sync>,
}

/// The actions of one group for `rows` environments. The device's stream waits for who wrote them.
pub(super) fn take(
    device: &Device,
    form: &Form,
    given: &OfGroup<'_>,
    rows: usize,
) -> PyResult<GivenArray> {
    let name = &given.name;
    let found = find(device, name, &given.value)?;
    let wanted = [&[rows], &form.item[..]].concat();
    if found.shape != wanted {
        let (given, wanted) = (tuple(&found.shape), tuple(&wanted));
        let reason = format!("{name} has shape {given}, but {wanted} is needed");
        return Err(PyValueError::new_err(reason));
    }
    let kind = match found.kind {
        Some(kind) if !found.truth && (!form.discrete || kind != NumberKind::Real) => kind,
        _ => {
            let what = if form.discrete { "integers" } else { "real numbers" };
            let reason = format!("{name} has dtype {}, but {what} are needed", found.dtype);
            return Err(PyTypeError::new_err(reason));
        }
    };
    borrow(device, name, kind, found)
}

/// An array of any numbers or truth values, environments first. The device's stream waits for who wrote it.
pub(in super::super) fn take_array(
    device: &Device,
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<GivenArray> {
    if !is_on_gpu(value)? {
        let kind = value.get_type();
        return Err(PyValueError::new_err(format!(
            "{name} of {kind} is not on a GPU, where training is to run: use device=\"cpu\""
        )));
    }
    let found = find(device, name, value)?;
    let Some(kind) = found.kind else {
        let reason = format!("{name} has dtype {}, but numbers are needed", found.dtype);
        return Err(PyTypeError::new_err(reason));
    };
    if found.shape.is_empty() {
        return Err(PyValueError::new_err(format!(
            "{name} has shape (), but a row for each environment is needed"
        )));
    }
    borrow(device, name, kind, found)
}

fn find(device: &Device, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Found> {
    match value.hasattr(intern!(value.py(), "__dlpack__"))? {
        true => by_dlpack(device, name, value),
        false => by_interface(device, name, value),
    }
}

fn borrow(device: &Device, name: &str, kind: NumberKind, found: Found) -> PyResult<GivenArray> {
    let tensor =
        Tensor { kind, bits: found.bits, shape: &found.shape, strides: found.strides.as_deref() };
    // SAFETY: the other library says that its tensor lies there on this GPU and keeps it until `keep` is dropped;
    // the stream waits for its writers.
    let taken = unsafe { GivenArray::borrow(device, &tensor, found.address, found.keep) };
    taken.ok_or_else(|| {
        PyValueError::new_err(format!(
            "{name} has strides that are not supported: make it contiguous"
        ))
    })
}

fn by_dlpack(device: &Device, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Found> {
    let py = value.py();
    let place: (i32, i32) = value.call_method0(intern!(py, "__dlpack_device__"))?.extract()?;
    check_place(device, name, place.0, place.1)?;
    let stream = device.stream().cu_stream() as u64;
    let given = PyDict::new(py);
    given.set_item("stream", stream)?;
    given.set_item("max_version", (1, 0))?;
    let method = value.getattr(intern!(py, "__dlpack__"))?;
    let capsule = match method.call((), Some(&given)) {
        // Libraries from before versions.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            given.del_item("max_version")?;
            method.call((), Some(&given))?
        }
        other => other?,
    };
    let import = Import::take(&capsule)?;
    check_place(device, name, import.place().kind, import.place().number)?;
    let dtype = import.dtype();
    let kind = match (dtype.code, dtype.bits) {
        (INT, 8 | 16 | 32 | 64) => Some(NumberKind::Signed),
        (UINT, 8 | 16 | 32 | 64) | (BOOL, 8) => Some(NumberKind::Unsigned),
        (FLOAT, 32 | 64) => Some(NumberKind::Real),
        _ => None,
    };
    Ok(Found {
        kind: kind.filter(|_| dtype.lanes == 1),
        truth: dtype.code == BOOL,
        bits: dtype.bits.into(),
        dtype: format!("{} of DLPack with {} bits", dtype.code, dtype.bits),
        shape: import.shape(),
        strides: import.strides(),
        address: import.address(),
        keep: Box::new(import),
    })
}

fn by_interface(device: &Device, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Found> {
    let py = value.py();
    let said = value.getattr(intern!(py, "__cuda_array_interface__"))?.cast_into::<PyDict>()?;
    let lacks = |key: &str| {
        PyValueError::new_err(format!("{name}: its __cuda_array_interface__ lacks \"{key}\""))
    };
    let get = |key: &str| said.get_item(key)?.ok_or_else(|| lacks(key));
    let shape: Vec<usize> = get("shape")?.extract()?;
    let typestr: String = get("typestr")?.extract()?;
    let (address, _): (u64, bool) = get("data")?.extract()?;
    let letter = typestr.get(1..2).unwrap_or_default();
    let kind = match letter {
        "i" => Some(NumberKind::Signed),
        "u" | "b" => Some(NumberKind::Unsigned),
        "f" => Some(NumberKind::Real),
        _ => None,
    };
    let bytes: u32 = typestr.get(2..).and_then(|digits| digits.parse().ok()).unwrap_or(0);
    let fits = |kind: &NumberKind| match kind {
        NumberKind::Real => matches!(bytes, 4 | 8),
        _ => matches!(bytes, 1 | 2 | 4 | 8),
    };
    let kind = kind.filter(fits).filter(|_| !typestr.starts_with('>'));
    let some = |key: &str| Ok::<_, PyErr>(said.get_item(key)?.filter(|value| !value.is_none()));
    let strides: Option<Vec<i64>> =
        some("strides")?.map(|strides| strides.extract()).transpose()?;
    let strides = strides.map(|strides| {
        strides.iter().map(|step| step / i64::from(bytes.max(1))).collect::<Vec<_>>()
    });
    if let Some(stream) = some("stream")? {
        super::streams::wait_for_stream(device, stream.extract()?)?;
    }
    let (bits, keep) = (8 * bytes, Box::new(value.clone().unbind()));
    let truth = letter == "b";
    Ok(Found { kind, truth, bits, dtype: typestr, shape, strides, address, keep })
}

fn check_place(device: &Device, name: &str, kind: i32, number: i32) -> PyResult<()> {
    let own = device.info().ordinal;
    let reason = match usize::try_from(number) {
        _ if kind != CUDA => format!("{name} is on a device of DLPack's kind {kind}, not on a GPU"),
        Ok(number) if number == own => return Ok(()),
        _ => format!("{name} is on GPU {number}, but these environments are on GPU {own}"),
    };
    Err(PyValueError::new_err(reason))
}

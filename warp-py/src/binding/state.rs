//! The state of replicas as arrays of NumPy's, to be taken away and to be put back.

use super::numbers::tuple;
use super::raised;
use numpy::{Element, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use warp_core::DType;
use warp_data::{Array, ArrayId, Element as Held};
use warp_func::Replicas;

/// Copies of everything that the futures of the replicas depend on, by name.
pub(super) fn take<'py>(py: Python<'py>, replicas: &Replicas) -> PyResult<Bound<'py, PyDict>> {
    let state = PyDict::new(py);
    let store = replicas.store();
    for id in store.ids() {
        let array = store.array(id);
        let copied = match array.dtype() {
            DType::F32 => copy(py, store.slice::<f32>(id), array)?,
            DType::I32 => copy(py, store.slice::<i32>(id), array)?,
            DType::U32 => copy(py, store.slice::<u32>(id), array)?,
            DType::U8 => copy(py, store.slice::<u8>(id), array)?,
        };
        state.set_item(array.name(), copied)?;
    }
    Ok(state)
}

fn copy<'py, T: Element>(
    py: Python<'py>,
    values: &[T],
    array: &Array,
) -> PyResult<Bound<'py, PyAny>> {
    let flat = numpy::PyArray1::from_slice(py, values);
    Ok(flat.reshape(array.shape().to_vec())?.into_any())
}

/// Puts arrays of `state` into the rows `ids`; all of them, or none if one does not fit.
pub(super) fn put(replicas: &mut Replicas, state: &Bound<'_, PyDict>, ids: &[u32]) -> PyResult<()> {
    check_different(ids)?;
    let before = snapshot(replicas);
    let done = write_all(replicas, state, ids)
        .and_then(|()| check_steps(replicas, ids))
        .and_then(|()| replicas.check_state(ids).map_err(raised));
    match &done {
        Ok(()) => replicas.take_over_seeds(),
        Err(_) => restore(replicas, &before),
    }
    done
}

/// Refuses rows of which two are one environment's.
fn check_different(ids: &[u32]) -> PyResult<()> {
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            let reason =
                format!("env_id holds {} twice, but an environment has one state", pair[0]);
            Err(PyValueError::new_err(reason))
        }
        None => Ok(()),
    }
}

/// Refuses an episode whose next step has no number, for they are shown as int32.
fn check_steps(replicas: &Replicas, ids: &[u32]) -> PyResult<()> {
    const MOST: u32 = i32::MAX as u32 - 1;
    let name = "replica.elapsed_step";
    let steps = replicas.store().get::<u32>(name).map_err(|error| raised(error.into()))?;
    match ids.iter().map(|id| steps[*id as usize]).find(|steps| *steps > MOST) {
        Some(steps) => {
            let reason =
                format!("state[\"{name}\"] holds {steps}, but at most {MOST} are possible");
            Err(PyValueError::new_err(reason))
        }
        None => Ok(()),
    }
}

fn write_all(replicas: &mut Replicas, state: &Bound<'_, PyDict>, ids: &[u32]) -> PyResult<()> {
    let mut says_phase = false;
    for (name, value) in state {
        let name: String = name.extract()?;
        says_phase |= name == "replica.phase";
        let known = replicas.store().id(&name);
        let id = known.map_err(|error| PyKeyError::new_err(error.to_string()))?;
        match replicas.store().array(id).dtype() {
            DType::F32 => write::<f32>(replicas, id, &value, "float32", ids)?,
            DType::I32 => write::<i32>(replicas, id, &value, "int32", ids)?,
            DType::U32 => write::<u32>(replicas, id, &value, "uint32", ids)?,
            DType::U8 => write::<u8>(replicas, id, &value, "uint8", ids)?,
        }
    }
    if !says_phase {
        replicas.mark_running(ids).map_err(raised)?;
    }
    Ok(())
}

fn write<T: Held + Element>(
    replicas: &mut Replicas,
    id: ArrayId,
    value: &Bound<'_, PyAny>,
    dtype: &str,
    ids: &[u32],
) -> PyResult<()> {
    let numpy = value.py().import("numpy")?;
    let given = numpy.call_method1("asarray", (value,))?;
    let array = replicas.store().array(id);
    let (name, row) = (array.name().to_string(), array.row_len());
    let kind: char = given.getattr("dtype")?.getattr("kind")?.extract()?;
    let fits = if T::DTYPE == DType::F32 { "iuf" } else { "iub" };
    if !fits.contains(kind) {
        let given = given.getattr("dtype")?;
        let reason = format!("state[\"{name}\"] has dtype {given}, but {dtype} is needed");
        return Err(PyTypeError::new_err(reason));
    }
    let made = numpy.call_method1("ascontiguousarray", (&given, dtype))?;
    if T::DTYPE != DType::F32 && !numpy.call_method1("array_equal", (&made, &given))?.is_truthy()? {
        let reason = format!("state[\"{name}\"] holds numbers that {dtype} does not");
        return Err(PyValueError::new_err(reason));
    }
    let made = made.cast::<PyArrayDyn<T>>()?;
    let wanted = [&[ids.len()], &array.shape()[1..]].concat();
    if made.shape() != wanted {
        let (given, wanted) = (tuple(made.shape()), tuple(&wanted));
        let reason = format!("state[\"{name}\"] has shape {given}, but {wanted} is needed");
        return Err(PyValueError::new_err(reason));
    }
    let read = made.readonly();
    let values = read.as_slice()?;
    let mut store = replicas.store_mut();
    let all = store.slice_mut::<T>(id);
    for (at, id) in ids.iter().enumerate() {
        let to = *id as usize * row;
        all[to..to + row].copy_from_slice(&values[at * row..][..row]);
    }
    Ok(())
}

/// The bytes of every array.
fn snapshot(replicas: &Replicas) -> Vec<Vec<u32>> {
    let store = replicas.store();
    let bits = |id: ArrayId| match store.array(id).dtype() {
        DType::F32 => store.slice::<f32>(id).iter().map(|value| value.to_bits()).collect(),
        DType::I32 => store.slice::<i32>(id).iter().map(|value| *value as u32).collect(),
        DType::U32 => store.slice::<u32>(id).to_vec(),
        DType::U8 => store.slice::<u8>(id).iter().map(|value| u32::from(*value)).collect(),
    };
    store.ids().map(bits).collect()
}

fn restore(replicas: &mut Replicas, before: &[Vec<u32>]) {
    let ids: Vec<ArrayId> = replicas.store().ids().collect();
    for (id, bits) in ids.into_iter().zip(before) {
        let mut store = replicas.store_mut();
        let bits = bits.iter().copied();
        match store.array(id).dtype() {
            DType::F32 => fill(store.slice_mut(id), bits.map(f32::from_bits)),
            DType::I32 => fill(store.slice_mut(id), bits.map(|bits| bits as i32)),
            DType::U32 => fill(store.slice_mut(id), bits),
            DType::U8 => fill(store.slice_mut(id), bits.map(|bits| bits as u8)),
        }
    }
}

fn fill<T>(to: &mut [T], values: impl Iterator<Item = T>) {
    to.iter_mut().zip(values).for_each(|(to, value)| *to = value);
}

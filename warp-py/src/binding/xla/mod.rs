//! Environments in programs that JAX compiles: custom calls that send and receive those of a pool, or both. A program
//! on a GPU reaches a pool on the processor through `staged`, and one on the GPU through `on_device`.
//!
//! A call names its pool by a number, for a program may outlive it. It runs on a thread of XLA's, which takes Python's
//! lock as every caller of a pool does, and lets go of it while environments are moved.

mod call;
mod layout;
#[cfg(feature = "cuda")]
mod on_device;
#[cfg(feature = "cuda")]
mod staged;
#[cfg(feature = "cuda")]
mod staging;

use super::pool::Pool;
use super::sole::Sole;
use call::{Buffer, Call, Element, Failure, capsule, integer};
use layout::{CallFrame, Handler, XlaError};
use pyo3::PyClass;
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::False;
use pyo3::types::{PyDict, PyWeakrefMethods, PyWeakrefReference};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The pools that programs may name, by number. They keep none alive.
static POOLS: Mutex<BTreeMap<i64, Py<PyWeakrefReference>>> = Mutex::new(BTreeMap::new());

/// The attribute of a call that says which pool it is for.
const POOL: &str = "pool";

/// Makes a pool known to programs; its number.
#[pyfunction]
pub(super) fn xla_number(pool: &Bound<'_, PyAny>) -> PyResult<i64> {
    let py = pool.py();
    let reference = PyWeakrefReference::new(pool)?.unbind();
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    pools.retain(|_, pool| pool.bind(py).upgrade().is_some());
    let number = pools.last_key_value().map_or(1, |(last, _)| last + 1);
    pools.insert(number, reference);
    Ok(number)
}

/// Handlers by the platform and the name of their call, as capsules that JAX registers.
#[pyfunction]
pub(super) fn xla_targets(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let targets = PyDict::new(py);
    let add = |platform: &str, kind: &str, handlers: [Handler; 3]| {
        let of_platform = match targets.get_item(platform)? {
            Some(known) => known.cast_into::<PyDict>()?,
            None => PyDict::new(py),
        };
        for (name, handler) in ["send", "recv", "step"].into_iter().zip(handlers) {
            of_platform.set_item(format!("warp_rl_{kind}{name}"), capsule(py, handler)?)?;
        }
        targets.set_item(platform, of_platform)
    };
    add("cpu", "", [send_handler, recv_handler, step_handler])?;
    #[cfg(feature = "cuda")]
    {
        use on_device as device;
        add("CUDA", "", [on_gpu::send_handler, on_gpu::recv_handler, on_gpu::step_handler])?;
        add("CUDA", "device_", [device::send_handler, device::recv_handler, device::step_handler])?;
    }
    Ok(targets)
}

extern "C" fn send_handler(frame: *mut CallFrame) -> *mut XlaError {
    call::answer_on_host(frame, send)
}

extern "C" fn recv_handler(frame: *mut CallFrame) -> *mut XlaError {
    call::answer_on_host(frame, recv)
}

extern "C" fn step_handler(frame: *mut CallFrame) -> *mut XlaError {
    call::answer_on_host(frame, step)
}

/// What XLA calls of programs on a GPU.
#[cfg(feature = "cuda")]
mod on_gpu {
    use super::staged::answer_staged;
    use super::{CallFrame, XlaError, recv, send, step};

    pub(super) extern "C" fn send_handler(frame: *mut CallFrame) -> *mut XlaError {
        answer_staged(frame, send)
    }

    pub(super) extern "C" fn recv_handler(frame: *mut CallFrame) -> *mut XlaError {
        answer_staged(frame, recv)
    }

    pub(super) extern "C" fn step_handler(frame: *mut CallFrame) -> *mut XlaError {
        answer_staged(frame, step)
    }
}

/// Takes a handle, actions and the environments they are of; hands on the handle.
fn send(call: &Call<'_>) -> Result<(), Failure> {
    let [handle, actions, ids] = call.inputs()?;
    let [passed] = call.outputs()?;
    with_pool::<Pool>(call.frame(), |pool, _| give(pool, actions, ids))?;
    passed.fill(handle.bytes())
}

/// Takes a handle; hands it on, and what the environments show that are finished first.
fn recv(call: &Call<'_>) -> Result<(), Failure> {
    let [handle] = call.inputs()?;
    let (passed, shown) = split(call.all_outputs())?;
    with_pool::<Pool>(call.frame(), |pool, py| take(pool, py, shown))?;
    passed.fill(handle.bytes())
}

/// Both, of which no program can have one without the other.
fn step(call: &Call<'_>) -> Result<(), Failure> {
    let [handle, actions, ids] = call.inputs()?;
    let (passed, shown) = split(call.all_outputs())?;
    with_pool::<Pool>(call.frame(), |pool, py| {
        pool.check_rows(ids.bytes().len() / size_of::<i32>())?;
        give(pool, actions, ids)?;
        take(pool, py, shown)
    })?;
    passed.fill(handle.bytes())
}

/// The handle that is handed on, and what is shown.
fn split<'a, 'b>(outputs: &'b [Buffer<'a>]) -> Result<(&'b Buffer<'a>, &'b [Buffer<'a>]), Failure> {
    outputs.split_first().ok_or_else(|| "a call without results".into())
}

/// Sends environments off.
fn give(pool: &mut Pool, actions: Buffer<'_>, ids: Buffer<'_>) -> Result<(), Failure> {
    match actions.element {
        Element::F32 => pool.send_reals(&actions.numbers()?, &ids.numbers()?)?,
        _ => pool.send_integers(&actions.numbers()?, &ids.numbers()?)?,
    }
    Ok(())
}

/// Receives environments, and writes what they show.
fn take(pool: &mut Pool, py: Python<'_>, shown: &[Buffer<'_>]) -> Result<(), Failure> {
    pool.recv_batch(py)?;
    let written = pool.xla_rows(py)?;
    if written.len() != shown.len() {
        let reason = format!("{} arrays are shown, but {} expected", written.len(), shown.len());
        return Err(reason.into());
    }
    shown.iter().zip(written).try_for_each(|(to, bytes)| to.fill(bytes))
}

/// Does `work` with the pool that a call names, which is of this class.
fn with_pool<T: PyClass<Frozen = False>>(
    frame: &CallFrame,
    work: impl FnOnce(&mut T, Python<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let number = integer(frame, POOL)?;
    Python::attach(|py| {
        let pool = {
            let pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
            pools.get(&number).and_then(|pool| pool.bind(py).upgrade())
        };
        let pool = pool.ok_or("the environments of this program no longer exist")?;
        let pool = pool.cast::<T>().map_err(|error| error.to_string())?;
        let mut pool = Sole::try_from(pool)?;
        work(&mut pool, py)
    })
}

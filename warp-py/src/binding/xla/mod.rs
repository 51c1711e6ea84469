//! Environments in programs that JAX compiles: custom calls that send and receive those of a pool, or both.
//!
//! A call names its pool by a number, for a program may outlive it. It runs on a thread of XLA's, which takes Python's
//! lock as every caller of a pool does, and lets go of it while environments are moved.

mod call;

use super::pool::Pool;
use call::{Buffer, Call, CallFrame, Element, Failure, XlaError, capsule};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyWeakrefMethods, PyWeakrefReference};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The pools that programs may name, by number. They keep none alive.
static POOLS: Mutex<BTreeMap<i64, Py<PyWeakrefReference>>> = Mutex::new(BTreeMap::new());

/// The attribute of a call that says which pool it is for.
const POOL: &str = "pool";

/// Makes a pool known to programs; its number.
#[pyfunction]
pub(super) fn xla_number(pool: &Bound<'_, Pool>) -> PyResult<i64> {
    let py = pool.py();
    let reference = PyWeakrefReference::new(pool)?.unbind();
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    pools.retain(|_, pool| pool.bind(py).upgrade().is_some());
    let number = pools.last_key_value().map_or(1, |(last, _)| last + 1);
    pools.insert(number, reference);
    Ok(number)
}

/// The custom calls by name, as capsules that JAX registers.
#[pyfunction]
pub(super) fn xla_targets(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let targets = PyDict::new(py);
    targets.set_item("warp_rl_send", capsule(py, send_handler)?)?;
    targets.set_item("warp_rl_recv", capsule(py, recv_handler)?)?;
    targets.set_item("warp_rl_step", capsule(py, step_handler)?)?;
    Ok(targets)
}

extern "C" fn send_handler(frame: *mut CallFrame) -> *mut XlaError {
    call::answer(frame, send)
}

extern "C" fn recv_handler(frame: *mut CallFrame) -> *mut XlaError {
    call::answer(frame, recv)
}

extern "C" fn step_handler(frame: *mut CallFrame) -> *mut XlaError {
    call::answer(frame, step)
}

/// Takes a handle, actions and the environments they are of; hands on the handle.
fn send(call: &Call<'_>) -> Result<(), Failure> {
    let [handle, actions, ids] = call.inputs()?;
    let [passed] = call.outputs()?;
    with_pool(call, |pool, _| give(pool, actions, ids))?;
    passed.fill(handle.bytes())
}

/// Takes a handle; hands it on, and what the environments show that are finished first.
fn recv(call: &Call<'_>) -> Result<(), Failure> {
    let [handle] = call.inputs()?;
    let outputs = call.all_outputs()?;
    let (passed, shown) = split(&outputs)?;
    with_pool(call, |pool, py| take(pool, py, shown))?;
    passed.fill(handle.bytes())
}

/// Both, of which no program can have one without the other.
fn step(call: &Call<'_>) -> Result<(), Failure> {
    let [handle, actions, ids] = call.inputs()?;
    let outputs = call.all_outputs()?;
    let (passed, shown) = split(&outputs)?;
    with_pool(call, |pool, py| {
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

/// Does `work` with the pool that a call names.
fn with_pool(
    call: &Call<'_>,
    work: impl FnOnce(&mut Pool, Python<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let number = call.integer(POOL)?;
    Python::attach(|py| {
        let pool = {
            let pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
            pools.get(&number).and_then(|pool| pool.bind(py).upgrade())
        };
        let pool = pool.ok_or("the environments of this program no longer exist")?;
        let pool = pool.cast::<Pool>().map_err(|error| error.to_string())?;
        let mut pool =
            pool.try_borrow_mut().map_err(|_| "these environments are in use by another thread")?;
        work(&mut pool, py)
    })
}

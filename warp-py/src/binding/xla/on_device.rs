//! Calls of programs on a GPU for environments on the same GPU: nothing goes through the host, which waits for nothing.
//!
//! The stream of the environments waits for XLA's before it reads arguments and writes results, and XLA's for it
//! afterwards, both by events.
#![expect(unsafe_code, reason = "a call's arrays are addresses of the GPU's")]

use super::super::cuda::{CudaPool, is_now};
use super::call::{Element, Failure, Placed, answer, placed};
use super::layout::{CallFrame, XlaError};
use super::staged::stream;
use super::with_pool;
use warp_core::DType;
use warp_data::cuda::{Device, DeviceArray};
use warp_func::cuda::{GivenArray, NumberKind, Tensor};

pub(super) extern "C" fn send_handler(frame: *mut CallFrame) -> *mut XlaError {
    answer(frame, |frame| moved(frame, Half::Send))
}

pub(super) extern "C" fn recv_handler(frame: *mut CallFrame) -> *mut XlaError {
    answer(frame, |frame| moved(frame, Half::Recv))
}

pub(super) extern "C" fn step_handler(frame: *mut CallFrame) -> *mut XlaError {
    answer(frame, |frame| moved(frame, Half::Both))
}

/// What a call does of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    Send,
    Recv,
    Both,
}

/// Takes a handle and actions, as far as it sends; hands on the handle, and shows what it receives.
fn moved(frame: &CallFrame, half: Half) -> Result<(), Failure> {
    let (inputs, outputs) = (placed(&frame.args)?, placed(&frame.rets)?);
    let ([handle, actions @ ..], [passed, shown @ ..]) = (&inputs[..], &outputs[..]) else {
        return Err("a call without a handle".into());
    };
    let stream = stream(frame)?;
    with_pool::<CudaPool>(frame, |pool, _| {
        let device = pool.for_xla()?.0.gpu().clone();
        // SAFETY: XLA's stream lives longer than the call.
        unsafe { device.wait_for_stream(stream) }.map_err(|error| error.to_string())?;
        if half != Half::Recv {
            send(pool, actions)?;
        }
        if half != Half::Send {
            recv(pool, shown)?;
        }
        borrowed(&device, *passed).copy_from(&borrowed(&device, *handle)).map_err(said)?;
        // SAFETY: as above.
        unsafe { device.make_stream_wait(stream) }.map_err(said)
    })
}

fn send(pool: &mut CudaPool, actions: &[Placed]) -> Result<(), Failure> {
    let (replicas, forms) = pool.for_xla()?;
    if actions.len() != forms.len() {
        return Err(format!("{} actions, but {} are needed", actions.len(), forms.len()).into());
    }
    let (device, rows) = (replicas.gpu().clone(), replicas.seeds().len());
    let mut taken = Vec::with_capacity(forms.len());
    for (form, given) in forms.iter().zip(actions) {
        let (element, kind) = match form.discrete {
            true => (Element::I32, NumberKind::Signed),
            false => (Element::F32, NumberKind::Real),
        };
        let shape = [&[rows], &form.item[..]].concat();
        let bytes = 4 * shape.iter().product::<usize>();
        if given.element != element || given.bytes != bytes {
            let reason = format!(
                "actions are {} bytes of {:?}, but {bytes} of {element:?} are needed",
                given.bytes, given.element
            );
            return Err(reason.into());
        }
        let tensor = Tensor { kind, bits: 32, shape: &shape, strides: None };
        // SAFETY: the argument is there with this shape and type, and its writers are before the device's stream;
        // XLA's stream, behind which its memory is used again, waits for that one.
        let one = unsafe { GivenArray::borrow(&device, &tensor, given.address, Box::new(())) };
        taken.push(one.ok_or("actions have more dimensions than can be taken")?);
    }
    pool.sent()?;
    let moved = pool.for_xla()?.0.step(taken, None);
    if moved.is_err() {
        pool.received()?;
    }
    moved.map_err(|error| error.to_string().into())
}

fn recv(pool: &mut CudaPool, shown: &[Placed]) -> Result<(), Failure> {
    pool.received()?;
    let replicas = pool.for_xla()?.0;
    let device = replicas.gpu().clone();
    let now: Vec<_> = replicas.shown().iter().filter(|shown| is_now(shown)).collect();
    if now.len() != shown.len() {
        let reason = format!("{} arrays are shown, but {} expected", now.len(), shown.len());
        return Err(reason.into());
    }
    for (from, to) in now.iter().zip(shown) {
        let bytes = from.array.as_bytes();
        let to = borrowed(&device, *to);
        to.copy_from(&bytes).map_err(said)?;
    }
    Ok(())
}

/// An argument or a result of a call as an array of ours.
fn borrowed(device: &Device, placed: Placed) -> DeviceArray {
    let form = ("of XLA", DType::U8, &[placed.bytes][..]);
    // SAFETY: it is there while the call lasts, and afterwards until XLA's stream is past it, which waits for what is
    // put on the device's stream now.
    unsafe { DeviceArray::borrow(device, form, placed.address, Box::new(())) }
}

fn said(error: warp_data::Error) -> Failure {
    error.to_string().into()
}

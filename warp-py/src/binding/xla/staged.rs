//! Calls of programs on a GPU for environments on the processor: arguments are copied down on XLA's stream, and results
//! up behind what is on it.
#![expect(unsafe_code, reason = "a call's arrays are addresses of the GPU's")]

use super::call::{Buffer, Call, Failure, Placed, Work, answer, error_of, placed};
use super::layout::{Api, CallFrame, GetStream, XlaError};
use super::staging::{ForeignStream, Passage};

/// What a handler of programs on a GPU does with a pool on the processor.
pub(super) fn answer_staged(frame: *mut CallFrame, work: Work) -> *mut XlaError {
    answer(frame, |frame| staged(frame, work))
}

/// The stream that a call is to be ordered on.
pub(super) fn stream(frame: &CallFrame) -> Result<u64, Failure> {
    let mut asked = GetStream {
        size: size_of::<GetStream>(),
        extension: std::ptr::null_mut(),
        context: frame.context,
        stream: std::ptr::null_mut(),
    };
    // SAFETY: the interface lives as long as XLA, and is at least as large as it says.
    let refused = unsafe {
        if (*frame.api).size < size_of::<Api>() {
            return Err("XLA's interface lacks the stream of a call".into());
        }
        ((*frame.api).stream)(&raw mut asked)
    };
    error_of(frame, refused, "XLA has no stream for a call")?;
    Ok(asked.stream as u64)
}

fn staged(frame: &CallFrame, work: Work) -> Result<(), Failure> {
    let (inputs, outputs) = (placed(&frame.args)?, placed(&frame.rets)?);
    let (down, up, bytes) = laid_out(&inputs, &outputs);
    // SAFETY: XLA's stream lives longer than the call.
    let stream = unsafe { ForeignStream::enter(stream(frame)?) }?;
    let mut staging = stream.staging(bytes)?;
    // SAFETY: XLA's arguments and results are on the GPU of its stream and have these sizes.
    unsafe { stream.down(&mut staging, &down) }?;
    let arrays = inputs.iter().chain(&outputs).zip(down.iter().chain(&up));
    let mut arguments = here(staging.bytes(), arrays);
    let results = arguments.split_off(inputs.len());
    work(&Call::of(frame, arguments, results))?;
    // SAFETY: as above; what was written last is not written again before it is copied.
    unsafe { stream.up(staging, &up) }
}

/// Where arguments and results lie in the host's memory, each at a multiple of 64, and how much they need.
fn laid_out(inputs: &[Placed], outputs: &[Placed]) -> (Vec<Passage>, Vec<Passage>, usize) {
    let mut end = 0_usize;
    let mut place = |one: &Placed| {
        let start = end.next_multiple_of(64);
        end = start + one.bytes;
        Passage { address: one.address, bytes: start..end }
    };
    let down = inputs.iter().map(&mut place).collect();
    let up = outputs.iter().map(&mut place).collect();
    (down, up, end)
}

/// The arrays in the host's memory; they lie there one after another.
fn here<'a, 'b>(
    mut memory: &'a mut [u8],
    arrays: impl Iterator<Item = (&'b Placed, &'b Passage)>,
) -> Vec<Buffer<'a>> {
    let mut end = 0;
    let next = |(one, at): (&Placed, &Passage)| {
        let (_, rest) = std::mem::take(&mut memory).split_at_mut(at.bytes.start - end);
        let (of_one, rest) = rest.split_at_mut(one.bytes);
        (memory, end) = (rest, at.bytes.end);
        Buffer::at(one.element, of_one)
    };
    arrays.map(next).collect()
}

//! Calls of XLA's foreign functions: what a handler is given and gives back, and the answer to what XLA asks of it.
#![expect(unsafe_code, reason = "XLA's calls are structs of C")]

use super::layout::*;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::{CString, c_void};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a call failed, as its program's user will read it.
#[derive(Debug)]
pub(super) struct Failure(String);

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

impl From<&str> for Failure {
    fn from(reason: &str) -> Self {
        Self(reason.into())
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self(error.to_string())
    }
}

/// The type of a buffer's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    /// A byte, or a truth value in one.
    Byte,
    /// `i32`.
    I32,
    /// `f32`.
    F32,
}

impl Element {
    fn size(self) -> usize {
        match self {
            Element::Byte => 1,
            Element::I32 | Element::F32 => 4,
        }
    }
}

/// One call, while it lasts.
#[derive(Debug)]
pub(super) struct Call<'a> {
    frame: *const CallFrame,
    inputs: Vec<Buffer<'a>>,
    outputs: Vec<Buffer<'a>>,
}

/// An argument or a result of a call: an array, the last dimension's elements side by side, in the host's memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buffer<'a> {
    pub(super) element: Element,
    data: *mut u8,
    bytes: usize,
    lasts: PhantomData<&'a CallFrame>,
}

/// An argument or a result of a call in the memory of whatever the program runs on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub(super) element: Element,
    pub(super) address: u64,
    pub(super) bytes: usize,
}

impl<'a> Buffer<'a> {
    /// An array that was brought into the host's memory.
    #[cfg(feature = "cuda")]
    pub(super) fn at(element: Element, bytes: &'a mut [u8]) -> Self {
        Self { element, data: bytes.as_mut_ptr(), bytes: bytes.len(), lasts: PhantomData }
    }

    /// An argument's memory.
    pub(super) fn bytes(self) -> &'a [u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: XLA keeps its buffers while the call lasts, and hands over no argument for a result: these calls
        // are registered without aliases.
        unsafe { std::slice::from_raw_parts(self.data, self.bytes) }
    }

    /// An argument's elements, which have four bytes each.
    pub(super) fn numbers<T: From32>(self) -> Result<Vec<T>, Failure> {
        if self.element != T::ELEMENT {
            return Err(format!(
                "elements are {:?}, but {:?} are needed",
                self.element,
                T::ELEMENT
            )
            .into());
        }
        let words = self.bytes().chunks_exact(4);
        Ok(words.map(|word| T::from_word([word[0], word[1], word[2], word[3]])).collect())
    }

    /// Writes a result, all of it.
    pub(super) fn fill(self, from: &[u8]) -> Result<(), Failure> {
        if from.len() != self.bytes {
            return Err(format!(
                "{} bytes are shown where {} are expected",
                from.len(),
                self.bytes
            )
            .into());
        }
        // SAFETY: the memory is as large, XLA's while the call lasts, and nobody else's meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.data, from.len()) };
        Ok(())
    }
}

/// A number of four bytes.
pub(super) trait From32: Sized {
    /// What XLA calls it.
    const ELEMENT: Element;
    /// The number in these bytes.
    fn from_word(word: [u8; 4]) -> Self;
}

impl From32 for i32 {
    const ELEMENT: Element = Element::I32;
    fn from_word(word: [u8; 4]) -> Self {
        i32::from_ne_bytes(word)
    }
}

impl From32 for f32 {
    const ELEMENT: Element = Element::F32;
    fn from_word(word: [u8; 4]) -> Self {
        f32::from_ne_bytes(word)
    }
}

impl<'a> Call<'a> {
    /// A call whose arrays have been brought into the host's memory.
    #[cfg(feature = "cuda")]
    pub(super) fn of(
        frame: &'a CallFrame,
        inputs: Vec<Buffer<'a>>,
        outputs: Vec<Buffer<'a>>,
    ) -> Self {
        Self { frame, inputs, outputs }
    }

    /// A call whose arrays are in the host's memory.
    fn on_host(frame: &'a CallFrame) -> Result<Self, Failure> {
        let here = |placed: Placed| Buffer {
            element: placed.element,
            data: placed.address as *mut u8,
            bytes: placed.bytes,
            lasts: PhantomData,
        };
        let inputs = placed(&frame.args)?.into_iter().map(here).collect();
        let outputs = placed(&frame.rets)?.into_iter().map(here).collect();
        Ok(Self { frame, inputs, outputs })
    }

    /// What XLA hands over.
    pub(super) fn frame(&self) -> &'a CallFrame {
        // SAFETY: `answer` makes a call of XLA's frame, which lives until the handler returns.
        unsafe { &*self.frame }
    }

    /// The arguments, which are so many.
    pub(super) fn inputs<const N: usize>(&self) -> Result<[Buffer<'a>; N], Failure> {
        as_many(self.inputs.clone())
    }

    /// The results, which are so many.
    pub(super) fn outputs<const N: usize>(&self) -> Result<[Buffer<'a>; N], Failure> {
        as_many(self.outputs.clone())
    }

    /// The results.
    pub(super) fn all_outputs(&self) -> &[Buffer<'a>] {
        &self.outputs
    }
}

/// A call's attribute of this name, a whole number of 64 bits.
pub(super) fn integer(frame: &CallFrame, name: &str) -> Result<i64, Failure> {
    let given = &frame.attributes;
    for i in 0..given.n as usize {
        // SAFETY: there are `n` types, names and attributes; a name has as many bytes as it says.
        let (kind, called) = unsafe {
            let span = &**given.names.add(i);
            (*given.types.add(i), std::slice::from_raw_parts(span.start, span.length))
        };
        if called != name.as_bytes() || kind != SCALAR {
            continue;
        }
        // SAFETY: an attribute of this type is a scalar, whose type says what it points at.
        let scalar = unsafe { &**given.each.add(i) };
        if scalar.dtype == S64 {
            // SAFETY: it is of 64 bits.
            return Ok(unsafe { scalar.value.read_unaligned() });
        }
    }
    Err(format!("a call lacks the attribute \"{name}\"").into())
}

fn as_many<const N: usize>(each: Vec<Buffer<'_>>) -> Result<[Buffer<'_>; N], Failure> {
    let given = each.len();
    each.try_into().map_err(|_| format!("a call has {given} arrays, but {N} are needed").into())
}

/// Arguments or results, where they are.
pub(super) fn placed(values: &Values) -> Result<Vec<Placed>, Failure> {
    let one = |i: usize| {
        // SAFETY: there are `n` types and pointers, which are those of buffers where the type says so.
        let raw = unsafe {
            match *values.types.add(i) {
                BUFFER => &**values.each.add(i),
                other => return Err(format!("a value of kind {other}").into()),
            }
        };
        let element = match raw.dtype {
            PRED | S8 | U8 => Element::Byte,
            S32 => Element::I32,
            F32 => Element::F32,
            other => return Err(format!("elements of XLA's type {other} are not supported").into()),
        };
        let dims = match raw.rank {
            // A scalar may have no place for them.
            0 => &[][..],
            // SAFETY: there are `rank` dimensions.
            rank => unsafe { std::slice::from_raw_parts(raw.dims, rank as usize) },
        };
        let bytes = dims.iter().product::<i64>() as usize * element.size();
        Ok(Placed { element, address: raw.data as u64, bytes })
    };
    (0..values.n as usize).map(one).collect()
}

/// What a call does, once its arrays are in the host's memory.
pub(super) type Work = fn(&Call<'_>) -> Result<(), Failure>;

/// What a handler of programs on the processor does.
pub(super) fn answer_on_host(frame: *mut CallFrame, work: Work) -> *mut XlaError {
    answer(frame, |frame| work(&Call::on_host(frame)?))
}

/// Says a handler's version if it is asked, or does `work`, whose failures and panics are XLA's errors.
pub(super) fn answer(
    frame: *mut CallFrame,
    work: impl FnOnce(&CallFrame) -> Result<(), Failure>,
) -> *mut XlaError {
    // SAFETY: XLA hands over a frame that lives until this returns.
    let given = unsafe { &*frame };
    if given.size < size_of::<CallFrame>() {
        // There is no sentence without the interface that makes one; XLA has refused the version before.
        std::process::abort();
    }
    // SAFETY: an extension is null or one, and its kind says how it goes on.
    if let Some(extension) = unsafe { given.extension.as_ref() }
        && extension.kind == METADATA
    {
        // SAFETY: as above; nobody else has what is asked to be filled in.
        unsafe {
            let metadata = (*given.extension.cast::<MetadataExtension>()).metadata;
            (*metadata).version.major = MAJOR;
            (*metadata).version.minor = MINOR;
            // None: calls that are recorded, as CUDA's graphs are, and replayed would move nothing.
            (*metadata).traits = 0;
        }
        return std::ptr::null_mut();
    }
    let work = || work(given);
    let done = match given.stage {
        EXECUTE => catch_unwind(AssertUnwindSafe(work))
            .unwrap_or_else(|_| Err("a step of the environments has panicked".into())),
        _ => Ok(()),
    };
    match done {
        Ok(()) => std::ptr::null_mut(),
        Err(failure) => error(given, failure),
    }
}

fn error(given: &CallFrame, Failure(reason): Failure) -> *mut XlaError {
    let message = CString::new(reason.replace('\0', " ")).unwrap_or_default();
    let mut made = CreateError {
        size: size_of::<CreateError>(),
        extension: std::ptr::null_mut(),
        message: message.as_ptr(),
        code: INVALID,
    };
    // SAFETY: the interface lives as long as XLA; the message is copied.
    unsafe { ((*given.api).create_error)(&raw mut made) }
}

/// Takes an error that XLA made, if it did.
#[cfg(feature = "cuda")]
pub(super) fn error_of(
    given: &CallFrame,
    made: *mut XlaError,
    sentence: &str,
) -> Result<(), Failure> {
    if made.is_null() {
        return Ok(());
    }
    let mut taken = DestroyError {
        size: size_of::<DestroyError>(),
        extension: std::ptr::null_mut(),
        error: made,
    };
    // SAFETY: the interface lives as long as XLA; the error is ours, and is destroyed once.
    unsafe { ((*given.api).destroy_error)(&raw mut taken) };
    Err(sentence.into())
}

/// A handler in a capsule without a name, as JAX takes it.
pub(super) fn capsule(py: Python<'_>, handler: Handler) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: the function lives as long as this module, which Python never unloads; no name, nothing to free.
    let made = unsafe {
        let made = pyo3::ffi::PyCapsule_New(handler as *mut c_void, std::ptr::null(), None);
        Bound::from_owned_ptr_or_err(py, made)?
    };
    Ok(made.cast_into::<PyCapsule>()?.into_any())
}

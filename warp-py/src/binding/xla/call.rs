//! XLA's foreign functions, as its header `xla/ffi/api/c_api.h` lays out their calls.
//!
//! Of its structs only what has been the same since their first version is read: every one begins with its size, which
//! is checked before its last field is.
#![expect(unsafe_code, reason = "XLA's calls are structs of C")]

use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::{CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A handler of calls; null is success.
pub(super) type Handler = extern "C" fn(*mut CallFrame) -> *mut XlaError;

/// An error that XLA owns.
#[repr(C)]
pub(super) struct XlaError {
    _opaque: [u8; 0],
}

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

/// `XLA_FFI_Extension_Base`.
#[repr(C)]
struct Extension {
    size: usize,
    kind: c_int,
    next: *mut Extension,
}

/// `XLA_FFI_Api_Version`.
#[repr(C)]
struct Version {
    size: usize,
    extension: *mut Extension,
    major: c_int,
    minor: c_int,
}

/// The beginning of `XLA_FFI_Metadata`.
#[repr(C)]
struct Metadata {
    size: usize,
    version: Version,
    traits: u32,
}

/// `XLA_FFI_Metadata_Extension`.
#[repr(C)]
struct MetadataExtension {
    base: Extension,
    metadata: *mut Metadata,
}

/// The beginning of `XLA_FFI_Api`.
#[repr(C)]
struct Api {
    size: usize,
    extension: *mut Extension,
    version: Version,
    internal: *const c_void,
    create_error: extern "C" fn(*mut CreateError) -> *mut XlaError,
}

/// `XLA_FFI_Error_Create_Args`.
#[repr(C)]
struct CreateError {
    size: usize,
    extension: *mut Extension,
    message: *const c_char,
    code: c_int,
}

/// `XLA_FFI_Buffer`.
#[repr(C)]
struct RawBuffer {
    size: usize,
    extension: *mut Extension,
    dtype: c_int,
    data: *mut u8,
    rank: i64,
    dims: *const i64,
}

/// `XLA_FFI_Args` and `XLA_FFI_Rets`.
#[repr(C)]
struct Values {
    size: usize,
    extension: *mut Extension,
    n: i64,
    types: *const c_int,
    each: *const *const RawBuffer,
}

/// `XLA_FFI_ByteSpan`.
#[repr(C)]
struct Span {
    start: *const u8,
    length: usize,
}

/// `XLA_FFI_Scalar`.
#[repr(C)]
struct Scalar {
    dtype: c_int,
    value: *const i64,
}

/// `XLA_FFI_Attrs`.
#[repr(C)]
struct Attributes {
    size: usize,
    extension: *mut Extension,
    n: i64,
    types: *const c_int,
    names: *const *const Span,
    each: *const *const Scalar,
}

/// `XLA_FFI_CallFrame` up to its attributes.
#[repr(C)]
pub(super) struct CallFrame {
    size: usize,
    extension: *mut Extension,
    api: *const Api,
    context: *mut c_void,
    stage: c_int,
    args: Values,
    rets: Values,
    attributes: Attributes,
}

/// The version of the interface whose structs these are.
const MAJOR: c_int = 0;
const MINOR: c_int = 1;
/// The only kind of extension: a question about the handler, instead of a call.
const METADATA: c_int = 1;
/// The stage in which arguments hold numbers.
const EXECUTE: c_int = 3;
/// A scalar among attributes; a buffer among values.
const SCALAR: c_int = 3;
const BUFFER: c_int = 1;
/// `INVALID_ARGUMENT`.
const INVALID: c_int = 3;
/// Types of elements: `PRED`, `S32`, `S64`, `U8`, `F32`.
const PRED: c_int = 1;
const S32: c_int = 4;
const S64: c_int = 5;
const U8: c_int = 6;
const F32: c_int = 11;

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
    lasts: PhantomData<&'a CallFrame>,
}

/// An argument or a result of a call: an array, the last dimension's elements side by side.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buffer<'a> {
    pub(super) element: Element,
    data: *mut u8,
    bytes: usize,
    lasts: PhantomData<&'a CallFrame>,
}

impl<'a> Buffer<'a> {
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
    fn frame(&self) -> &'a CallFrame {
        // SAFETY: `answer` makes a call of XLA's frame, which lives until the handler returns.
        unsafe { &*self.frame }
    }

    /// The arguments, which are so many.
    pub(super) fn inputs<const N: usize>(&self) -> Result<[Buffer<'a>; N], Failure> {
        as_many(buffers(&self.frame().args)?)
    }

    /// The results, which are so many.
    pub(super) fn outputs<const N: usize>(&self) -> Result<[Buffer<'a>; N], Failure> {
        as_many(self.all_outputs()?)
    }

    /// The results.
    pub(super) fn all_outputs(&self) -> Result<Vec<Buffer<'a>>, Failure> {
        buffers(&self.frame().rets)
    }

    /// The attribute of this name, a whole number of 64 bits.
    pub(super) fn integer(&self, name: &str) -> Result<i64, Failure> {
        let given = &self.frame().attributes;
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
}

fn as_many<const N: usize>(each: Vec<Buffer<'_>>) -> Result<[Buffer<'_>; N], Failure> {
    let given = each.len();
    each.try_into().map_err(|_| format!("a call has {given} arrays, but {N} are needed").into())
}

fn buffers<'a>(values: &Values) -> Result<Vec<Buffer<'a>>, Failure> {
    let one = |i: usize| {
        // SAFETY: there are `n` types and pointers, which are those of buffers where the type says so.
        let raw = unsafe {
            match *values.types.add(i) {
                BUFFER => &**values.each.add(i),
                other => return Err(format!("a value of kind {other}").into()),
            }
        };
        let element = match raw.dtype {
            PRED | U8 => Element::Byte,
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
        Ok(Buffer { element, data: raw.data, bytes, lasts: PhantomData })
    };
    (0..values.n as usize).map(one).collect()
}

/// What a handler does: says its version if it is asked, or `work`, whose failures and panics are XLA's errors.
pub(super) fn answer(
    frame: *mut CallFrame,
    work: fn(&Call<'_>) -> Result<(), Failure>,
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
            (*metadata).traits = 0;
        }
        return std::ptr::null_mut();
    }
    let call = Call { frame, lasts: PhantomData };
    let done = match given.stage {
        EXECUTE => catch_unwind(AssertUnwindSafe(|| work(&call)))
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

/// A handler in a capsule without a name, as JAX takes it.
pub(super) fn capsule(py: Python<'_>, handler: Handler) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: the function lives as long as this module, which Python never unloads; no name, nothing to free.
    let made = unsafe {
        let made = pyo3::ffi::PyCapsule_New(handler as *mut c_void, std::ptr::null(), None);
        Bound::from_owned_ptr_or_err(py, made)?
    };
    Ok(made.cast_into::<PyCapsule>()?.into_any())
}

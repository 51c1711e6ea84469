//! The structs of XLA's foreign functions, as its header `xla/ffi/api/c_api.h` lays them out.
//!
//! Only what has been the same since their first version is here: every one begins with its size, which `call` checks
//! before it reads their last field.

use std::ffi::{c_char, c_int, c_void};

/// A handler of calls; null is success.
pub(super) type Handler = extern "C" fn(*mut CallFrame) -> *mut XlaError;

/// An error that XLA owns.
#[repr(C)]
pub(super) struct XlaError {
    _opaque: [u8; 0],
}

/// `XLA_FFI_Extension_Base`.
#[repr(C)]
pub(super) struct Extension {
    pub(super) size: usize,
    pub(super) kind: c_int,
    pub(super) next: *mut Extension,
}

/// `XLA_FFI_Api_Version`.
#[repr(C)]
pub(super) struct Version {
    pub(super) size: usize,
    pub(super) extension: *mut Extension,
    pub(super) major: c_int,
    pub(super) minor: c_int,
}

/// The beginning of `XLA_FFI_Metadata`.
#[repr(C)]
pub(super) struct Metadata {
    pub(super) size: usize,
    pub(super) version: Version,
    pub(super) traits: u32,
}

/// `XLA_FFI_Metadata_Extension`.
#[repr(C)]
pub(super) struct MetadataExtension {
    pub(super) base: Extension,
    pub(super) metadata: *mut Metadata,
}

/// The beginning of `XLA_FFI_Api`.
#[repr(C)]
pub(super) struct Api {
    pub(super) size: usize,
    pub(super) extension: *mut Extension,
    pub(super) version: Version,
    pub(super) internal: *const c_void,
    pub(super) create_error: extern "C" fn(*mut CreateError) -> *mut XlaError,
    pub(super) message_of_error: *const c_void,
    pub(super) destroy_error: extern "C" fn(*mut DestroyError),
    pub(super) register: *const c_void,
    pub(super) stream: extern "C" fn(*mut GetStream) -> *mut XlaError,
}

/// `XLA_FFI_Error_Create_Args`.
#[repr(C)]
pub(super) struct CreateError {
    pub(super) size: usize,
    pub(super) extension: *mut Extension,
    pub(super) message: *const c_char,
    pub(super) code: c_int,
}

/// `XLA_FFI_Error_Destroy_Args`.
#[repr(C)]
pub(super) struct DestroyError {
    pub(super) size: usize,
    pub(super) extension: *mut Extension,
    pub(super) error: *mut XlaError,
}

/// `XLA_FFI_Stream_Get_Args`.
#[repr(C)]
pub(super) struct GetStream {
    pub(super) size: usize,
    pub(super) extension: *mut Extension,
    pub(super) context: *mut c_void,
    pub(super) stream: *mut c_void,
}

/// `XLA_FFI_Buffer`.
#[repr(C)]
pub(super) struct RawBuffer {
    pub(super) size: usize,
    pub(super) extension: *mut Extension,
    pub(super) dtype: c_int,
    pub(super) data: *mut u8,
    pub(super) rank: i64,
    pub(super) dims: *const i64,
}

/// `XLA_FFI_Args` and `XLA_FFI_Rets`.
#[repr(C)]
pub(super) struct Values {
    pub(super) size: usize,
    pub(super) extension: *mut Extension,
    pub(super) n: i64,
    pub(super) types: *const c_int,
    pub(super) each: *const *const RawBuffer,
}

/// `XLA_FFI_ByteSpan`.
#[repr(C)]
pub(super) struct Span {
    pub(super) start: *const u8,
    pub(super) length: usize,
}

/// `XLA_FFI_Scalar`.
#[repr(C)]
pub(super) struct Scalar {
    pub(super) dtype: c_int,
    pub(super) value: *const i64,
}

/// `XLA_FFI_Attrs`.
#[repr(C)]
pub(super) struct Attributes {
    pub(super) size: usize,
    pub(super) extension: *mut Extension,
    pub(super) n: i64,
    pub(super) types: *const c_int,
    pub(super) names: *const *const Span,
    pub(super) each: *const *const Scalar,
}

/// `XLA_FFI_CallFrame` up to its attributes.
#[repr(C)]
pub(super) struct CallFrame {
    pub(super) size: usize,
    pub(super) extension: *mut Extension,
    pub(super) api: *const Api,
    pub(super) context: *mut c_void,
    pub(super) stage: c_int,
    pub(super) args: Values,
    pub(super) rets: Values,
    pub(super) attributes: Attributes,
}

/// The version of the interface whose structs these are.
pub(super) const MAJOR: c_int = 0;
pub(super) const MINOR: c_int = 1;
/// The only kind of extension: a question about the handler, instead of a call.
pub(super) const METADATA: c_int = 1;
/// The stage in which arguments hold numbers.
pub(super) const EXECUTE: c_int = 3;
/// A scalar among attributes; a buffer among values.
pub(super) const SCALAR: c_int = 3;
pub(super) const BUFFER: c_int = 1;
/// `INVALID_ARGUMENT`.
pub(super) const INVALID: c_int = 3;
/// Types of elements: `PRED`, `S8`, `S32`, `S64`, `U8`, `F32`.
pub(super) const PRED: c_int = 1;
pub(super) const S8: c_int = 2;
pub(super) const S32: c_int = 4;
pub(super) const S64: c_int = 5;
pub(super) const U8: c_int = 6;
pub(super) const F32: c_int = 11;

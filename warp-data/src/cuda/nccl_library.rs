//! NCCL's library: where it is found, and its functions.
#![expect(unsafe_code, reason = "looks up C functions, and calls one")]

use crate::error::{Error, Result};
use libloading::Library;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// Where the library is named, if not by its usual names.
pub const WARP_NCCL: &str = "WARP_NCCL";
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];
/// The oldest version that communicators can be made with as here: 2.18.
const OLDEST: i32 = 21_800;

/// Bytes of a communicator's name.
pub(super) const ID: usize = 128;

pub(super) const SUCCESS: c_int = 0;

/// A communicator.
pub(super) type Handle = *mut c_void;

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct UniqueId(pub(super) [c_char; ID]);

/// `ncclConfig_t` as of 2.17, which every later version takes.
#[repr(C)]
pub(super) struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
    cga_cluster_size: c_int,
    min_ctas: c_int,
    max_ctas: c_int,
    net_name: *const c_char,
    split_share: c_int,
}

impl Config {
    /// Calls return at once; all else is as NCCL chooses.
    pub(super) fn new() -> Self {
        let undefined = c_int::MIN;
        Self {
            size: size_of::<Self>(),
            magic: 0xcafe_beef,
            version: 21_700,
            blocking: 0,
            cga_cluster_size: undefined,
            min_ctas: undefined,
            max_ctas: undefined,
            net_name: std::ptr::null(),
            split_share: undefined,
        }
    }
}

/// Declares the functions that are called, and looks them up by their names.
macro_rules! functions {
    ($($field:ident: $name:literal fn($($arg:ty),*) -> $result:ty;)*) => {
        pub(super) struct Functions {
            $(pub(super) $field: unsafe extern "C" fn($($arg),*) -> $result,)*
            /// Keeps them loaded.
            _library: Library,
            /// Where it was found.
            pub(super) path: String,
        }
        impl Functions {
            fn of(library: Library, path: &str) -> std::result::Result<Self, String> {
                // SAFETY: the signatures are those of NCCL's header since 2.18; the library stays loaded.
                $(let $field = unsafe {
                    *library
                        .get::<unsafe extern "C" fn($($arg),*) -> $result>($name)
                        .map_err(|_| format!("{path} has no function {}", named($name)))?
                };)*
                Ok(Self { $($field,)* path: path.into(), _library: library })
            }
        }
    };
}

functions! {
    version: b"ncclGetVersion\0" fn(*mut c_int) -> c_int;
    unique_id: b"ncclGetUniqueId\0" fn(*mut UniqueId) -> c_int;
    join: b"ncclCommInitRankConfig\0" fn(*mut Handle, c_int, UniqueId, c_int, *mut Config) -> c_int;
    async_error: b"ncclCommGetAsyncError\0" fn(Handle, *mut c_int) -> c_int;
    abort: b"ncclCommAbort\0" fn(Handle) -> c_int;
    all_gather: b"ncclAllGather\0" fn(*const c_void, *mut c_void, usize, c_int, Handle, *mut c_void) -> c_int;
    all_reduce: b"ncclAllReduce\0" fn(*const c_void, *mut c_void, usize, c_int, c_int, Handle, *mut c_void) -> c_int;
    group_start: b"ncclGroupStart\0" fn() -> c_int;
    group_end: b"ncclGroupEnd\0" fn() -> c_int;
    error_string: b"ncclGetErrorString\0" fn(c_int) -> *const c_char;
    last_error: b"ncclGetLastError\0" fn(Handle) -> *const c_char;
}

fn named(name: &[u8]) -> String {
    String::from_utf8_lossy(name).trim_end_matches('\0').into()
}

/// The library, once it has been looked for.
pub(super) fn functions() -> Result<&'static Functions> {
    static FOUND: OnceLock<std::result::Result<Functions, String>> = OnceLock::new();
    let given = std::env::var(WARP_NCCL).ok();
    let found = FOUND.get_or_init(|| find(given.as_deref()));
    found.as_ref().map_err(|reason| failed("looking for NCCL", reason))
}

pub(super) fn find(given: Option<&str>) -> std::result::Result<Functions, String> {
    let names = given.map_or(NAMES.to_vec(), |name| vec![name]);
    // SAFETY: loading NCCL runs what it does when it is loaded, and nothing of ours relies on it.
    let load = |name: &str| unsafe { Library::new(name) }.ok();
    let found = names.iter().find_map(|name| Some((load(name)?, *name)));
    let Some((library, path)) = found else {
        let names = names.join(" or ");
        return Err(format!(
            "{names} can't be opened; it is needed for several machines, and for GPUs that can't \
             access each other's memory ({WARP_NCCL} may name it)"
        ));
    };
    let functions = Functions::of(library, path)?;
    let mut version = 0;
    // SAFETY: writes an integer.
    let code = unsafe { (functions.version)(&raw mut version) };
    if code != SUCCESS || version < OLDEST {
        return Err(format!("{path} is of version {}; 2.18 or newer is needed", readable(version)));
    }
    Ok(functions)
}

fn readable(version: i32) -> String {
    format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
}

/// NCCL's version and the name under which it was found.
///
/// # Errors
/// No such library, or one that lacks a function.
pub fn nccl_version() -> Result<(String, String)> {
    let functions = functions()?;
    let mut version = 0;
    // SAFETY: writes an integer.
    unsafe { (functions.version)(&raw mut version) };
    Ok((readable(version), functions.path.clone()))
}

pub(super) fn failed(doing: &str, reason: &str) -> Error {
    Error::Cuda { doing: doing.into(), reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_a_sentence() {
        let error = find(Some("libnccl-that-nobody-has.so")).err().unwrap();
        assert!(error.starts_with("libnccl-that-nobody-has.so can't be opened"), "{error}");
        assert!(error.contains(WARP_NCCL), "{error}");
    }

    #[test]
    fn a_library_that_lacks_a_function_is_a_sentence() {
        // The C library is there, and is no NCCL.
        let error = find(Some("libc.so.6")).err().unwrap();
        assert_eq!(error, "libc.so.6 has no function ncclGetVersion");
    }

    #[test]
    fn versions_are_readable() {
        assert_eq!((readable(22_809), readable(21_800)), ("2.28.9".into(), "2.18.0".into()));
    }
}

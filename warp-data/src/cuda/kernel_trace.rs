//! When each kernel ran, as reported by CUPTI, NVIDIA's library for profilers, which is looked up when it is
//! needed.
#![expect(unsafe_code, reason = "calls CUPTI's C functions, which call back with memory of ours")]

use super::library::searched;
use crate::error::{Error, Result};
use libloading::Library;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

const NAMES: [&str; 3] = ["libcupti.so.13", "libcupti.so.12", "libcupti.so"];
const SUCCESS: c_int = 0;
/// `CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL`.
const KERNELS: c_int = 10;
/// `CUPTI_ACTIVITY_FLAG_FLUSH_FORCED`.
const FORCED: u32 = 1;
/// Bytes of a buffer that CUPTI fills: some thousand kernels.
const BUFFER: usize = 1 << 20;
/// Kernels that are kept until they are taken, at most; what comes then is lost.
const MOST: usize = 1 << 22;

/// What a record of a kernel begins with: `CUpti_ActivityKernel5`, to which later versions only add.
#[repr(C)]
struct Record {
    kind: c_int,
    about: [u32; 3],
    /// Nanoseconds of CUPTI's clock.
    start: u64,
    end: u64,
    completed: u64,
    device: u32,
    context: u32,
    stream: u32,
    grid: [i32; 3],
    block: [i32; 3],
    memory: [u32; 4],
    correlation: u32,
    grid_id: i64,
    name: *const c_char,
}

// As the header of CUDA 11 to 13 lays it out.
const _: () = assert!(std::mem::offset_of!(Record, start) == 16);
const _: () = assert!(std::mem::offset_of!(Record, grid_id) == 96);
const _: () = assert!(std::mem::offset_of!(Record, name) == 104);

type Requested = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Completed = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

/// Declares the functions that are called, and looks them up by their names.
macro_rules! functions {
    ($($field:ident: $name:literal fn($($arg:ty),*);)*) => {
        struct Functions {
            $($field: unsafe extern "C" fn($($arg),*) -> c_int,)*
            /// Keeps them loaded.
            _library: Library,
        }
        impl Functions {
            fn of(library: Library) -> Option<Self> {
                // SAFETY: the signatures are those of CUPTI's header since CUDA 11; the library stays loaded.
                $(let $field = unsafe {
                    *library.get::<unsafe extern "C" fn($($arg),*) -> c_int>($name).ok()?
                };)*
                Some(Self { $($field,)* _library: library })
            }
        }
    };
}

functions! {
    register: b"cuptiActivityRegisterCallbacks\0" fn(Requested, Completed);
    enable: b"cuptiActivityEnable\0" fn(c_int);
    disable: b"cuptiActivityDisable\0" fn(c_int);
    flush: b"cuptiActivityFlushAll\0" fn(u32);
    next: b"cuptiActivityGetNextRecord\0" fn(*mut u8, usize, *mut *mut Record);
    clock: b"cuptiGetTimestamp\0" fn(*mut u64);
}

/// The library, once it has been looked for.
fn functions() -> Option<&'static Functions> {
    static FOUND: OnceLock<Option<Functions>> = OnceLock::new();
    // SAFETY: loading CUPTI runs what it does when it is loaded, and nothing of ours relies on it.
    let load = |name: &&str| Functions::of(unsafe { Library::new(name) }.ok()?);
    FOUND.get_or_init(|| NAMES.iter().find_map(load)).as_ref()
}

/// A kernel that has run.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// What it is called.
    pub name: Arc<str>,
    /// Number of the GPU.
    pub device: u32,
    /// When it began.
    pub begin: Instant,
    /// When it ended.
    pub end: Instant,
}

/// What has been told and not yet taken: nanoseconds of CUPTI's clock.
#[derive(Default)]
struct Told {
    names: HashMap<Box<CStr>, Arc<str>>,
    kernels: Vec<Ran>,
}

/// A kernel as it was told.
struct Ran {
    name: Arc<str>,
    device: u32,
    /// Beginning and end.
    time: [u64; 2],
}

fn told() -> MutexGuard<'static, Told> {
    static TOLD: OnceLock<Mutex<Told>> = OnceLock::new();
    TOLD.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

static IS_TRACING: AtomicBool = AtomicBool::new(false);

/// Kernels of this process, from now on; one trace at a time.
#[derive(Debug)]
pub struct KernelTrace {
    /// The same moment by our clock and by CUPTI's.
    began: (Instant, u64),
}

impl KernelTrace {
    /// Begins to trace; best before anything runs on a GPU.
    ///
    /// # Errors
    /// No CUPTI, another active profiler, or a trace that is already running.
    pub fn start() -> Result<Self> {
        let doing = "tracing kernels";
        let Some(cupti) = functions() else {
            return Err(failed(doing, &format!("CUPTI was not found: {}", searched("cupti"))));
        };
        if IS_TRACING.swap(true, Ordering::AcqRel) {
            return Err(failed(doing, "this process is already tracing"));
        }
        let mut clock = 0;
        // SAFETY: the callbacks have the signatures that CUPTI calls and stay where they are; `clock` is written
        // within the call.
        let codes = unsafe {
            [
                (cupti.register)(requested, completed),
                (cupti.enable)(KERNELS),
                (cupti.clock)(&raw mut clock),
            ]
        };
        let trace = Self { began: (Instant::now(), clock) };
        match codes.into_iter().find(|code| *code != SUCCESS) {
            None => Ok(trace),
            Some(code) => {
                Err(failed(doing, &format!("CUPTI returned {code}; is another profiler running?")))
            }
        }
    }

    /// The kernels that ended since this was called last. What runs on a device must be over for it to be among
    /// them.
    ///
    /// # Errors
    /// What CUPTI refuses.
    pub fn take(&mut self) -> Result<Vec<Kernel>> {
        let Some(cupti) = functions() else { return Ok(Vec::new()) };
        // SAFETY: gives back buffers of ours by calling `completed`.
        let code = unsafe { (cupti.flush)(FORCED) };
        if code != SUCCESS {
            return Err(failed("reading the trace of kernels", &format!("CUPTI returned {code}")));
        }
        let kernels = std::mem::take(&mut told().kernels);
        let (origin, clock) = self.began;
        let at = |time: u64| origin + Duration::from_nanos(time.saturating_sub(clock));
        let kernel = |ran: Ran| {
            let Ran { name, device, time: [begin, end] } = ran;
            Kernel { name, device, begin: at(begin), end: at(end) }
        };
        Ok(kernels.into_iter().map(kernel).collect())
    }
}

impl Drop for KernelTrace {
    fn drop(&mut self) {
        if let Some(cupti) = functions() {
            // SAFETY: takes a number.
            unsafe { (cupti.disable)(KERNELS) };
        }
        IS_TRACING.store(false, Ordering::Release);
    }
}

fn failed(doing: &str, reason: &str) -> Error {
    Error::Cuda { doing: doing.into(), reason: reason.into() }
}

/// CUPTI wants memory for records; it is aligned to 8 bytes.
extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, most: *mut usize) {
    let memory = Box::into_raw(vec![0_u64; BUFFER / 8].into_boxed_slice());
    // SAFETY: CUPTI passes places for three numbers. It gives the memory back to `completed`.
    unsafe {
        *buffer = memory.cast();
        *size = BUFFER;
        // As many as there is room for.
        *most = 0;
    }
}

/// CUPTI gives memory back, of which the first `valid` bytes are records.
extern "C" fn completed(_: *mut c_void, _: u32, buffer: *mut u8, _: usize, valid: usize) {
    if let Some(cupti) = functions() {
        let mut told = told();
        let mut record = std::ptr::null_mut();
        // SAFETY: the buffer is CUPTI's own, which knows where its records are; one of a kernel is at least as long
        // as `Record`, and its name outlives the program's modules.
        unsafe {
            while (cupti.next)(buffer, valid, &raw mut record) == SUCCESS {
                if !record.is_null() && (*record).kind == KERNELS && !(*record).name.is_null() {
                    told.add(CStr::from_ptr((*record).name), &*record);
                }
            }
        }
    }
    let slice = std::ptr::slice_from_raw_parts_mut(buffer.cast::<u64>(), BUFFER / 8);
    // SAFETY: made by `requested`, and given back once.
    drop(unsafe { Box::from_raw(slice) });
}

impl Told {
    fn add(&mut self, name: &CStr, record: &Record) {
        if self.kernels.len() >= MOST {
            return;
        }
        let known = self.names.get(name).cloned();
        let name = known.unwrap_or_else(|| {
            let text: Arc<str> = name.to_string_lossy().into();
            self.names.insert(name.into(), text.clone());
            text
        });
        let Record { device, start, end, .. } = *record;
        self.kernels.push(Ran { name, device, time: [start, end] });
    }
}

//! Launching a kernel: everything that can be checked is, before the one unsafe call.
#![expect(unsafe_code, reason = "launches kernels")]

use super::kernels::Module;
use super::signature::Parameter;
use crate::error::{Error, Result};
use std::ffi::c_void;
use std::sync::Arc;
use warp_core::DType;
use warp_data::cuda::cudarc::driver::{result, sys};
use warp_data::cuda::{Device, DeviceArray};

/// A kernel that can be launched.
#[derive(Debug, Clone)]
pub struct Function {
    pub(super) name: Arc<str>,
    pub(super) parameters: Arc<[Parameter]>,
    /// Sizes in bytes, as the driver knows them.
    pub(super) sizes: Arc<[usize]>,
    pub(super) handle: sys::CUfunction,
    pub(super) device: Device,
    /// Keeps the machine code loaded.
    pub(super) _module: Module,
}

// SAFETY: a function handle may be used from any thread that has made its context current, which
// `launch` does.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// How many threads run a kernel, and with what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Launch {
    /// Blocks.
    pub blocks: u32,
    /// Threads in a block.
    pub threads: u32,
    /// Shared memory per block beside what the text declares, in bytes.
    pub shared_bytes: u32,
    /// Whether all blocks must run at the same time, so that they may wait for each other.
    pub cooperative: bool,
}

impl Launch {
    /// `threads` threads in blocks of `block`.
    #[must_use]
    pub fn over(threads: usize, block: u32) -> Self {
        let blocks = threads.div_ceil(block as usize) as u32;
        Self { blocks, threads: block, ..Self::default() }
    }
}

/// An argument of a kernel.
#[derive(Debug, Clone)]
pub enum Arg {
    /// An array; the kernel gets a pointer to its first element.
    Array {
        /// Where it lies.
        address: u64,
        /// Its type.
        dtype: DType,
        /// Its name and number of elements, and how many the kernel needs.
        fits: Option<(String, usize, usize)>,
        /// Keeps the memory alive until the launch is recorded.
        keep: DeviceArray,
    },
    /// A number.
    U32(u32),
    /// A number.
    I32(i32),
    /// A number.
    U64(u64),
    /// A number.
    F32(f32),
    /// A struct of this C name, by value.
    Struct(&'static str, Vec<u8>),
}

impl Arg {
    /// An array of which the kernel touches at most the first `needed` elements.
    #[must_use]
    pub fn array(array: &DeviceArray, needed: usize) -> Self {
        let fits = (needed > array.len()).then(|| (array.name().into(), array.len(), needed));
        Self::Array { address: array.ptr(), dtype: array.dtype(), fits, keep: array.clone() }
    }

    fn address(&self) -> *mut c_void {
        let address: *const c_void = match self {
            Arg::Array { address, .. } | Arg::U64(address) => std::ptr::from_ref(address).cast(),
            Arg::U32(value) => std::ptr::from_ref(value).cast(),
            Arg::I32(value) => std::ptr::from_ref(value).cast(),
            Arg::F32(value) => std::ptr::from_ref(value).cast(),
            Arg::Struct(_, bytes) => bytes.as_ptr().cast(),
        };
        address.cast_mut()
    }

    fn size(&self) -> usize {
        match self {
            Arg::Array { .. } | Arg::U64(_) => 8,
            Arg::U32(_) | Arg::I32(_) | Arg::F32(_) => 4,
            Arg::Struct(_, bytes) => bytes.len(),
        }
    }

    /// What is wrong with this argument for `parameter`.
    fn mismatch(&self, parameter: &Parameter) -> Option<String> {
        let value = |c_type: &str| match parameter {
            Parameter::Value(wanted) if wanted == c_type => None,
            other => Some(format!("is {c_type}, but the kernel expects {other:?}")),
        };
        match self {
            Arg::Array { fits: Some((name, len, needed)), .. } => {
                Some(format!("is array \"{name}\" of {len} elements, but {needed} are needed"))
            }
            Arg::Array { dtype, .. } => match parameter {
                Parameter::Pointer(None) => None,
                Parameter::Pointer(Some(wanted)) if wanted == dtype => None,
                other => Some(format!("is an array of {dtype}, but the kernel expects {other:?}")),
            },
            Arg::U32(_) => value("unsigned int"),
            Arg::I32(_) => value("int"),
            Arg::U64(_) => value("unsigned long long"),
            Arg::F32(_) => value("float"),
            Arg::Struct(name, _) => value(name),
        }
    }
}

impl Function {
    /// The kernel's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts the kernel on the device's stream and returns at once.
    ///
    /// # Errors
    /// Arguments that do not fit the kernel's, or a launch that the driver refuses.
    pub fn launch(&self, launch: &Launch, args: &[Arg]) -> Result<()> {
        self.check(args)?;
        self.device.bind()?;
        self.allow_shared(launch.shared_bytes)?;
        let mut pointers: Vec<*mut c_void> = args.iter().map(Arg::address).collect();
        let (grid, block) = ((launch.blocks, 1, 1), (launch.threads, 1, 1));
        let (shared, stream) = (launch.shared_bytes, self.device.stream().cu_stream());
        // SAFETY: the function is loaded as long as `_module` lives. Number, sizes and pointer types
        // of the arguments are the kernel's, as checked above; arrays are at least as long as the
        // caller says that the kernel needs, and stay allocated until the stream has passed them,
        // since freeing waits for the stream.
        let launched = unsafe {
            if launch.cooperative {
                result::launch_cooperative_kernel(
                    self.handle,
                    grid,
                    block,
                    shared,
                    stream,
                    &mut pointers,
                )
            } else {
                result::launch_kernel(self.handle, grid, block, shared, stream, &mut pointers)
            }
        };
        launched.map_err(|e| self.failed(&format!("launching with {launch:?}"), &e.to_string()))
    }

    /// Blocks of this launch that one multiprocessor can hold at a time.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn blocks_per_multiprocessor(&self, launch: &Launch) -> Result<u32> {
        self.device.bind()?;
        self.allow_shared(launch.shared_bytes)?;
        // SAFETY: the function is loaded as long as `_module` lives.
        let blocks = unsafe {
            result::occupancy::max_active_block_per_multiprocessor(
                self.handle,
                launch.threads as i32,
                launch.shared_bytes as usize,
            )
        };
        let blocks = blocks.map_err(|e| self.failed("asking for occupancy", &e.to_string()))?;
        Ok(blocks.unsigned_abs())
    }

    /// Registers per thread, and bytes of local memory per thread.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn registers_and_local(&self) -> Result<(u32, u32)> {
        use sys::CUfunction_attribute as Attribute;
        let attribute = |attribute| {
            // SAFETY: the function is loaded as long as `_module` lives.
            let value = unsafe { result::function::get_function_attribute(self.handle, attribute) };
            value
                .map(i32::unsigned_abs)
                .map_err(|e| self.failed("asking for attributes", &e.to_string()))
        };
        Ok((
            attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
        ))
    }

    /// Above 48 KiB, what the text declares included, shared memory must be asked for.
    fn allow_shared(&self, bytes: u32) -> Result<()> {
        if bytes < 8 * 1024 {
            return Ok(());
        }
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function is loaded as long as `_module` lives.
        unsafe { result::function::set_function_attribute(self.handle, attribute, bytes as i32) }
            .map_err(|e| {
                self.failed(&format!("asking for {bytes} bytes of shared memory"), &e.to_string())
            })
    }

    fn check(&self, args: &[Arg]) -> Result<()> {
        let refuse = |reason: String| Err(Error::Launch { kernel: self.name.to_string(), reason });
        if args.len() != self.parameters.len() {
            let (given, expected) = (args.len(), self.parameters.len());
            return refuse(format!("it takes {expected} arguments, but {given} were given"));
        }
        for (i, ((arg, parameter), size)) in
            args.iter().zip(&*self.parameters).zip(&*self.sizes).enumerate()
        {
            if let Some(reason) = arg.mismatch(parameter) {
                return refuse(format!("argument {i} {reason}"));
            }
            if arg.size() != *size {
                let given = arg.size();
                return refuse(format!("argument {i} has {given} bytes, but it takes {size}"));
            }
        }
        Ok(())
    }

    fn failed(&self, doing: &str, reason: &str) -> Error {
        Error::Launch { kernel: self.name.to_string(), reason: format!("{doing}: {reason}") }
    }
}

//! Launching a kernel: everything that can be checked is, before the one unsafe call.
#![expect(unsafe_code, reason = "launches kernels")]

use super::arg::Arg;
use super::kernels::Module;
use super::signature::Parameter;
use crate::error::{Error, Result};
use std::ffi::c_void;
use std::sync::Arc;
use warp_data::cuda::Device;
use warp_data::cuda::cudarc::driver::{result, sys};

/// A kernel that can be launched.
#[derive(Debug, Clone)]
pub struct Function {
    pub(super) name: Arc<str>,
    pub(super) parameters: Arc<[Parameter]>,
    /// Sizes in bytes, as the driver knows them.
    pub(super) sizes: Arc<[usize]>,
    pub(super) handle: sys::CUfunction,
    /// Keeps the machine code loaded.
    pub(super) module: Module,
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
    /// Shared memory per block in addition to what the source declares, in bytes.
    pub shared_bytes: u32,
    /// Whether all blocks must run at the same time, so that they may wait for each other.
    pub cooperative: bool,
}

/// What each thread of a kernel takes, as it was compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionResources {
    /// Registers.
    pub registers: u32,
    /// Bytes of local memory: what is spilled, and the stack.
    pub local_bytes: u32,
}

impl Launch {
    /// `threads` threads in blocks of `block`.
    #[must_use]
    pub fn over(threads: usize, block: u32) -> Self {
        let blocks = threads.div_ceil(block as usize) as u32;
        Self { blocks, threads: block, ..Self::default() }
    }
}

impl Function {
    fn device(&self) -> &Device {
        self.module.device()
    }

    /// The kernel's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts the kernel on the device's stream and returns at once; with arrays that are only planned
    /// (`Device::plan`) it does nothing.
    ///
    /// # Errors
    /// Arguments that do not fit the kernel's, or a launch that the driver refuses.
    pub fn launch(&self, launch: &Launch, args: &[Arg]) -> Result<()> {
        self.check(args)?;
        if args.iter().any(Arg::is_planned) {
            return Ok(());
        }
        self.device().bind()?;
        self.allow_shared(launch.shared_bytes)?;
        let mut pointers: Vec<*mut c_void> = args.iter().map(Arg::address).collect();
        let (grid, block) = ((launch.blocks, 1, 1), (launch.threads, 1, 1));
        let (shared, stream) = (launch.shared_bytes, self.device().stream().cu_stream());
        let mut lock = self.device().lock_stream();
        lock.keep(|| (self.clone(), args.to_vec()));
        // SAFETY: the function is loaded as long as `module` lives. Number, sizes and kinds of the
        // arguments are the kernel's, as checked above, and every address is one of a living array;
        // arrays are at least as long as the caller says that the kernel needs, and stay allocated
        // until the stream has passed them: freeing waits for the stream, and a graph keeps them.
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

    /// What a thread of it takes.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn resources(&self) -> Result<FunctionResources> {
        use sys::CUfunction_attribute as Attribute;
        let attribute = |attribute| {
            // SAFETY: the function is loaded as long as `module` lives.
            let value = unsafe { result::function::get_function_attribute(self.handle, attribute) };
            value
                .map(i32::unsigned_abs)
                .map_err(|e| self.failed("asking for attributes", &e.to_string()))
        };
        Ok(FunctionResources {
            registers: attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
        })
    }

    /// Above 48 KiB, what the text declares included, shared memory must be asked for.
    fn allow_shared(&self, bytes: u32) -> Result<()> {
        if bytes < 8 * 1024 {
            return Ok(());
        }
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function is loaded as long as `module` lives.
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

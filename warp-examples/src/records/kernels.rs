//! Kernels that ran on GPUs, where there is something that tells of them.

#[cfg(feature = "cuda")]
pub(super) use warp_data::cuda::Kernel;
#[cfg(feature = "cuda")]
use {crate::output::tell, warp_data::cuda::KernelTrace};

/// A kernel; without CUDA there is none.
#[cfg(not(feature = "cuda"))]
pub(super) struct Kernel {
    pub(super) name: std::sync::Arc<str>,
    pub(super) device: u32,
    pub(super) begin: std::time::Instant,
    pub(super) end: std::time::Instant,
}

/// The kernels of this process.
#[derive(Debug, Default)]
pub struct Kernels {
    #[cfg(feature = "cuda")]
    trace: Option<KernelTrace>,
}

impl Kernels {
    /// Begins to trace them; says so if that can't be, and has none then.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn trace() -> Self {
        let trace = KernelTrace::start();
        if let Err(error) = &trace {
            tell(&format!("--profile: the trace has no kernels: {error}"));
        }
        Self { trace: trace.ok() }
    }

    /// Those that ended since this was called last.
    pub(super) fn take(&mut self) -> Vec<Kernel> {
        #[cfg(feature = "cuda")]
        if let Some(trace) = &mut self.trace {
            match trace.take() {
                Ok(kernels) => return kernels,
                Err(error) => {
                    tell(&format!("--profile: the trace has no further kernels: {error}"));
                    self.trace = None;
                }
            }
        }
        Vec::new()
    }
}

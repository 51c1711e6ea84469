//! Where a command runs: what `--device` names, and making environments there.

use anyhow::{Result, bail};
#[cfg(feature = "cuda")]
use warp_func::cuda::{Build, Kernels};
use warp_func::{Entry, Registry, VecEnv, VecOptions};

/// Where a command runs.
#[derive(Debug, Clone)]
pub enum Device {
    /// This machine's processor.
    Cpu,
    /// A GPU, with the kernels that were compiled for it so far.
    #[cfg(feature = "cuda")]
    Cuda(Kernels),
}

impl Device {
    /// The device that `--device` names. `auto` is the processor: what a GPU pays for, training, is
    /// chosen by [`Device::for_training`].
    ///
    /// # Errors
    /// A name that is unknown, or a device that this machine or this build does not have.
    pub fn choose(name: &str) -> Result<Self> {
        let cuda = name.strip_prefix("cuda").map(|rest| rest.strip_prefix(':').unwrap_or(rest));
        match (name, cuda) {
            ("auto" | "cpu", _) => Ok(Device::Cpu),
            (_, Some("")) if name == "cuda" => Self::gpu(0),
            (_, Some(n)) if !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()) => {
                n.parse().map_or_else(|_| bail!("--device {name}: no such number"), Self::gpu)
            }
            _ => bail!("--device {name}: expected auto, cpu or cuda[:N]"),
        }
    }

    #[cfg(feature = "cuda")]
    fn gpu(ordinal: usize) -> Result<Self> {
        Ok(Device::Cuda(Kernels::new(&warp_func::cuda::Device::open(ordinal)?)))
    }

    #[cfg(not(feature = "cuda"))]
    fn gpu(_ordinal: usize) -> Result<Self> {
        bail!("--device cuda: this build has no GPU support; build it with --features cuda")
    }

    /// Its name in summaries.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Device::Cpu => "cpu",
            #[cfg(feature = "cuda")]
            Device::Cuda(_) => "cuda",
        }
    }

    /// The environments of `registry`, made on this device by whoever makes them by name; on a GPU
    /// in the build that is bit-equal to the CPU's.
    #[must_use]
    pub fn registry(&self, registry: &Registry) -> Registry {
        match self {
            Device::Cpu => registry.clone(),
            #[cfg(feature = "cuda")]
            Device::Cuda(kernels) => registry.on_gpu(kernels, Build::Parity),
        }
    }

    /// Replicas of `entry` on this device; on a GPU in the build that is bit-equal to the CPU's.
    ///
    /// # Errors
    /// A configuration that does not fit, or too little memory.
    pub fn make(
        &self,
        entry: &Entry,
        config: &toml::Table,
        options: &VecOptions,
    ) -> Result<Box<dyn VecEnv>> {
        Ok(match self {
            Device::Cpu => entry.make(config, options)?,
            #[cfg(feature = "cuda")]
            Device::Cuda(kernels) => entry.make_cuda(config, options, (kernels, Build::Parity))?,
        })
    }
}

//! Where a command runs: what `--device` names, and making environments there.

#[cfg(feature = "cuda")]
use anyhow::Context;
use anyhow::{Result, anyhow, bail};
#[cfg(feature = "cuda")]
use warp_data::Error;
#[cfg(feature = "cuda")]
use warp_func::cuda::{Build, Kernels};
use warp_func::{Entry, Registry};
use warp_train::TrainConfig;
use warp_train::config::Precision;
use warp_train::world::World;

/// How long the host has waited for kernels, in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelWaits {
    /// For machine code, compiled or read from the cache.
    pub machine_code: f64,
    /// For the driver to load it.
    pub loading: f64,
}

/// Where a command runs.
#[derive(Debug, Clone)]
pub enum Device {
    /// This machine's CPU.
    Cpu,
    /// A GPU, with the kernels that were compiled for it so far.
    #[cfg(feature = "cuda")]
    Cuda(Kernels),
}

impl Device {
    /// The device that `--device` names. `auto` is the CPU; for training, where a GPU pays off, the device is
    /// chosen by [`Device::for_training`].
    ///
    /// # Errors
    /// A name that is unknown, or a device that this machine or this build does not have.
    pub fn choose(name: &str) -> Result<Self> {
        let cuda = name.strip_prefix("cuda").map(|rest| rest.strip_prefix(':').unwrap_or(rest));
        match (name, cuda) {
            ("auto" | "cpu", _) => Ok(Device::Cpu),
            (_, Some("")) if name == "cuda" => Self::gpu(name, 0),
            (_, Some(n)) if !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()) => {
                let Ok(ordinal) = n.parse() else { bail!("--device {name}: there is no such GPU") };
                Self::gpu(name, ordinal)
            }
            _ => bail!("--device {name}: expected auto, cpu or cuda[:N]"),
        }
    }

    /// As [`Device::choose`], for training in the environment `entry`: `auto` is a GPU if there is one that
    /// `backend` can use and the environment has a body for. The sentence says which device it is and why; it is
    /// empty if the user chose the device.
    ///
    /// # Errors
    /// As [`Device::choose`].
    pub fn for_training(name: &str, backend: &str, entry: &Entry) -> Result<(Self, String)> {
        if name != "auto" {
            return Ok((Self::choose(name)?, String::new()));
        }
        let found = match entry.kernel {
            Some(_) => Self::found(backend),
            None => Err(anyhow!("\"{}\" has no CUDA code", entry.name)),
        };
        Ok(found.unwrap_or_else(|reason| (Device::Cpu, format!("training on the CPU: {reason}"))))
    }

    /// As [`Device::choose`], for checks on the CPU and also on a GPU: `auto` is a
    /// GPU if there is one; otherwise the sentence says why there is none.
    ///
    /// # Errors
    /// As [`Device::choose`].
    pub fn beside_processor(name: &str) -> Result<(Self, String)> {
        if name != "auto" {
            return Ok((Self::choose(name)?, String::new()));
        }
        Ok(match Self::found("native") {
            Ok((device, _)) => (device, String::new()),
            Err(reason) => (Device::Cpu, format!("checking only on the CPU: {reason}")),
        })
    }

    /// The first GPU, if `backend` can train on it; otherwise the reason why not.
    #[cfg(feature = "cuda")]
    fn found(backend: &str) -> Result<(Self, String)> {
        let gpu = warp_func::cuda::Device::open(0).map_err(|error| match error {
            // Most machines have none, and the searched folders would fill a line.
            Error::NoDriver { .. } => anyhow!("there is no NVIDIA driver (see warp info)"),
            other => other.into(),
        })?;
        warp_func::cuda::nvrtc_version()?;
        if backend == "burn" && !cfg!(feature = "tch") {
            bail!("burn needs the feature tch for a GPU, which this build does not have");
        }
        let why = format!("training on {}; use --device cpu for the CPU", gpu.info().name);
        Ok((Device::Cuda(Kernels::new(&gpu)), why))
    }

    #[cfg(not(feature = "cuda"))]
    fn found(_backend: &str) -> Result<(Self, String)> {
        bail!("this build has no GPU support")
    }

    #[cfg(feature = "cuda")]
    fn gpu(name: &str, ordinal: usize) -> Result<Self> {
        let gpu = warp_func::cuda::Device::open(ordinal);
        let gpu = gpu.with_context(|| format!("--device {name}"))?;
        Ok(Device::Cuda(Kernels::new(&gpu)))
    }

    #[cfg(not(feature = "cuda"))]
    fn gpu(name: &str, _ordinal: usize) -> Result<Self> {
        bail!("--device {name}: this build has no GPU support; build it with --features cuda")
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

    /// What kind of GPU it is, such as "NVIDIA H200"; "cpu" for the CPU.
    #[must_use]
    pub fn model(&self) -> String {
        match self {
            Self::Cpu => "cpu".into(),
            #[cfg(feature = "cuda")]
            Self::Cuda(kernels) => kernels.device().info().name.clone(),
        }
    }

    /// The GPU's unique number; empty for the CPU.
    #[must_use]
    pub fn uuid(&self) -> String {
        match self {
            Device::Cpu => String::new(),
            #[cfg(feature = "cuda")]
            Device::Cuda(kernels) => kernels.device().info().uuid.clone(),
        }
    }

    /// Checks that the other ranks of a run have the same kind of device; all are to call it when they have met.
    ///
    /// # Errors
    /// Devices that differ, or ranks that have lost each other.
    pub fn check_ranks(&self, world: &World) -> Result<()> {
        let own = match self {
            Device::Cpu => "the CPU".to_string(),
            #[cfg(feature = "cuda")]
            Device::Cuda(kernels) => kernels.device().info().model(),
        };
        Ok(world.check_same_model(&own)?)
    }

    /// Whether matrix products can have half-precision operands here: on GPUs from compute
    /// capability 8 on.
    #[must_use]
    pub fn halves_products(&self) -> bool {
        match self {
            Device::Cpu => false,
            #[cfg(feature = "cuda")]
            Device::Cuda(kernels) => kernels.device().info().capability.0 >= 8,
        }
    }

    /// The precision of matrix products; only the native learner on a GPU has a choice, and there
    /// one policy in fp32 makes all of them fp32.
    #[must_use]
    pub fn precision(&self, backend: &str, config: &TrainConfig) -> &'static str {
        let some = |precision: Precision| {
            config.policies.iter().any(|plan| plan.config.precision == precision)
        };
        let halves = self.halves_products() && backend == "native";
        match (some(Precision::Half), some(Precision::BFloat)) {
            _ if !halves || some(Precision::Single) => "fp32",
            (true, true) => "fp16, bf16",
            (false, true) => "bf16",
            (_, false) => "fp16",
        }
    }

    /// Seconds spent compiling kernels so far.
    #[must_use]
    pub fn compile_seconds(&self) -> f64 {
        match self {
            Device::Cpu => 0.0,
            #[cfg(feature = "cuda")]
            Device::Cuda(kernels) => kernels.compile_seconds(),
        }
    }

    /// How long the host has waited for kernels so far.
    #[must_use]
    pub fn kernel_waits(&self) -> KernelWaits {
        match self {
            Device::Cpu => KernelWaits::default(),
            #[cfg(feature = "cuda")]
            Device::Cuda(kernels) => {
                let seconds = kernels.seconds();
                KernelWaits { machine_code: seconds.waiting, loading: seconds.loading }
            }
        }
    }

    /// Starts to compile what training `config` with `backend` in environments of `registry` needs, if that is on a
    /// GPU, and returns at once. Errors are reported by the code that needs the kernels.
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables, reason = "there are no kernels"))]
    pub fn precompile(&self, backend: &str, config: &TrainConfig, registry: &Registry) {
        match self {
            #[cfg(feature = "cuda")]
            Device::Cuda(kernels) if backend != "burn" => {
                let _ = warp_train::native::cuda::precompile(config, registry, kernels);
            }
            _ => (),
        }
    }

    /// A notice about the time spent compiling kernels, if it was noticeable.
    #[must_use]
    pub fn compile_notice(&self) -> Option<String> {
        let seconds = Some(self.compile_seconds()).filter(|seconds| *seconds >= 1.0)?;
        Some(format!("compiling kernels took {seconds:.1} s; {}", kept()))
    }

    /// The environments of `registry`, created on this device; on a GPU in the build that is bit-identical
    /// to the CPU's.
    #[must_use]
    pub fn registry(&self, registry: &Registry) -> Registry {
        match self {
            Device::Cpu => registry.clone(),
            #[cfg(feature = "cuda")]
            Device::Cuda(kernels) => registry.on_gpu(kernels, Build::Parity),
        }
    }
}

/// Where compiled kernels are kept, or why they are not.
#[cfg(feature = "cuda")]
fn kept() -> String {
    match (warp_func::cuda::cache_folder(), warp_func::cuda::cache_problem()) {
        (Some(folder), None) => format!("they are cached in {} for later runs", folder.display()),
        (_, problem) => format!("they are not cached: {}", problem.unwrap_or_default()),
    }
}

#[cfg(not(feature = "cuda"))]
fn kept() -> String {
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_without_a_cuda_body_trains_on_the_processor() {
        let registry = warp_envs::registry();
        let mut entry = registry.get("cartpole").unwrap().clone();
        entry.kernel = None;
        let (device, why) = Device::for_training("auto", "auto", &entry).unwrap();
        assert_eq!(device.name(), "cpu");
        assert_eq!(why, "training on the CPU: \"cartpole\" has no CUDA code");
    }
}

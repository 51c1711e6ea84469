//! Running on an NVIDIA GPU: CUDA code is compiled at run time, cached on disk and launched safely.
//!
//! `compiler` turns source into machine code, `cache` keeps it in a `cache_folder`, `kernels` is the registry of
//! loaded functions, `arg` is their arguments, `kernel_args` a struct of arguments, `launch` checks them.
//! `env_kernels` is the code around an environment's body; [`CudaVecEnv`] runs it, and `pending` is what the host has
//! changed meanwhile. `replicas` are independent replicas. `stepped` is environments that another library steps on
//! the GPU, `given` its arrays, `device_envs` what learners see of either.

mod arg;
mod cache;
mod cache_folder;
mod compiler;
mod device_envs;
mod env;
mod env_kernels;
mod given;
mod kernel_args;
mod kernels;
mod launch;
pub mod parity;
mod pending;
mod pointers;
#[cfg(feature = "replicas")]
mod replicas;
mod runs;
mod signature;
mod stepped;

pub use arg::{Arg, Pointer, PointerStruct, Record, Structs, WholeArray};
pub use cache::{folder as cache_folder, machine_code, problem as cache_problem};
pub use compiler::{Build, Check, Source, check_source, nvrtc_version};
pub use device_envs::DeviceEnvs;
pub use env::CudaVecEnv;
pub use env_kernels::{EnvKernels, ExecutorPart, NEXT_KERNEL, env_kernels};
pub use given::{GivenArray, NumberKind, Tensor};
pub use kernel_args::{KernelArgs, Members};
pub use kernels::{KernelSeconds, Kernels, Module};
pub use launch::{Function, FunctionResources, Launch};
#[cfg(feature = "replicas")]
pub use replicas::{CudaReplicas, Numbers, Shown, replica_source};
pub use runs::CudaRuns;
pub use stepped::{Moved, SteppedEnvs, Stepper, stepped_source};
pub use warp_core::device_struct::{CMember, CStruct, CType, DeviceStruct, DeviceValue, declare};
pub use warp_data::cuda::{
    Device, DeviceArray, DeviceInfo, DeviceStore, Graph, fork_join, programmatic_launch,
};

//! Samplers of actions on an NVIDIA GPU: a launch per batch, with the same random numbers as on the CPU.
//!
//! `part` is a piece of a device's array, `sampler` compiles the kernels of a layout and launches
//! them. Their text is `sample.cu` around the functions of [`crate::kernel_text::SAMPLE_CUH`].

mod part;
mod sampler;

pub use part::Part;
pub use sampler::{DeviceActions, DeviceInputs, DeviceRows, DeviceSampler, Made, sampler_source};
pub use warp_func::cuda::Build;

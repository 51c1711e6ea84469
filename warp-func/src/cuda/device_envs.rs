//! Environments on a GPU, as learners on it see them.

use super::env_kernels::EnvKernels;
use super::kernels::Kernels;
use crate::error::Result;
use crate::vec_env::VecEnv;
use warp_data::cuda::{Device, DeviceArray, DeviceStore};

/// Environments whose arrays are on a GPU, whatever steps them there.
pub trait DeviceEnvs: VecEnv {
    /// The registry of kernels of their GPU.
    fn kernels(&self) -> &Kernels;

    /// The device's arrays; numbers and names as in [`VecEnv::ids`].
    fn arrays(&self) -> &DeviceStore;

    /// `run_step`: the device's counter of steps, u32 `[1]`.
    fn run_step_array(&self) -> &DeviceArray;

    /// The environment's source code, for kernels that step replicas themselves; nothing where something else steps them.
    fn body(&self) -> Option<&EnvKernels> {
        None
    }

    /// Starts a step of every replica with the actions on the device.
    ///
    /// # Errors
    /// Whatever moves them.
    fn device_step(&mut self) -> Result<()> {
        self.start_step()?;
        self.count_step()
    }

    /// Starts a step of every replica, which [`DeviceEnvs::count_step`] has to follow before the next one.
    ///
    /// # Errors
    /// Whatever moves them.
    fn start_step(&mut self) -> Result<()>;

    /// Has the device count a step that was started, where it does not by itself; beside whatever does not read
    /// [`DeviceEnvs::run_step_array`].
    ///
    /// # Errors
    /// A driver that refuses.
    fn count_step(&self) -> Result<()> {
        Ok(())
    }

    /// Whether such a step is launches alone, which a graph can replay.
    fn steps_by_launches(&self) -> bool;

    /// Notes that a replayed graph stepped every replica `steps` times and counted them on the device.
    fn note_steps(&mut self, steps: u32);

    /// The GPU.
    fn gpu(&self) -> &Device {
        self.kernels().device()
    }
}

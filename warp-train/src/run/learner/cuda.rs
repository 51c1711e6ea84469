//! The native learner on an NVIDIA GPU: whole iterations without the host.

use super::Learner;
use crate::algorithm::PolicyPlan;
use crate::config::TrainConfig;
use crate::engine::policies::no_own_networks;
use crate::engine::rollout::normalise::Normaliser;
use crate::engine::{Iterated, Progress};
use crate::error::Result;
use crate::fused::{MOST_ITERATIONS, OnDevice, not_there};
use crate::model::{LearnerState, Statistic};
use crate::network::foreign::MakeForeign;
use crate::run::checkpoint::snapshot;
use warp_func::VecEnv;
use warp_func::cuda::CudaVecEnv;

/// Perceptrons on an NVIDIA GPU, on environments that live there too.
#[derive(Debug)]
pub struct CudaLearner {
    config: TrainConfig,
    /// The policies on the host: for observations that come from there.
    host: Box<dyn Learner>,
    /// What a checkpoint holds but for replay memories: of small networks up to date after every call, of others as of
    /// when it was last needed.
    state: LearnerState,
    /// Made when the environments are known.
    device: Option<OnDevice>,
    /// Which way that is, and why not another.
    path: Option<String>,
    host_is_stale: bool,
    device_is_stale: bool,
    /// Makes networks that a tensor library runs, if that is what they are to be.
    foreign: Option<MakeForeign>,
}

impl CudaLearner {
    /// The policies of `config`, initialised from its seed.
    ///
    /// # Errors
    /// A network that can't be built.
    pub fn new(config: &TrainConfig, threads: usize) -> Result<Self> {
        no_own_networks(config, "a GPU")?;
        config.policies.iter().try_for_each(|plan| plan.check_passes())?;
        let host = super::native::learner(&config.of_this_rank(), threads)?;
        let state = host.state();
        Ok(Self {
            config: config.clone(),
            host,
            state,
            device: None,
            path: None,
            host_is_stale: false,
            device_is_stale: false,
            foreign: None,
        })
    }

    /// The policies of `config` with networks that `foreign` makes, on the same arrays.
    ///
    /// # Errors
    /// As [`CudaLearner::new`].
    #[cfg(feature = "tch")]
    pub(crate) fn of_networks(
        config: &TrainConfig,
        threads: usize,
        foreign: MakeForeign,
    ) -> Result<Self> {
        Ok(Self { foreign: Some(foreign), ..Self::new(config, threads)? })
    }

    /// The policies on the host, as they are now.
    fn on_host(&mut self) -> Result<&mut dyn Learner> {
        if self.host_is_stale {
            if let Some(device) = self.device.as_ref().filter(|device| !device.is_small()) {
                device.store(&mut self.state)?;
            }
            self.host.load_state(&self.state)?;
            self.host_is_stale = false;
        }
        Ok(&mut *self.host)
    }
}

/// Numbers of a run's rollouts and replay memories with what learning keeps of them, at most.
fn numbers(config: &TrainConfig) -> u128 {
    let of_policy = |plan: &PolicyPlan| {
        let (keys, width) = (&plan.config, plan.group(&config.spec).observation_width());
        let of_sample = 2 * width + 8 * keys.hidden.iter().sum::<usize>() + 256;
        let rollout = config.n_envs() as u128 * config.run.num_steps as u128;
        let kept = if plan.is_off_policy() { keys.buffer_size as u128 } else { 0 };
        (rollout.max(kept) + 1) * plan.n_agents() as u128 * of_sample as u128
    };
    config.policies.iter().map(of_policy).sum()
}

/// Checks that all arrays of what `make` makes fit into the GPU's memory together, before one of them is taken;
/// those of small runs do and are not counted.
fn check_room(
    config: &TrainConfig,
    envs: &mut CudaVecEnv,
    make: impl FnOnce(&mut CudaVecEnv) -> Result<OnDevice>,
) -> Result<()> {
    let gpu = envs.gpu().clone();
    let free = gpu.free_bytes()?;
    if numbers(config).saturating_mul(8) < u128::from(free) {
        return Ok(());
    }
    let needed = gpu.plan(|| make(envs))?;
    if needed <= u128::from(free) {
        return Ok(());
    }
    let off_policy = config.policies.iter().any(PolicyPlan::is_off_policy);
    let lower = if off_policy { "num_envs or buffer_size" } else { "num_envs or num_steps" };
    let (what, lower) = ("the learner's arrays on the GPU".into(), lower.into());
    Err(warp_data::Error::OutOfMemory { what, needed, free, lower }.into())
}

impl Learner for CudaLearner {
    fn backend(&self) -> &'static str {
        if self.foreign.is_some() { "burn-tch" } else { "native" }
    }

    fn forward(
        &mut self,
        policy: usize,
        obs: &[f32],
        n_rows: usize,
        outputs: &mut [f32],
        values: &mut [f32],
    ) -> Result<()> {
        self.on_host()?.forward(policy, obs, n_rows, outputs, values)
    }

    fn normaliser(&mut self, policy: usize) -> Result<Option<&Normaliser>> {
        self.on_host()?.normaliser(policy)
    }

    fn most_iterations(&self) -> u64 {
        MOST_ITERATIONS
    }

    fn iterate(
        &mut self,
        envs: &mut dyn VecEnv,
        progress: Progress,
        n: u64,
    ) -> Result<Vec<Iterated>> {
        let device = match &mut self.device {
            Some(device) => {
                if self.device_is_stale {
                    device.load(&self.state)?;
                }
                device
            }
            None => {
                let (config, state) = (&self.config, &self.state);
                let (new, path) = match envs.as_cuda() {
                    Some(envs) => {
                        let make = |envs: &mut CudaVecEnv| {
                            OnDevice::new(config, envs, state, self.foreign)
                        };
                        if config.world.is_alone() && self.foreign.is_none() {
                            check_room(config, envs, make)?;
                        }
                        let new = OnDevice::new(config, envs, state, self.foreign)?;
                        let path = new.path(config, Some(envs));
                        (new, path)
                    }
                    None => {
                        let envs = envs.as_device().ok_or_else(not_there)?;
                        let new = OnDevice::beside(config, envs, state, self.foreign)?;
                        let path = new.path(config, None);
                        (new, path)
                    }
                };
                self.path = Some(path);
                self.device.insert(new)
            }
        };
        self.device_is_stale = false;
        // The device has replay memories now.
        self.state.numbers = Vec::new();
        self.state.flags = Vec::new();
        if !device.is_small() {
            self.host_is_stale = true;
            return device.run(&self.config, envs, progress, n);
        }
        let iterated = device.run(&self.config, envs, progress, n)?;
        device.store(&mut self.state)?;
        self.host_is_stale = true;
        Ok(iterated)
    }

    fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    fn state(&self) -> LearnerState {
        let device = self.device.as_ref().filter(|_| !self.device_is_stale);
        let Some(device) = device.filter(|device| !device.is_small()) else {
            return self.state.clone();
        };
        let mut state = LearnerState::default();
        if let Err(error) = device.store_all(&mut state) {
            // A number that is not finite, under what went wrong: no checkpoint is made of such a state.
            let (shape, data) = (vec![1], vec![f64::NAN]);
            state.statistics.push(Statistic { name: error.to_string(), shape, data });
        }
        state
    }

    fn load_state(&mut self, state: &LearnerState) -> Result<()> {
        self.host.load_state(&snapshot::part(&self.config.world, state))?;
        self.state = self.host.state();
        self.host_is_stale = false;
        self.device_is_stale = true;
        Ok(())
    }
}

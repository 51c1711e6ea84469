//! The native learner on an NVIDIA GPU: whole iterations without the host.
//!
//! `small` takes small networks of one agent or of a small team, `wide` everything else; `fleet` trains
//! many runs of few replicas at once. Weights have the names and shapes that every learner has, so a
//! checkpoint goes on wherever it was written.

mod fleet;
mod fleet_off_policy;
mod gradients;
mod objective;
mod policy_number;
mod small;
mod wide;

use crate::config::{Precision, TrainConfig};
use crate::engine::cuda::{H200, OffPolicyLearner};
use crate::error::{Error, Result};
use crate::learner::{Iterated, Learner, LearnerState, Progress};
use crate::normalise::{Normaliser, Statistic};
use small::{PackedRuns, SmallLearner, SoloLearner, SoloRoom, TeamLearner};
use warp_func::VecEnv;
use warp_func::cuda::{Build, CudaVecEnv, Source};
use wide::{MakeForeign, NetworkBackend, WideLearner};

pub use fleet::CudaFleet;
pub use gradients::{CudaGradients, Products};
pub use small::sources as small_sources;
#[doc(hidden)]
pub use wide::sources as wide_sources;

#[doc(hidden)]
pub use crate::engine::cuda::check as off_policy_check;

/// The translation units that off-policy policies of `config` have compiled for an H200 that `runs` share.
///
/// # Errors
/// Policies that an algorithm does not take.
#[doc(hidden)]
pub fn off_policy_sources(config: &TrainConfig, runs: usize) -> Result<Vec<(Source, Build)>> {
    let sources = crate::engine::cuda::sources(config, H200.shared_by(runs))?;
    Ok(sources.into_iter().map(|source| (source, Build::Parity)).collect())
}

#[cfg(feature = "tch")]
pub(crate) use wide::{ForeignNetwork, ForeignParts};

/// Perceptrons on an NVIDIA GPU, on environments that live there too.
#[derive(Debug)]
pub struct CudaLearner {
    config: TrainConfig,
    /// The same policies on the host: for observations that come from there.
    host: Box<dyn Learner>,
    /// What a checkpoint holds, up to date after every call.
    state: LearnerState,
    /// Made when the environments are known.
    device: Option<OnDevice>,
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
        super::no_own_networks(config, "a GPU")?;
        config.policies.iter().try_for_each(|plan| plan.check_passes())?;
        let host = super::learner(config, threads)?;
        let state = host.state();
        Ok(Self {
            config: config.clone(),
            host,
            state,
            device: None,
            host_is_stale: false,
            device_is_stale: false,
            foreign: None,
        })
    }

    /// The same with networks that `foreign` makes, on the same arrays.
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
            self.host.load_state(&self.state)?;
            self.host_is_stale = false;
        }
        Ok(&mut *self.host)
    }
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
        small::MOST_ITERATIONS
    }

    fn iterate(
        &mut self,
        envs: &mut dyn VecEnv,
        progress: Progress,
        n: u64,
    ) -> Result<Vec<Iterated>> {
        let Some(envs) = envs.as_cuda() else {
            return Err(Error::Invalid("the learner is on a GPU, the environments are not".into()));
        };
        let device = match &mut self.device {
            Some(device) => {
                if self.device_is_stale {
                    device.load(&self.state)?;
                }
                device
            }
            None => {
                let new = OnDevice::new(&self.config, envs, &self.state, self.foreign)?;
                self.device.insert(new)
            }
        };
        self.device_is_stale = false;
        let iterated = device.run(&self.config, envs, progress, n)?;
        device.store(&mut self.state)?;
        self.host_is_stale = true;
        Ok(iterated)
    }

    fn state(&self) -> LearnerState {
        let mut state = self.state.clone();
        if let (Some(OnDevice::OffPolicy(learner)), false) = (&self.device, self.device_is_stale) {
            // A number that is not finite, under what went wrong: no checkpoint is made of such a state.
            if let Err(error) = learner.store_all(0, &mut state) {
                let (shape, data) = (vec![1], vec![f64::NAN]);
                state.statistics.push(Statistic { name: error.to_string(), shape, data });
            }
        }
        state
    }

    fn load_state(&mut self, state: &LearnerState) -> Result<()> {
        self.host.load_state(state)?;
        self.state = self.host.state();
        self.host_is_stale = false;
        self.device_is_stale = true;
        Ok(())
    }
}

/// The way of learning that suits a configuration.
#[derive(Debug)]
enum OnDevice {
    Small(Box<SmallLearner>),
    Solo(Box<SoloLearner>),
    Team(Box<TeamLearner>),
    Wide(Box<WideLearner>),
    OffPolicy(Box<OffPolicyLearner>),
}

impl OnDevice {
    fn new(
        config: &TrainConfig,
        envs: &mut CudaVecEnv,
        state: &LearnerState,
        foreign: Option<MakeForeign>,
    ) -> Result<Self> {
        if let Some(policy) = config.policies.iter().find(|policy| policy.is_off_policy()) {
            if foreign.is_some() {
                let name = &policy.name;
                return Err(Error::Invalid(format!(
                    "policy \"{name}\" learns from a replay memory, which the native learner alone does"
                )));
            }
            let (config, state) = (std::slice::from_ref(config), std::slice::from_ref(state));
            return Ok(Self::OffPolicy(Box::new(OffPolicyLearner::new(config, &[envs], state)?)));
        }
        if foreign.is_some() {
            let backend = NetworkBackend { tensor_cores: false, foreign };
            let wide = WideLearner::new(config, envs, state, backend)?;
            return Ok(Self::Wide(Box::new(wide)));
        }
        let exact = config.policies.iter().any(|plan| plan.config.precision == Precision::Single);
        Ok(match small::takes(config, envs.text()) && !exact {
            true if envs.text().team > 1 => {
                Self::Team(Box::new(TeamLearner::new(config, envs, state)?))
            }
            true if small::is_solo(config) => {
                let mut learner =
                    SoloLearner::new(config, envs, SoloRoom { runs: 1, schedules: 1 })?;
                let state = std::slice::from_ref(state);
                learner.load(PackedRuns::new(vec![config.clone()], state, 1)?, 0)?;
                Self::Solo(Box::new(learner))
            }
            true => Self::Small(Box::new(SmallLearner::new(config, envs, state)?)),
            false => {
                let backend = NetworkBackend { tensor_cores: !exact, foreign: None };
                let wide = WideLearner::new(config, envs, state, backend)?;
                Self::Wide(Box::new(wide))
            }
        })
    }

    fn load(&mut self, state: &LearnerState) -> Result<()> {
        match self {
            Self::Small(learner) => learner.load(state),
            Self::Solo(learner) => learner.reload(std::slice::from_ref(state)),
            Self::Team(learner) => learner.load(state),
            Self::Wide(learner) => learner.load(state),
            Self::OffPolicy(learner) => learner.load(std::slice::from_ref(state)),
        }
    }

    fn store(&self, state: &mut LearnerState) -> Result<()> {
        match self {
            Self::Small(learner) => learner.store(state),
            Self::Solo(learner) => learner.store(std::slice::from_mut(state)),
            Self::Team(learner) => learner.store(state),
            Self::Wide(learner) => learner.store(state),
            Self::OffPolicy(learner) => learner.store(0, state),
        }
    }

    fn run(
        &mut self,
        config: &TrainConfig,
        envs: &mut CudaVecEnv,
        progress: Progress,
        n: u64,
    ) -> Result<Vec<Iterated>> {
        match self {
            Self::Small(learner) => learner.run(config, envs, progress, n),
            Self::Solo(learner) => learner.run(envs, progress, n),
            Self::Team(learner) => learner.run(config, envs, progress, n),
            Self::Wide(learner) => learner.run(config, envs, progress, n),
            Self::OffPolicy(learner) => learner.run(&mut [envs], progress, n)?.swap_remove(0),
        }
    }
}

//! Whole iterations on an NVIDIA GPU, by kernels that collect and learn without the host.
//!
//! `small` takes small networks of one agent or of a few, `wide` everything else. Weights have the
//! names and shapes that every learner has, so a checkpoint can be continued on any device.

mod gradients;
mod halves;
mod mixed;
mod moments;
mod objective;
mod policy_number;
mod precompile;
#[cfg(test)]
mod sharded;
pub(crate) mod small;
mod split_gradients;
mod wide;

use crate::algorithm::PolicyPlan;
use crate::config::TrainConfig;
use crate::engine::collectives::is_within_reach;
use crate::engine::cuda::OffPolicyLearner;
use crate::engine::{Iterated, Progress};
use crate::error::{Error, Result};
use crate::model::LearnerState;
use crate::network::foreign::MakeForeign;
use crate::world::Carrier;
use halves::is_exact;
use mixed::MixedLearner;
use small::{
    FewReplicasLearner, FewReplicasRoom, MultiAgentLearner, PackedRuns, Runs, SmallLearner,
};
use warp_func::VecEnv;
use warp_func::cuda::{CudaVecEnv, DeviceEnvs, DeviceInfo, EnvKernels};
use wide::{NetworkBackend, WideLearner};

pub use gradients::{CudaGradients, Products};
pub(crate) use precompile::fleet_units;
#[doc(hidden)]
pub use precompile::off_policy_sources;
pub use precompile::{precompile, units};
pub(crate) use small::MOST_ITERATIONS;
pub use small::sources as small_sources;
pub use split_gradients::CudaSplitGradients;
#[doc(hidden)]
pub use wide::sources as wide_sources;

#[doc(hidden)]
pub use crate::engine::cuda::check as off_policy_check;

/// The ways of learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Path {
    Small,
    FewReplicas,
    Team,
    Wide,
    OffPolicy,
    Mixed,
}

/// The way of learning that suits a configuration.
#[derive(Debug)]
pub(crate) enum OnDevice {
    Small(Box<SmallLearner>),
    FewReplicas(Box<FewReplicasLearner>),
    MultiAgent(Box<MultiAgentLearner>),
    Wide(Box<WideLearner>),
    OffPolicy(Box<OffPolicyLearner>),
    Mixed(Box<MixedLearner>),
}

impl OnDevice {
    pub(crate) fn new(
        config: &TrainConfig,
        envs: &mut CudaVecEnv,
        state: &LearnerState,
        foreign: Option<MakeForeign>,
    ) -> Result<Self> {
        let off_policy = config.policies.iter().find(|policy| policy.is_off_policy());
        if let (Some(policy), Some(_)) = (off_policy, foreign) {
            let name = &policy.name;
            return Err(Error::Invalid(format!(
                "policy \"{name}\" learns from a replay memory, which the native learner alone does"
            )));
        }
        if foreign.is_some() {
            let backend = NetworkBackend { tensor_cores: false, foreign };
            let wide = WideLearner::new(config, envs, state, backend)?;
            return Ok(Self::Wide(Box::new(wide)));
        }
        let path = Self::path_of(config, envs.text(), envs.gpu().info());
        // Small networks are compiled for what carries sums between ranks.
        let is_carried = matches!(path, Path::Small | Path::FewReplicas | Path::Team)
            && !config.world.is_alone();
        let carried = is_carried.then(|| carried(config, envs)).transpose()?;
        let config = carried.as_ref().unwrap_or(config);
        Ok(match path {
            Path::Mixed => Self::Mixed(Box::new(MixedLearner::new(config, envs, state)?)),
            Path::OffPolicy => {
                let (config, state) = (std::slice::from_ref(config), std::slice::from_ref(state));
                Self::OffPolicy(Box::new(OffPolicyLearner::new(config, &[envs], state)?))
            }
            Path::Team => Self::MultiAgent(Box::new(MultiAgentLearner::new(config, envs, state)?)),
            Path::FewReplicas => {
                let mut learner = FewReplicasLearner::new(
                    config,
                    envs,
                    FewReplicasRoom { runs: 1, schedules: 1 },
                )?;
                let state = std::slice::from_ref(state);
                let runs = Runs::new(std::iter::once(config), 1);
                learner.load(PackedRuns::new(runs, state, 1)?, 0)?;
                Self::FewReplicas(Box::new(learner))
            }
            Path::Small => Self::Small(Box::new(SmallLearner::new(config, envs, state)?)),
            Path::Wide => {
                let backend = NetworkBackend { tensor_cores: !is_exact(config), foreign: None };
                let wide = WideLearner::new(config, envs, state, backend)?;
                Self::Wide(Box::new(wide))
            }
        })
    }

    /// Which one takes `config` on a GPU like `info`, in environments with the code `env`.
    fn path_of(config: &TrainConfig, env: &EnvKernels, info: &DeviceInfo) -> Path {
        if config.policies.iter().any(PolicyPlan::is_off_policy) {
            let all = config.policies.iter().all(PolicyPlan::is_off_policy);
            return if all { Path::OffPolicy } else { Path::Mixed };
        }
        match small::refusal(config, env, info).is_none() && !is_exact(config) {
            false => Path::Wide,
            true if env.team > 1 => Path::Team,
            true if small::has_few_replicas(config) => Path::FewReplicas,
            true => Path::Small,
        }
    }

    /// For environments that something else moves on the GPU, whose bodies no kernel can call.
    pub(crate) fn beside(
        config: &TrainConfig,
        envs: &dyn DeviceEnvs,
        state: &LearnerState,
        foreign: Option<MakeForeign>,
    ) -> Result<Self> {
        if let Some(policy) = config.policies.iter().find(|policy| policy.is_off_policy()) {
            let name = &policy.name;
            return Err(Error::Invalid(format!(
                "policy \"{name}\" learns from a replay memory, which is on a GPU where the environments are \
                 compiled for it alone; train with --device cpu"
            )));
        }
        let tensor_cores = foreign.is_none() && !is_exact(config);
        let backend = NetworkBackend { tensor_cores, foreign };
        Ok(Self::Wide(Box::new(WideLearner::new(config, envs, state, backend)?)))
    }

    /// What it is called, and what keeps a run from the kernels for small networks; `envs` are the environments, if kernels
    /// can call their body.
    pub(crate) fn path(&self, config: &TrainConfig, envs: Option<&CudaVecEnv>) -> String {
        let way = self.way(config, envs);
        let is_bf16 = |plan: &PolicyPlan| halves::are_bf16(plan.config.precision);
        match !is_exact(config) && config.policies.iter().any(is_bf16) {
            true => way + "; operands are bf16",
            false => way,
        }
    }

    fn way(&self, config: &TrainConfig, envs: Option<&CudaVecEnv>) -> String {
        let way = match self {
            Self::Small(learner) if learner.is_in_pieces() => {
                return "small networks, one agent: a launch for each minibatch, NCCL between them"
                    .into();
            }
            Self::MultiAgent(learner) if learner.is_in_pieces() => {
                return "small networks, several agents: a launch for each minibatch, NCCL between them".into();
            }
            Self::Small(_) => return "small networks, one agent: two launches an iteration".into(),
            Self::FewReplicas(_) => {
                return "small networks, few replicas: many iterations a launch".into();
            }
            Self::MultiAgent(_) => {
                return "small networks, several agents: a launch for the rollout, one for each policy".into();
            }
            Self::OffPolicy(_) if !config.world.is_alone() => {
                return "replay memory: updates in launches between which gradients are summed over ranks"
                    .into();
            }
            Self::OffPolicy(_) => return "replay memory: a launch for each update".into(),
            Self::Mixed(_) => return "policies of both kinds, one after the other".into(),
            Self::Wide(learner) => learner.paths(),
        };
        let refusal = match (is_exact(config), envs) {
            (true, _) => Some("fp32".into()),
            (false, Some(envs)) => small::refusal(config, envs.text(), envs.gpu().info()),
            (false, None) => Some("environments that something else moves".into()),
        };
        refusal.map_or(way.clone(), |refusal| format!("{way} ({refusal})"))
    }

    pub(crate) fn load(&mut self, state: &LearnerState) -> Result<()> {
        match self {
            Self::Small(learner) => learner.load(state),
            Self::FewReplicas(learner) => learner.reload(std::slice::from_ref(state)),
            Self::MultiAgent(learner) => learner.load(state),
            Self::Wide(learner) => learner.load(state),
            Self::OffPolicy(learner) => learner.load(std::slice::from_ref(state)),
            Self::Mixed(learner) => learner.load(state),
        }
    }

    /// Whether networks are small, so that bringing them to the host takes next to no time. What it brings is checked then,
    /// too; others say by themselves that they diverged.
    pub(crate) fn is_small(&self) -> bool {
        matches!(self, Self::Small(_) | Self::FewReplicas(_) | Self::MultiAgent(_))
    }

    pub(crate) fn store(&self, state: &mut LearnerState) -> Result<()> {
        match self {
            Self::Small(learner) => learner.store(state),
            Self::FewReplicas(learner) => learner.store(std::slice::from_mut(state)),
            Self::MultiAgent(learner) => learner.store(state),
            Self::Wide(learner) => learner.store(state),
            Self::OffPolicy(learner) => learner.store(0, state),
            Self::Mixed(learner) => learner.store(state),
        }
    }

    /// Brings what the device knows into `state`, replay memories included where there are some.
    pub(crate) fn store_all(&self, state: &mut LearnerState) -> Result<()> {
        match self {
            Self::OffPolicy(learner) => learner.store_all(0, state),
            Self::Mixed(learner) => learner.store_all(state),
            _ => self.store(state),
        }
    }

    pub(crate) fn run(
        &mut self,
        config: &TrainConfig,
        envs: &mut dyn VecEnv,
        progress: Progress,
        n: u64,
    ) -> Result<Vec<Iterated>> {
        if let Self::Wide(learner) = self {
            let envs = envs.as_device().ok_or_else(not_there)?;
            return learner.run(config, envs, progress, n);
        }
        let envs = envs.as_cuda().ok_or_else(not_there)?;
        match self {
            Self::Small(learner) => learner.run(config, envs, progress, n),
            Self::FewReplicas(learner) => learner.run(envs, progress, n),
            Self::MultiAgent(learner) => learner.run(config, envs, progress, n),
            Self::Wide(learner) => learner.run(config, envs, progress, n),
            Self::OffPolicy(learner) => learner.run(&mut [envs], progress, n)?.swap_remove(0),
            Self::Mixed(learner) => learner.run(envs, progress, n),
        }
    }
}

/// The environments are elsewhere.
pub(crate) fn not_there() -> Error {
    Error::Invalid("the learner is on a GPU, the environments are not".into())
}

/// `config` where its world says what carries sums between ranks.
fn carried(config: &TrainConfig, envs: &CudaVecEnv) -> Result<TrainConfig> {
    let reached = is_within_reach(envs.gpu(), &config.world)?;
    let carrier = if reached { Carrier::Peers } else { Carrier::Nccl };
    let mut carried = config.clone();
    carried.world = carried.world.carried_by(carrier);
    Ok(carried)
}

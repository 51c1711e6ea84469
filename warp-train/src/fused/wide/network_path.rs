//! How a policy's network runs on a GPU, and the kernels that it has compiled for that.

use super::layers::Product;
use super::network::WideNetwork;
use super::tensor::shape::TensorShape;
use super::text;
use super::tiled::rollout::RolloutClusters;
use super::tiled::shape::TiledShape;
use super::whole_fp32::{FusedShape, SharedMemory};
use crate::algorithm::PolicyPlan;
use crate::config::TrainConfig;
use crate::error::{Result, of_policy};
use crate::fused::is_exact;
use crate::fused::policy_number::PolicyNumber;
use crate::model::{Init, NetworkConfig};
use crate::network::foreign::MakeForeign;
use warp_data::cuda::DeviceInfo;
use warp_func::cuda::{Build, EnvKernels, Source};

/// How a policy's network runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NetworkPath {
    /// Layer by layer.
    Layers(Product),
    /// Whole networks in fp32.
    Fused(FusedShape),
    /// Whole towers on tensor cores.
    Tensor(Vec<TensorShape>),
    /// Layer by layer on tensor cores.
    Tiled(TiledShape),
    /// By a tensor library, which has kernels of its own.
    Foreign,
}

/// What runs networks.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct NetworkBackend {
    /// Products may have half-precision operands and fp32 sums; else everything is fp32.
    pub(in super::super) tensor_cores: bool,
    /// Makes networks that something else than this folder's kernels runs.
    pub(in super::super) foreign: Option<MakeForeign>,
}

/// What of a GPU decides how a network runs.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Machine {
    shared: SharedMemory,
    multiprocessors: usize,
    /// Compute capability, the major version.
    generation: u32,
}

impl Machine {
    /// The H200.
    const H200: Self = Self { shared: SharedMemory::H200, multiprocessors: 132, generation: 9 };

    pub(in super::super) fn of(info: &DeviceInfo) -> Self {
        Self {
            shared: SharedMemory::of(info),
            multiprocessors: info.n_multiprocessors as usize,
            generation: info.capability.0,
        }
    }
}

impl NetworkPath {
    /// For `plan`'s network, whose `rows` act at a time; with `tensor_cores` operands of products may be halves.
    fn new(
        network: &WideNetwork,
        plan: &PolicyPlan,
        rows: usize,
        machine: Machine,
        tensor_cores: bool,
    ) -> Self {
        let half = tensor_cores && machine.generation >= 8;
        if !half {
            // These are not normalised.
            let plain = Some(network).filter(|network| !network.has_norms());
            let fused = plain.and_then(|plain| FusedShape::new(plain, rows, machine.shared));
            return fused.map_or(Self::Layers(Product::Single), Self::Fused);
        }
        // Products that run by themselves are those of this generation alone.
        let newest = Some(network).filter(|_| machine.generation == 9);
        let towers = newest
            .and_then(|network| TensorShape::of_towers(&network.towers, machine.shared.per_block));
        towers
            .map(Self::Tensor)
            .or_else(|| {
                newest.and_then(|network| TiledShape::of_policy(network, plan)).map(Self::Tiled)
            })
            .unwrap_or(Self::Layers(Product::Half))
    }

    /// Whether kernels that act also take what agents see into its moments: if it is normalised and there is room.
    pub(super) fn sums_obs(&self, plan: &PolicyPlan) -> bool {
        let shapes = self.shapes();
        let has_room = match self {
            Self::Tiled(shape) => shape.rollout.is_some(),
            _ => !shapes.is_empty() && shapes.iter().all(TensorShape::has_room_for_obs_sums),
        };
        has_room && plan.config.norm_obs
    }

    /// The towers on tensor cores.
    pub(super) fn shapes(&self) -> &[TensorShape] {
        match self {
            Self::Tensor(shapes) => shapes,
            _ => &[],
        }
    }
}

/// Whether a rollout of `plan` in environments with the code `body` may be one launch: for agents that are alone in their replicas,
/// each stepped by a thread, with nothing to do between steps.
fn may_roll_out(config: &TrainConfig, plan: &PolicyPlan, body: &EnvKernels) -> bool {
    let spec = &config.spec;
    let selects = plan.config.neg_pos_env_ratio.is_some();
    body.team == 1 && spec.n_agents() == 1 && !plan.is_mortal(spec) && !selects
}

/// A policy's network, how it runs, and its text.
#[derive(Debug)]
pub(in super::super) struct WideText {
    pub(super) network: WideNetwork,
    pub(super) path: NetworkPath,
    /// Units in the parity build: first what every network needs.
    pub(super) general: Vec<Source>,
    /// Units of each tower on tensor cores, or of all towers' layers, in the release build.
    pub(super) towers: Vec<Vec<Source>>,
    /// That of whole rollouts, where they are one launch, in the parity build: it steps environments.
    pub(super) rollout: Option<Source>,
}

impl WideText {
    /// Of a policy of `config`, in environments with the code `body` if kernels step them.
    ///
    /// # Errors
    /// A network that can't be built.
    pub(in super::super) fn new(
        config: &TrainConfig,
        number: PolicyNumber,
        machine: Machine,
        backend: NetworkBackend,
        body: Option<&EnvKernels>,
    ) -> Result<Self> {
        let plan = &config.policies[number.index];
        // Names and shapes alone count here, and orthogonal weights take long to make.
        let shapes = NetworkConfig { init: Init::Xavier, ..plan.network(&config.spec) };
        let shapes = shapes.initial(0).map_err(of_policy(&plan.name))?;
        let network = WideNetwork::from_tensors(&shapes).map_err(of_policy(&plan.name))?;
        let rows = config.n_envs() * plan.n_agents();
        let mut path = match backend.foreign {
            Some(_) => NetworkPath::Foreign,
            None => NetworkPath::new(&network, plan, rows, machine, backend.tensor_cores),
        };
        let body = body.filter(|body| may_roll_out(config, plan, body));
        if let (NetworkPath::Tiled(shape), Some(_)) = (&mut path, body) {
            let (blocks, bytes) = (machine.multiprocessors, machine.shared.per_block);
            shape.rollout = RolloutClusters::new(shape, rows, blocks, bytes);
        }
        let general = text::general(config, number, &network, &path);
        let tower = |shape| text::tensor(config, number, &network, shape, &path);
        let towers = match &path {
            NetworkPath::Tiled(shape) => vec![text::tiled(config, number, &network, shape)],
            path => path.shapes().iter().map(tower).collect(),
        };
        // What is seen is summed by the launch, or else between steps.
        let in_one_launch = body.filter(|_| !plan.config.norm_obs || path.sums_obs(plan));
        let rollout =
            in_one_launch.and_then(|body| text::rollout(config, number, &network, &path, body));
        Ok(Self { network, path, general, towers, rollout })
    }

    /// Texts of all policies of `config`, in their order.
    ///
    /// # Errors
    /// As [`WideText::new`].
    pub(in super::super) fn of_all(
        config: &TrainConfig,
        machine: Machine,
        backend: NetworkBackend,
        body: Option<&EnvKernels>,
    ) -> Result<Vec<Self>> {
        let mut first_agent = 0;
        let text = |index: usize| {
            let number = PolicyNumber { index, first_agent };
            first_agent += config.policies[index].n_agents() as u32;
            Self::new(config, number, machine, backend, body)
        };
        (0..config.policies.len()).map(text).collect()
    }

    /// All units.
    pub(in super::super) fn units(&self) -> impl Iterator<Item = (&Source, Build)> {
        let general = self.general.iter().map(|unit| (unit, Build::Parity));
        let general = general.chain(self.rollout.iter().map(|unit| (unit, Build::Parity)));
        general.chain(self.towers.iter().flatten().map(|unit| (unit, Build::Release)))
    }
}

/// The translation units that `config` has compiled for an H200, in environments with the code `body` if kernels step them.
///
/// # Errors
/// A network that can't be built.
pub fn sources(config: &TrainConfig, body: Option<&EnvKernels>) -> Result<Vec<(Source, Build)>> {
    let backend = NetworkBackend { tensor_cores: !is_exact(config), foreign: None };
    let texts = WideText::of_all(config, Machine::H200, backend, body)?;
    let units = texts.iter().flat_map(WideText::units);
    Ok(units.map(|(unit, build)| (unit.clone(), build)).collect())
}

//! One policy of the wide path: its arrays and kernels, and how it acts and fills its rollout.
//!
//! Everything here starts kernels and returns; nothing waits for the device but `tensors`.

use super::args::PackArgs;
use super::arrays::{Arrays, Sizes};
use super::kernels::{
    ByLayer, FewKernels, FusedActKernels, FusedLearnKernels, FusedTowers, GeneralKernels,
    LayerKernels, LossKernels, NormKernels, TensorRolloutKernels, UpdateKernels,
};
use super::layers::few::acts_few;
use super::layers::norm::Norms;
use super::network::WideNetwork;
use super::network_path::{NetworkPath, Product};
use super::normalise::WideNormaliser;
use super::ranks::{Sent, WideRanks};
use super::selection::WideGoals;
use super::shards::WideShards;
use super::shared::WideState;
use super::spread::WideSpread;
use super::tensor::shape::{MOST_GROUPS, TILE_ROWS, TensorShape};
use super::tensor::{TensorTower, tensor_towers};
use super::text;
use super::tiled::TiledNetwork;
use super::tiled::rollout::TiledRollout;
use super::units::WideText;
use crate::algorithm::{AgentRange, OnPolicyAlgorithm, PolicyPlan};
use crate::config::TrainConfig;
use crate::engine::collectives::RankConnector;
use crate::error::{Error, Result, of_policy};
use crate::model::LearnerState;
use crate::model::{Activation, PolicyTensors};
use crate::network::foreign::{ForeignNetwork, ForeignParts, MakeForeign};
use std::cell::RefCell;
use std::slice;
use warp_data::cuda::{Device, DeviceArray};
use warp_func::cuda::{
    Build, DeviceEnvs, DeviceStruct, DeviceValue, KernelArgs, Kernels, Launch, Module, Source,
    fork_join, programmatic_launch,
};

/// Where the rows of a forward pass in fp32 come from and how many there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) x: &'a DeviceArray,
    /// The first row's number in `x`.
    pub(super) at: usize,
    /// Whether rows are samples of a minibatch from number `first` on, which may end earlier.
    pub(super) sampled: bool,
    pub(super) first: usize,
    pub(super) rows: usize,
}

/// A policy on the device.
#[derive(Debug)]
pub(in super::super) struct WidePolicy {
    pub(super) plan: PolicyPlan,
    /// What says how its objective changes, if it does.
    pub(super) algorithm: Option<Box<dyn OnPolicyAlgorithm>>,
    pub(super) network: WideNetwork,
    pub(super) sizes: Sizes,
    pub(super) arrays: Arrays,
    pub(super) kernels: GeneralKernels,
    pub(super) update: UpdateKernels,
    /// Layers one by one, where towers do not run as a whole.
    pub(super) by_layer: Option<ByLayer>,
    /// Losses of outputs in memory, where neither whole networks nor `tiled` compute theirs.
    pub(super) losses: Option<LossKernels>,
    /// What normalises hidden layers that run one by one, but for those of `tiled`.
    pub(super) norms: Option<Norms>,
    /// All layers of few rows in one launch, where a block has room for some and towers do not run as a whole.
    pub(super) few: Option<FewKernels>,
    /// Whole networks in fp32.
    pub(super) fused: Option<FusedTowers>,
    /// One per tower, or none: in fp32 or layer by layer.
    pub(super) tensor: Vec<TensorTower>,
    /// Whole rollouts in one launch, where towers on tensor cores make them.
    pub(super) whole_rollout: Option<TensorRolloutKernels>,
    /// Layers one by one on tensor cores.
    pub(super) tiled: Option<TiledNetwork>,
    pub(super) device: Device,
    pub(super) normaliser: WideNormaliser,
    /// Finds out how far actions differ.
    pub(super) spread: WideSpread,
    /// Which replicas are learned from, where not all are.
    pub(super) goals: Option<WideGoals>,
    /// Where the environment's arrays lie.
    pub(super) places: DeviceArray,
    /// Puts samples into the order of an epoch where there are several shards here.
    pub(super) shards: Option<WideShards>,
    /// The other ranks that learn it.
    pub(super) ranks: Option<WideRanks>,
    /// What runs the network, if this folder's kernels don't.
    pub(super) foreign: Option<RefCell<Box<dyn ForeignNetwork>>>,
}

impl WidePolicy {
    /// The policy number `index` of `config`, freshly initialised, with kernels of `text`.
    pub(in super::super) fn new(
        config: &TrainConfig,
        index: usize,
        text: WideText,
        kernels: &Kernels,
        envs: &dyn DeviceEnvs,
        connector: &RankConnector,
        make_foreign: Option<MakeForeign>,
    ) -> Result<Self> {
        let plan = config.policies[index].clone();
        let WideText { network, path, general, towers, rollout } = text;
        let multiprocessors = kernels.device().info().n_multiprocessors as usize;
        let sizes = Sizes::new(config, &plan, &network, &path, multiprocessors);
        config.check_samples()?;
        let modules = compile(kernels, &general, Build::Parity)?;
        let module = &modules[0];
        let norms = norms(kernels.device(), module, &network, &path, &sizes)?;
        let few = acts_few(&network, &path).then(|| FewKernels::of(module)).transpose()?;
        let (general, update) = (GeneralKernels::of(module)?, UpdateKernels::of(&modules[1])?);
        let device = kernels.device();
        let spread = WideSpread::new(device, &modules[modules.len() - 1])?;
        let tiled = tiled(kernels, &path, &towers, rollout.as_ref(), module, &sizes)?;
        let width = network.observation_width();
        let normaliser =
            WideNormaliser::new(device, module, &plan, width, &sizes, config.world.size())?;
        let arrays = Arrays::new(device, &plan, &network, &sizes, path.shapes())?;
        let tensor = tensor_towers(kernels, &path, &towers, &sizes)?;
        let sent = Sent {
            n_parameters: network.n_parameters,
            width,
            losses: arrays.losses.len(),
            moments: arrays.moments.len(),
            shards: config.shards(),
            module: &modules[1],
            foreign: make_foreign.is_some(),
        };
        let join = || WideRanks::new(connector, &sent);
        let ranks = (!config.world.is_alone()).then(join).transpose()?;
        let shards = WideShards::new(sizes.shards, &modules[1])?;
        let (places, goals) = (places(&plan, envs)?, WideGoals::new(&plan, envs, sizes.shards)?);
        let (device, parameters) = (device.clone(), &arrays.parameters);
        let parts = ForeignParts {
            plan: &config.policies[index],
            spec: &config.spec,
            places: network.places(),
            parameters,
        };
        let foreign = make_foreign.map(|make| make(&parts)).transpose()?.map(RefCell::new);
        Ok(Self {
            algorithm: changing(&plan, config)?,
            plan,
            network,
            sizes,
            arrays,
            kernels: general,
            update,
            by_layer: by_layer(module, &path)?,
            losses: losses(&modules[1], &path)?,
            norms,
            few,
            fused: fused(&modules, &path)?,
            tensor,
            whole_rollout: whole_rollout(kernels, &path, rollout)?,
            tiled,
            device,
            normaliser,
            spread,
            goals,
            places,
            shards,
            ranks,
            foreign,
        })
    }

    /// How its network runs, in words.
    pub(super) fn path(&self) -> &'static str {
        match (&self.by_layer, &self.foreign) {
            (_, Some(_)) => "a tensor library's network",
            _ if let Some(tiled) = &self.tiled => match tiled.rollout {
                Some(_) => "layer by layer on tensor cores, rollouts in one launch",
                None => "layer by layer on tensor cores",
            },
            (Some(of), _) if of.product == Product::Half => "layer by layer, half precision",
            (Some(_), _) => "layer by layer, fp32",
            _ if self.tensor.is_empty() => "whole networks in fp32",
            _ if self.whole_rollout.is_some() => {
                "whole networks on tensor cores, rollouts in one launch"
            }
            _ => "whole networks on tensor cores",
        }
    }

    pub(super) fn activation(&self) -> i32 {
        match self.plan.config.activation {
            Activation::Tanh => 1,
            Activation::Relu => 2,
        }
    }

    /// Numbers per row of outputs: the policy's and the value.
    pub(super) fn out_row(&self) -> usize {
        self.network.n_outputs + 1
    }

    /// Weights as halves, from the parameters as they are now.
    pub(super) fn pack(&self) -> Result<()> {
        let pack = |tower: &TensorTower| {
            // A thread packs 16 bytes, and a bias, a gain or a shift.
            let threads = (tower.shape.image_bytes() / 16).max(tower.shape.vectors());
            let (image, biases) = (&tower.image, &tower.biases);
            let args = PackArgs { parameters: &self.arrays.parameters, image, biases };
            programmatic_launch(&self.device)?;
            tower.acts.pack.launch(&Launch::over(threads, 128), &[args.arg()])
        };
        fork_join(&self.device, self.tensor.iter().map(|tower| || pack(tower)))?;
        self.tiled.as_ref().map_or(Ok(()), |tiled| tiled.pack(&self.arrays.parameters))
    }

    /// Rows that act at a time.
    pub(super) fn n_rows(&self) -> usize {
        self.sizes.rows
    }

    /// Blocks for so many rows that act at once: of one tile, if all towers then run at once.
    pub(super) fn blocks_that_act(&self, rows: usize, shape: &TensorShape) -> Launch {
        let tiles = rows.div_ceil(TILE_ROWS);
        if tiles * self.tensor.len() > self.device.info().n_multiprocessors as usize {
            return self.two_tiles_a_block(rows, shape, self.bytes_that_act(shape, MOST_GROUPS));
        }
        // Little of it, so that there is room beside blocks of another policy.
        let (blocks, shared_bytes) = (tiles.max(1) as u32, self.bytes_that_act(shape, 1) as u32);
        Launch { blocks, threads: 128, shared_bytes, cooperative: false }
    }

    /// Shared memory of a kernel that acts, in blocks of so many groups, and maybe sums what agents see.
    fn bytes_that_act(&self, shape: &TensorShape, groups: usize) -> usize {
        let sums = if self.sizes.obs_blocks > 0 { shape.obs_sums_bytes(groups) } else { 0 };
        shape.act_bytes(groups) + sums
    }

    /// Blocks for so many rows whose rollout is one launch: of one tile, if there is a multiprocessor for each.
    pub(super) fn blocks_that_roll_out(&self, rows: usize, shape: &TensorShape) -> Launch {
        let (tiles, multiprocessors) =
            (rows.div_ceil(TILE_ROWS) as u32, self.device.info().n_multiprocessors);
        let groups = if tiles > multiprocessors { MOST_GROUPS } else { 1 };
        let blocks = tiles.div_ceil(groups as u32).clamp(1, multiprocessors);
        let shared_bytes = self.bytes_that_act(shape, groups) as u32;
        Launch { blocks, threads: 128 * groups as u32, shared_bytes, cooperative: false }
    }

    /// What computes the losses of outputs in memory.
    ///
    /// # Errors
    /// A network whose outputs are not in memory.
    pub(super) fn loss_kernels(&self) -> Result<&LossKernels> {
        let name = &self.plan.name;
        let none = || Error::Invalid(format!("policy \"{name}\" has no kernel for its losses"));
        self.losses.as_ref().ok_or_else(none)
    }

    /// As many blocks as multiprocessors have room for, or fewer where rows are few.
    pub(super) fn two_tiles_a_block(
        &self,
        rows: usize,
        shape: &TensorShape,
        shared_bytes: usize,
    ) -> Launch {
        let blocks = rows.div_ceil(2 * TILE_ROWS) as u32;
        let most = shape.most_groups(self.device.info().n_multiprocessors as usize) / 2;
        let blocks = blocks.clamp(1, most as u32);
        Launch { blocks, threads: 256, shared_bytes: shared_bytes as u32, cooperative: false }
    }

    /// Weights, optimiser state and step count.
    pub(super) fn tensors(&self) -> Result<PolicyTensors> {
        let pull = |array: &DeviceArray| array.pull::<f32>();
        let mut optimizer = self.network.named(&pull(&self.arrays.exp_avg)?, ".exp_avg");
        optimizer.extend(self.network.named(&pull(&self.arrays.exp_avg_sq)?, ".exp_avg_sq"));
        let weights = self.network.named(&pull(&self.arrays.parameters)?, "");
        let n_steps = u64::from(self.state()?.optimiser_steps);
        Ok(PolicyTensors { weights, optimizer, n_steps })
    }

    /// Waits for the kernels, and says what they have left.
    pub(super) fn state(&self) -> Result<WideState> {
        Ok(WideState::take(&self.arrays.state.pull::<u32>()?))
    }

    /// Takes over its part of `state`.
    ///
    /// # Errors
    /// A tensor that is missing, or of another shape.
    pub(in super::super) fn load_from(&mut self, state: &LearnerState) -> Result<()> {
        let name = self.plan.name.clone();
        let (weights, optimizer, n_steps) = state.of_policy(&name);
        self.load(&PolicyTensors { weights, optimizer, n_steps })?;
        self.normaliser.load_state(&name, &state.statistics_of_policy(&name))
    }

    /// Adds what [`WidePolicy::load_from`] takes over to `state`.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(in super::super) fn store_into(&self, state: &mut LearnerState) -> Result<()> {
        let PolicyTensors { weights, optimizer, n_steps } = self.tensors()?;
        state.add_policy(&self.plan.name, weights, optimizer, n_steps);
        state.add_statistics(&self.plan.name, self.normaliser.state()?);
        Ok(())
    }

    /// Takes over all that [`WidePolicy::tensors`] gives, bit by bit; or nothing.
    pub(super) fn load(&mut self, tensors: &PolicyTensors) -> Result<()> {
        let flat =
            |list, suffix| self.network.flat(list, suffix).map_err(of_policy(&self.plan.name));
        let parameters = flat(&tensors.weights, "")?;
        let zeros = || vec![0.0; self.network.n_parameters];
        // A network that has never been optimised may come without moments.
        let fresh = tensors.optimizer.is_empty() && tensors.n_steps == 0;
        let (exp_avg, exp_avg_sq) = match fresh {
            true => (zeros(), zeros()),
            false => {
                (flat(&tensors.optimizer, ".exp_avg")?, flat(&tensors.optimizer, ".exp_avg_sq")?)
            }
        };
        self.arrays.parameters.push(&parameters)?;
        self.arrays.exp_avg.push(&exp_avg)?;
        self.arrays.exp_avg_sq.push(&exp_avg_sq)?;
        let state = WideState { optimiser_steps: tensors.n_steps as u32, ..WideState::default() };
        self.arrays.state.push(&state.words())?;
        self.pack()
    }
}

pub(super) fn compile(kernels: &Kernels, units: &[Source], build: Build) -> Result<Vec<Module>> {
    let units: Vec<_> = units.iter().map(|unit| (unit, build)).collect();
    Ok(kernels.compile_all(&units)?)
}

/// The kernel of whole rollouts of towers, of `unit`, if there is one: environments step in it as they do in their own.
fn whole_rollout(
    kernels: &Kernels,
    path: &NetworkPath,
    unit: Option<Source>,
) -> Result<Option<TensorRolloutKernels>> {
    let unit = unit.filter(|_| !path.shapes().is_empty());
    let kernels = |unit| TensorRolloutKernels::of(&compile(kernels, &[unit], Build::Parity)?[0]);
    unit.map(kernels).transpose()
}

/// What runs layers one by one on tensor cores, if that is the way, of `units`.
fn tiled(
    kernels: &Kernels,
    path: &NetworkPath,
    units: &[Vec<Source>],
    rollout: Option<&Source>,
    general: &Module,
    sizes: &Sizes,
) -> Result<Option<TiledNetwork>> {
    let (NetworkPath::Tiled(shape), [units]) = (path, units) else { return Ok(None) };
    let modules = compile(kernels, units, Build::Release)?;
    let Some((own, norm)) = modules.split_first_chunk() else {
        return Err(Error::Invalid("kernels of layers on tensor cores are missing".into()));
    };
    let rows = sizes.chunk.max(sizes.part);
    let device = kernels.device();
    let mut network = TiledNetwork::new(device, shape.clone(), rows, general, own, norm.first())?;
    if let (Some(clusters), Some(unit)) = (shape.rollout, rollout) {
        let unit = &compile(kernels, slice::from_ref(unit), Build::Parity)?[0];
        network.rollout = Some(TiledRollout::new(clusters, unit)?);
    }
    Ok(Some(network))
}

/// What says how a policy's objective changes, if it does.
fn changing(plan: &PolicyPlan, config: &TrainConfig) -> Result<Option<Box<dyn OnPolicyAlgorithm>>> {
    plan.config.clip_coef.changes().then(|| plan.on_policy(&config.spec)).transpose()
}

/// Losses of outputs in memory, of the unit for updates, if that is where they are.
fn losses(update: &Module, path: &NetworkPath) -> Result<Option<LossKernels>> {
    text::has_exact_losses(path).then(|| LossKernels::of(update)).transpose()
}

/// What runs layers one by one, if that is the way.
fn by_layer(module: &Module, path: &NetworkPath) -> Result<Option<ByLayer>> {
    let NetworkPath::Layers(product) = *path else { return Ok(None) };
    Ok(Some(ByLayer { product, kernels: LayerKernels::of(module)? }))
}

/// What normalises hidden layers, if they run one by one and are normalised.
fn norms(
    device: &Device,
    module: &Module,
    network: &WideNetwork,
    path: &NetworkPath,
    sizes: &Sizes,
) -> Result<Option<Norms>> {
    if !matches!(path, NetworkPath::Layers(_)) || !network.has_norms() {
        return Ok(None);
    }
    let rows = sizes.chunk.max(sizes.part);
    Norms::new(device, NormKernels::of(module)?, network, rows).map(Some)
}

/// What runs whole towers in fp32, if that is the way; they learn in a unit of its own.
fn fused(modules: &[Module], path: &NetworkPath) -> Result<Option<FusedTowers>> {
    let NetworkPath::Fused(shape) = *path else { return Ok(None) };
    let (acts, learns) = (FusedActKernels::of(&modules[0])?, FusedLearnKernels::of(&modules[2])?);
    Ok(Some(FusedTowers { shape, acts, learns }))
}

/// `WidePlaces`: where the arrays of the policy's agents lie, group by group, as addresses of two words.
fn places(plan: &PolicyPlan, envs: &dyn DeviceEnvs) -> Result<DeviceArray> {
    let (ids, arrays) = (envs.ids(), envs.arrays());
    let place = |id| Some(arrays.array(id));
    let mut places = Vec::new();
    for AgentRange { group: g, .. } in &plan.agents {
        places.extend([
            place(ids.obs[*g]),
            ids.action_mask[*g].and_then(place),
            place(ids.action[*g]),
            place(ids.reward[*g]),
            ids.alive[*g].and_then(place),
            ids.agent_terminated[*g].and_then(place),
            place(ids.final_obs[*g]),
        ]);
    }
    places.extend([place(ids.terminated), place(ids.truncated), Some(envs.run_step_array())]);
    Ok(DeviceArray::addresses(envs.gpu(), "places", &places)?)
}

//! One policy of the wide path: its arrays and kernels, and how it acts and fills its rollout.
//!
//! Everything here starts kernels and returns; nothing waits for the device but `tensors`.

use super::arrays::{Arrays, STATE_WORDS, Sizes};
use super::foreign::{ForeignNetwork, ForeignParts, MakeForeign};
use super::fused::FusedShape;
use super::layers::{Product, few_fit};
use super::network::{Role, WideNetwork};
use super::normalise::WideNormaliser;
use super::text::{self, TensorShape};
use super::way::{Way, WideText};
use crate::burn::{Activation, PolicyTensors, of_policy};
use crate::config::{PolicyPlan, TrainConfig};
use crate::error::{Error, Result};
use std::cell::RefCell;
use std::collections::HashMap;
use warp_core::DType::{F32, U8};
use warp_data::cuda::{Device, DeviceArray};
use warp_func::VecEnv;
use warp_func::cuda::{Arg, Build, CudaVecEnv, Function, Kernels, Launch, Module, Source};

/// Kernels by name.
#[derive(Debug)]
pub(super) struct Kit(HashMap<&'static str, Function>);

impl Kit {
    pub(super) fn new(parts: &[(&Module, &[&'static str])]) -> Result<Self> {
        let all =
            parts.iter().flat_map(|(module, names)| names.iter().map(|name| (*module, *name)));
        let load = |(module, name): (&Module, _)| Ok((name, module.function(name)?));
        Ok(Self(all.map(load).collect::<Result<_>>()?))
    }

    /// The kernels of the units that `text::general` gives.
    fn general(modules: &[Module], network: &WideNetwork, way: &Way) -> Result<Self> {
        let own = match way {
            Way::Layers(_) if few_fit(network) => &LAYERS[..],
            Way::Layers(_) => &LAYERS[..3],
            Way::Fused(_) => &["wide_fused_act"],
            Way::Tensor(_) | Way::Foreign => &[],
        };
        let mut parts = vec![(&modules[0], &GENERAL[..]), (&modules[0], own)];
        parts.extend(modules[1..].iter().map(|module| (module, &["wide_fused_learn"][..])));
        Self::new(&parts)
    }

    pub(super) fn launch(&self, name: &str, launch: &Launch, args: &[Arg]) -> Result<()> {
        Ok(self.0[name].launch(launch, args)?)
    }
}

const GENERAL: [&str; 19] = [
    "wide_inputs",
    "wide_act",
    "wide_outcome",
    "wide_take_values",
    "wide_scatter_cut",
    "wide_gae",
    "wide_count",
    "wide_places_of_blocks",
    "wide_compact",
    "wide_variances",
    "wide_explain",
    "wide_shuffle",
    "wide_advantages",
    "wide_begin_minibatch",
    "wide_gather",
    "wide_losses",
    "wide_reduce",
    "wide_factors",
    "wide_adam",
];
const LAYERS: [&str; 4] = ["wide_layer", "wide_layer_inputs", "wide_layer_weights", "wide_act_few"];
/// By unit.
const TENSOR: [&[&str]; 3] =
    [&["wide_pack", "wide_tensor_act"], &["wide_tensor_learn"], &["wide_tensor_weights"]];

/// A tower on tensor cores: its kernels, its weights as halves, its biases.
#[derive(Debug)]
pub(super) struct TensorTower {
    pub(super) shape: TensorShape,
    pub(super) kit: Kit,
    pub(super) image: DeviceArray,
    pub(super) biases: DeviceArray,
}

/// Where the rows of a forward pass in fp32 come from and how many there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) x: &'a DeviceArray,
    /// The first row's place in `x`, in numbers.
    pub(super) at: usize,
    /// Whether rows are samples of a minibatch from number `first` on, which may end earlier.
    pub(super) sampled: bool,
    pub(super) first: usize,
    pub(super) rows: usize,
}

/// What a kernel that acts is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Act = 0,
    LastValues = 1,
    CutValues = 2,
}

/// A policy on the device.
#[derive(Debug)]
pub(in super::super) struct WidePolicy {
    pub(super) plan: PolicyPlan,
    pub(super) network: WideNetwork,
    pub(super) sizes: Sizes,
    pub(super) arrays: Arrays,
    pub(super) kit: Kit,
    /// How layers are multiplied where towers do not run as a whole.
    pub(super) product: Product,
    /// Whole towers in fp32.
    pub(super) fused: Option<FusedShape>,
    /// One per tower, or none: in fp32 or layer by layer.
    pub(super) tensor: Vec<TensorTower>,
    pub(super) device: Device,
    pub(super) normaliser: WideNormaliser,
    /// Where the environment's arrays lie.
    pub(super) places: DeviceArray,
    /// What runs the network, if this folder's kernels don't.
    pub(super) foreign: Option<RefCell<Box<dyn ForeignNetwork>>>,
}

impl WidePolicy {
    /// The policy number `index` of `config`, freshly initialised, with kernels of `text`.
    pub(in super::super) fn new(
        config: &TrainConfig,
        index: usize,
        text: WideText,
        (kernels, envs): (&Kernels, &CudaVecEnv),
        make_foreign: Option<MakeForeign>,
    ) -> Result<Self> {
        let plan = config.policies[index].clone();
        let WideText { network, way, general, towers } = text;
        let multiprocessors = kernels.device().info().n_multiprocessors as usize;
        let sizes = Sizes::new(config, &plan, (&network, &way), multiprocessors);
        if sizes.cells > u32::MAX as usize {
            return Err(Error::Invalid(format!(
                "policy \"{}\" has {} samples in a rollout, but they are numbered with 32 bits; lower \
                 num_envs or num_steps",
                plan.name, sizes.cells
            )));
        }
        let compile = |units: &[Source], build| {
            let units: Vec<_> = units.iter().map(|unit| (unit, build)).collect();
            kernels.compile_all(&units)
        };
        let modules = compile(&general, Build::Parity)?;
        let module = &modules[0];
        let kit = Kit::general(&modules, &network, &way)?;
        let device = kernels.device();
        let width = network.observation_width();
        let normaliser = WideNormaliser::new(device, module, &plan, (width, &sizes))?;
        let arrays = Arrays::new(device, &plan, &network, (&sizes, way.shapes()))?;
        let tower = |(shape, units): (&TensorShape, &[Source; 3])| -> Result<TensorTower> {
            let modules = compile(units, Build::Release)?;
            let parts: Vec<_> = modules.iter().zip(TENSOR).collect();
            let kit = Kit::new(&parts)?;
            let image = DeviceArray::zeros(device, "image", U8, &[shape.image_bytes()])?;
            let biases = DeviceArray::zeros(device, "biases", F32, &[shape.biases()])?;
            Ok(TensorTower { shape: shape.clone(), kit, image, biases })
        };
        let tensor = way.shapes().iter().zip(&towers).map(tower).collect::<Result<_>>()?;
        let places = places(&plan, envs)?;
        let device = device.clone();
        let parameters = &arrays.parameters;
        let parts = ForeignParts { config, index, places: network.places(), parameters };
        let foreign = make_foreign.map(|make| make(&parts)).transpose()?.map(RefCell::new);
        Ok(Self {
            plan,
            network,
            sizes,
            arrays,
            kit,
            product: if let Way::Layers(product) = way { product } else { Product::Single },
            fused: if let Way::Fused(shape) = way { Some(shape) } else { None },
            tensor,
            device,
            normaliser,
            places,
            foreign,
        })
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
        for tower in &self.tensor {
            let threads = (tower.shape.image_bytes() / 2).max(tower.shape.biases());
            let args = [all(&self.arrays.parameters), all(&tower.image), all(&tower.biases)];
            tower.kit.launch("wide_pack", &Launch::over(threads, 256), &args)?;
        }
        Ok(())
    }

    /// Looks, acts and hands over the actions of step `t`.
    pub(super) fn act(&self, t: usize, envs: &CudaVecEnv) -> Result<()> {
        self.normaliser.look(self)?;
        if !self.tensor.is_empty() {
            return self.tensor_act(Stage::Act, t, Some(envs));
        }
        if let Some(shape) = &self.fused {
            return self.fused_act(shape, Stage::Act, t, Some(envs));
        }
        if self.acts_few() {
            return self.act_few(t, envs);
        }
        self.store_inputs(t)?;
        let (a, s) = (&self.arrays, &self.sizes);
        for first in (0..s.rows).step_by(s.part) {
            let rows = s.part.min(s.rows - first);
            self.forward_from_rollout(t, first, rows)?;
            let args = [
                all(&self.places),
                all(&a.state),
                Arg::U64(envs.options().seed),
                Arg::U32(envs.options().first_replica),
                Arg::U32(t as u32),
                Arg::U32(s.rows as u32),
                Arg::U32(first as u32),
                Arg::U32(rows as u32),
                all(&a.outs),
                all(&a.parameters),
                all(&a.masks),
                all(&a.actions),
                all(&a.raws),
                all(&a.log_probs),
                all(&a.values),
            ];
            self.kit.launch("wide_act", &Launch::over(rows, 128), &args)?;
        }
        Ok(())
    }

    fn store_inputs(&self, t: usize) -> Result<()> {
        let (a, s) = (&self.arrays, &self.sizes);
        let threads = s.rows * self.network.observation_width();
        let args = [
            all(&self.places),
            Arg::U32(t as u32),
            Arg::U32(s.rows as u32),
            all(&a.obs),
            all(&a.masks),
            all(&a.weights),
            all(&self.normaliser.factors),
        ];
        self.kit.launch("wide_inputs", &Launch::over(threads, 256), &args)
    }

    fn forward_from_rollout(&self, t: usize, first: usize, rows: usize) -> Result<()> {
        let at = (t * self.sizes.rows + first) * self.network.observation_width();
        self.layers(&Rows { x: &self.arrays.obs, at, sampled: false, first: 0, rows })
    }

    /// Keeps what came of step `t`.
    pub(super) fn outcome(&self, t: usize) -> Result<()> {
        let (a, s) = (&self.arrays, &self.sizes);
        let args = [
            all(&self.places),
            Arg::U32(t as u32),
            Arg::U32(s.rows as u32),
            all(&a.rewards),
            all(&a.ended),
            all(&a.truncated_values),
            all(&a.cut_count),
            all(&a.cut_cell),
            all(&a.cut_obs),
            all(&self.normaliser.factors),
        ];
        self.kit.launch("wide_outcome", &Launch::over(s.rows, 128), &args)
    }

    /// Values of what follows the last step, and of the last observations of truncated episodes.
    pub(super) fn finish_rollout(&self) -> Result<()> {
        let (a, s) = (&self.arrays, &self.sizes);
        let cut = s.slots * s.rows;
        if let Some(shape) = &self.fused {
            self.fused_act(shape, Stage::LastValues, s.steps, None)?;
            if cut > 0 {
                self.fused_act(shape, Stage::CutValues, 0, None)?;
            }
        } else if self.tensor.is_empty() {
            self.store_inputs(s.steps)?;
            for first in (0..s.rows).step_by(s.part) {
                let rows = s.part.min(s.rows - first);
                self.forward_from_rollout(s.steps, first, rows)?;
                self.take_values(rows, &a.values, s.cells + first)?;
            }
            for first in (0..cut).step_by(s.part) {
                let rows = s.part.min(cut - first);
                let at = first * self.network.observation_width();
                self.layers(&Rows { x: &a.cut_obs, at, sampled: false, first: 0, rows })?;
                self.take_values(rows, &a.cut_values, first)?;
            }
        } else {
            self.tensor_act(Stage::LastValues, s.steps, None)?;
            if cut > 0 {
                self.tensor_act(Stage::CutValues, 0, None)?;
            }
        }
        if cut > 0 {
            let n = Arg::U32(cut as u32);
            let args = [all(&a.cut_cell), all(&a.cut_values), n, all(&a.truncated_values)];
            self.kit.launch("wide_scatter_cut", &Launch::over(cut, 128), &args)?;
        }
        Ok(())
    }

    fn take_values(&self, rows: usize, values: &DeviceArray, at: usize) -> Result<()> {
        let n = Arg::U32(rows as u32);
        let args = [all(&self.arrays.outs), n, all(values), Arg::U64(at as u64)];
        self.kit.launch("wide_take_values", &Launch::over(rows, 128), &args)
    }

    fn tensor_act(&self, stage: Stage, t: usize, envs: Option<&CudaVecEnv>) -> Result<()> {
        let (a, s) = (&self.arrays, &self.sizes);
        let rows = if stage == Stage::CutValues { s.slots * s.rows } else { s.rows };
        let values = if stage == Stage::CutValues { &a.cut_values } else { &a.values };
        let options = envs.map(VecEnv::options);
        for (tower, of) in self.tensor.iter().zip(&self.network.towers) {
            if stage != Stage::Act && of.role == Role::Actor {
                continue;
            }
            let args = [
                all(&self.places),
                all(&a.state),
                Arg::U64(options.map_or(0, |o| o.seed)),
                Arg::U32(options.map_or(0, |o| o.first_replica)),
                Arg::U32(t as u32),
                Arg::U32(rows as u32),
                Arg::I32(stage as i32),
                all(&a.cut_obs),
                all(&a.parameters),
                all(&tower.image),
                all(&tower.biases),
                all(&a.obs),
                all(&a.masks),
                all(&a.weights),
                all(&a.actions),
                all(&a.raws),
                all(&a.log_probs),
                all(values),
                all(&self.normaliser.factors),
            ];
            let launch = self.two_tiles_a_block(rows, tower.shape.act_bytes());
            tower.kit.launch("wide_tensor_act", &launch, &args)?;
        }
        Ok(())
    }

    /// As many blocks as there are multiprocessors, or fewer where rows are few.
    pub(super) fn two_tiles_a_block(&self, rows: usize, shared_bytes: usize) -> Launch {
        let blocks = rows.div_ceil(2 * text::TILE_ROWS) as u32;
        let blocks = blocks.clamp(1, self.device.info().n_multiprocessors);
        Launch { blocks, threads: 256, shared_bytes: shared_bytes as u32, cooperative: false }
    }

    /// Weights, optimiser state and step count.
    pub(super) fn tensors(&self) -> Result<PolicyTensors> {
        let pull = |array: &DeviceArray| array.pull::<f32>();
        let mut optimizer = self.network.named(&pull(&self.arrays.exp_avg)?, ".exp_avg");
        optimizer.extend(self.network.named(&pull(&self.arrays.exp_avg_sq)?, ".exp_avg_sq"));
        let weights = self.network.named(&pull(&self.arrays.parameters)?, "");
        let n_steps = u64::from(self.arrays.state.pull::<u32>()?[super::update::ADAM_STEPS]);
        Ok(PolicyTensors { weights, optimizer, n_steps })
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
        let mut state = vec![0u32; STATE_WORDS];
        state[super::update::ADAM_STEPS] = tensors.n_steps as u32;
        self.arrays.state.push(&state)?;
        self.pack()
    }
}

/// `WidePlaces`: where the arrays of the policy's groups lie, as addresses of two words.
fn places(plan: &PolicyPlan, envs: &CudaVecEnv) -> Result<DeviceArray> {
    let (ids, arrays) = (envs.ids(), envs.arrays());
    let address = |id| arrays.array(id).ptr();
    let mut addresses = Vec::new();
    for g in &plan.groups {
        addresses.extend([
            address(ids.obs[*g]),
            ids.action_mask[*g].map_or(0, address),
            address(ids.action[*g]),
            address(ids.reward[*g]),
            ids.alive[*g].map_or(0, address),
            ids.agent_terminated[*g].map_or(0, address),
            address(ids.final_obs[*g]),
        ]);
    }
    addresses.extend([address(ids.terminated), address(ids.truncated)]);
    addresses.push(envs.run_step_array().ptr());
    let words: Vec<u32> = addresses.iter().flat_map(|a| [*a as u32, (*a >> 32) as u32]).collect();
    Ok(DeviceArray::from_slice(envs.gpu(), "places", &[words.len()], &words)?)
}

/// An array of which a kernel may touch everything.
pub(super) fn all(array: &DeviceArray) -> Arg {
    Arg::array(array, array.len())
}

//! Whole towers on tensor cores: what they consist of, and the launches with which they learn. Host side of the kernels in
//! `tensor/`.

mod groups;
pub(super) mod shape;

use crate::error::{Error, Result};
use crate::fused::wide::args::{TensorGradientArgs, TensorLearnArgs, TensorWeightsArgs};
use crate::fused::wide::arrays::Sizes;
use crate::fused::wide::kernels::{
    TensorActKernels, TensorGradientKernels, TensorLearnKernels, TensorWeightsKernels,
};
use crate::fused::wide::network_path::NetworkPath;
use crate::fused::wide::policy::{WidePolicy, compile};
use groups::Groups;
use shape::{TILE_ROWS, TensorShape};
use warp_core::DType::{F32, U8};
use warp_data::cuda::DeviceArray;
use warp_func::cuda::{Build, KernelArgs, Kernels, Launch, Source, fork_join};

/// A tower on tensor cores: its kernels, its weights as halves, its biases with gains and shifts behind them.
#[derive(Debug)]
pub(super) struct TensorTower {
    pub(super) shape: TensorShape,
    pub(super) acts: TensorActKernels,
    pub(super) learns: TensorLearns,
    pub(super) image: DeviceArray,
    pub(super) biases: DeviceArray,
}

impl TensorTower {
    /// A tower of this shape, with kernels of `units`.
    fn new(kernels: &Kernels, shape: &TensorShape, units: &[Source], chunk: usize) -> Result<Self> {
        let device = kernels.device();
        let modules = compile(kernels, units, Build::Release)?;
        let acts = TensorActKernels::of(&modules[0])?;
        let learns = match &modules[1..] {
            [learns, weights] => {
                let bytes = chunk.div_ceil(TILE_ROWS) * shape.kept_bytes();
                let groups = shape.most_groups(device.info().n_multiprocessors as usize);
                TensorLearns::TwoPasses {
                    learns: TensorLearnKernels::of(learns)?,
                    weights: TensorWeightsKernels::of(weights)?,
                    between: Box::new(BetweenPasses {
                        kept: DeviceArray::zeros(device, "kept", U8, &[bytes])?,
                        units: DeviceArray::zeros(
                            device,
                            "normalised layers",
                            U8,
                            &[groups * shape.units_bytes()],
                        )?,
                        own_gradients: DeviceArray::zeros(
                            device,
                            "gradients of the first pass",
                            F32,
                            &[groups * shape.own_gradients()],
                        )?,
                    }),
                }
            }
            rest => {
                let groups = shape.groups().cloned();
                let none = || Error::Invalid("groups that learn in one pass are missing".into());
                let kernels = TensorGradientKernels::of(&rest[0])?;
                TensorLearns::AtOnce { kernels, groups: groups.ok_or_else(none)? }
            }
        };
        let image = DeviceArray::zeros(device, "image", U8, &[shape.image_bytes()])?;
        let biases = DeviceArray::zeros(device, "biases", F32, &[shape.vectors()])?;
        Ok(Self { shape: shape.clone(), acts, learns, image, biases })
    }
}

/// How a tower on tensor cores learns.
#[derive(Debug)]
pub(super) enum TensorLearns {
    /// In one pass.
    AtOnce { kernels: TensorGradientKernels, groups: Groups },
    /// To the gradients of layers, and from there to those of weights.
    TwoPasses {
        learns: TensorLearnKernels,
        weights: TensorWeightsKernels,
        between: Box<BetweenPasses>,
    },
}

/// What the first of two passes leaves for the second.
#[derive(Debug)]
pub(super) struct BetweenPasses {
    /// Activations and gradients of a chunk.
    pub(super) kept: DeviceArray,
    /// What normalisations give of a tile, of each group of warps.
    pub(super) units: DeviceArray,
    /// Sums of gradients that the first pass makes itself, of each group of warps: of outer layers, or of gains and shifts;
    /// none where the second pass makes all.
    pub(super) own_gradients: DeviceArray,
}

/// Towers on tensor cores, if that is the way, of a list of `units` each.
pub(super) fn tensor_towers(
    kernels: &Kernels,
    path: &NetworkPath,
    units: &[Vec<Source>],
    sizes: &Sizes,
) -> Result<Vec<TensorTower>> {
    let towers = path.shapes().iter().zip(units);
    towers.map(|(shape, units)| TensorTower::new(kernels, shape, units, sizes.chunk)).collect()
}

impl WidePolicy {
    /// Gradients of a chunk on tensor cores, towers side by side; returns how many blocks of loss sums it left.
    pub(super) fn tensor_gradients(
        &self,
        first: usize,
        order: &DeviceArray,
        at: usize,
    ) -> Result<usize> {
        let mut end = at;
        let places = self.tensor.iter().map(|tower| {
            let parts_at = end;
            end += self.blocks_that_learn(tower);
            (tower, parts_at)
        });
        let places: Vec<_> = places.collect();
        let learn = |(tower, parts_at): (&TensorTower, usize)| match &tower.learns {
            TensorLearns::AtOnce { kernels, groups } => {
                self.tensor_at_once(tower, kernels, groups, first, order, parts_at)
            }
            TensorLearns::TwoPasses { learns, weights, between } => {
                self.tensor_learn(tower, learns, between, first, order, parts_at)?;
                self.tensor_weights(tower, weights, between, first)
            }
        };
        fork_join(&self.device, places.into_iter().map(|place| move || learn(place)))?;
        Ok(end - at)
    }

    /// Blocks that compute a tower's losses.
    fn blocks_that_learn(&self, tower: &TensorTower) -> usize {
        match &tower.learns {
            TensorLearns::AtOnce { .. } => self.sizes.copies,
            TensorLearns::TwoPasses { .. } => self.first_pass(tower).blocks as usize,
        }
    }

    fn first_pass(&self, tower: &TensorTower) -> Launch {
        self.two_tiles_a_block(self.sizes.chunk, &tower.shape, tower.shape.learn_bytes())
    }

    /// A tower's gradients of a chunk in one pass.
    fn tensor_at_once(
        &self,
        tower: &TensorTower,
        kernels: &TensorGradientKernels,
        groups: &Groups,
        first: usize,
        order: &DeviceArray,
        parts_at: usize,
    ) -> Result<()> {
        let (a, s) = (&self.arrays, &self.sizes);
        let args = TensorGradientArgs {
            settings: &a.settings,
            state: &a.state,
            order,
            first: first as u32,
            rows: s.chunk as u32,
            obs: &a.obs,
            from: self.samples(),
            parameters: &a.parameters,
            image: &tower.image,
            biases: &tower.biases,
            partial: &a.partial,
            n_parameters: self.network.n_parameters as u32,
            parts: &a.losses,
            parts_at: parts_at as u32,
        };
        let launch = Launch {
            blocks: s.copies as u32,
            threads: 128 * groups.count() as u32,
            shared_bytes: tower.shape.gradient_bytes(groups) as u32,
            cooperative: false,
        };
        Ok(kernels.tensor_gradient.launch(&launch, &[args.arg()])?)
    }

    /// The first of a tower's two passes over a chunk.
    fn tensor_learn(
        &self,
        tower: &TensorTower,
        kernels: &TensorLearnKernels,
        between: &BetweenPasses,
        first: usize,
        order: &DeviceArray,
        parts_at: usize,
    ) -> Result<()> {
        let (a, s) = (&self.arrays, &self.sizes);
        let args = TensorLearnArgs {
            settings: &a.settings,
            state: &a.state,
            order,
            first: first as u32,
            rows: s.chunk as u32,
            obs: &a.obs,
            from: self.samples(),
            parameters: &a.parameters,
            image: &tower.image,
            biases: &tower.biases,
            kept: &between.kept,
            units: &between.units,
            own_gradients: &between.own_gradients,
            parts: &a.losses,
            parts_at: parts_at as u32,
            role: tower.shape.role(),
        };
        Ok(kernels.tensor_learn.launch(&self.first_pass(tower), &[args.arg()])?)
    }

    /// The second.
    fn tensor_weights(
        &self,
        tower: &TensorTower,
        kernels: &TensorWeightsKernels,
        between: &BetweenPasses,
        first: usize,
    ) -> Result<()> {
        let (a, s) = (&self.arrays, &self.sizes);
        let args = TensorWeightsArgs {
            state: &a.state,
            first: first as u32,
            rows: s.chunk as u32,
            copies: s.copies as u32,
            kept: &between.kept,
            own_gradients: &between.own_gradients,
            groups: 2 * self.first_pass(tower).blocks,
            partial: &a.partial,
            n_parameters: self.network.n_parameters as u32,
        };
        let launch = Launch {
            blocks: (tower.shape.jobs() * s.copies) as u32,
            // Two groups of four warps multiply, and one more warp fetches.
            threads: 256 + 32,
            shared_bytes: tower.shape.weights_bytes() as u32,
            cooperative: false,
        };
        Ok(kernels.tensor_weights.launch(&launch, &[args.arg()])?)
    }
}

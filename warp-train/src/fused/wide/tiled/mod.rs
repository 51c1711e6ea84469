//! Layers on tensor cores one by one, where whole networks do not fit into a multiprocessor: the arrays
//! between the launches of the kernels in `tiled/`, and these launches.
//!
//! Activations are stored in half precision, and gradients replace them; a launch processes both networks, but for
//! values alone.

pub(super) mod clusters;
mod learn;
mod norm;
pub(super) mod rollout;
pub(super) mod shape;

use crate::error::Result;
use crate::fused::wide::args::{
    TiledDecideArgs, TiledGatherArgs, TiledLayerArgs, TiledPackArgs, TiledStoreObsArgs,
    TiledSumArgs,
};
use crate::fused::wide::kernels::{
    TiledBackKernels, TiledDecideKernels, TiledForwardKernels, TiledLastKernels, TiledLossKernels,
    TiledOutputsKernels, TiledRowKernels, TiledWeightsKernels,
};
use crate::fused::wide::policy::{Rows, WidePolicy};
use norm::TiledNorms;
use rollout::TiledRollout;
use shape::{
    BLOCK, BLOCK_COLUMNS, BLOCK_ROWS, FEW, HeadsAtOnce, NARROW, TiledLayer, TiledShape, WIDE,
};
use warp_core::DType::{F32, U8};
use warp_data::cuda::{Device, DeviceArray};
use warp_func::cuda::{DeviceEnvs, KernelArgs, Launch, Module};

/// Rows of which a thread copies eight columns; twin of `U_GATHERED`.
const GATHERED: usize = 4;

/// The stages of a kernel's ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ring {
    pub(super) stages: usize,
    pub(super) columns: usize,
}

impl Ring {
    /// Blocks of a launch whose kernel stages a tile of a hidden layer, too.
    fn launch(self, blocks: usize) -> Launch {
        self.launch_with(blocks, 2 * BLOCK_ROWS * self.columns)
    }

    /// Blocks of a launch with `further` bytes of shared memory behind the ring.
    pub(super) fn launch_with(self, blocks: usize, further: usize) -> Launch {
        let Self { stages, columns } = self;
        let shared_bytes = (stages * (BLOCK + 2 * BLOCK_COLUMNS * columns) + further) as u32;
        Launch { blocks: blocks as u32, threads: 384, shared_bytes, cooperative: false }
    }
}

/// The kernels of [`TiledNetwork`].
#[derive(Debug)]
pub(super) struct TiledKernels {
    rows: TiledRowKernels,
    forward: TiledForwardKernels,
    outputs: Outputs,
    pub(super) losses: TiledLossKernels,
    /// Where outputs stay in shared memory until they are dealt with.
    pub(super) at_once: Option<AtOnce>,
    pub(super) back: TiledBackKernels,
    pub(super) weights: TiledWeightsKernels,
}

/// What acts on outputs that stay in shared memory, and how they do.
#[derive(Debug)]
pub(super) struct AtOnce {
    pub(super) heads: HeadsAtOnce,
    decide: TiledDecideKernels,
}

/// Where outputs come from.
#[derive(Debug)]
enum Outputs {
    /// Tiles of the last hidden layer.
    LastHidden(TiledLastKernels),
    /// A layer of their own.
    Layer(TiledOutputsKernels),
}

/// A network whose layers run one by one on tensor cores: its weights, and what lies between launches.
#[derive(Debug)]
pub(super) struct TiledNetwork {
    pub(super) shape: TiledShape,
    pub(super) kernels: TiledKernels,
    /// Rows that there is room for.
    rows: usize,
    /// Per tower.
    pub(super) image: DeviceArray,
    pub(super) biases: DeviceArray,
    /// Observations.
    inputs: DeviceArray,
    /// Outputs of hidden layers, then their gradients, per tower.
    pub(super) hidden: Vec<DeviceArray>,
    /// Gradients of the output layers' outputs, per tower.
    gradients: DeviceArray,
    /// Weights of [`FEW`] outputs of each tower, and what tiles of columns give them.
    pub(super) few: DeviceArray,
    few_outs: DeviceArray,
    /// What normalises hidden layers, if something does.
    pub(super) norms: Option<TiledNorms>,
    /// What makes a rollout in one launch, if it is one.
    pub(super) rollout: Option<TiledRollout>,
}

/// So many towers from one on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Towers {
    pub(super) first: usize,
    pub(super) n: usize,
}

impl TiledLayerArgs<'_> {
    /// These arguments for some towers alone.
    fn of(self, towers: Towers) -> Self {
        Self { first_tower: towers.first as u32, n_towers: towers.n as u32, ..self }
    }
}

/// A matrix of each tower.
#[derive(Debug, Clone, Copy)]
pub(super) struct Matrices<'a> {
    pub(super) of: &'a DeviceArray,
    /// Columns of each.
    pub(super) columns: usize,
    /// Bytes from one tower's to the next one's; 0 if they share it.
    pub(super) tower: usize,
}

impl TiledNetwork {
    /// With room for `rows`; kernels are those of `general`, of the seven units for layers, and of the one that normalises them,
    /// if something does.
    ///
    /// # Errors
    /// Too little memory.
    pub(super) fn new(
        device: &Device,
        shape: TiledShape,
        rows: usize,
        general: &Module,
        [forward, back, weights @ .., losses]: &[Module; 7],
        norm: Option<&Module>,
    ) -> Result<Self> {
        let rows = rows.next_multiple_of(BLOCK_ROWS);
        let towers = shape.towers.len();
        let make =
            |name: &str, n: usize| -> Result<_> { Ok(DeviceArray::zeros(device, name, U8, &[n])?) };
        let last = &shape.hidden()[shape.hidden().len() - 1];
        let tiles = if shape.makes_outputs() { last.outputs / NARROW } else { 0 };
        let parts = towers * tiles * rows * FEW;
        let at_once =
            |heads| -> Result<_> { Ok(AtOnce { heads, decide: TiledDecideKernels::of(losses)? }) };
        let hidden = |layer: &TiledLayer| make("hidden", 2 * towers * rows * layer.outputs);
        Ok(Self {
            kernels: TiledKernels {
                rows: TiledRowKernels::of(general)?,
                forward: TiledForwardKernels::of(forward)?,
                outputs: match shape.makes_outputs() {
                    true => Outputs::LastHidden(TiledLastKernels::of(forward)?),
                    false => Outputs::Layer(TiledOutputsKernels::of(forward)?),
                },
                losses: TiledLossKernels::of(losses)?,
                at_once: shape.at_once.map(at_once).transpose()?,
                back: TiledBackKernels::of(back)?,
                weights: TiledWeightsKernels::of(weights)?,
            },
            rows,
            few: make("output_weights", 2 * towers * FEW * last.outputs)?,
            few_outs: DeviceArray::zeros(device, "output_parts", F32, &[parts])?,
            image: make("image", towers * shape.end.image)?,
            biases: DeviceArray::zeros(device, "biases", F32, &[towers * shape.end.biases])?,
            inputs: make("inputs", 2 * rows * shape.layers[0].inputs)?,
            hidden: shape.hidden().iter().map(hidden).collect::<Result<_>>()?,
            gradients: make("output_gradients", 2 * towers * rows * shape.heads().outputs)?,
            norms: norm.map(|unit| TiledNorms::new(device, &shape, rows, unit)).transpose()?,
            rollout: None,
            shape,
        })
    }

    /// Makes the images of the weights.
    pub(super) fn pack(&self, parameters: &DeviceArray) -> Result<()> {
        let end = &self.shape.end;
        let args = TiledPackArgs {
            parameters,
            image: &self.image,
            image_tower: end.image as u64,
            biases: &self.biases,
            biases_tower: end.biases as u32,
            few: &self.few,
        };
        let blocks = end.squares * self.shape.towers.len();
        Ok(self.kernels.rows.tiled_pack.launch(&Launch::over(blocks * 256, 256), &[args.arg()])?)
    }

    /// A launch with a thread for eight columns of [`GATHERED`] rows.
    fn over_gathered(rows: usize, columns: usize) -> Launch {
        Launch::over(rows.next_multiple_of(BLOCK_ROWS) / GATHERED * columns / 8, 256)
    }

    /// A launch with a warp for up to 256 columns of a row, or of several rows.
    fn over_parts_of_rows(rows: usize, columns: usize) -> Launch {
        let rows = rows.next_multiple_of(BLOCK_ROWS);
        let warps = match columns {
            ..WIDE => rows.div_ceil(WIDE / columns),
            _ => rows * columns.div_ceil(WIDE),
        };
        Launch::over(32 * warps, 256)
    }

    fn towers_of<'a>(&self, of: &'a DeviceArray, columns: usize) -> Matrices<'a> {
        Matrices { of, columns, tower: 2 * self.rows * columns }
    }

    /// The inputs of layer `l`.
    pub(super) fn inputs_of(&self, l: usize) -> Matrices<'_> {
        let columns = self.shape.layers[l].inputs;
        match l.checked_sub(1) {
            Some(below) => self.towers_of(&self.hidden[below], columns),
            None => Matrices { of: &self.inputs, columns, tower: 0 },
        }
    }

    /// What layer `l`, a hidden one, gives: what is normalised if something is, or its activations.
    fn sums_of(&self, l: usize) -> Matrices<'_> {
        let norms = self.norms.as_ref().map_or(&self.hidden, |norms| &norms.sums);
        self.towers_of(&norms[l], self.shape.layers[l].outputs)
    }

    /// Gradients of the outputs of layer `l`.
    pub(super) fn gradients_of(&self, l: usize) -> Matrices<'_> {
        let columns = self.shape.layers[l].outputs;
        self.towers_of(self.hidden.get(l).unwrap_or(&self.gradients), columns)
    }

    /// All of them.
    pub(super) fn towers(&self) -> Towers {
        Towers { first: 0, n: self.shape.towers.len() }
    }

    /// Columns of a tile of a layer of `columns` for so many rows of some towers, and the launch.
    pub(super) fn by_width(
        &self,
        rows: usize,
        columns: usize,
        towers: Towers,
        multiprocessors: usize,
    ) -> (usize, Launch) {
        let tiles = |n: usize| rows.div_ceil(BLOCK_ROWS) * (columns / n) * towers.n;
        // Few rows are better spread over all multiprocessors.
        let wide = columns.is_multiple_of(WIDE) && tiles(NARROW) > multiprocessors;
        let (columns, stages) = if wide { (WIDE, 3) } else { (NARROW, 5) };
        let ring = Ring { stages, columns };
        (columns, ring.launch(tiles(columns).min(multiprocessors)))
    }
}

impl WidePolicy {
    /// Looks and acts at step `t`, layer by layer on tensor cores.
    pub(super) fn tiled_act(
        &self,
        tiled: &TiledNetwork,
        t: usize,
        envs: &dyn DeviceEnvs,
    ) -> Result<()> {
        let (a, s) = (&self.arrays, &self.sizes);
        let step = self.step(t, s.rows, &a.values, Some(envs));
        let towers = tiled.towers();
        for first in (0..s.rows).step_by(s.part) {
            let rows = s.part.min(s.rows - first);
            let args = TiledStoreObsArgs {
                places: &self.places,
                t: t as u32,
                rows: s.rows as u32,
                first: first as u32,
                part: rows as u32,
                seen: self.seen(),
                x: &tiled.inputs,
            };
            let launch = TiledNetwork::over_parts_of_rows(rows, tiled.inputs_of(0).columns);
            tiled.kernels.rows.tiled_store_obs.launch(&launch, &[args.arg()])?;
            let rows_now = Rows { x: &a.obs, at: 0, sampled: false, first: 0, rows };
            let tiles = self.tiled_hidden(tiled, &rows_now, towers)?;
            let Some(at_once) = &tiled.kernels.at_once else {
                self.tiled_outputs(tiled, &rows_now, tiles, towers)?;
                self.decide(step, first, rows)?;
                continue;
            };
            let args = TiledDecideArgs {
                step,
                first: first as u32,
                part: rows as u32,
                outputs: self.output_layer(tiled, &rows_now),
            };
            let launch = at_once.heads.launch(rows, self.enough_blocks());
            at_once.decide.tiled_decide.launch(&launch, &[args.arg()])?;
        }
        Ok(())
    }

    /// Runs the network on some rows; `outs` then has their outputs and values.
    pub(super) fn tiled(&self, tiled: &TiledNetwork, rows: &Rows<'_>) -> Result<()> {
        self.tiled_towers(tiled, rows, tiled.towers())
    }

    /// Runs some towers, whose hidden layers are not normalised, on some rows; the others' outputs may be anything.
    pub(super) fn tiled_towers(
        &self,
        tiled: &TiledNetwork,
        rows: &Rows<'_>,
        towers: Towers,
    ) -> Result<()> {
        self.tiled_gather(tiled, rows, &self.arrays.order)?;
        let tiles = self.tiled_hidden(tiled, rows, towers)?;
        self.tiled_outputs(tiled, rows, tiles, towers)
    }

    /// Brings rows to the layers' inputs; they lie in `order` if they are sampled.
    pub(super) fn tiled_gather(
        &self,
        tiled: &TiledNetwork,
        rows: &Rows<'_>,
        order: &DeviceArray,
    ) -> Result<()> {
        let args = TiledGatherArgs {
            state: &self.arrays.state,
            sampled: i32::from(rows.sampled),
            first: rows.first as u32,
            rows: rows.rows as u32,
            order,
            obs: rows.x,
            at: rows.at as u64,
            x: &tiled.inputs,
        };
        let launch = TiledNetwork::over_gathered(rows.rows, tiled.inputs_of(0).columns);
        Ok(tiled.kernels.rows.tiled_gather.launch(&launch, &[args.arg()])?)
    }

    /// From the layers' inputs to the outputs of the last hidden one; returns how many tiles of columns that has.
    pub(super) fn tiled_hidden(
        &self,
        tiled: &TiledNetwork,
        rows: &Rows<'_>,
        towers: Towers,
    ) -> Result<usize> {
        let TiledKernels { forward, outputs, .. } = &tiled.kernels;
        let multiprocessors = self.enough_blocks();
        let depth = tiled.hidden.len();
        let mut tiles = 0;
        for (l, layer) in tiled.shape.hidden().iter().enumerate() {
            let by_width = match outputs {
                Outputs::LastHidden(last) if l + 1 == depth => {
                    [&last.tiled_last, &last.tiled_last_narrow]
                }
                _ => [&forward.tiled_forward, &forward.tiled_forward_narrow],
            };
            let (columns, launch) =
                tiled.by_width(rows.rows, layer.outputs, towers, multiprocessors);
            let to = tiled.sums_of(l);
            let args = self.tiled_layer(tiled, rows, tiled.inputs_of(l), layer.image, layer, to);
            let args = args.of(towers);
            by_width[usize::from(columns == NARROW)].launch(&launch, &[args.arg()])?;
            if let Some(norms) = &tiled.norms {
                self.tiled_norm(tiled, norms, l, rows)?;
            }
            tiles = layer.outputs / columns;
        }
        Ok(tiles)
    }

    /// The output layers, with their gradients.
    pub(super) fn output_layer<'a>(
        &'a self,
        tiled: &'a TiledNetwork,
        rows: &Rows<'_>,
    ) -> TiledLayerArgs<'a> {
        let (heads, depth) = (tiled.shape.heads(), tiled.hidden.len());
        let (inputs, gradients) = (tiled.inputs_of(depth), tiled.gradients_of(depth));
        self.tiled_layer(tiled, rows, inputs, heads.image, heads, gradients)
    }

    /// From there to `outs`.
    pub(super) fn tiled_outputs(
        &self,
        tiled: &TiledNetwork,
        rows: &Rows<'_>,
        tiles: usize,
        towers: Towers,
    ) -> Result<()> {
        let Outputs::Layer(outputs) = &tiled.kernels.outputs else {
            return self.tiled_sum(tiled, rows, tiles, towers);
        };
        let (args, heads) = (self.output_layer(tiled, rows).of(towers), tiled.shape.heads());
        let tiles = rows.rows.div_ceil(BLOCK_ROWS) * (heads.outputs / BLOCK_COLUMNS);
        // Two share a multiprocessor.
        let blocks = (tiles * towers.n).min(2 * self.enough_blocks());
        let ring = Ring { stages: 3, columns: BLOCK_COLUMNS };
        let launch = ring.launch_with(blocks, 4 * BLOCK_ROWS * (BLOCK_COLUMNS + 8));
        Ok(outputs.tiled_outputs.launch(&launch, &[args.arg()])?)
    }

    /// Sums up what so many tiles of columns gave the outputs.
    fn tiled_sum(
        &self,
        tiled: &TiledNetwork,
        rows: &Rows<'_>,
        tiles: usize,
        towers: Towers,
    ) -> Result<()> {
        let args = TiledSumArgs {
            state: &self.arrays.state,
            sampled: i32::from(rows.sampled),
            first: rows.first as u32,
            rows: rows.rows as u32,
            few_outs: &tiled.few_outs,
            few_rows: tiled.rows as u32,
            tiles: tiles as u32,
            biases: &tiled.biases,
            biases_tower: tiled.shape.end.biases as u32,
            outs: &self.arrays.outs,
            first_tower: towers.first as u32,
            n_towers: towers.n as u32,
        };
        let launch = Launch::over(rows.rows * towers.n, 256);
        Ok(tiled.kernels.rows.tiled_sum.launch(&launch, &[args.arg()])?)
    }

    pub(super) fn tiled_layer<'a>(
        &'a self,
        tiled: &'a TiledNetwork,
        rows: &Rows<'_>,
        x: Matrices<'a>,
        image_at: usize,
        layer: &TiledLayer,
        y: Matrices<'a>,
    ) -> TiledLayerArgs<'a> {
        TiledLayerArgs {
            state: &self.arrays.state,
            sampled: i32::from(rows.sampled),
            first: rows.first as u32,
            rows: rows.rows as u32,
            parts: (x.columns / BLOCK_COLUMNS) as u32,
            n_out: y.columns as u32,
            x: x.of,
            x_tower: x.tower as u64,
            image: &tiled.image,
            image_at: image_at as u64,
            image_tower: tiled.shape.end.image as u64,
            biases: &tiled.biases,
            biases_at: layer.biases as u32,
            biases_tower: tiled.shape.end.biases as u32,
            y: y.of,
            y_tower: y.tower as u64,
            outs: &self.arrays.outs,
            few: &tiled.few,
            few_outs: &tiled.few_outs,
            few_rows: tiled.rows as u32,
            of_outputs: 0,
            first_tower: 0,
            n_towers: tiled.towers().n as u32,
        }
    }
}

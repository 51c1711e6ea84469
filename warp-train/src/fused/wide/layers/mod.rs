//! The layers of a network one by one: forward, back, and the gradients of their weights.
//!
//! For networks in fp32 and for those that tensor cores do not take as a whole. One product of matrices
//! serves all three; how much of the result a block makes depends on its shape.

pub(super) mod few;
pub(super) mod norm;

use crate::error::Result;
use crate::fused::wide::args::{ActFewArgs, LayerArgs, LayerInputsArgs, LayerWeightsArgs};
use crate::fused::wide::kernels::{ByLayer, FewKernels};
use crate::fused::wide::network::{Layer, Tower};
use crate::fused::wide::network_path::Product;
use crate::fused::wide::policy::{Rows, WidePolicy};
use crate::fused::wide::shared::WideColumns;
use few::FEW;
use norm::HiddenLayer;
use warp_data::cuda::DeviceArray;
use warp_func::cuda::{DeviceEnvs, KernelArgs, Launch};

/// Part of a product that a block makes, numbered as in `layers/gemm.cu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tile {
    Square = 0,
    Large = 1,
    Narrow = 2,
    FewRows = 3,
    FewColumns = 4,
}

impl Tile {
    fn shape(self) -> (usize, usize) {
        match self {
            Self::Square => (64, 64),
            Self::Large => (128, 64),
            Self::Narrow => (256, 16),
            Self::FewRows => (16, 64),
            Self::FewColumns => (64, 16),
        }
    }

    /// Tiles of `rows` by `columns` numbers.
    pub(super) fn count(self, rows: usize, columns: usize) -> usize {
        let (r, c) = self.shape();
        rows.div_ceil(r) * columns.div_ceil(c)
    }

    /// For rows of samples; `wanted` blocks keep the device busy.
    fn of_samples(product: Product, rows: usize, columns: usize, wanted: usize) -> Self {
        match product {
            Product::Half => Self::Square,
            Product::Single if columns <= 16 => Self::Narrow,
            Product::Single if Self::Large.count(rows, columns) >= wanted => Self::Large,
            Product::Single => Self::Square,
        }
    }

    /// For the gradients of a layer's weights.
    pub(super) fn of_weights(product: Product, layer: &Layer) -> Self {
        match product {
            Product::Half => Self::Square,
            Product::Single if layer.n_out <= 16 => Self::FewRows,
            Product::Single if layer.n_in <= 16 => Self::FewColumns,
            Product::Single if layer.n_out >= 128 => Self::Large,
            Product::Single => Self::Square,
        }
    }
}

impl Product {
    /// Tiles of the gradients of a layer's weights. On tensor cores biases are the weights of one more
    /// input.
    pub(super) fn weight_tiles(self, layer: &Layer) -> usize {
        let inputs = match self {
            Self::Half => layer.n_in + 1,
            Self::Single => layer.n_in.max(1),
        };
        Tile::of_weights(self, layer).count(layer.n_out, inputs)
    }
}

/// What a layer reads: rows in `x` from element `at` on.
#[derive(Debug, Clone, Copy)]
struct Inputs<'a> {
    x: &'a DeviceArray,
    at: usize,
}

/// Where a layer's outputs go.
#[derive(Debug, Clone, Copy)]
struct Outputs<'a> {
    y: &'a DeviceArray,
    columns: WideColumns,
    activation: i32,
}

/// Gradients of a layer's outputs.
#[derive(Debug, Clone, Copy)]
struct OutputGradients<'a> {
    dy: &'a DeviceArray,
    columns: WideColumns,
}

/// A layer's inputs, which are the outputs of the one below, and where their gradients go.
#[derive(Debug, Clone, Copy)]
struct HiddenGradients<'a> {
    h: &'a DeviceArray,
    dx: &'a DeviceArray,
}

/// The number of no activation; see [`WidePolicy::activation`].
const NO_ACTIVATION: i32 = 0;

/// Parameters, as often as a multiprocessor has blocks, up to which that is faster than the launches of `tiled/`, or than
/// those of normalised layers: they pass in fp32, 4,700 a microsecond, and such launches take 22 and more.
const FEW_PARAMETERS: usize = 128 << 10;

impl WidePolicy {
    /// What takes all layers in one launch, if so few rows act at a time that this is fastest.
    pub(super) fn acts_few(&self) -> Option<&FewKernels> {
        let per_multiprocessor = self.sizes.rows.div_ceil(FEW).div_ceil(self.enough_blocks());
        let is_small = per_multiprocessor * self.network.n_parameters <= FEW_PARAMETERS;
        let is_best = is_small || (self.tiled.is_none() && self.norms.is_none());
        self.few.as_ref().filter(|_| per_multiprocessor <= 2 && is_best)
    }

    /// Looks and acts at step `t`, where rows are few.
    pub(super) fn act_few(&self, few: &FewKernels, t: usize, envs: &dyn DeviceEnvs) -> Result<()> {
        let step = self.step(t, self.sizes.rows, &self.arrays.values, Some(envs));
        let args = ActFewArgs { step, seen: self.seen(), activation: self.activation() };
        let threads = 256 * self.network.towers.len();
        let blocks = self.sizes.rows.div_ceil(FEW);
        let launch = Launch::over(blocks * threads, threads as u32);
        Ok(few.act_few.launch(&launch, &[args.arg()])?)
    }

    /// Runs the network in fp32 on some rows; `outs` then has their outputs and values.
    pub(super) fn layers(&self, rows: &Rows<'_>) -> Result<()> {
        let at = rows.at * self.network.observation_width();
        if let Some(foreign) = &self.foreign {
            let outs = &self.arrays.outs;
            return foreign.borrow_mut().forward(rows.x, at, rows.rows, outs, rows.sampled);
        }
        if let Some(tiled) = &self.tiled {
            return self.tiled(tiled, rows);
        }
        let Some(by_layer) = &self.by_layer else { return Ok(()) };
        for (t, tower) in self.network.towers.iter().enumerate() {
            let mut inputs = Inputs { x: rows.x, at };
            for (number, (layer, y)) in tower.hidden.iter().zip(&self.arrays.hidden[t]).enumerate()
            {
                // A normalisation comes before it.
                let at_once = if self.norms.is_some() { NO_ACTIVATION } else { self.activation() };
                let outputs = Outputs { y, columns: whole(layer), activation: at_once };
                self.layer(by_layer, inputs, layer, &outputs, rows)?;
                self.normalise_layer(HiddenLayer { tower: t, number }, y, rows)?;
                inputs = Inputs { x: y, at: 0 };
            }
            let (y, columns) = (&self.arrays.outs, self.columns(tower));
            let outputs = Outputs { y, columns, activation: NO_ACTIVATION };
            self.layer(by_layer, inputs, &tower.heads, &outputs, rows)?;
        }
        Ok(())
    }

    /// Where a tower's outputs lie.
    fn columns(&self, tower: &Tower) -> WideColumns {
        let [at, row, gap_at, gap] =
            [tower.column, self.out_row(), tower.gap_at, tower.gap].map(|n| n as u32);
        WideColumns { at, row, gap_at, gap }
    }

    fn layer(
        &self,
        by_layer: &ByLayer,
        inputs: Inputs<'_>,
        layer: &Layer,
        outputs: &Outputs<'_>,
        rows: &Rows<'_>,
    ) -> Result<()> {
        let (product, wanted) = (by_layer.product, self.enough_blocks());
        let tile = Tile::of_samples(product, rows.rows, layer.n_out, wanted);
        let args = LayerArgs {
            x: inputs.x,
            x_at: inputs.at as u64,
            parameters: &self.arrays.parameters,
            weight: layer.weight as u32,
            n_in: layer.n_in as u32,
            n_out: layer.n_out as u32,
            y: outputs.y,
            to: outputs.columns,
            state: &self.arrays.state,
            sampled: i32::from(rows.sampled),
            first: rows.first as u32,
            rows: rows.rows as u32,
            activation: outputs.activation,
            tile: tile as i32,
        };
        let launch = blocks(tile.count(rows.rows, layer.n_out));
        Ok(by_layer.kernels.layer.launch(&launch, &[args.arg()])?)
    }

    /// From the gradients of all towers' outputs to those of their weights, for the samples from `first` on.
    pub(super) fn backward(&self, first: usize) -> Result<()> {
        let Some(by_layer) = &self.by_layer else { return Ok(()) };
        let a = &self.arrays;
        for (t, (tower, hidden)) in self.network.towers.iter().zip(&a.hidden).enumerate() {
            let mut above = &tower.heads;
            let mut gradients = OutputGradients { dy: &a.outs, columns: self.columns(tower) };
            for l in (0..hidden.len()).rev() {
                self.layer_weights(by_layer, gradients, &hidden[l], above, first)?;
                let below = HiddenGradients { h: &hidden[l], dx: &a.d_hidden[l % 2] };
                self.layer_inputs(by_layer, gradients, above, below, first)?;
                self.norm_backward(HiddenLayer { tower: t, number: l }, below.dx, first)?;
                above = &tower.hidden[l];
                gradients = OutputGradients { dy: below.dx, columns: whole(above) };
            }
            self.layer_weights(by_layer, gradients, &a.gathered, above, first)?;
        }
        let Some(range) = &self.network.log_std else { return Ok(()) };
        // Not a layer: the sum over samples of the last columns before the value's.
        let layer = Layer { n_in: 0, n_out: range.len(), weight: range.start };
        let column = self.network.n_outputs - range.len();
        let columns =
            WideColumns { at: column as u32, row: self.out_row() as u32, ..whole(&layer) };
        let gradients = OutputGradients { dy: &a.outs, columns };
        self.layer_weights(by_layer, gradients, &a.gathered, &layer, first)
    }

    fn layer_inputs(
        &self,
        by_layer: &ByLayer,
        gradients: OutputGradients<'_>,
        layer: &Layer,
        below: HiddenGradients<'_>,
        first: usize,
    ) -> Result<()> {
        let rows = self.sizes.chunk;
        let tile = Tile::of_samples(by_layer.product, rows, layer.n_in, self.enough_blocks());
        let args = LayerInputsArgs {
            dy: gradients.dy,
            from: gradients.columns,
            parameters: &self.arrays.parameters,
            weight: layer.weight as u32,
            n_in: layer.n_in as u32,
            n_out: layer.n_out as u32,
            h: below.h,
            dx: below.dx,
            state: &self.arrays.state,
            first: first as u32,
            rows: rows as u32,
            activation: self.activation(),
            tile: tile as i32,
        };
        let launch = blocks(tile.count(rows, layer.n_in));
        Ok(by_layer.kernels.layer_inputs.launch(&launch, &[args.arg()])?)
    }

    fn layer_weights(
        &self,
        by_layer: &ByLayer,
        gradients: OutputGradients<'_>,
        x: &DeviceArray,
        layer: &Layer,
        first: usize,
    ) -> Result<()> {
        let copies = self.sizes.copies;
        let args = LayerWeightsArgs {
            dy: gradients.dy,
            of: gradients.columns,
            x,
            n_in: layer.n_in as u32,
            n_out: layer.n_out as u32,
            partial: &self.arrays.partial,
            n_parameters: self.network.n_parameters as u32,
            weight: layer.weight as u32,
            state: &self.arrays.state,
            first: first as u32,
            rows: self.sizes.chunk as u32,
            shares: copies as u32,
            tile: Tile::of_weights(by_layer.product, layer) as i32,
        };
        let launch = blocks(by_layer.product.weight_tiles(layer) * copies);
        Ok(by_layer.kernels.layer_weights.launch(&launch, &[args.arg()])?)
    }

    /// Blocks that give every multiprocessor work.
    pub(super) fn enough_blocks(&self) -> usize {
        self.device.info().n_multiprocessors as usize
    }
}

/// The columns of a hidden layer's own rows.
fn whole(layer: &Layer) -> WideColumns {
    let n = layer.n_out as u32;
    WideColumns { at: 0, row: n, gap_at: n, gap: 0 }
}

fn blocks(n: usize) -> Launch {
    Launch::over(n * 256, 256)
}

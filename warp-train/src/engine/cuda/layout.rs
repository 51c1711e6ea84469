//! Where everything of a plan lies on the device: parameters, padded so that tiles are whole, and what
//! passes keep.

use crate::algorithm::{Model, ModelId, PassId, Plan, RowsOf};
use crate::model::LayerShape;
use std::ops::Range;
use warp_func::cuda::DeviceInfo;

/// Rows and columns of a tile of weights; widths of layers are padded to it.
pub(super) const TILE: usize = 32;
/// Rows from which on tiles of rows are two parts high.
const MANY_ROWS: usize = 4096;
/// Most blocks that a team has.
const LARGEST_TEAM: usize = 8;
/// Rows whose products are worth a share of a gradient of its own.
const ROWS_OF_SHARE: usize = 1024;
/// Copies of a gradient at most.
const MOST_SHARES: usize = 16;

/// A linear layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    /// Inputs and outputs, padded.
    pub(super) k: usize,
    pub(super) n: usize,
    /// Weights f32 `[n, k]` and biases `[n]` among all parameters.
    pub(super) weight: usize,
    pub(super) bias: usize,
    /// Number of the first tile of weights among all.
    pub(super) tile: usize,
}

impl Layer {
    pub(super) fn n_tiles(&self) -> usize {
        self.n / TILE * (self.k / TILE)
    }
}

/// A model's layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModelShape {
    pub(super) layers: Vec<Layer>,
    pub(super) parameters: Range<usize>,
    pub(super) tiles: Range<usize>,
}

/// Where a pass keeps what its way back needs, in numbers of the scratch memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PassShape {
    /// Inputs of each layer, f32 `[padded rows, k]`.
    pub(super) inputs: Vec<usize>,
    /// Derivatives by each layer's outputs, f32 `[padded rows, n]`; none without a way back.
    pub(super) deltas: Vec<usize>,
}

/// How rows are cut into tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowTiles {
    pub(super) rows: usize,
    /// Parts of 16 rows in a tile.
    pub(super) high: usize,
    /// Blocks that share a tile.
    pub(super) team: usize,
    /// Tiles.
    pub(super) n: usize,
}

/// What of a GPU decides how work is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Machine {
    multiprocessors: usize,
    /// Compute capability, the major version.
    generation: u32,
}

impl Machine {
    /// The H200.
    pub(crate) const H200: Self = Self { multiprocessors: 132, generation: 9 };

    pub(super) fn of(info: &DeviceInfo) -> Self {
        let multiprocessors = info.n_multiprocessors as usize;
        Self { multiprocessors, generation: info.capability.0 }
    }

    /// Whether products with operands in TF32 are known.
    pub(super) fn has_tf32(self) -> bool {
        self.generation >= 8
    }

    /// Blocks that share a tile where there are `n`: clusters came with generation 9.
    fn team(self, n: usize) -> usize {
        let largest = if self.generation >= 9 { LARGEST_TEAM } else { 1 };
        1 << (self.multiprocessors / n).clamp(1, largest).ilog2()
    }

    /// Blocks of a program at most. All run at the same time, so that they can meet: a multiprocessor takes
    /// two of them, and a quarter of the places is left over for clusters that must not be torn apart.
    pub(super) fn most_blocks(self) -> usize {
        self.multiprocessors * 3 / 2
    }
}

impl RowTiles {
    fn new(rows: usize, machine: Machine) -> Self {
        let high = if rows < MANY_ROWS { 1 } else { 2 };
        let n = rows.div_ceil(16 * high);
        Self { rows, high, team: machine.team(n), n }
    }

    pub(super) fn padded(&self) -> usize {
        self.n * 16 * self.high
    }
}

/// A plan's places on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) models: Vec<ModelShape>,
    pub(super) passes: Vec<PassShape>,
    pub(super) acting: RowTiles,
    pub(super) batch: RowTiles,
    pub(super) n_parameters: usize,
    pub(super) n_tiles: usize,
    pub(super) scratch: usize,
    /// Parts into which rows are cut for gradients.
    pub(super) shares: usize,
}

impl Layout {
    pub(super) fn new(plan: &Plan, n_rows: usize, machine: Machine) -> Self {
        let (mut parameters, mut tiles) = (0, 0);
        let model = |model: &Model| {
            let layers: Vec<LayerShape> = model.network.layers().collect();
            model_shape(&layers, &mut parameters, &mut tiles)
        };
        let models: Vec<ModelShape> = plan.models.iter().map(model).collect();
        let acting = RowTiles::new(n_rows, machine);
        let batch = RowTiles::new(plan.batch_size, machine);
        let mut scratch = 0;
        let mut take = |n: usize| {
            scratch += n;
            scratch - n
        };
        let passes = plan.passes.iter().map(|pass| {
            let rows = plan.columns[pass.output.0].rows;
            let padded = if rows == RowsOf::Acting { acting.padded() } else { batch.padded() };
            let layers = &models[pass.model.0].layers;
            let inputs = layers.iter().map(|layer| take(padded * layer.k)).collect();
            let deltas = match pass.back {
                Some(_) => layers.iter().map(|layer| take(padded * layer.n)).collect(),
                None => Vec::new(),
            };
            PassShape { inputs, deltas }
        });
        let passes = passes.collect();
        let shares = (plan.batch_size / ROWS_OF_SHARE).clamp(1, MOST_SHARES);
        let (n_parameters, n_tiles) = (parameters, tiles);
        Self { passes, models, acting, batch, n_parameters, n_tiles, scratch, shares }
    }

    pub(super) fn of_rows(&self, rows: RowsOf) -> RowTiles {
        if rows == RowsOf::Acting { self.acting } else { self.batch }
    }

    pub(super) fn model(&self, id: ModelId) -> &ModelShape {
        &self.models[id.0]
    }

    pub(super) fn pass(&self, id: PassId) -> &PassShape {
        &self.passes[id.0]
    }
}

fn model_shape(layers: &[LayerShape], parameters: &mut usize, tiles: &mut usize) -> ModelShape {
    let (first, first_tile) = (*parameters, *tiles);
    let layer = |shape: &LayerShape| {
        let (inputs, outputs) = (shape.inputs, shape.outputs);
        let (k, n) = (inputs.max(1).next_multiple_of(TILE), outputs.next_multiple_of(TILE));
        let weight = *parameters;
        let bias = weight + n * k;
        let layer = Layer { inputs, outputs, k, n, weight, bias, tile: *tiles };
        (*parameters, *tiles) = (bias + n, *tiles + layer.n_tiles());
        layer
    };
    let layers = layers.iter().map(layer).collect();
    ModelShape { layers, parameters: first..*parameters, tiles: first_tile..*tiles }
}

//! The memory layout of a plan on the device: parameters, padded to whole tiles, and the data that passes keep.

use super::layer::{Layer, Norm, TILE, TileGroup};
use super::machine::{Machine, half_bytes};
use super::recompute::{Omitted, Substitute};
use super::row_tiles::{BLOCK_COLUMNS, MOST_PASSES, RowTiles};
use crate::algorithm::{Model, ModelId, PassId, Plan, Precision, RowsOf};
use crate::model::{Activation, Perceptron};
use std::ops::Range;

/// Rows whose products are worth a share of a gradient of its own.
const ROWS_OF_SHARE: usize = 1024;
/// Inputs and outputs at most of passes as a whole.
pub(super) const MOST_WHOLE_INPUTS: usize = 64;
/// Copies of a gradient at most.
const MOST_SHARES: usize = 16;

/// What parameters are of, by the number of its layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Layer(usize),
    Gains(usize),
    Shifts(usize),
}

impl ModelShape {
    /// Groups of tiles.
    pub(super) fn groups(&self) -> usize {
        self.parts().map(|(part, layer)| self.group(part, layer).n).sum()
    }

    /// How a part is cut into them.
    pub(super) fn group(&self, part: Part, layer: &Layer) -> TileGroup {
        let omits = |l| self.omitted.is_recomputed(l) || self.omitted.is_summed(l);
        layer.group(!matches!(part, Part::Layer(l) if omits(l)))
    }

    /// Whether a pass has two hidden layers, a warp 32 columns of each at most, and nothing is normalised in between.
    fn fits_whole(&self) -> bool {
        let [first, second, last] = &self.layers[..] else { return false };
        if !self.norms.is_empty() {
            return false;
        }
        let (outer, hidden) = (MOST_WHOLE_INPUTS, BLOCK_COLUMNS);
        let widths = [(first.k, outer), (first.n, hidden), (second.n, hidden), (last.n, outer)];
        widths.iter().all(|(width, most)| width <= most)
    }

    /// All that has parameters.
    pub(super) fn parts(&self) -> impl Iterator<Item = (Part, &Layer)> {
        let layers = self.layers.iter().enumerate();
        let norms = self.norms.iter().enumerate();
        let norms = norms.flat_map(|(l, Norm { gain, shift })| {
            [(Part::Gains(l), gain), (Part::Shifts(l), shift)]
        });
        layers.map(|(l, layer)| (Part::Layer(l), layer)).chain(norms)
    }
}

/// A model's layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModelShape {
    pub(super) layers: Vec<Layer>,
    /// Of each hidden layer, if they are normalised.
    pub(super) norms: Vec<Norm>,
    /// What is not kept of its passes.
    pub(super) omitted: Omitted,
    pub(super) parameters: Range<usize>,
    pub(super) tiles: Range<usize>,
}

/// Where a pass keeps what its backward pass needs, in numbers of the scratch memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PassShape {
    /// Inputs of each layer, f32 `[padded rows, k]`.
    pub(super) inputs: Vec<usize>,
    /// Derivatives by each layer's outputs, f32 `[padded rows, n]`; none without a backward pass.
    pub(super) deltas: Vec<usize>,
    /// What is kept of each normalisation.
    pub(super) norms: Vec<NormShape>,
    /// A bit for each of a layer's inputs, whether it is an output of relu that is on, by layer; none where it is not
    /// needed. What it is needed for does not need the inputs then.
    pub(super) on: Vec<Option<usize>>,
    /// What is kept instead of some of these.
    pub(super) substitute: Substitute,
}

/// Where a pass keeps what a normalisation computed, in half precision only with a backward pass: mean 0 and deviation 1,
/// `[padded rows, n]`, and one over the deviation, f32 `[padded rows]`; and, with a backward pass, what gradients of gains
/// and of shifts are summed of, `[padded rows, n]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NormShape {
    pub(super) unit: usize,
    pub(super) inverse: usize,
    pub(super) gains: usize,
    pub(super) shifts: usize,
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
    /// Products with operands in half precision, else in fp32.
    pub(super) half: bool,
    /// Whether those operands are bf16 in the forward pass, too.
    pub(super) bf16: bool,
    /// The widest layer, padded.
    pub(super) widest: usize,
    /// Whether a run has the GPU to itself.
    pub(super) alone: bool,
}

impl Layout {
    /// For `n_rows` that act, with products in `precision`, or in fp32 because a layer's numbers do not fit into
    /// shared memory.
    pub(super) fn new(plan: &Plan, n_rows: usize, machine: Machine, precision: Precision) -> Self {
        let (mut parameters, mut tiles) = (0, 0);
        let model = |model: &Model| model_shape(&model.network, &mut parameters, &mut tiles);
        let mut models: Vec<ModelShape> = plan.models.iter().map(model).collect();
        let layers = models.iter().flat_map(|model| &model.layers);
        let widest = layers.map(|layer| layer.k.max(layer.n)).max().unwrap_or(0);
        let exact = precision == Precision::Single;
        let half = !exact && machine.has_halves() && half_bytes(1, widest) <= machine.most_shared();
        let tiles_of = |rows: usize, passes: usize| match half {
            true => RowTiles::of_passes(rows, machine, widest, passes),
            false => RowTiles::of_layers(rows, machine),
        };
        let (acting, batch) = (tiles_of(n_rows, 1), tiles_of(plan.batch_size, MOST_PASSES));
        if half {
            for (i, model) in models.iter_mut().enumerate() {
                model.omitted =
                    Omitted::new(plan, ModelId(i), &model.layers, batch, machine.is_crowded());
            }
        }
        let mut scratch = 0;
        let mut take = |n: usize| {
            scratch += n;
            scratch - n
        };
        let passes = plan.passes.iter().map(|pass| {
            let rows = plan.columns[pass.output.0].rows;
            let padded = if rows == RowsOf::Acting { acting.padded() } else { batch.padded() };
            let ModelShape { layers, norms, .. } = &models[pass.model.0];
            let inputs = layers.iter().map(|layer| take(padded * layer.k)).collect();
            let deltas = match pass.back {
                Some(_) => layers.iter().map(|layer| take(padded * layer.n)).collect(),
                None => Vec::new(),
            };
            let back = if pass.back.is_some() { padded } else { 0 };
            let norm = |Norm { gain: Layer { n, .. }, .. }: &Norm| NormShape {
                unit: take(if half { back } else { padded } * n),
                inverse: take(if half { 2 * back } else { padded }),
                gains: take(back * n),
                shifts: take(back * n),
            };
            let norms: Vec<_> = norms.iter().map(norm).collect();
            let bits = half && pass.back.is_some() && norms.is_empty();
            let bits = bits && is_relu(&plan.models[pass.model.0]);
            // A layer's first inputs are the pass's own.
            let on =
                |(l, layer): (usize, &Layer)| (bits && l > 0).then(|| take(padded * layer.k / 16));
            let on = layers.iter().enumerate().map(on).collect();
            let substitute = match pass.learns() {
                true => {
                    let ModelShape { omitted, layers, .. } = &models[pass.model.0];
                    Substitute::new(*omitted, layers, batch, &mut take)
                }
                false => Substitute::default(),
            };
            PassShape { inputs, deltas, norms, on, substitute }
        });
        Self {
            passes: passes.collect(),
            models,
            acting,
            batch,
            n_parameters: parameters,
            n_tiles: tiles,
            scratch,
            shares: (plan.batch_size / ROWS_OF_SHARE).clamp(1, MOST_SHARES),
            half,
            bf16: half && precision == Precision::BFloat,
            widest,
            alone: machine.runs() == 1,
        }
    }

    /// Whether one function goes through a pass: with tiles of 16 rows, where a run has the GPU to itself or acts.
    pub(super) fn is_whole(&self, plan: &Plan, id: PassId) -> bool {
        let pass = &plan.passes[id.0];
        let rows = plan.columns[pass.output.0].rows;
        let tiles = self.of_rows(rows);
        let fits = tiles.high == 1 && tiles.share == 1 && self.model(pass.model).fits_whole();
        self.half && fits && (self.alone || rows == RowsOf::Acting)
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

fn is_relu(model: &Model) -> bool {
    model.network.activation == Activation::Relu
}

fn model_shape(network: &Perceptron, parameters: &mut usize, tiles: &mut usize) -> ModelShape {
    let (first, first_tile) = (*parameters, *tiles);
    let mut layer = |inputs: usize, outputs: usize| {
        let (k, n) = (inputs.max(1).next_multiple_of(TILE), outputs.next_multiple_of(TILE));
        let weight = *parameters;
        let bias = weight + n * k;
        let packed = 2 * weight;
        let packed_back = packed + n * k;
        let layer =
            Layer { inputs, outputs, k, n, weight, bias, tile: *tiles, packed, packed_back };
        (*parameters, *tiles) = (bias + n, *tiles + layer.n_tiles());
        layer
    };
    let layers = network.layers().map(|shape| layer(shape.inputs, shape.outputs)).collect();
    let norms = network.norms().iter();
    let norms = norms.map(|width| Norm { gain: layer(0, *width), shift: layer(0, *width) });
    let norms = norms.collect();
    let (parameters, tiles) = (first..*parameters, first_tile..*tiles);
    ModelShape { layers, norms, omitted: Omitted::default(), parameters, tiles }
}

//! The memory layout of a plan on the device: parameters, padded to whole tiles, and the data that passes keep.

use super::emit::WARPS;
use super::recompute::{Omitted, Substitute};
use crate::algorithm::{Model, ModelId, PassId, Plan, Precision, RowsOf};
use crate::model::{Activation, Perceptron};
use std::ops::Range;
use warp_func::cuda::DeviceInfo;

/// Rows and columns of a tile of weights; widths of layers are padded to it.
pub(super) const TILE: usize = 32;
/// Rows from which on tiles of rows are two parts high, where products are in fp32.
const MANY_ROWS: usize = 4096;
/// Most blocks that a team has, and most passes that it takes at a time where products are in half precision.
const LARGEST_TEAM: usize = 8;
const MOST_PASSES: usize = 4;
/// Columns of a layer for which a block has warps: 32 each.
const BLOCK_COLUMNS: usize = 32 * WARPS;
/// Shared memory of a pass at most, where a multiprocessor has two blocks.
const MOST_SHARED: usize = 100 << 10;
/// What a block takes beside it: a program's own, and the driver's.
const SHARED_BESIDE: usize = 5 << 10;
/// Shared memory of half of eight tiles of weights, moments and targets, of their biases, and of the rows on their way to
/// them.
pub(super) const GROUP_BYTES: usize = 8 * 4 * (16 * 32 + 32) * 4 + 3 * 2 * 16 * 208 * 2;
/// Shared memory of a tile whose gradients make a step at once: rows on their way to each warp, and parameters, moments
/// and targets.
pub(super) const LEARN_BYTES: usize = 8 * 2 * 2 * 16 * 40 * 2 + 4 * (32 * 32 + 32) * 4;
/// Rows whose products are worth a share of a gradient of its own.
const ROWS_OF_SHARE: usize = 1024;
/// Runs from which on a run has more tiles of weights than warps.
const MANY_RUNS: usize = 8;
/// Inputs and outputs at most of passes as a whole.
pub(super) const MOST_WHOLE_INPUTS: usize = 64;
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
    /// Weights f32 `[n, k]`, tile by tile where products are in half precision, and biases `[n]` among all parameters.
    pub(super) weight: usize,
    pub(super) bias: usize,
    /// Number of the first tile of weights among all.
    pub(super) tile: usize,
    /// Weights packed for the forward and for the backward pass, among all packed ones.
    pub(super) packed: usize,
    pub(super) packed_back: usize,
}

/// Tiles of a layer's weights that a block takes at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TileGroup {
    /// Tiles of outputs and of inputs, side by side.
    pub(super) high: usize,
    pub(super) wide: usize,
    /// How many times that is across, and in all.
    pub(super) across: usize,
    pub(super) n: usize,
    /// Halves of a tile that each of its eight warps has: both of eight tiles, or one of four.
    pub(super) halves: usize,
}

impl Layer {
    pub(super) fn n_tiles(&self) -> usize {
        self.n / TILE * (self.k / TILE)
    }

    /// Where a weight lies among all parameters. Twin of `weight_place` in half_sums.cu and single.cu.
    pub(super) fn place(&self, half: bool, output: usize, input: usize) -> usize {
        if !half {
            return self.weight + output * self.k + input;
        }
        let tile = output / TILE * (self.k / TILE) + input / TILE;
        let (output, input) = (output % TILE, input % TILE);
        let lane = output % 8 * 4 + input % 8 / 2;
        let four = (output / 16 * 4 + input / 8) * 32 + lane;
        self.weight + tile * TILE * TILE + four * 4 + output / 8 % 2 * 2 + input % 2
    }

    /// Eight tiles: one below the other where derivatives are not `kept`, so that inputs are read once; else four by two, so
    /// that few rows are read for each, or four where the layer has no more side by side.
    fn group(&self, kept: bool) -> TileGroup {
        let (outputs, inputs) = (self.n / TILE, self.k / TILE);
        if !kept && outputs >= 8 {
            let n = inputs * outputs.div_ceil(8);
            return TileGroup { high: 8, wide: 1, across: inputs, n, halves: 2 };
        }
        let high = outputs.next_power_of_two().min(4);
        let wide = inputs.next_power_of_two().clamp(4 / high, (8 / high).min(4));
        let across = inputs.div_ceil(wide);
        let halves = high * wide / 4;
        TileGroup { high, wide, across, n: across * outputs.div_ceil(high), halves }
    }
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

/// What parameters are of, by the number of its layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Layer(usize),
    Gains(usize),
    Shifts(usize),
}

/// The normalisation of a hidden layer. Gains and shifts are the biases of layers without inputs, so that steps,
/// norms of gradients and targets need not tell them from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Norm {
    pub(super) gain: Layer,
    pub(super) shift: Layer,
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

/// How rows are cut into tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowTiles {
    pub(super) rows: usize,
    /// Parts of 16 rows in a tile.
    pub(super) high: usize,
    /// Blocks that share a tile.
    pub(super) team: usize,
    /// Those of a team that share the layers of a pass, where products are in half precision.
    pub(super) share: usize,
    /// Blocks of a team in a run that has the GPU for itself: the order of sums does not depend on other runs.
    pub(super) team_alone: usize,
    /// Tiles.
    pub(super) n: usize,
}

/// What of a GPU decides how work is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Machine {
    multiprocessors: usize,
    /// Shared memory of each, in bytes.
    shared: usize,
    /// Runs that share it.
    runs: usize,
    /// Compute capability, the major version.
    generation: u32,
}

impl Machine {
    /// The H200.
    pub(crate) const H200: Self =
        Self { multiprocessors: 132, shared: 228 << 10, runs: 1, generation: 9 };

    pub(crate) fn of(info: &DeviceInfo) -> Self {
        let multiprocessors = info.n_multiprocessors as usize;
        let shared = info.shared_per_multiprocessor as usize;
        Self { multiprocessors, shared, runs: 1, generation: info.capability.0 }
    }

    /// A part of it, for each of so many runs.
    pub(crate) fn shared_by(self, runs: usize) -> Self {
        Self { runs, ..self }
    }

    /// Runs that share it.
    pub(crate) fn runs(self) -> usize {
        self.runs
    }

    /// Shared memory that each of two blocks of a multiprocessor can have, in bytes.
    fn half_of_shared(self) -> usize {
        (self.shared / 2).saturating_sub(SHARED_BESIDE)
    }

    /// That of passes.
    fn most_shared(self) -> usize {
        self.half_of_shared().min(MOST_SHARED)
    }

    /// Whether each of two blocks of a multiprocessor can have so many bytes of shared memory.
    pub(super) fn fits_twice(self, bytes: usize) -> bool {
        bytes <= self.half_of_shared()
    }

    /// Whether so many share it that a run has few blocks, each of which takes several tiles of weights at a time: a
    /// multiprocessor must have shared memory for two of them.
    pub(super) fn is_crowded(self) -> bool {
        self.runs >= MANY_RUNS && self.generation >= 9 && self.fits_twice(GROUP_BYTES)
    }

    /// Runs that have a place at the same time at most.
    pub(crate) fn most_runs(self) -> usize {
        2 * self.multiprocessors
    }

    /// Whether products with operands in both kinds of half precision are known.
    fn has_halves(self) -> bool {
        self.generation >= 8
    }

    /// Blocks, `largest` at most, that share a tile where there are `n`: clusters came with generation 9.
    fn team(self, n: usize, largest: usize) -> usize {
        let largest = if self.generation >= 9 && self.runs == 1 { largest } else { 1 };
        1 << (self.multiprocessors / n).clamp(1, largest).ilog2()
    }

    /// Whether so many tiles keep half of a run's multiprocessors busy, or, of one of several runs, more than half of its
    /// blocks.
    fn is_busy_with(self, tiles: usize) -> bool {
        match self.runs {
            1 => tiles >= self.multiprocessors / 2,
            _ => 2 * tiles > self.most_blocks(),
        }
    }

    /// Blocks of a program of one run at most. All run at the same time, so that they can meet: a multiprocessor
    /// takes two of them, and a quarter of the places is left over for clusters that must not be torn apart.
    pub(super) fn most_blocks(self) -> usize {
        match self.runs {
            1 => self.multiprocessors * 3 / 2,
            runs => (self.most_runs() / runs).max(1),
        }
    }
}

impl RowTiles {
    /// Where a team shares layers.
    fn of_layers(rows: usize, machine: Machine) -> Self {
        let high = if rows < MANY_ROWS { 1 } else { 2 };
        let n = rows.div_ceil(16 * high);
        let team_alone = machine.shared_by(1).team(n, LARGEST_TEAM);
        Self { rows, high, team: machine.team(n, LARGEST_TEAM), share: 1, team_alone, n }
    }

    /// Where a team takes `passes` at a time at most, each by one block, or by as many as have a warp for every 32 columns of
    /// the widest layer: tiles as high as fits, while there are enough of them.
    fn of_passes(rows: usize, machine: Machine, widest: usize, passes: usize) -> Self {
        let n = |high: usize| rows.div_ceil(16 * high);
        let fits = |high: &usize| {
            rows >= 16 * high
                && machine.is_busy_with(n(*high))
                && half_bytes(*high, widest) <= machine.most_shared()
        };
        let high = [4, 2].into_iter().find(fits).unwrap_or(1);
        let n = n(high);
        let share = widest.div_ceil(BLOCK_COLUMNS).next_power_of_two();
        let team = machine.team(n, (passes * share).min(LARGEST_TEAM));
        Self { rows, high, team, share: share.min(team), team_alone: team, n }
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
    /// Products with operands in half precision, else in fp32.
    pub(super) half: bool,
    /// Whether those operands are bf16 in the forward pass, too.
    pub(super) bf16: bool,
    /// The widest layer, padded.
    pub(super) widest: usize,
    /// Whether a run has the GPU to itself.
    pub(super) alone: bool,
}

/// Bytes of a tile's numbers in half precision, before and after a layer, and of warps' parts of sums.
pub(super) fn half_bytes(high: usize, widest: usize) -> usize {
    2 * 2 * 16 * high * (widest + 8) + 8 * 16 * 32 * 4
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
                model.omitted = Omitted::new(plan, ModelId(i), model, batch, machine.is_crowded());
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
                true => Substitute::new(&models[pass.model.0], batch, &mut take),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of a batch of 256, for layers of 256, in so many runs on a GPU with so many KB in each multiprocessor.
    fn batch(kilobytes: usize, runs: usize) -> (usize, bool) {
        let machine = Machine { shared: kilobytes << 10, generation: 12, ..Machine::H200 };
        let machine = machine.shared_by(runs);
        let high = RowTiles::of_passes(256, machine, 256, MOST_PASSES).high;
        assert!(half_bytes(high, 256) + SHARED_BESIDE <= (kilobytes << 10) / 2);
        (high, machine.is_crowded())
    }

    #[test]
    fn two_blocks_of_a_program_fit_into_a_multiprocessor() {
        let batches = |kilobytes| [1, 12, 32, 64].map(|runs| batch(kilobytes, runs));
        assert_eq!(batches(228), [(1, false), (1, true), (2, true), (4, true)]);
        assert_eq!(batches(164), [(1, false), (1, false), (2, false), (2, false)]);
        assert_eq!(batches(100), [(1, false); 4]);
        let brings_tiles = |kilobytes: usize| {
            Machine { shared: kilobytes << 10, ..Machine::H200 }.fits_twice(LEARN_BYTES)
        };
        assert_eq!([228, 164, 100].map(brings_tiles), [true, true, false]);
    }
}

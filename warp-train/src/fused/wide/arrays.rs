//! What a policy of the wide path keeps on the device: parameters, a rollout, and room to learn.

use super::lanes;
use super::network::{Tower, WideNetwork};
use super::network_path::{NetworkPath, Product};
use super::shared::{SUMS, WideSettings, WideState};
use super::tensor::shape::{MOST_A_PROCESSOR, TILE_ROWS, TensorShape};
use super::text::truncation_slots;
use super::tiled::shape::{BLOCK_ROWS, TiledShape};
use crate::algorithm::PolicyPlan;
use crate::config::TrainConfig;
use crate::error::Result;
use crate::network::foreign::rows_at_once;
use warp_core::DType::{self, F32, I32, U8, U32};
use warp_data::cuda::{Device, DeviceArray};
use warp_func::cuda::DeviceStruct;

/// Bytes of the numbers that rows which go through the layers at once have at most.
const LAYERS_BYTES: usize = 512 << 20;
/// Rows that go through the layers at once, at least.
const FEWEST_ROWS: usize = 16_384;
/// Bytes that the first pass of all towers on tensor cores may keep for the second at most.
const KEPT_BYTES: usize = 4 << 30;
/// Samples of a share that is summed into a copy of the gradient, at least, where layers go one by one.
const FEWEST_OF_SHARE: usize = 128;
/// Tiles that a group of warps takes one after the other, up to which it is faster that towers share the multiprocessors.
const MOST_ROUNDS: usize = 48;
/// Blocks of sums over all samples.
pub(super) const SUM_BLOCKS: usize = 384;
/// Words of a block's sums of losses, which are five f64.
pub(super) const LOSS_WORDS: usize = 2 * 5;

/// Numbers of a policy's rollout and of how it is worked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Agents of all replicas.
    pub(super) rows: usize,
    pub(super) steps: usize,
    /// Shards here.
    pub(super) shards: usize,
    /// Rows of all steps.
    pub(super) cells: usize,
    /// Largest minibatch.
    pub(super) minibatch: usize,
    /// Samples that are learned from at once.
    pub(super) chunk: usize,
    /// Rows that act at once, in fp32.
    pub(super) part: usize,
    /// Copies of the gradient.
    pub(super) copies: usize,
    /// Truncations that one row can have in a rollout.
    pub(super) slots: usize,
    /// Bytes that are kept of an action mask: one per choice, or words of bits where towers run on tensor cores; 0 without
    /// one.
    pub(super) mask: usize,
    /// Whether a tensor library runs the network, and needs no room for its layers here.
    pub(super) foreign: bool,
    /// Whether whole towers run in fp32, and nothing is kept between their layers.
    pub(super) fused: bool,
    /// Halves of a row of observations where layers run on tensor cores one by one, and what is kept between them is theirs;
    /// else 0.
    pub(super) tiled_width: usize,
    /// Whether outputs of samples stay in shared memory.
    pub(super) heads_at_once: bool,
    /// Blocks that take what agents see into its moments while they act, at most; 0 where that is done apart.
    pub(super) obs_blocks: usize,
}

impl Sizes {
    pub(super) fn new(
        config: &TrainConfig,
        plan: &PolicyPlan,
        network: &WideNetwork,
        path: &NetworkPath,
        multiprocessors: usize,
    ) -> Self {
        let (foreign, fused) =
            (*path == NetworkPath::Foreign, matches!(path, NetworkPath::Fused(_)));
        let shapes = path.shapes();
        let (rows, steps) = (config.n_envs() * plan.n_agents(), config.run.num_steps);
        let cells = rows * steps;
        let parts = plan.passes().minibatches.max(1);
        // Few samples may be left, which then make fewer minibatches of one each.
        let shards = config.shards().here;
        let minibatch = shards * (cells / shards).div_ceil(parts).max(1);
        let kept = two_passes(shapes).map(TensorShape::kept_bytes).reduce(std::ops::Add::add);
        let width = plan.group(&config.spec).observation_width();
        let at_once = match path {
            NetworkPath::Foreign => rows_at_once(plan, width),
            NetworkPath::Tiled(shape) => KEPT_BYTES / shape.row_bytes(),
            _ => rows_by_layer(network),
        };
        let (tile_rows, tiled_width, heads_at_once) = match path {
            NetworkPath::Tiled(shape) => (BLOCK_ROWS, shape.kept_width(), shape.at_once.is_some()),
            _ => (TILE_ROWS, 0, false),
        };
        let chunk = match kept {
            None if fused || !shapes.is_empty() => minibatch,
            kept => kept.map_or(at_once, |bytes| KEPT_BYTES / bytes * TILE_ROWS),
        };
        let chunk = chunk.min(minibatch).next_multiple_of(tile_rows);
        let copies = match path {
            NetworkPath::Foreign => 1,
            NetworkPath::Layers(product) => {
                copies_by_layer(network, *product, chunk, multiprocessors)
            }
            NetworkPath::Fused(shape) => shape.copies(minibatch, multiprocessors),
            NetworkPath::Tiled(shape) => shape.copies(chunk, multiprocessors),
            NetworkPath::Tensor(shapes) => {
                let busy = multiprocessors - left_to_others(config, shapes);
                let tiles = chunk.div_ceil(TILE_ROWS);
                (busy / jobs_at_once(shapes, tiles, busy)).min(tiles)
            }
        };
        let copies = copies.max(1);
        let part = rows.clamp(1, at_once);
        let obs_blocks = match path {
            _ if !path.sums_obs(plan) => 0,
            NetworkPath::Tiled(TiledShape { rollout: Some(clusters), .. }) => clusters.blocks(rows),
            _ => MOST_A_PROCESSOR * multiprocessors,
        };
        let slots = truncation_slots(&config.spec, steps);
        let choices = plan.group(&config.spec).mask_width();
        let mask = if shapes.is_empty() { choices } else { 4 * choices.div_ceil(32) };
        Self {
            rows,
            steps,
            shards,
            cells,
            minibatch,
            chunk,
            part,
            copies,
            slots,
            mask,
            foreign,
            fused,
            tiled_width,
            heads_at_once,
            obs_blocks,
        }
    }

    /// Whether layers run on tensor cores one by one.
    pub(super) fn is_tiled(&self) -> bool {
        self.tiled_width > 0
    }

    /// Chunks of a minibatch.
    pub(super) fn chunks(&self) -> usize {
        self.minibatch.div_ceil(self.chunk)
    }
}

/// Those that learn in two passes, with memory between them.
fn two_passes(shapes: &[TensorShape]) -> impl Iterator<Item = &TensorShape> {
    shapes.iter().filter(|shape| shape.groups().is_none())
}

/// Multiprocessors that are left free by a policy that learns in one pass beside others. Its launches are long and fill
/// every multiprocessor that they run on; short launches of the others would each wait for the end of one.
fn left_to_others(config: &TrainConfig, shapes: &[TensorShape]) -> usize {
    let learning = config.policies.iter().filter(|plan| plan.config.to_train).count();
    usize::from(learning > 1 && two_passes(shapes).next().is_none())
}

/// Rows that go through the layers one by one, at once.
fn rows_by_layer(network: &WideNetwork) -> usize {
    let hidden = || network.towers.iter().flat_map(|tower| &tower.hidden).map(|layer| layer.n_out);
    let gradients = 2 * hidden().max().unwrap_or(0);
    // A normalisation keeps as many numbers as its layer gives.
    let kept = if network.has_norms() { 2 } else { 1 };
    let numbers = network.observation_width() + kept * hidden().sum::<usize>() + gradients;
    (LAYERS_BYTES / (4 * (numbers + network.n_outputs + 1))).max(FEWEST_ROWS)
}

/// Jobs that are done at the same time by `busy` multiprocessors: where one pass makes all gradients, those of all towers, unless
/// so many `tiles` take long that the last tower would work alone; of the second of two passes those of a tower, or of all towers
/// where they are few because the first pass makes the gradients of outer layers. More jobs at once mean fewer copies of the
/// gradient, and less work of a block beside its rows.
fn jobs_at_once(shapes: &[TensorShape], tiles: usize, busy: usize) -> usize {
    if two_passes(shapes).next().is_none() {
        let groups = busy
            * shapes
                .iter()
                .filter_map(TensorShape::groups)
                .map(|groups| groups.learners)
                .min()
                .unwrap_or(1);
        return if tiles <= MOST_ROUNDS * groups { shapes.len() } else { 1 };
    }
    let jobs = two_passes(shapes).map(TensorShape::jobs);
    let few = two_passes(shapes).all(TensorShape::makes_edges);
    if few { jobs.sum::<usize>() } else { jobs.max().unwrap_or(1) }.max(1)
}

/// Copies of the gradient, so that the weights of the largest layer give every multiprocessor two blocks.
fn copies_by_layer(
    network: &WideNetwork,
    product: Product,
    chunk: usize,
    multiprocessors: usize,
) -> usize {
    let layers = network.towers.iter().flat_map(Tower::layers);
    let tiles = layers.map(|layer| product.weight_tiles(layer)).max().unwrap_or(1);
    (2 * multiprocessors / tiles).min(chunk / FEWEST_OF_SHARE)
}

/// The arrays; shapes are in [`Sizes`]' terms.
#[derive(Debug)]
pub(super) struct Arrays {
    pub(super) settings: DeviceArray,
    pub(super) state: DeviceArray,
    /// Parameters and what is as long as they.
    pub(super) parameters: DeviceArray,
    pub(super) exp_avg: DeviceArray,
    pub(super) exp_avg_sq: DeviceArray,
    pub(super) gradient: DeviceArray,
    /// `[copies, n_parameters]`.
    pub(super) partial: DeviceArray,
    /// Observations: f32 `[steps + 1, rows, width]`, or halves `[steps, rows, padded width]` of whole towers on tensor cores,
    /// `[steps + 1, rows, padded width]` where layers run on them one by one.
    pub(super) obs: DeviceArray,
    pub(super) masks: DeviceArray,
    pub(super) weights: DeviceArray,
    pub(super) actions: DeviceArray,
    pub(super) raws: DeviceArray,
    pub(super) log_probs: DeviceArray,
    /// `[steps + 1, rows]`.
    pub(super) values: DeviceArray,
    pub(super) rewards: DeviceArray,
    pub(super) ended: DeviceArray,
    pub(super) truncated_values: DeviceArray,
    pub(super) advantages: DeviceArray,
    pub(super) returns: DeviceArray,
    /// What towers on tensor cores read of a sample, side by side: f32 `[cells, 4]`.
    pub(super) known: DeviceArray,
    /// Cells that count, in order, and as an epoch uses them.
    pub(super) order: DeviceArray,
    pub(super) shuffled: DeviceArray,
    pub(super) counts: DeviceArray,
    /// How many cells count, of each shard here.
    pub(super) n: DeviceArray,
    /// Truncated rows, `[slots, rows]`.
    pub(super) cut_count: DeviceArray,
    pub(super) cut_cell: DeviceArray,
    pub(super) cut_obs: DeviceArray,
    pub(super) cut_values: DeviceArray,
    /// Sums over the rollout, and over a minibatch's advantages, f64.
    pub(super) sums: DeviceArray,
    pub(super) moments: DeviceArray,
    pub(super) losses: DeviceArray,
    pub(super) squares: DeviceArray,
    /// Rows at once: outputs f32 `[rows, n_outputs + 1]`.
    pub(super) outs: DeviceArray,
    /// Rows at once: gathered observations, and per tower and layer activations and gradients; layer by
    /// layer only.
    pub(super) gathered: DeviceArray,
    pub(super) hidden: Vec<Vec<DeviceArray>>,
    pub(super) d_hidden: [DeviceArray; 2],
}

/// Words of the sums over the advantages of all minibatches of an epoch.
pub(super) fn moment_words(plan: &PolicyPlan) -> usize {
    2 * 2 * SUM_BLOCKS * plan.passes().minibatches
}

/// Blocks that leave sums of losses of a tower, at most.
fn loss_blocks(device: &Device, plan: &PolicyPlan, sizes: &Sizes, shapes: &[TensorShape]) -> usize {
    let at_a_time = shapes.iter().map(TensorShape::blocks).max().unwrap_or(1);
    let at_a_time = at_a_time * device.info().n_multiprocessors as usize;
    let of_chunk = (sizes.chunk * lanes::lanes(plan)).div_ceil(256);
    at_a_time.max(of_chunk).max(sizes.copies) * sizes.chunks()
}

impl Arrays {
    pub(super) fn new(
        device: &Device,
        plan: &PolicyPlan,
        network: &WideNetwork,
        sizes: &Sizes,
        shapes: &[TensorShape],
    ) -> Result<Self> {
        let make = |name: &str, dtype: DType, n: usize| -> Result<DeviceArray> {
            Ok(DeviceArray::zeros(device, &format!("{}.{name}", plan.name), dtype, &[n])?)
        };
        let n = network.n_parameters;
        let &Sizes { rows, cells, slots, chunk, part, copies, .. } = sizes;
        let losses = loss_blocks(device, plan, sizes, shapes) * network.towers.len();
        let (width, layout) = (network.observation_width(), &plan.layout);
        let discrete = !layout.head_sizes().is_empty();
        let per_action = layout.action_width();
        // Floats, or as many as hold a row of halves.
        let kept = if sizes.is_tiled() { sizes.tiled_width / 2 } else { width };
        let obs = match shapes.first() {
            Some(shape) => make("obs", U8, 2 * shape.observation_width() * cells)?,
            None => make("obs", F32, (cells + rows) * kept)?,
        };
        // Activations in fp32: of chunks that are learned from, or of a few rows that act.
        let at_once = match shapes.is_empty() {
            _ if sizes.fused => 0,
            true if !sizes.heads_at_once => chunk.max(part),
            _ => part,
        };
        let widest = network.towers.iter().flat_map(|t| &t.hidden).map(|l| l.n_out).max();
        let hidden = |t: usize| {
            let layers = network.towers[t].hidden.iter();
            let rows = if sizes.foreign || sizes.is_tiled() { 0 } else { at_once };
            layers.map(|layer| make("hidden", F32, rows * layer.n_out)).collect()
        };
        let d_hidden = || {
            let own = sizes.foreign || sizes.fused || sizes.is_tiled() || !shapes.is_empty();
            let rows = if own { 0 } else { chunk };
            make("d_hidden", F32, rows * widest.unwrap_or(0))
        };
        Ok(Self {
            settings: make("settings", U32, WideSettings::WORDS)?,
            state: make("state", U32, WideState::WORDS)?,
            parameters: make("parameters", F32, n)?,
            exp_avg: make("exp_avg", F32, n)?,
            exp_avg_sq: make("exp_avg_sq", F32, n)?,
            gradient: make("gradient", F32, n)?,
            partial: make("partial", F32, copies * n)?,
            obs,
            masks: make("masks", U8, (cells + rows) * sizes.mask)?,
            weights: make("weights", U8, cells + rows)?,
            actions: make("actions", I32, if discrete { cells * per_action } else { 0 })?,
            raws: make("raws", F32, if discrete { 0 } else { cells * per_action })?,
            log_probs: make("log_probs", F32, cells)?,
            values: make("values", F32, cells + rows)?,
            rewards: make("rewards", F32, cells)?,
            ended: make("ended", U8, cells)?,
            truncated_values: make("truncated_values", F32, cells)?,
            advantages: make("advantages", F32, cells)?,
            returns: make("returns", F32, cells)?,
            known: make("known", F32, if shapes.is_empty() { 0 } else { 4 * cells })?,
            order: make("order", U32, cells)?,
            shuffled: make("shuffled", U32, cells)?,
            counts: make("counts", U32, cells.div_ceil(1024))?,
            n: make("samples", U32, sizes.shards)?,
            cut_count: make("cut_count", U32, rows)?,
            cut_cell: make("cut_cell", U32, slots * rows)?,
            cut_obs: make("cut_obs", F32, slots * rows * kept)?,
            cut_values: make("cut_values", F32, slots * rows)?,
            sums: make("sums", U32, 2 * SUMS * SUM_BLOCKS)?,
            moments: make("moments", U32, moment_words(plan))?,
            losses: make("losses", U32, LOSS_WORDS * losses)?,
            squares: make("squares", U32, 2 * n.div_ceil(32))?,
            outs: make("outs", F32, at_once * (network.n_outputs + 1))?,
            gathered: make("gathered", F32, if sizes.is_tiled() { 0 } else { at_once * width })?,
            hidden: (0..network.towers.len()).map(hidden).collect::<Result<_>>()?,
            d_hidden: [d_hidden()?, d_hidden()?],
        })
    }
}

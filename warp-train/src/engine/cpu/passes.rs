//! Forward and backward passes, in tiles of rows that are distributed over threads.
//!
//! A tile's activations stay with the pass until its backward pass. Gradients of parameters are summed over
//! a few tiles each and then in order, so they do not depend on threads. No tile and no sum has rows of two shards.

use super::CpuEngine;
use crate::algorithm::{Pass, PassId, Plan};
use crate::network::native::perceptron::Activations;
use crate::network::native::wide::add_rows;
use std::ops::Range;
use std::sync::Mutex;

/// Rows whose activations stay in the cache.
const TILE_ROWS: usize = 64;
/// Fewest tiles whose gradients are summed in one place.
const FEWEST_TILES: usize = 2;
/// Most places in which gradients are summed.
const MOST_SUMS: usize = 32;

/// What a pass keeps for its backward pass.
#[derive(Debug, Default)]
pub(super) struct PassMemory {
    tiles: Vec<Mutex<Tile>>,
    /// Gradients of some tiles each.
    sums: Vec<Mutex<Vec<f32>>>,
}

/// How the rows of a pass are cut into tiles, shard by shard.
#[derive(Debug, Clone, Copy)]
struct Tiling {
    /// Shards here.
    shards: usize,
    rows_of_shard: usize,
}

impl Tiling {
    fn tiles_of_shard(&self) -> usize {
        self.rows_of_shard.div_ceil(TILE_ROWS)
    }

    /// Sums of gradients of a shard.
    fn sums_of_shard(&self) -> usize {
        let n_tiles = self.tiles_of_shard();
        n_tiles.div_ceil(tiles_per_sum(n_tiles))
    }

    /// The tiles whose gradients go into sum number `sum`.
    fn tiles_of_sum(&self, sum: usize) -> Range<usize> {
        let (n_tiles, n_sums) = (self.tiles_of_shard(), self.sums_of_shard());
        let (shard, first) = (sum / n_sums, sum % n_sums * tiles_per_sum(n_tiles));
        let last = n_tiles.min(first + tiles_per_sum(n_tiles));
        shard * n_tiles + first..shard * n_tiles + last
    }

    /// The rows of a tile.
    fn rows(&self, tile: usize) -> Range<usize> {
        let shard = tile / self.tiles_of_shard() * self.rows_of_shard;
        let first = tile % self.tiles_of_shard() * TILE_ROWS;
        shard + first..shard + self.rows_of_shard.min(first + TILE_ROWS)
    }

    /// A column's tiles.
    fn cut(self, column: &mut [f32], width: usize) -> impl Iterator<Item = &mut [f32]> {
        let shards = column.chunks_mut(self.rows_of_shard * width);
        shards.flat_map(move |rows| rows.chunks_mut(TILE_ROWS * width))
    }
}

/// A few rows of a pass.
#[derive(Debug, Default)]
struct Tile {
    /// The inputs, beside each other.
    x: Vec<f32>,
    kept: Activations,
    /// Derivatives by all inputs.
    d_x: Vec<f32>,
}

/// One tile of one pass, and where its results go.
struct Task<'a> {
    pass: usize,
    tile: usize,
    rows: Range<usize>,
    to: &'a mut [f32],
}

/// Some tiles of one pass whose gradients are summed.
#[derive(Clone, Copy)]
struct SumTask {
    pass: usize,
    sum: usize,
    tiling: Tiling,
}

/// Tasks for all tiles of a column.
fn tiles_of<'a>(
    tiling: Tiling,
    pass: usize,
    column: &'a mut [f32],
    width: usize,
) -> impl Iterator<Item = Mutex<Task<'a>>> {
    let tiles = tiling.cut(column, width).enumerate();
    tiles.map(move |(tile, to)| Mutex::new(Task { pass, tile, rows: tiling.rows(tile), to }))
}

/// Tiles whose gradients are summed in one place: a function of the number of rows alone.
fn tiles_per_sum(n_tiles: usize) -> usize {
    FEWEST_TILES.max(n_tiles.div_ceil(MOST_SUMS))
}

impl CpuEngine {
    /// How a pass's rows are cut.
    fn tiling(&self, pass: PassId) -> Tiling {
        let column = &self.plan.columns[self.plan.passes[pass.0].output.0];
        let (shards, n_rows) =
            (self.sharing.shards.here, self.plan.n_rows(column.rows, self.place.n_rows));
        Tiling { shards, rows_of_shard: n_rows / shards }
    }

    pub(super) fn run_forward(&mut self, passes: &[PassId]) {
        let outputs: Vec<_> = passes.iter().map(|id| self.plan.passes[id.0].output).collect();
        let mut taken: Vec<Vec<f32>> =
            outputs.iter().map(|id| std::mem::take(&mut self.columns[id.0])).collect();
        let mut tasks = Vec::new();
        for (id, output) in passes.iter().zip(&mut taken) {
            let width = self.models[self.plan.passes[id.0].model.0].outputs();
            let tiling = self.tiling(*id);
            self.passes[id.0].reserve(tiling);
            tasks.extend(tiles_of(tiling, id.0, output, width));
        }
        let Self { thread_pool, passes: memory, models, columns, plan, .. } = self;
        thread_pool.run(tasks.len(), &|task| {
            // Every task is run once, so its locks are never waited for.
            let Ok(mut task) = tasks[task].lock() else { return };
            let Ok(mut tile) = memory[task.pass].tiles[task.tile].lock() else { return };
            let (pass, Tile { x, kept, .. }) = (&plan.passes[task.pass], &mut *tile);
            let model = &models[pass.model.0];
            gather(plan, pass, columns, task.rows.clone(), x);
            model.tower.forward(
                &model.parameters,
                model.activation,
                x,
                task.rows.len(),
                kept,
                &mut [&mut *task.to],
            );
        });
        drop(tasks);
        for (id, output) in outputs.iter().zip(taken) {
            self.columns[id.0] = output;
        }
    }

    pub(super) fn run_back_to_parameters(&mut self, passes: &[PassId]) {
        let mut tasks = Vec::new();
        for id in passes {
            let n = self.models[self.plan.passes[id.0].model.0].parameters.len();
            let tiling = self.tiling(*id);
            self.passes[id.0].reserve_sums(tiling, n);
            let n_sums = tiling.shards * tiling.sums_of_shard();
            tasks.extend((0..n_sums).map(|sum| SumTask { pass: id.0, sum, tiling }));
        }
        let Self { thread_pool, passes: memory, models, columns, plan, .. } = self;
        thread_pool.run(tasks.len(), &|task| {
            let SumTask { pass, sum, tiling } = tasks[task];
            let (pass, memory) = (&plan.passes[pass], &memory[pass]);
            let (model, Some(back)) = (&models[pass.model.0], &pass.back) else { return };
            let Ok(mut gradients) = memory.sums[sum].lock() else { return };
            gradients.fill(0.0);
            for tile in tiling.tiles_of_sum(sum) {
                let Range { start, end } = tiling.rows(tile);
                let Ok(mut tile) = memory.tiles[tile].lock() else { return };
                let Tile { x, kept, .. } = &mut *tile;
                let n = model.outputs();
                let d_output = &columns[back.d_output.0][start * n..end * n];
                model.tower.backward(&model.weights(), x, kept, &[d_output], &mut gradients);
            }
        });
        self.add_sums(passes);
    }

    /// Adds what passes have summed, in their order, to the models' gradients, shard by shard.
    fn add_sums(&mut self, passes: &[PassId]) {
        let Self { thread_pool, passes: memory, models, plan, sharing, .. } = self;
        let here = sharing.shards.here;
        let jobs: Vec<_> = models.iter_mut().enumerate().map(Mutex::new).collect();
        thread_pool.run(jobs.len(), &|job| {
            let Ok(mut job) = jobs[job].lock() else { return };
            let (index, model) = &mut *job;
            for shard in 0..here {
                let own = passes.iter().filter(|id| plan.passes[id.0].model.0 == *index);
                let sums = own.flat_map(|id| {
                    let sums = &memory[id.0].sums;
                    sums[sharing.shards.rows(sums.len(), shard)].iter()
                });
                let gradient = model.gradient_of(shard);
                for (nth, sum) in sums.enumerate() {
                    let Ok(sum) = sum.lock() else { return };
                    match nth {
                        0 => gradient.copy_from_slice(&sum),
                        _ => add_rows(gradient, &sum),
                    }
                }
            }
        });
    }

    pub(super) fn run_back_to_input(&mut self, passes: &[PassId]) {
        let input = |id: &PassId| Some((*id, self.plan.passes[id.0].d_input()?));
        let inputs: Vec<_> = passes.iter().filter_map(input).collect();
        let mut taken: Vec<Vec<f32>> =
            inputs.iter().map(|(_, to)| std::mem::take(&mut self.columns[to.column.0])).collect();
        let mut tasks = Vec::new();
        for ((id, input), to) in inputs.iter().zip(&mut taken) {
            let width = self.plan.columns[input.column.0].width;
            tasks.extend(tiles_of(self.tiling(*id), id.0, to, width));
        }
        let Self { thread_pool, passes: memory, models, columns, plan, .. } = self;
        thread_pool.run(tasks.len(), &|task| {
            let Ok(mut task) = tasks[task].lock() else { return };
            let Ok(mut tile) = memory[task.pass].tiles[task.tile].lock() else { return };
            let pass = &plan.passes[task.pass];
            let (model, Some(back)) = (&models[pass.model.0], &pass.back) else { return };
            let Some(input) = back.d_input else { return };
            let width = plan.columns[input.column.0].width;
            let Range { start, end } = task.rows;
            let d_output =
                &columns[back.d_output.0][start * model.outputs()..end * model.outputs()];
            let Tile { kept, d_x, .. } = &mut *tile;
            d_x.resize((end - start) * model.inputs(), 0.0);
            model.tower.backward_input(&model.weights(), kept, d_output, d_x);
            let before = pass.inputs[..input.input].iter();
            let first: usize = before.map(|id| plan.columns[id.0].width).sum();
            for (to, from) in task.to.chunks_mut(width).zip(d_x.chunks(model.inputs())) {
                to.copy_from_slice(&from[first..first + width]);
            }
        });
        drop(tasks);
        for ((_, input), column) in inputs.iter().zip(taken) {
            self.columns[input.column.0] = column;
        }
    }

    /// Runs a pass on rows of one's own, f32 `[n, inputs]`, into f32 `[n, outputs]`; columns stay as they
    /// are.
    pub(crate) fn evaluate(&mut self, pass: PassId, x: &[f32], output: &mut [f32]) {
        let Self { thread_pool, models, plan, .. } = self;
        let model = &models[plan.passes[pass.0].model.0];
        let (inputs, outputs) = (TILE_ROWS * model.inputs(), TILE_ROWS * model.outputs());
        let tiles: Vec<_> =
            x.chunks(inputs).zip(output.chunks_mut(outputs)).map(Mutex::new).collect();
        thread_pool.run(tiles.len(), &|tile| {
            let Ok(mut tile) = tiles[tile].lock() else { return };
            let (x, output) = &mut *tile;
            let rows = output.len() / model.outputs();
            let kept = &mut Activations::default();
            let (parameters, activation) = (&model.parameters[..], model.activation);
            model.tower.forward(parameters, activation, x, rows, kept, &mut [&mut **output]);
        });
    }
}

impl PassMemory {
    fn reserve(&mut self, tiling: Tiling) {
        self.tiles.resize_with(tiling.shards * tiling.tiles_of_shard(), Mutex::default);
    }

    fn reserve_sums(&mut self, tiling: Tiling, n_parameters: usize) {
        let n = tiling.shards * tiling.sums_of_shard();
        self.sums.resize_with(n, || Mutex::new(vec![0.0; n_parameters]));
    }
}

/// Puts `rows` rows of a pass's inputs beside each other.
fn gather(plan: &Plan, pass: &Pass, columns: &[Vec<f32>], rows: Range<usize>, x: &mut Vec<f32>) {
    x.clear();
    if let [only] = pass.inputs[..] {
        let width = plan.columns[only.0].width;
        return x.extend_from_slice(&columns[only.0][rows.start * width..rows.end * width]);
    }
    for row in rows {
        for id in &pass.inputs {
            let width = plan.columns[id.0].width;
            x.extend_from_slice(&columns[id.0][row * width..][..width]);
        }
    }
}

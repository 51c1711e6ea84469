//! Forward and backward passes, in tiles of rows that are distributed over threads.
//!
//! A tile's activations stay with the pass until its way back. Gradients of parameters are summed over
//! a few tiles each and then in order, so they do not depend on threads.

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

/// What a pass keeps for its way back.
#[derive(Debug, Default)]
pub(super) struct PassMemory {
    tiles: Vec<Mutex<Tile>>,
    /// Gradients of some tiles each.
    sums: Vec<Mutex<Vec<f32>>>,
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
    to: &'a mut [f32],
}

/// Tiles whose gradients are summed in one place: a function of the number of rows alone.
fn tiles_per_sum(n_tiles: usize) -> usize {
    FEWEST_TILES.max(n_tiles.div_ceil(MOST_SUMS))
}

impl CpuEngine {
    pub(super) fn run_forward(&mut self, passes: &[PassId]) {
        let outputs: Vec<_> = passes.iter().map(|id| self.plan.passes[id.0].output).collect();
        let mut taken: Vec<Vec<f32>> =
            outputs.iter().map(|id| std::mem::take(&mut self.columns[id.0])).collect();
        let mut tasks = Vec::new();
        for (id, output) in passes.iter().zip(&mut taken) {
            let width = self.models[self.plan.passes[id.0].model.0].outputs();
            self.passes[id.0].reserve(output.len() / width);
            let tiles = output.chunks_mut(TILE_ROWS * width).enumerate();
            tasks.extend(tiles.map(|(tile, to)| Mutex::new(Task { pass: id.0, tile, to })));
        }
        let Self { crew, passes: memory, models, columns, plan, .. } = self;
        crew.run(tasks.len(), &|task| {
            // Every task is run once, so its locks are never waited for.
            let Ok(mut task) = tasks[task].lock() else { return };
            let Ok(mut tile) = memory[task.pass].tiles[task.tile].lock() else { return };
            let (pass, Tile { x, kept, .. }) = (&plan.passes[task.pass], &mut *tile);
            let model = &models[pass.model.0];
            let rows = task.to.len() / model.outputs();
            let first = task.tile * TILE_ROWS;
            gather(plan, pass, columns, first..first + rows, x);
            model.tower.forward(
                &model.parameters,
                model.activation,
                x,
                rows,
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
        for id in passes {
            let n = self.models[self.plan.passes[id.0].model.0].parameters.len();
            self.passes[id.0].reserve_sums(n);
        }
        let Self { crew, passes: memory, models, columns, plan, .. } = self;
        let sums = |id: &PassId| {
            let pass = id.0;
            (0..memory[pass].sums.len()).map(move |sum| (pass, sum))
        };
        let tasks: Vec<_> = passes.iter().flat_map(sums).collect();
        crew.run(tasks.len(), &|task| {
            let (index, sum) = tasks[task];
            let (pass, memory) = (&plan.passes[index], &memory[index]);
            let (model, Some(back)) = (&models[pass.model.0], &pass.back) else { return };
            let Ok(mut gradients) = memory.sums[sum].lock() else { return };
            gradients.fill(0.0);
            let d_output = columns[back.d_output.0].chunks(TILE_ROWS * model.outputs());
            let per_sum = tiles_per_sum(memory.tiles.len());
            let tiles = memory.tiles.iter().zip(d_output);
            for (tile, d_output) in tiles.skip(sum * per_sum).take(per_sum) {
                let Ok(mut tile) = tile.lock() else { return };
                let Tile { x, kept, .. } = &mut *tile;
                model.tower.backward(&model.weights(), x, kept, &[d_output], &mut gradients);
            }
        });
        self.add_sums(passes);
    }

    /// Adds what passes have summed, in their order, to the models' gradients.
    fn add_sums(&mut self, passes: &[PassId]) {
        let Self { crew, passes: memory, models, plan, .. } = self;
        let jobs: Vec<_> = models.iter_mut().enumerate().map(Mutex::new).collect();
        crew.run(jobs.len(), &|job| {
            let Ok(mut job) = jobs[job].lock() else { return };
            let (index, model) = &mut *job;
            let mut first = true;
            for id in passes.iter().filter(|id| plan.passes[id.0].model.0 == *index) {
                for sum in &memory[id.0].sums {
                    let Ok(sum) = sum.lock() else { return };
                    match first {
                        true => model.gradients.copy_from_slice(&sum),
                        false => add_rows(&mut model.gradients, &sum),
                    }
                    first = false;
                }
            }
        });
    }

    pub(super) fn run_back_to_input(&mut self, passes: &[PassId]) {
        let inputs: Vec<_> =
            passes.iter().filter_map(|id| self.plan.passes[id.0].back.as_ref()?.d_input).collect();
        let mut taken: Vec<Vec<f32>> =
            inputs.iter().map(|to| std::mem::take(&mut self.columns[to.column.0])).collect();
        let mut tasks = Vec::new();
        for ((id, input), to) in passes.iter().zip(&inputs).zip(&mut taken) {
            let width = self.plan.columns[input.column.0].width;
            let tiles = to.chunks_mut(TILE_ROWS * width).enumerate();
            tasks.extend(tiles.map(|(tile, to)| Mutex::new(Task { pass: id.0, tile, to })));
        }
        let Self { crew, passes: memory, models, columns, plan, .. } = self;
        crew.run(tasks.len(), &|task| {
            let Ok(mut task) = tasks[task].lock() else { return };
            let Ok(mut tile) = memory[task.pass].tiles[task.tile].lock() else { return };
            let pass = &plan.passes[task.pass];
            let (model, Some(back)) = (&models[pass.model.0], &pass.back) else { return };
            let Some(input) = back.d_input else { return };
            let width = plan.columns[input.column.0].width;
            let rows = task.to.len() / width;
            let d_output = &columns[back.d_output.0];
            let d_output = &d_output[task.tile * TILE_ROWS * model.outputs()..];
            let d_output = &d_output[..rows * model.outputs()];
            let Tile { kept, d_x, .. } = &mut *tile;
            d_x.resize(rows * model.inputs(), 0.0);
            model.tower.backward_input(&model.weights(), kept, d_output, d_x);
            let before = pass.inputs[..input.input].iter();
            let first: usize = before.map(|id| plan.columns[id.0].width).sum();
            for (to, from) in task.to.chunks_mut(width).zip(d_x.chunks(model.inputs())) {
                to.copy_from_slice(&from[first..first + width]);
            }
        });
        drop(tasks);
        for (input, column) in inputs.iter().zip(taken) {
            self.columns[input.column.0] = column;
        }
    }

    /// Runs a pass on rows of one's own, f32 `[n, inputs]`, into f32 `[n, outputs]`; columns stay as they
    /// are.
    pub(crate) fn evaluate(&mut self, pass: PassId, x: &[f32], output: &mut [f32]) {
        let Self { crew, models, plan, .. } = self;
        let model = &models[plan.passes[pass.0].model.0];
        let (inputs, outputs) = (TILE_ROWS * model.inputs(), TILE_ROWS * model.outputs());
        let tiles: Vec<_> =
            x.chunks(inputs).zip(output.chunks_mut(outputs)).map(Mutex::new).collect();
        crew.run(tiles.len(), &|tile| {
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
    fn reserve(&mut self, rows: usize) {
        self.tiles.resize_with(rows.div_ceil(TILE_ROWS), Mutex::default);
    }

    fn reserve_sums(&mut self, n_parameters: usize) {
        let n = self.tiles.len().div_ceil(tiles_per_sum(self.tiles.len()));
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

//! A policy without a tensor library: the network's parameters, their gradient, and its optimiser.
//!
//! A minibatch is divided into chunks by its number of rows only; chunks are distributed over threads,
//! and their gradients are added in chunk order, so results do not depend on the number of threads.
//! Where policy and value have separate networks, each chunk is two tasks: one network each, loss and
//! optimiser included, so that neither's numbers move between processor cores.

use super::network::{Network, Scratch, Wanted};
use super::norm::Norm;
use super::perceptron::Weights;
use super::wide::{add_rows, transpose};
use crate::error::{PolicyError, check_length};
use crate::loss::{Gathered, Loss, LossMetrics, LossPart, LossSums, Minibatch, Picked};
use crate::loss::{OutputGradients, Outputs, Room, part_of_loss};
use crate::model::{Activation, NamedTensor, PolicyTensors};
use crate::network::StepSizes;
use crate::optimiser::{self, Moved, Optimiser, OptimiserConfig};
use std::ops::Range;
use std::sync::{Mutex, RwLock};
use warp_func::ThreadPool;
use warp_sample::ActionLayout;

/// Rows that are worked on at once, so that their activations stay in the cache.
const TILE_ROWS: usize = 64;
/// Fewest rows in a chunk.
const FEWEST_ROWS: usize = 64;
/// So many that a gradient of its own is worth its memory traffic.
const ENOUGH_ROWS: usize = 128;
/// Most chunks per batch.
const MAX_CHUNKS: usize = 32;

/// Rows per chunk: a function of the number of rows alone.
fn chunk_rows(n_rows: usize) -> usize {
    let few = (n_rows / 4).clamp(FEWEST_ROWS, ENOUGH_ROWS);
    let rows = few.max(n_rows.div_ceil(MAX_CHUNKS));
    rows.next_multiple_of(8)
}

/// A trainable actor-critic.
#[derive(Debug)]
pub(super) struct NativePolicy {
    network: Network,
    layout: ActionLayout,
    parameters: Vec<f32>,
    /// Weights of wide layers, `[outputs, inputs]`; see [`Weights`].
    transposed: Vec<f32>,
    gradients: Vec<f32>,
    /// What is worked on apart, and its parameters.
    parts: Vec<(LossPart, Range<usize>)>,
    /// Sum of the squares of each part's gradient.
    squares: Vec<f64>,
    optimiser: Optimiser,
    /// The rows of each chunk, which the tasks of its parts share.
    rows: Vec<RwLock<ChunkRows>>,
    /// Chunk by chunk, each part by part.
    chunks: Vec<Mutex<Chunk>>,
    /// One per thread, so that they stay in its cache.
    tiles: Vec<Mutex<Tile>>,
}

/// What one chunk gives.
#[derive(Debug, Default)]
struct Chunk {
    gradients: Vec<f32>,
    sums: LossSums,
}

/// Memory for the rows of one chunk.
#[derive(Debug, Default)]
struct ChunkRows {
    gathered: Gathered,
    /// What is wrong with them.
    wrong: Option<PolicyError>,
}

/// A few rows, which say what the whole minibatch weighs, and what is to be done with them.
struct TileJob<'a> {
    part: LossPart,
    rows: Minibatch<'a>,
    loss: &'a Loss,
}

/// Memory for the rows that a thread works on.
#[derive(Debug, Default)]
struct Tile {
    room: Room,
    scratch: Scratch,
    outputs: Vec<f32>,
    values: Vec<f32>,
    d_outputs: Vec<f32>,
    d_values: Vec<f32>,
}

impl Chunk {
    /// Forgets the last minibatch; only the parameters in `range` get gradients.
    fn begin(&mut self, n_parameters: usize, range: &Range<usize>) {
        if self.gradients.len() == n_parameters {
            self.gradients[range.clone()].fill(0.0);
        } else {
            self.gradients = vec![0.0; n_parameters];
        }
        self.sums = LossSums::default();
    }
}

impl NativePolicy {
    /// The policy that starts from `weights`, worked on by a thread pool of `threads`.
    pub(super) fn new(
        weights: Vec<NamedTensor>,
        activation: Activation,
        layout: ActionLayout,
        optimiser: OptimiserConfig,
        threads: usize,
    ) -> Result<Self, PolicyError> {
        let network = Network::from_tensors(&weights, activation)?;
        let (n, parts) = (network.n_parameters, network.parts());
        let mut policy = Self {
            network,
            squares: vec![0.0; parts.len()],
            parts,
            layout,
            parameters: vec![0.0; n],
            transposed: vec![0.0; n],
            gradients: vec![0.0; n],
            optimiser: Optimiser::new(optimiser, n)?,
            rows: Vec::new(),
            chunks: Vec::new(),
            tiles: (0..threads.max(1)).map(|_| Mutex::default()).collect(),
        };
        policy.load(&PolicyTensors { weights, ..PolicyTensors::default() })?;
        Ok(policy)
    }

    /// Outputs f32 `[rows, output_width]` and values f32 `[rows]`; either may be left out if the network
    /// has them apart.
    pub(super) fn forward(
        &mut self,
        observations: &[f32],
        thread_pool: &mut ThreadPool,
        wanted: Wanted<'_>,
    ) -> Result<(), PolicyError> {
        let (width, output_width) = (self.network.observation_width(), self.network.output_width);
        let rows = observations.len() / width;
        check_length("observations", observations.len(), rows, width)?;
        let Wanted { mut outputs, mut values } = wanted;
        if let Some(outputs) = &outputs {
            check_length("outputs", outputs.len(), rows, output_width)?;
        }
        if let Some(values) = &values {
            check_length("values", values.len(), rows, 1)?;
        }
        let size = chunk_rows(rows);
        if rows <= size {
            // A few rows at every step of a rollout: nothing is shared, nothing allocated.
            let part = Wanted { outputs: outputs.as_deref_mut(), values: values.as_deref_mut() };
            self.with_tile(|tile| self.forward_rows(observations, part, &mut tile.scratch));
        } else {
            let mut outputs = outputs.as_deref_mut().map(|o| o.chunks_mut(size * output_width));
            let mut values = values.as_deref_mut().map(|values| values.chunks_mut(size));
            let job = |observations| {
                let outputs = outputs.as_mut().and_then(Iterator::next);
                let values = values.as_mut().and_then(Iterator::next);
                Mutex::new((observations, Wanted { outputs, values }))
            };
            let jobs: Vec<_> = observations.chunks(size * width).map(job).collect();
            thread_pool.run(jobs.len(), &|task| {
                // Every task is run once, so this lock is never waited for.
                let Ok(mut job) = jobs[task].lock() else { return };
                let (observations, wanted) = &mut *job;
                let part = std::mem::take(wanted);
                self.with_tile(|tile| self.forward_rows(observations, part, &mut tile.scratch));
            });
        }
        outputs.as_deref().map_or(Ok(()), |outputs| finite("outputs", outputs))?;
        values.as_deref().map_or(Ok(()), |values| finite("values", values))
    }

    /// Some rows on this thread, a few at a time.
    fn forward_rows(&self, observations: &[f32], wanted: Wanted<'_>, scratch: &mut Scratch) {
        let width = TILE_ROWS * self.network.observation_width();
        let mut outputs =
            wanted.outputs.map(|o| o.chunks_mut(TILE_ROWS * self.network.output_width));
        let mut values = wanted.values.map(|values| values.chunks_mut(TILE_ROWS));
        for observations in observations.chunks(width) {
            let outputs = outputs.as_mut().and_then(Iterator::next);
            let values = values.as_mut().and_then(Iterator::next);
            let part = Wanted { outputs, values };
            self.network.forward(&self.parameters, observations, scratch, part);
        }
    }

    /// Lends memory that no other thread is using.
    fn with_tile(&self, work: impl FnOnce(&mut Tile)) {
        // There are as many as threads, so one is free.
        let free = self.tiles.iter().find_map(|tile| tile.try_lock().ok());
        match free {
            Some(mut tile) => work(&mut tile),
            None => work(&mut Tile::default()),
        }
    }

    /// The gradient of `loss` over `minibatch`, kept for [`NativePolicy::step`].
    pub(super) fn gradients(
        &mut self,
        minibatch: &Minibatch<'_>,
        loss: &Loss,
        thread_pool: &mut ThreadPool,
    ) -> Result<LossMetrics, PolicyError> {
        let layout = self.layout.clone();
        let picked = Picked::all(*minibatch, self.network.observation_width(), &layout);
        self.gradients_of(&picked, loss, thread_pool)
    }

    /// As [`NativePolicy::gradients`], for rows that are still to be gathered.
    pub(super) fn gradients_of(
        &mut self,
        picked: &Picked<'_>,
        loss: &Loss,
        thread_pool: &mut ThreadPool,
    ) -> Result<LossMetrics, PolicyError> {
        let width = self.network.observation_width();
        picked.all.check_lengths(width, &self.layout, loss)?;
        let rows = picked.n_rows();
        let n_parts = self.parts.len();
        let size = if n_parts > 1 { ENOUGH_ROWS.max(chunk_rows(rows)) } else { chunk_rows(rows) };
        let n_chunks = rows.div_ceil(size);
        let range = |chunk: usize| chunk * size..rows.min((chunk + 1) * size);
        self.reserve(n_chunks);
        self.gather(picked, n_chunks, &range, thread_pool)?;
        let total_weight = picked.total_weight();
        thread_pool.run(n_chunks * n_parts, &|task| {
            let (number, part) = (task / n_parts, task % n_parts);
            let Ok(rows) = self.rows[number].read() else { return };
            let Ok(mut chunk) = self.chunks[task].lock() else { return };
            let rows = picked.gathered(range(number), &rows.gathered);
            let rows = Minibatch { whole: Some(total_weight), ..rows };
            let (part, parameters) = &self.parts[part];
            chunk.begin(self.parameters.len(), parameters);
            for first in (0..rows.n_rows()).step_by(TILE_ROWS) {
                let tile = first..rows.n_rows().min(first + TILE_ROWS);
                let rows = rows.rows(tile, width, &self.layout);
                let job = TileJob { part: *part, rows, loss };
                self.with_tile(|tile| self.tile(&job, tile, &mut chunk));
            }
        });
        self.add_chunks(n_chunks * n_parts, thread_pool);
        let mut sums = LossSums::default();
        let done = self.chunks[..n_chunks * n_parts].iter_mut();
        done.flat_map(Mutex::get_mut).for_each(|chunk| sums.add(&chunk.sums));
        Ok(sums.means(loss, total_weight))
    }

    /// Gathers and checks the rows of `n_chunks`, each of which has a range of those that are picked.
    fn gather(
        &mut self,
        picked: &Picked<'_>,
        n_chunks: usize,
        range: &(impl Fn(usize) -> Range<usize> + Sync),
        thread_pool: &mut ThreadPool,
    ) -> Result<(), PolicyError> {
        let Self { rows: chunks, layout, .. } = self;
        thread_pool.run(n_chunks, &|number| {
            let Ok(mut rows) = chunks[number].write() else { return };
            let ChunkRows { gathered, wrong } = &mut *rows;
            let range = range(number);
            picked.gather(range.clone(), gathered);
            let rows = picked.gathered(range.clone(), gathered);
            *wrong = rows.check_actions(layout, range.start).err();
        });
        let wrong = |rows: &mut RwLock<ChunkRows>| rows.get_mut().ok()?.wrong.take();
        chunks[..n_chunks].iter_mut().find_map(wrong).map_or(Ok(()), Err)
    }

    /// Adds the gradients of `n` chunks in their order, each part by itself.
    fn add_chunks(&mut self, n: usize, thread_pool: &mut ThreadPool) {
        let Self { chunks, gradients, squares, parts, .. } = self;
        let pieces = in_parts(gradients, parts);
        let jobs: Vec<_> = pieces.into_iter().zip(squares).map(Mutex::new).collect();
        thread_pool.run(jobs.len(), &|part| {
            let Ok(mut job) = jobs[part].lock() else { return };
            let (sums, squares) = &mut *job;
            for (i, chunk) in chunks[part..n].iter().step_by(parts.len()).enumerate() {
                let Ok(chunk) = chunk.lock() else { return };
                let gradients = &chunk.gradients[parts[part].1.clone()];
                if i == 0 { sums.copy_from_slice(gradients) } else { add_rows(sums, gradients) }
            }
            **squares = optimiser::squared_norm(sums);
        });
    }

    /// The last gradient.
    pub(super) fn gradient(&self) -> &[f32] {
        &self.gradients
    }

    /// Puts another in its place.
    pub(super) fn set_gradient(&mut self, sum: &[f32]) {
        self.gradients.copy_from_slice(sum);
        for (squares, (_, range)) in self.squares.iter_mut().zip(&self.parts) {
            *squares = optimiser::squared_norm(&sum[range.clone()]);
        }
    }

    /// Forward, loss and backward of a few rows, for a part of the network.
    fn tile(&self, job: &TileJob<'_>, tile: &mut Tile, chunk: &mut Chunk) {
        let TileJob { part, rows, loss } = job;
        let (n, width) = (rows.n_rows(), self.network.output_width);
        let Tile { room, scratch, outputs, values, d_outputs, d_values } = tile;
        let Chunk { gradients, sums } = chunk;
        outputs.resize(n * width, 0.0);
        values.resize(n, 0.0);
        d_outputs.resize(n * width, 0.0);
        d_values.resize(n, 0.0);
        let observations = rows.observations;
        let wanted = Wanted {
            outputs: (*part != LossPart::Value).then_some(&mut **outputs),
            values: (*part != LossPart::Policy).then_some(&mut **values),
        };
        self.network.forward(&self.parameters, observations, scratch, wanted);
        let mut into = OutputGradients { policy: d_outputs, values: d_values };
        let seen = Outputs { policy: outputs, values };
        sums.add(&part_of_loss(loss, *part, &self.layout, rows, seen, &mut into, room));
        let weights = Weights {
            activation: self.network.activation,
            parameters: &self.parameters,
            transposed: &self.transposed,
        };
        self.network.backward(&weights, observations, scratch, *part, &into, gradients);
    }

    /// One step of the optimiser; the norm of the gradient before clipping.
    pub(super) fn step(
        &mut self,
        sizes: &StepSizes,
        thread_pool: &mut ThreadPool,
    ) -> Result<f64, PolicyError> {
        let norm = self.squares.iter().sum::<f64>().sqrt();
        let prepared = self.optimiser.begin(norm, optimiser::limit(sizes.max_grad_norm))?;
        let of = |part| {
            prepared.of(if part == LossPart::Value {
                sizes.critic_learning_rate
            } else {
                sizes.learning_rate
            })
        };
        let steps: Vec<_> = self.parts.iter().map(|(part, _)| of(*part)).collect();
        let Self { network, optimiser, parameters, transposed, gradients, parts, .. } = self;
        let pieces = in_parts(parameters, parts).into_iter().zip(in_parts(transposed, parts));
        let first = in_parts(&mut optimiser.exp_avg, parts);
        let moments = first.into_iter().zip(in_parts(&mut optimiser.exp_avg_sq, parts));
        let jobs: Vec<_> = pieces.zip(moments).map(Mutex::new).collect();
        thread_pool.run(jobs.len(), &|part| {
            let Ok(mut job) = jobs[part].lock() else { return };
            let ((parameters, transposed), (exp_avg, exp_avg_sq)) = &mut *job;
            let range = &parts[part].1;
            let gradients = &gradients[range.clone()];
            steps[part].apply(Moved { parameters, gradients, exp_avg, exp_avg_sq });
            network.transpose_weights(range, parameters, transposed);
        });
        Ok(norm)
    }

    /// Whether outputs and values have no layer in common.
    pub(super) fn has_values_apart(&self) -> bool {
        self.network.has_critic()
    }

    fn reserve(&mut self, n_chunks: usize) {
        let n_tasks = n_chunks * self.parts.len();
        if self.chunks.len() < n_tasks {
            self.rows.resize_with(n_chunks, RwLock::default);
            self.chunks.resize_with(n_tasks, Mutex::default);
        }
    }

    /// Weights, optimiser state and step count.
    pub(super) fn tensors(&self) -> PolicyTensors {
        let mut optimizer = self.named(&self.optimiser.exp_avg, ".exp_avg");
        optimizer.extend(self.named(&self.optimiser.exp_avg_sq, ".exp_avg_sq"));
        let weights = self.named(&self.parameters, "");
        PolicyTensors { weights, optimizer, n_steps: self.optimiser.n_steps() }
    }

    fn named(&self, flat: &[f32], suffix: &str) -> Vec<NamedTensor> {
        let mut tensors = Vec::new();
        let mut add = |name: String, shape: Vec<usize>, data: Vec<f32>| {
            tensors.push(NamedTensor { name: format!("{name}{suffix}"), shape, data });
        };
        for layer in self.network.layers() {
            let mut weight = flat[layer.weight.clone()].to_vec();
            if !layer.is_narrow() {
                transpose(&flat[layer.weight.clone()], layer.n_out, &mut weight);
            }
            add(format!("{}.weight", layer.name), vec![layer.n_out, layer.n_in], weight);
            let bias = flat[layer.bias.clone()].to_vec();
            add(format!("{}.bias", layer.name), vec![layer.n_out], bias);
            if let Some(Norm { name, gain, shift }) = &layer.norm {
                add(format!("{name}.weight"), vec![layer.n_out], flat[gain.clone()].to_vec());
                add(format!("{name}.bias"), vec![layer.n_out], flat[shift.clone()].to_vec());
            }
        }
        if let Some(range) = self.network.log_std() {
            add("log_std".into(), vec![range.len()], flat[range].to_vec());
        }
        tensors
    }

    /// Takes over all that [`NativePolicy::tensors`] gives, bit by bit; or nothing.
    pub(super) fn load(&mut self, tensors: &PolicyTensors) -> Result<(), PolicyError> {
        let parameters = self.flat(&tensors.weights, "")?;
        // A network that has never been optimised may come without moments.
        let fresh = tensors.optimizer.is_empty() && tensors.n_steps == 0;
        if !fresh {
            let exp_avg = self.flat(&tensors.optimizer, ".exp_avg")?;
            self.optimiser.exp_avg_sq = self.flat(&tensors.optimizer, ".exp_avg_sq")?;
            self.optimiser.exp_avg = exp_avg;
        }
        self.optimiser.n_steps = tensors.n_steps;
        self.parameters = parameters;
        let all = 0..self.parameters.len();
        self.network.transpose_weights(&all, &self.parameters, &mut self.transposed);
        Ok(())
    }

    /// The tensors with `suffix` as one flat vector.
    fn flat(&self, tensors: &[NamedTensor], suffix: &str) -> Result<Vec<f32>, PolicyError> {
        let expected = self.named(&vec![0.0; self.network.n_parameters], suffix);
        let mut flat = vec![0.0; self.network.n_parameters];
        let known = |name: &str| expected.iter().any(|tensor| tensor.name == name);
        let strange = |t: &&NamedTensor| suffix.is_empty() && !known(&t.name);
        if let Some(tensor) = tensors.iter().find(strange) {
            return Err(PolicyError::UnknownTensor { name: tensor.name.clone() });
        }
        let find = |wanted: &NamedTensor| -> Result<Vec<f32>, PolicyError> {
            let found = tensors.iter().find(|t| t.name == wanted.name).ok_or_else(|| {
                let (name, shape) = (wanted.name.clone(), wanted.shape.clone());
                PolicyError::MissingTensor { name, shape, n_found: tensors.len() }
            })?;
            if found.shape == wanted.shape && found.data.len() == wanted.data.len() {
                return Ok(found.data.clone());
            }
            Err(PolicyError::WrongShape {
                name: found.name.clone(),
                found: found.shape.clone(),
                n_values: found.data.len(),
                expected: wanted.shape.clone(),
            })
        };
        let mut wanted = expected.iter();
        let mut next = || wanted.next().map_or(Ok(Vec::new()), find);
        for layer in self.network.layers() {
            let weight = next()?;
            if layer.is_narrow() {
                flat[layer.weight.clone()].copy_from_slice(&weight);
            } else {
                transpose(&weight, layer.n_in, &mut flat[layer.weight.clone()]);
            }
            flat[layer.bias.clone()].copy_from_slice(&next()?);
            if let Some(Norm { gain, shift, .. }) = &layer.norm {
                flat[gain.clone()].copy_from_slice(&next()?);
                flat[shift.clone()].copy_from_slice(&next()?);
            }
        }
        if let Some(range) = self.network.log_std() {
            flat[range].copy_from_slice(&next()?);
        }
        Ok(flat)
    }
}

/// The slices of `values` that belong to each part, which lie one after the other.
fn in_parts<'a>(
    mut values: &'a mut [f32],
    parts: &[(LossPart, Range<usize>)],
) -> Vec<&'a mut [f32]> {
    let piece = |(_, range): &(LossPart, Range<usize>)| {
        let (piece, rest) = std::mem::take(&mut values).split_at_mut(range.len());
        values = rest;
        piece
    };
    parts.iter().map(piece).collect()
}

fn finite(output: &'static str, values: &[f32]) -> Result<(), PolicyError> {
    // A number that is not finite makes the sum not finite: one pass, no branch.
    if values.iter().map(|v| v * 0.0).sum::<f32>() == 0.0 {
        return Ok(());
    }
    let index = values.iter().position(|v| !v.is_finite()).unwrap_or(0);
    Err(PolicyError::NonFiniteOutput { output, index, value: values[index] })
}

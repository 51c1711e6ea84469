//! Small perceptrons at full speed: a rollout is one launch, an update is another.
//!
//! For one single-agent group whose body works with a thread per replica, and two hidden layers of 32,
//! 64 or 128: state stays in registers, weights in shared memory, products run on tensor cores with
//! half-precision operands and single-precision sums. The host only says where in the run it is, and
//! reads one block of figures for many iterations.

mod layout;
mod solo;
mod text;

pub(super) use solo::{MOST_ITERATIONS as MOST_SOLO, SoloLearner};
pub use text::sources;
pub(super) use text::{compiled_in, is_solo, unsupported};

use crate::config::TrainConfig;
use crate::error::{Error, Result};
use crate::learner::{Iterated, LearnerState, Progress};
use crate::metrics::PolicyMetrics;
use crate::policy_error::PolicyError;
use layout::{Places, pack_all, unpack_all};
use warp_core::DType;
use warp_func::cuda::{Arg, Build, CudaVecEnv, Device, DeviceArray, Function, Launch};
use warp_func::{EpisodeTotals, Spread};

/// Iterations that one block of figures holds.
pub(super) const MOST_ITERATIONS: u64 = 256;
/// Threads of an update's block, and samples of one of its tiles.
const GROUP_THREADS: u32 = 256;
const TILE_ROWS: usize = 128;
/// Up to this many replicas a block takes eight of them, its warps sharing the network.
const FEW: usize = 4096;
/// From this many replicas on a warp takes 32 of them, below 16.
const MANY: usize = 16_384;
/// Numbers per replica about its ended episodes.
const EPISODE_FIGURES: usize = 7;

/// The learner's arrays and kernels.
#[derive(Debug)]
pub(super) struct SmallLearner {
    places: Places,
    policy: String,
    updates: usize,
    n_rows: usize,
    arrays: Arrays,
    kernels: [Function; 2],
    launches: [Launch; 2],
    actor_blocks: u32,
    n_metrics: usize,
    /// Adam's steps made.
    n_steps: u64,
}

#[derive(Debug)]
struct Arrays {
    /// Weights and both moments, one after the other.
    parameters: [DeviceArray; 3],
    records: DeviceArray,
    episodes: DeviceArray,
    schedule: DeviceArray,
    partials: DeviceArray,
    reduced: DeviceArray,
    norms: DeviceArray,
    state: DeviceArray,
    totals: DeviceArray,
    metrics: DeviceArray,
    barrier: DeviceArray,
}

/// What `small_sizes` says.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    shared_bytes: u32,
    n_parameters: usize,
    record_units: usize,
    own: usize,
    n_totals: usize,
    n_metrics: usize,
}

impl SmallLearner {
    /// Compiles for `envs` and allocates everything; begins with `state`.
    ///
    /// # Errors
    /// Text that does not compile, too little memory, or tensors that do not fit.
    pub(super) fn new(
        config: &TrainConfig,
        envs: &CudaVecEnv,
        state: &LearnerState,
    ) -> Result<Self> {
        let (gpu, run) = (envs.gpu(), &config.run);
        let module = envs.kernels().compile(&text::source(config, envs.text()), Build::Release)?;
        let sizes = sizes(gpu, &module.function("small_sizes")?)?;
        let places = Places::new(config);
        if sizes.n_parameters != places.total() {
            let (device, host) = (sizes.n_parameters, places.total());
            return Err(Error::Invalid(format!(
                "the kernels lay out {device} parameters, the host {host}"
            )));
        }
        let (epochs, minibatches) = text::updates(config);
        let n_rows = run.num_envs;
        let multiprocessors = gpu.info().n_multiprocessors;
        let minibatch = (n_rows * run.num_steps).div_ceil(minibatches);
        let tiles = minibatch.div_ceil(TILE_ROWS) as u32;
        let blocks = places.n_nets() as u32 * tiles;
        let update = Launch {
            blocks: blocks.min(text::blocks(config) * multiprocessors),
            threads: GROUP_THREADS,
            shared_bytes: sizes.shared_bytes,
            cooperative: true,
        };
        let (collect, collecting) = collecting(config, multiprocessors);
        let mut this = Self {
            places,
            policy: config.policies[0].name.clone(),
            updates: epochs * minibatches,
            n_rows,
            arrays: Arrays::new(gpu, config, &sizes, update.blocks as usize, epochs * minibatches)?,
            kernels: [module.function(&collect)?, module.function("small_update")?],
            launches: [collecting, update],
            actor_blocks: match places.n_nets() {
                1 => update.blocks,
                _ => actor_blocks(update.blocks, tiles),
            },
            n_metrics: sizes.n_metrics,
            n_steps: 0,
        };
        this.load(state)?;
        Ok(this)
    }

    /// Takes over weights and moments.
    ///
    /// # Errors
    /// Tensors that do not fit.
    pub(super) fn load(&mut self, state: &LearnerState) -> Result<()> {
        let all = pack_all(&self.places, &self.policy, state)?;
        for (array, part) in self.arrays.parameters.iter().zip(all.chunks(self.places.total())) {
            array.push(part)?;
        }
        self.n_steps = state.optimizer_steps.first().map_or(0, |(_, steps)| *steps);
        Ok(())
    }

    /// Writes weights and moments into `state`, which has all tensors already.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(super) fn store(&self, state: &mut LearnerState) -> Result<()> {
        let mut all = Vec::with_capacity(3 * self.places.total());
        for array in &self.arrays.parameters {
            all.extend(array.pull::<f32>()?);
        }
        unpack_all(&self.places, &self.policy, &all, state)?;
        state.optimizer_steps.iter_mut().for_each(|(_, steps)| *steps = self.n_steps);
        Ok(())
    }

    /// Collects and learns `n` times, at most [`MOST_ITERATIONS`].
    ///
    /// # Errors
    /// A policy that diverged, or whatever went wrong on the device.
    pub(super) fn run(
        &mut self,
        config: &TrainConfig,
        envs: &mut CudaVecEnv,
        progress: Progress,
        n: u64,
    ) -> Result<Vec<Iterated>> {
        let at = |i: u64| progress.env_steps + i * config.steps_per_iteration();
        let mut rows = schedule(config, self.n_steps, n, at);
        rows.resize(self.arrays.schedule.len(), 0.0);
        self.arrays.schedule.push(&rows)?;
        for index in 0..n {
            let run = self.run_arg(config, progress, index);
            self.launch(envs, &run)?;
        }
        envs.tick((n * config.run.num_steps as u64) as u32)?;
        self.n_steps += n * self.updates as u64;
        let numbers = doubles(&self.arrays.metrics)?;
        let rows = numbers.chunks_exact(self.n_metrics).take(n as usize).zip(0..);
        rows.map(|(row, i)| iterated(row, config, at(i))).collect()
    }

    /// `SmallRun`.
    fn run_arg(&self, config: &TrainConfig, progress: Progress, index: u64) -> Arg {
        let mut bytes = progress.seed.to_le_bytes().to_vec();
        for number in [
            self.n_rows as u32,
            config.run.num_envs as u32,
            (progress.iteration + index) as u32,
            index as u32,
            0,
            self.actor_blocks,
            (index * config.run.num_steps as u64) as u32,
            0,
        ] {
            bytes.extend(number.to_le_bytes());
        }
        Arg::Struct("SmallRun", bytes)
    }

    /// Starts one iteration.
    fn launch(&self, envs: &CudaVecEnv, run: &Arg) -> Result<()> {
        let whole = |array: &DeviceArray| Arg::array(array, array.len());
        let a = &self.arrays;
        let [tables, arrays, world] = envs.args().clone();
        let [weights, moments, squares] = a.parameters.each_ref().map(whole);
        let (records, barrier) = (whole(&a.records), whole(&a.barrier));
        self.kernels[0].launch(
            &self.launches[0],
            &[
                run.clone(),
                world,
                arrays,
                tables,
                weights.clone(),
                records.clone(),
                whole(&a.episodes),
                barrier.clone(),
            ],
        )?;
        let mut args = vec![run.clone(), weights, moments, squares, records];
        args.extend([
            whole(&a.schedule),
            whole(&a.episodes),
            whole(&a.partials),
            whole(&a.reduced),
            whole(&a.norms),
            whole(&a.state),
            whole(&a.totals),
            whole(&a.metrics),
            barrier,
        ]);
        Ok(self.kernels[1].launch(&self.launches[1], &args)?)
    }
}

/// What a row of the kernels' figures says of an iteration of a run with these keys.
fn iterated(row: &[f64], config: &TrainConfig, env_steps: u64) -> Result<Iterated> {
    let (plan, samples) = (&config.policies[0], config.steps_per_iteration() as f64);
    let keys = &plan.config;
    if row[17] != 0.0 {
        let source = PolicyError::NonFiniteGradient { norm: row[16] };
        return Err(Error::Policy { policy: plan.name.clone(), source });
    }
    let variance = |sum: f64, squares: f64| squares / samples - (sum / samples).powi(2);
    let (all, missed) = (variance(row[0], row[1]), variance(row[2], row[3]));
    let (vf_coef, ent_coef) = (keys.vf_coef.at(env_steps), keys.ent_coef.at(env_steps));
    let policy = PolicyMetrics {
        learning_rate: keys.learning_rate.at(env_steps),
        loss: row[11] + vf_coef * row[12] - ent_coef * row[13],
        policy_loss: row[11],
        value_loss: row[12],
        entropy: row[13],
        approx_kl: row[14],
        clip_fraction: row[15],
        grad_norm: row[16],
        explained_variance: if all > 0.0 { 1.0 - missed / all } else { 0.0 },
    };
    let spread = |sum: f64, max: f64, less: f64| match row[4] > 0.0 {
        true => Spread { sum, min: -less, max },
        false => Spread::default(),
    };
    let episodes = EpisodeTotals {
        count: row[4] as u64,
        length: spread(row[5], row[7], row[9]),
        returns: vec![spread(row[6], row[8], row[10])],
        statistics: Vec::new(),
    };
    Ok(Iterated { episodes, policies: vec![policy] })
}

/// Coefficients of the `n` iterations from `at(0)` on, a row each: of the value loss, of the entropy, and
/// per minibatch Adam's step size and the inverse root of its second correction. Adam has made `done`
/// steps.
fn schedule(config: &TrainConfig, done: u64, n: u64, at: impl Fn(u64) -> u64) -> Vec<f32> {
    let keys = &config.policies[0].config;
    let (epochs, minibatches) = text::updates(config);
    let (mut rows, mut step) = (Vec::new(), done);
    for i in 0..n {
        let learning_rate = keys.learning_rate.at(at(i));
        rows.extend([keys.vf_coef.at(at(i)) as f32, keys.ent_coef.at(at(i)) as f32]);
        for _ in 0..epochs * minibatches {
            step += 1;
            let t = step as f64;
            rows.push((learning_rate / (1.0 - 0.9_f64.powf(t))) as f32);
            rows.push((1.0 / (1.0 - 0.999_f64.powf(t)).sqrt()) as f32);
        }
    }
    rows
}

/// Doubles that a kernel wrote.
fn doubles(array: &DeviceArray) -> Result<Vec<f64>> {
    let number = |word: &[u32]| f64::from_bits(u64::from(word[0]) | u64::from(word[1]) << 32);
    Ok(array.pull::<u32>()?.chunks_exact(2).map(number).collect())
}

/// The kernel that collects, and how it is launched: one that takes few replicas at a time for as long as
/// that fills the device better, spread over all multiprocessors.
fn collecting(config: &TrainConfig, multiprocessors: u32) -> (String, Launch) {
    let (n, hidden) = (config.run.num_envs, config.policies[0].config.hidden[0]);
    let together = match n {
        ..=FEW => 8,
        MANY.. if hidden <= 64 => 32,
        _ => 16,
    };
    let parts = n.div_ceil(together) as u32;
    let (blocks, threads) = match parts.div_ceil(multiprocessors).min(4) {
        _ if together == 8 => (parts, 2 * hidden as u32),
        warps => (parts.div_ceil(warps), 32 * warps),
    };
    (format!("small_collect_{together}"), Launch { blocks, threads, ..Launch::default() })
}

/// How many of the blocks take the policy's network, so that both networks are done at the same time.
fn actor_blocks(blocks: u32, tiles: u32) -> u32 {
    // A tile of the policy's network takes longer by this much.
    let seconds = |actor: u32| {
        let (policy, value) = (tiles.div_ceil(actor), tiles.div_ceil(blocks - actor));
        (1.08 * f64::from(policy)).max(f64::from(value))
    };
    let off = |actor: u32| actor.abs_diff(blocks / 2);
    let better = |a: &u32, b: &u32| seconds(*a).total_cmp(&seconds(*b)).then(off(*a).cmp(&off(*b)));
    (1..blocks).min_by(better).unwrap_or(1)
}

fn sizes(gpu: &Device, kernel: &Function) -> Result<Sizes> {
    let array = DeviceArray::zeros(gpu, "sizes", DType::U32, &[6])?;
    let launch = Launch { blocks: 1, threads: 1, ..Launch::default() };
    kernel.launch(&launch, &[Arg::array(&array, 6)])?;
    let n: Vec<usize> = array.pull::<u32>()?.into_iter().map(|n| n as usize).collect();
    Ok(Sizes {
        shared_bytes: n[0] as u32,
        n_parameters: n[1],
        record_units: n[2],
        own: n[3],
        n_totals: n[4],
        n_metrics: n[5],
    })
}

impl Arrays {
    fn new(
        gpu: &Device,
        config: &TrainConfig,
        sizes: &Sizes,
        blocks: usize,
        updates: usize,
    ) -> Result<Self> {
        let array = |name: &str, dtype, shape: &[usize]| {
            Ok::<_, Error>(DeviceArray::zeros(gpu, name, dtype, shape)?)
        };
        let parameters = |name| array(name, DType::F32, &[sizes.n_parameters]);
        let rows = config.run.num_steps + 1 + text::cuts(config) as usize;
        let n = config.run.num_envs;
        let most = MOST_ITERATIONS as usize;
        Ok(Self {
            parameters: [parameters("weights")?, parameters("exp_avg")?, parameters("exp_avg_sq")?],
            records: array("records", DType::U32, &[rows, n, 4 * sizes.record_units])?,
            episodes: array("episodes", DType::F32, &[EPISODE_FIGURES, n])?,
            schedule: array("schedule", DType::F32, &[most, 2 + 2 * updates])?,
            partials: array("partial gradients", DType::F32, &[blocks, sizes.own])?,
            reduced: array("gradients", DType::F32, &[2, sizes.own])?,
            norms: array("norms", DType::F32, &[blocks])?,
            state: array("optimiser", DType::F32, &[blocks, 3, sizes.own])?,
            totals: array("totals", DType::U32, &[blocks, 2 * sizes.n_totals])?,
            metrics: array("metrics", DType::U32, &[most, 2 * sizes.n_metrics])?,
            barrier: array("barrier", DType::U32, &[1])?,
        })
    }
}

//! Small perceptrons at full speed: a rollout is one launch, an update is another.
//!
//! For two hidden layers of 32, 64 or 128: state stays in registers, weights in shared memory, products
//! run on tensor cores with half-precision operands and single-precision sums. The host only says where
//! in the run it is, and reads one block of figures for many iterations.
//!
//! `SmallLearner` is a policy with all that it learns from, and collects too where one agent is alone in
//! its environment; `team.rs` collects for several agents and policies, `solo.rs` is for runs of few
//! replicas.

mod figures;
mod gradients;
mod layout;
mod solo;
mod team;
mod text;

pub(super) use solo::{
    MOST_ITERATIONS as MOST_SOLO, PackedRuns, SoloFigures, SoloLearner, Trained,
};
pub(super) use team::TeamLearner;
pub use text::sources;
pub(super) use text::{compiled_in, is_solo, takes, unsupported};

use crate::config::TrainConfig;
use crate::error::{Error, Result};
use crate::learner::{Iterated, LearnerState, Progress};
use figures::{doubles, iterated, schedule, schedule_of, schedule_width};
use layout::{Places, pack_all, unpack_all};
use warp_core::DType;
use warp_func::cuda::{Arg, Build, CudaVecEnv, Device, DeviceArray, Function, Launch, Module};

/// Iterations that one block of figures holds.
pub(super) const MOST_ITERATIONS: u64 = 256;
/// Threads of an update's block, and samples of one of its tiles.
const GROUP_THREADS: u32 = 256;
const TILE_ROWS: usize = 128;
/// Numbers per replica about its ended episodes.
const EPISODE_FIGURES: usize = 7;

/// A policy's arrays and kernels.
#[derive(Debug)]
pub(super) struct SmallLearner {
    places: Places,
    policy: String,
    /// The policy's number.
    index: usize,
    /// The number of its first agent.
    first_agent: u32,
    updates: usize,
    /// Its agents in all replicas.
    n_rows: usize,
    /// Replicas of whose episodes the update is to report.
    n_reported: usize,
    arrays: Arrays,
    /// What fills the records, if not another.
    collect: Option<(Function, Launch)>,
    update: (Function, Launch),
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
    /// Compiles for `envs`, of one agent each, and allocates everything; begins with `state`.
    ///
    /// # Errors
    /// Text that does not compile, too little memory, or tensors that do not fit.
    pub(super) fn new(
        config: &TrainConfig,
        envs: &CudaVecEnv,
        state: &LearnerState,
    ) -> Result<Self> {
        let sources = text::run_sources(config, envs.text());
        let units = sources.each_ref().map(|unit| (unit, Build::Release));
        let modules = envs.kernels().compile_all(&units)?;
        let mut this = Self::of_policy(config, (0, 0), envs.gpu(), &modules[1])?;
        let launch = collecting(config, envs.gpu().info().n_multiprocessors);
        this.collect = Some((modules[0].function("small_collect")?, launch));
        this.n_reported = config.run.num_envs;
        this.load(state)?;
        Ok(this)
    }

    /// Policy number `index`, whose agents are numbered from `first_agent` on, with the update of
    /// `module`; its weights are zeros, and another fills its records.
    ///
    /// # Errors
    /// Too little memory, or kernels for another network.
    fn of_policy(
        config: &TrainConfig,
        (index, first_agent): (usize, u32),
        gpu: &Device,
        module: &Module,
    ) -> Result<Self> {
        let sizes = sizes(gpu, &module.function("small_sizes")?)?;
        let places = Places::of_policy(config, index);
        if sizes.n_parameters != places.total() {
            let (device, host) = (sizes.n_parameters, places.total());
            return Err(Error::Invalid(format!(
                "the kernels lay out {device} parameters, the host {host}"
            )));
        }
        let (epochs, minibatches) = text::updates_of(config, index);
        let plan = &config.policies[index];
        let n_rows = config.run.num_envs * plan.n_agents(&config.spec);
        let minibatch = (n_rows * config.run.num_steps).div_ceil(minibatches);
        let tiles = minibatch.div_ceil(TILE_ROWS) as u32;
        let most = text::blocks_of(config, index) * gpu.info().n_multiprocessors;
        let update = Launch {
            blocks: (places.n_nets() as u32 * tiles).min(most),
            threads: GROUP_THREADS,
            shared_bytes: sizes.shared_bytes,
            cooperative: true,
        };
        let room = (n_rows, epochs * minibatches, update.blocks as usize);
        Ok(Self {
            policy: plan.name.clone(),
            index,
            first_agent,
            updates: epochs * minibatches,
            n_rows,
            n_reported: 0,
            arrays: Arrays::new(gpu, config, &sizes, room)?,
            collect: None,
            update: (module.function("small_update")?, update),
            actor_blocks: match places.n_nets() {
                1 => update.blocks,
                _ => actor_blocks(update.blocks, tiles),
            },
            n_metrics: sizes.n_metrics,
            n_steps: 0,
            places,
        })
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
        self.begin(config, progress, n)?;
        for index in 0..n {
            let run = self.run_arg(config, progress, index);
            self.collect(envs, &run)?;
            self.learn(&run)?;
        }
        envs.tick((n * config.run.num_steps as u64) as u32)?;
        let rows = self.figures(n)?;
        rows.iter().zip(0..).map(|(row, i)| iterated(row, config, at(i))).collect()
    }

    /// Gives the kernels the coefficients of the next `n` iterations, and counts their updates.
    fn begin(&mut self, config: &TrainConfig, progress: Progress, n: u64) -> Result<()> {
        let at = |i: u64| progress.env_steps + i * config.steps_per_iteration();
        let mut rows = schedule_of(config, self.index, (self.n_steps, n), at);
        rows.resize(self.arrays.schedule.len(), 0.0);
        self.arrays.schedule.push(&rows)?;
        self.n_steps += n * self.updates as u64;
        Ok(())
    }

    /// Waits for what the first `n` iterations of a launch say of themselves, a row each.
    fn figures(&self, n: u64) -> Result<Vec<Vec<f64>>> {
        let numbers = doubles(&self.arrays.metrics)?;
        Ok(numbers.chunks_exact(self.n_metrics).take(n as usize).map(<[f64]>::to_vec).collect())
    }

    /// Where in the run the kernels of iteration `index` of a launch are.
    fn run_arg(&self, config: &TrainConfig, progress: Progress, index: u64) -> Arg {
        let numbers = [
            self.n_rows as u32,
            self.n_reported as u32,
            (progress.iteration + index) as u32,
            index as u32,
            self.first_agent,
            self.actor_blocks,
            (index * config.run.num_steps as u64) as u32,
        ];
        small_run(progress.seed, numbers)
    }

    /// Starts a rollout.
    fn collect(&self, envs: &CudaVecEnv, run: &Arg) -> Result<()> {
        let Some((kernel, launch)) = &self.collect else { return Ok(()) };
        let whole = |array: &DeviceArray| Arg::array(array, array.len());
        let a = &self.arrays;
        let [tables, arrays, world] = envs.args().clone();
        let args = [
            run.clone(),
            world,
            arrays,
            tables,
            whole(&a.parameters[0]),
            whole(&a.records),
            whole(&a.episodes),
            whole(&a.barrier),
        ];
        Ok(kernel.launch(launch, &args)?)
    }

    /// Starts to learn from the records; the barrier's counter is 0.
    fn learn(&self, run: &Arg) -> Result<()> {
        let whole = |array: &DeviceArray| Arg::array(array, array.len());
        let a = &self.arrays;
        let [weights, moments, squares] = a.parameters.each_ref().map(whole);
        let mut args = vec![run.clone(), weights, moments, squares, whole(&a.records)];
        args.extend([
            whole(&a.schedule),
            whole(&a.episodes),
            whole(&a.partials),
            whole(&a.reduced),
            whole(&a.norms),
            whole(&a.state),
            whole(&a.totals),
            whole(&a.metrics),
            whole(&a.barrier),
        ]);
        Ok(self.update.0.launch(&self.update.1, &args)?)
    }
}

/// `SmallRun`.
fn small_run(seed: u64, numbers: [u32; 7]) -> Arg {
    let mut bytes = seed.to_le_bytes().to_vec();
    numbers.iter().chain(&[0]).for_each(|number| bytes.extend(number.to_le_bytes()));
    Arg::Struct("SmallRun", bytes)
}

/// How the kernel that collects is launched: spread over all multiprocessors.
fn collecting(config: &TrainConfig, multiprocessors: u32) -> Launch {
    let (together, hidden) = (text::together(config), config.policies[0].config.hidden[0]);
    let parts = config.run.num_envs.div_ceil(together) as u32;
    let (blocks, threads) = match parts.div_ceil(multiprocessors).min(4) {
        _ if together == 8 => (parts, 2 * hidden as u32),
        warps => (parts.div_ceil(warps), 32 * warps),
    };
    Launch { blocks, threads, ..Launch::default() }
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
    /// Room for the records of `n` rows, and for updates of so many minibatches by so many blocks.
    fn new(
        gpu: &Device,
        config: &TrainConfig,
        sizes: &Sizes,
        (n, updates, blocks): (usize, usize, usize),
    ) -> Result<Self> {
        let array = |name: &str, dtype, shape: &[usize]| {
            Ok::<_, Error>(DeviceArray::zeros(gpu, name, dtype, shape)?)
        };
        let parameters = |name| array(name, DType::F32, &[sizes.n_parameters]);
        let rows = config.run.num_steps + 1 + text::cuts(config) as usize;
        let most = MOST_ITERATIONS as usize;
        Ok(Self {
            parameters: [parameters("weights")?, parameters("exp_avg")?, parameters("exp_avg_sq")?],
            records: array("records", DType::U32, &[rows, n, 4 * sizes.record_units])?,
            episodes: array("episodes", DType::F32, &[EPISODE_FIGURES, n])?,
            schedule: array("schedule", DType::F32, &[most, schedule_width(updates)])?,
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

//! Runs of few replicas: many iterations of many runs in one launch, one or two runs a block, or a block
//! for each network of a run.

use super::few_replicas_runs::{
    FewReplicasFigures, MOST_ITERATIONS, PackedRuns, Runs, Trained, each_run, normalised,
};
use super::figures::schedule_width;
use super::layout::{Places, hidden};
use super::normalise::SmallNormaliser;
use super::readback::Readback;
use super::shared::{EpisodeFigures, FewReplicasArgs, FewReplicasRun, Figures, SmallSizes};
use super::{GROUP_THREADS, run_sizes, schedule, sizes, text};
use crate::algorithm::{PolicyConfig, PolicyPlan};
use crate::config::TrainConfig;
use crate::engine::{Iterated, Progress};
use crate::error::{Error, Result};
use crate::model::LearnerState;
use warp_core::DType;
use warp_data::cuda::{PinnedBuffers, Staging};
use warp_func::cuda::{
    Build, CudaVecEnv, Device, DeviceArray, DeviceStruct, Function, KernelArgs, Kernels, Launch,
    Source,
};

const KERNEL: &str = "small_few_replicas";

/// What a learner has room for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FewReplicasRoom {
    /// Runs at a time.
    pub(crate) runs: usize,
    /// Their schedules: one each, or one that is the same for all.
    pub(crate) schedules: usize,
}

/// The iterations of a launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FewReplicasSpan {
    /// Iterations done before it.
    pub(crate) done: u64,
    /// Its own, at most [`MOST_ITERATIONS`].
    pub(crate) n: u64,
    /// Iterations done whose steps the environments have not counted.
    pub(crate) uncounted: u64,
    /// Whether episodes begin.
    pub(crate) begins: bool,
}

/// Some runs that differ in their seeds, weights and schedules, side by side on one device.
#[derive(Debug)]
pub(crate) struct FewReplicasLearner {
    places: Places,
    runs: Runs,
    /// The first run's number among those whose replicas the environments hold.
    first_run: usize,
    kernel: Function,
    launch: Launch,
    /// Blocks of a run, if it has them to itself.
    blocks_per_run: usize,
    parameters: [DeviceArray; 3],
    normaliser: SmallNormaliser,
    work: Work,
    /// Where figures come to, and weights.
    landings: [PinnedBuffers; 2],
    /// From where weights and schedules go while the launch before is at work.
    staging: Staging,
    /// Steps of the optimiser made, the same in all runs.
    n_steps: u64,
}

#[derive(Debug)]
struct Work {
    seeds: DeviceArray,
    records: DeviceArray,
    schedule: DeviceArray,
    episodes: DeviceArray,
    state: DeviceArray,
    totals: DeviceArray,
    figures: DeviceArray,
}

impl FewReplicasLearner {
    /// Compiles for `envs` and runs like that of `config`, and allocates everything for `room`; they have
    /// to be loaded.
    ///
    /// # Errors
    /// Text that does not compile, or too little memory.
    pub(crate) fn new(
        config: &TrainConfig,
        envs: &CudaVecEnv,
        room: FewReplicasRoom,
    ) -> Result<Self> {
        let gpu = envs.gpu();
        let spread = run_sizes::spreads(config, room.runs, gpu.info().n_multiprocessors);
        let source = text::few_replicas_source(config, envs.text(), spread);
        let module = envs.kernels().compile(&source, Build::Release)?;
        let sizes = sizes(gpu, &module.function("small_sizes")?)?;
        let places = Places::new(config);
        let parameters = |name| {
            Ok::<_, Error>(DeviceArray::zeros(gpu, name, DType::F32, &[room.runs, places.total()])?)
        };
        let blocks_per_run = if spread { places.n_nets() } else { 1 };
        let groups = (places.n_nets() / blocks_per_run) as u32;
        let launch = Launch {
            blocks: 0,
            threads: groups * GROUP_THREADS + collectors(config),
            shared_bytes: sizes.shared_bytes,
            cooperative: false,
        };
        let n_parts = config.n_envs().div_ceil(run_sizes::FEW_REPLICAS);
        Ok(Self {
            runs: Runs::default(),
            first_run: 0,
            kernel: module.function(KERNEL)?,
            launch,
            blocks_per_run,
            parameters: [parameters("weights")?, parameters("exp_avg")?, parameters("exp_avg_sq")?],
            normaliser: SmallNormaliser::new(gpu, normalised(config), n_parts, room.runs)?,
            work: Work::new(gpu, config, &sizes, room)?,
            landings: Default::default(),
            staging: Staging::default(),
            places,
            n_steps: 0,
        })
    }

    /// Has `kernels` load the machine code of `units` and of the kernel that trains.
    ///
    /// # Errors
    /// As [`FewReplicasLearner::new`].
    pub(crate) fn load_ahead(kernels: &Kernels, units: &[(Source, Build)]) -> Result<()> {
        let units: Vec<_> = units.iter().map(|(source, build)| (source, *build)).collect();
        for module in kernels.compile_all(&units)? {
            // The environments' have others.
            let _ = module.function(KERNEL);
        }
        Ok(())
    }

    /// Whether two runs have the same schedule.
    pub(crate) fn share_schedule(one: &TrainConfig, other: &TrainConfig) -> bool {
        fn keys(config: &TrainConfig) -> impl PartialEq + '_ {
            let PolicyPlan { config: keys, rollouts, .. } = &config.policies[0];
            let objective = rollouts.as_ref().map(|rollouts| &rollouts.objective);
            let PolicyConfig { learning_rate, vf_coef, ent_coef, .. } = keys;
            let PolicyConfig { gamma, gae_lambda, max_grad_norm, clip_coef, .. } = keys;
            let schedules =
                [learning_rate, vf_coef, ent_coef, gamma, gae_lambda, max_grad_norm, clip_coef];
            let of_steps = (&keys.critic_learning_rate, keys.weight_decay, keys.adam_eps);
            (schedules, of_steps, objective)
        }
        keys(one) == keys(other)
    }

    /// Takes on `runs`; the environments hold their replicas from run number `first_run` on.
    ///
    /// # Errors
    /// More runs than there is room for, or whatever went wrong on the device.
    pub(crate) fn load(&mut self, runs: PackedRuns, first_run: usize) -> Result<()> {
        let PackedRuns { runs, weights, moments, normalisers, n_steps } = runs;
        let [own_weights, own_moments @ ..] = &self.parameters;
        self.staging.push(own_weights, &weights)?;
        match &moments {
            Some(moments) => {
                let mut kinds = own_moments.iter().zip(moments);
                kinds.try_for_each(|(own, kind)| self.staging.push(own, kind))?;
            }
            None => own_moments.iter().try_for_each(DeviceArray::clear)?,
        }
        self.normaliser.push(&normalisers)?;
        let words = |seed: &u64| [*seed as u32, (*seed >> 32) as u32];
        let mut seeds: Vec<u32> = runs.seeds.iter().flat_map(words).collect();
        seeds.resize(self.work.seeds.len(), 0);
        self.staging.push(&self.work.seeds, &seeds)?;
        // Two runs share a block as soon as not every run has a multiprocessor to itself.
        let n = runs.seeds.len();
        let alone = n <= self.work.seeds.device().info().n_multiprocessors as usize;
        debug_assert!(alone || self.blocks_per_run == 1, "a cluster has one run");
        self.launch.blocks = if alone { n * self.blocks_per_run } else { n.div_ceil(2) } as u32;
        (self.runs, self.n_steps, self.first_run) = (runs, n_steps, first_run);
        Ok(())
    }

    /// Starts the runs that it has again, from these states, in their order.
    ///
    /// # Errors
    /// Tensors that do not fit.
    pub(crate) fn reload(&mut self, states: &[LearnerState]) -> Result<()> {
        let room = self.parameters[0].shape()[0];
        self.load(PackedRuns::new(self.runs.clone(), states, room)?, self.first_run)
    }

    /// Writes the runs' weights and moments into `states`, which have all tensors already.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(crate) fn store(&self, states: &mut [LearnerState]) -> Result<()> {
        self.bring(&self.parameters)?.store(&self.runs.configs[0].policies[0].name, states)
    }

    /// The runs' weights without their moments, as they are behind all that was started. Moments that begin as zeros
    /// stay finite, so nobody has to look for one that is not: the kernel makes no step along a gradient whose squares
    /// f32 cannot hold, and says so in its figures.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(crate) fn trained(&self) -> Result<Trained> {
        self.bring(&self.parameters[..1])
    }

    /// What the first of the kinds of parameters are, and what runs normalise by.
    fn bring(&self, parameters: &[DeviceArray]) -> Result<Trained> {
        let device = self.work.figures.device();
        Ok(Trained {
            places: self.places,
            arrays: Readback::begin(&self.landings[1], device, parameters.iter())?,
            normalised: *self.normaliser.of(),
            normalisers: self.normaliser.pull()?,
            n_steps: self.n_steps,
        })
    }

    /// Starts the iterations of `span`.
    ///
    /// # Errors
    /// A driver that refuses.
    pub(crate) fn start(&mut self, envs: &CudaVecEnv, span: FewReplicasSpan) -> Result<()> {
        let n_schedules = self.push_schedule(span.done, span.n)?;
        let first = &self.runs.configs[0];
        let most = MOST_ITERATIONS as usize;
        let run = FewReplicasRun {
            n_envs: first.run.num_envs as u32,
            iteration: span.done as u32,
            n_iterations: span.n as u32,
            begins: u32::from(span.begins),
            schedules: if n_schedules > 1 { most as u32 } else { 0 },
            n_figures: most as u32,
            n_runs: self.runs.seeds.len() as u32,
            first_run: self.first_run as u32,
            steps_before: (span.uncounted * first.run.num_steps as u64) as u32,
        };
        let [tables, arrays, world] = envs.args().clone();
        let ([parameters, exp_avg, exp_avg_sq], w) = (&self.parameters, &self.work);
        let args = FewReplicasArgs {
            run,
            seeds: &w.seeds,
            parameters,
            exp_avg,
            exp_avg_sq,
            records: &w.records,
            schedule: &w.schedule,
            episodes: &w.episodes,
            state: &w.state,
            totals: &w.totals,
            figures: &w.figures,
            normaliser: self.normaliser.args(),
        };
        self.kernel.launch(&self.launch, &[world, arrays, tables, args.arg()])?;
        self.n_steps += span.n * run_sizes::n_updates(first, 0) as u64;
        Ok(())
    }

    /// Fills in the coefficients of `n` iterations; returns how many runs have their own.
    fn push_schedule(&mut self, iteration: u64, n: u64) -> Result<usize> {
        let shape = self.work.schedule.shape();
        let (n_schedules, len) = (shape[0].min(self.runs.configs.len()), shape[1] * shape[2]);
        let mut own = vec![Vec::new(); n_schedules];
        each_run(&mut own, |run, rows| {
            let config = &self.runs.configs[run];
            let at = |i: u64| (iteration + i) * config.steps_per_iteration();
            *rows = schedule(config, self.n_steps, n, at);
            rows.resize(len, 0);
            Ok(())
        })?;
        let mut rows = own.concat();
        rows.resize(self.work.schedule.len(), 0);
        self.staging.push(&self.work.schedule, &rows)?;
        Ok(n_schedules)
    }

    /// Collects and learns `n` times from where `progress` says; for one run whose episodes have begun.
    ///
    /// # Errors
    /// A policy that diverged, or whatever went wrong on the device.
    pub(crate) fn run(
        &mut self,
        envs: &mut CudaVecEnv,
        progress: Progress,
        n: u64,
    ) -> Result<Vec<Iterated>> {
        let mut all = Vec::new();
        let config = self.runs.configs[0].clone();
        for first in (0..n).step_by(MOST_ITERATIONS as usize) {
            let part = (n - first).min(MOST_ITERATIONS);
            // The kernel's first states differ from the executor's in the last bit; a run by itself begins in the
            // kernel, too, so that it has the bits of the same run in a fleet.
            let done = progress.iteration + first;
            self.start(envs, FewReplicasSpan { done, n: part, uncounted: 0, begins: done == 0 })?;
            envs.tick((part * config.run.num_steps as u64) as u32)?;
            let figures = self.figures()?;
            let rows = figures.wait()?;
            for i in 0..part {
                let env_steps = progress.env_steps + (first + i) * config.steps_per_iteration();
                all.push(rows.iterated(&config, 0, i as usize, env_steps)?);
            }
        }
        Ok(all)
    }

    /// The figures of the last launch, on their way: the next one may be started before they are here.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(crate) fn figures(&self) -> Result<FewReplicasFigures> {
        let figures = &self.work.figures;
        Ok(FewReplicasFigures(Readback::begin(
            &self.landings[0],
            figures.device(),
            std::iter::once(figures),
        )?))
    }
}

impl Work {
    fn new(
        gpu: &Device,
        config: &TrainConfig,
        sizes: &SmallSizes,
        FewReplicasRoom { runs: n, schedules }: FewReplicasRoom,
    ) -> Result<Self> {
        let array = |name: &str, dtype, shape: &[usize]| {
            Ok::<_, Error>(DeviceArray::zeros(gpu, name, dtype, shape)?)
        };
        let (nets, replicas) = (Places::new(config).n_nets(), config.n_envs());
        let rows = config.run.num_steps + 1 + run_sizes::cuts(config) as usize;
        let (most, width) = (MOST_ITERATIONS as usize, schedule_width(config, 0));
        let (units, own) = (sizes.record_units as usize, sizes.own as usize);
        Ok(Self {
            seeds: array("seeds", DType::U32, &[n, 2])?,
            records: array("records", DType::U32, &[n, rows, replicas, 4 * units])?,
            schedule: array("schedule", DType::U32, &[schedules, most, width])?,
            episodes: array("episodes", DType::F32, &[n, EpisodeFigures::WORDS, replicas])?,
            state: array("optimiser", DType::F32, &[n, nets, 3, own])?,
            totals: array("totals", DType::U32, &[n, nets, 2 * sizes.n_totals as usize])?,
            figures: array("figures", DType::U32, &[n, most, Figures::WORDS])?,
        })
    }
}

/// Threads of a block that collect: a warp for 16 features of a hidden layer.
fn collectors(config: &TrainConfig) -> u32 {
    2 * hidden(&config.policies[0].config) as u32
}

//! Many runs of few replicas in one launch on a GPU.
//!
//! Runs that differ only in their seeds and in the values of their schedules (learning rate, coefficients,
//! discount, clipping) share a launch; everything else is compiled into the kernels or decides how layers are padded, so each such difference
//! is a separate launch. While the device trains some runs, the host reports the previous ones and prepares
//! the next. Where the device does not hold all runs at once, it has two launches, each of half of them and on a
//! stream of its own: it is at one while the host reads and loads the other.

use super::cuda_off_policy;
use super::cuda_report::Reporter;
use super::wave::{Wave, ended};
use crate::algorithm::{PolicyPlan, Precision};
use crate::config::TrainConfig;
use crate::error::{Error, Result};
use crate::fused::fleet_units;
use crate::fused::small::{
    FewReplicasLearner, FewReplicasRoom, PackedRuns, Runs, common, runs_on, shares_launches,
    unsupported,
};
use crate::run::begin;
use crate::run::fleet::plan::settings;
use crate::run::fleet::{FleetEvent, FleetLearner, FleetRun, ThreadFleet, Watch};
use crate::run::parallel::each;
use std::any::Any;
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use warp_func::cuda::{Build, Device, DeviceInfo, EnvKernels, Kernels, env_kernels};
use warp_func::{Registry, VecEnv, VecOptions};

/// Fleets on a GPU; runs that learn from rollouts and cannot share a launch run side by side, each on a stream of its
/// own, if they leave most of the GPU idle, and otherwise one after the other.
#[derive(Debug)]
pub struct CudaFleet<'a> {
    registry: &'a Registry,
    others: ThreadFleet<'a>,
    threads: usize,
    /// Of the one that all threads and the driver work for until its first launch is begun: the sooner the device has work.
    beginning: Mutex<()>,
    /// For second halves, once there have been some.
    other: Mutex<Option<Kernels>>,
    /// Arrays of launches that are over.
    to_free: Mutex<Vec<Box<dyn Any + Send>>>,
    /// Frees them.
    freeing: Background,
    /// Loads machine code before the first launch asks for it.
    loading: Background,
}

/// A thread that works beside what follows.
#[derive(Debug, Default)]
struct Background(Option<JoinHandle<()>>);

impl Background {
    /// Lets a thread do `work`, when it has done what it is at.
    fn begin(&mut self, work: impl FnOnce() + Send + 'static) {
        self.wait();
        self.0 = Some(std::thread::spawn(work));
    }

    fn wait(&mut self) {
        let _ = self.0.take().map(JoinHandle::join);
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // The driver is not to be at work while the process takes it down.
        self.wait();
    }
}

impl<'a> CudaFleet<'a> {
    /// Fleets in environments of `registry`, which creates them on the GPU; `threads` of the host report,
    /// and `others` trains the runs that do not share a launch.
    #[must_use]
    pub fn new(registry: &'a Registry, others: ThreadFleet<'a>, threads: usize) -> Self {
        Self {
            registry,
            others,
            threads: threads.max(1),
            beginning: Mutex::default(),
            other: Mutex::default(),
            to_free: Mutex::default(),
            freeing: Background::default(),
            loading: Background::default(),
        }
    }

    /// Begins to load what `n_runs` runs like that of `config` are launched with, and returns at once. Launches do not
    /// depend on it: what is wrong is an error of theirs.
    pub fn load_ahead(&mut self, config: &TrainConfig, n_runs: usize) {
        let Ok((Some(kernels), Some(text))) = self.kernels_and_text(config) else { return };
        let gpu = kernels.device().info();
        if cuda_off_policy::takes(config) || !shares(config, text.team, gpu) {
            return;
        }
        let on_stream = if n_runs > most_at_once(gpu) { n_runs.div_ceil(2) } else { n_runs };
        let runs = wave_of(on_stream, gpu);
        let units = fleet_units(config, &text, runs, gpu);
        let kernels = kernels.clone();
        self.loading.begin(move || drop(FewReplicasLearner::load_ahead(&kernels, &units)));
    }
}

/// What tells which runs may share a launch.
#[derive(PartialEq)]
enum Shared {
    /// What is compiled into their kernels, and how their layers are padded.
    Program(String),
    /// All but their seeds.
    Configuration(Box<TrainConfig>),
}

impl Shared {
    fn of(config: &TrainConfig) -> Self {
        match cuda_off_policy::takes(config) {
            true => Self::Configuration(Box::new(cuda_off_policy::common(config))),
            false => Self::Program(common(config)),
        }
    }
}

/// Whether runs like this one can share a launch on a GPU like `gpu`.
fn shares(config: &TrainConfig, envs_team: u32, gpu: &DeviceInfo) -> bool {
    let exact = config.policies.iter().any(|plan| plan.config.precision == Precision::Single);
    let takes = runs_on(gpu) && unsupported(config).is_none();
    envs_team == 1 && !exact && takes && shares_launches(config)
}

impl FleetLearner for CudaFleet<'_> {
    fn backend(&self) -> String {
        "native".into()
    }

    fn launch(&mut self, runs: &[FleetRun], watch: &Watch<'_>) -> Result<()> {
        for group in self.groups(runs) {
            let flow = self.launch_group(group.as_ref(), watch);
            let over = std::mem::take(&mut *self.to_free());
            self.freeing.begin(|| drop(over));
            if flow?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Runs of one launch, at most: two share a block.
fn most_at_once(gpu: &DeviceInfo) -> usize {
    2 * gpu.n_multiprocessors as usize
}

/// How many of the `n` runs on a stream the device trains side by side: waves of one size, about.
fn wave_of(n: usize, gpu: &DeviceInfo) -> usize {
    n.div_ceil(n.div_ceil(most_at_once(gpu)).max(1))
}

/// Environments with the replicas of all `runs`.
fn environments(registry: &Registry, runs: &[FleetRun]) -> Result<Box<dyn VecEnv>> {
    let first = &runs[0].config;
    let options = VecOptions { n_envs: runs.len() * first.n_envs(), ..first.vec_options() };
    Ok(registry.get(&first.run.env_id)?.make(&first.env, &options)?)
}

fn not_on_gpu() -> Error {
    Error::Invalid("the fleet is on a GPU, the environments are not".into())
}

/// Numbers of a run's rollout and activations beside which others have room: 256 MiB.
const SMALL_RUN: usize = 1 << 26;

/// How many runs like this one may be on a GPU at a time: a large one fills it by itself.
fn most_beside(config: &TrainConfig) -> usize {
    let numbers = |plan: &PolicyPlan| {
        let widths = plan.config.hidden.iter().sum::<usize>();
        let width = plan.group(&config.spec).observation_width() + widths;
        config.n_envs() * config.run.num_steps * plan.n_agents() * width
    };
    let all: usize = config.policies.iter().map(numbers).sum();
    if all <= SMALL_RUN { usize::MAX } else { 1 }
}

impl<'a> CudaFleet<'a> {
    /// Trains runs that may share a launch, if runs like them can share one.
    fn launch_group(&mut self, runs: &[FleetRun], watch: &Watch<'_>) -> Result<ControlFlow<()>> {
        let Some(first) = runs.first() else { return Ok(ControlFlow::Continue(())) };
        // Its memory is needed again.
        self.freeing.wait();
        first.config.policies.iter().try_for_each(|plan| plan.check_passes())?;
        if cuda_off_policy::takes(&first.config) {
            return cuda_off_policy::train(self.registry, runs, watch);
        }
        let (kernels, text) = self.kernels_and_text(&first.config)?;
        let gpu = kernels.map(|kernels| kernels.device().info());
        let shared = text.zip(gpu).is_some_and(|(text, gpu)| shares(&first.config, text.team, gpu));
        if !shared {
            let most = most_beside(&first.config).min(self.threads).min(runs.len());
            let streams = |kernels: &Kernels| self.streams(kernels.device().info(), most);
            let others = kernels.map_or_else(|| Ok(Vec::new()), streams)?;
            self.others.launch_beside(runs, &others, watch)?;
            return Ok(ControlFlow::Continue(()));
        }
        let kernels = kernels.ok_or_else(not_on_gpu)?;
        match runs.len() > most_at_once(kernels.device().info()) {
            true => self.in_halves(runs, kernels, watch),
            false => self.together(runs, self.registry, kernels, watch),
        }
    }

    fn to_free(&self) -> MutexGuard<'_, Vec<Box<dyn Any + Send>>> {
        self.to_free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of `runs` that may share a launch; most often all may.
    fn groups<'r>(&self, runs: &'r [FleetRun]) -> Vec<Cow<'r, [FleetRun]>> {
        // To write down what is compiled takes long, and most often runs differ in their seeds alone.
        if settings(runs).len() < 2 {
            return vec![Cow::Borrowed(runs)];
        }
        let shared = each(self.threads, runs.len(), |run| Shared::of(&runs[run].config));
        if shared.windows(2).all(|pair| pair[0] == pair[1]) {
            return vec![Cow::Borrowed(runs)];
        }
        let mut groups: Vec<(Shared, Vec<FleetRun>)> = Vec::new();
        for (run, shared) in runs.iter().zip(shared) {
            match groups.iter_mut().find(|(known, _)| *known == shared) {
                Some((_, group)) => group.push(run.clone()),
                None => groups.push((shared, vec![run.clone()])),
            }
        }
        groups.into_iter().map(|(_, group)| Cow::Owned(group)).collect()
    }

    /// The kernels of the GPU that steps the environments of `config` and the code around their body, if one does so with a
    /// body of theirs.
    fn kernels_and_text(
        &self,
        config: &TrainConfig,
    ) -> Result<(Option<&'a Kernels>, Option<EnvKernels>)> {
        let entry = self.registry.get(&config.run.env_id)?;
        let text = entry.blueprint(&config.env).and_then(|blueprint| env_kernels(&blueprint));
        Ok(match (entry.kernels(), text) {
            (Some(kernels), Ok(text)) => (Some(kernels), Some(text)),
            _ => (None, None),
        })
    }

    /// The environments on streams of their own on `gpu`, for all but the first of `n`.
    fn streams(&self, gpu: &DeviceInfo, n: usize) -> Result<Vec<Registry>> {
        let stream = |_| {
            let kernels = Kernels::new(&Device::open(gpu.ordinal)?);
            Ok(self.registry.on_gpu(&kernels, Build::Parity))
        };
        (1..n).map(stream).collect()
    }
}

impl CudaFleet<'_> {
    /// Trains two halves of `runs` beside each other. A launch of one waits for multiprocessors that the other leaves,
    /// so the GPU has work while the host copies figures and weights.
    fn in_halves(
        &self,
        runs: &[FleetRun],
        kernels: &Kernels,
        watch: &Watch<'_>,
    ) -> Result<ControlFlow<()>> {
        let (first, second) = runs.split_at(runs.len().div_ceil(2));
        let other_kernels = self.on_other_stream(kernels)?;
        let other = self.registry.on_gpu(&other_kernels, Build::Parity);
        // What ends one half ends both.
        let stop = AtomicBool::new(false);
        let watch = |run: usize, event: FleetEvent<'_>| {
            if stop.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            watch(run, event).map_break(|()| stop.store(true, Ordering::Relaxed))
        };
        let half = |runs, registry, kernels| {
            let done = self.together(runs, registry, kernels, &watch);
            stop.fetch_or(done.is_err(), Ordering::Relaxed);
            done
        };
        let (first, second) = std::thread::scope(|scope| {
            let second = scope.spawn(|| half(second, &other, &other_kernels));
            (half(first, self.registry, kernels), second.join().unwrap_or_else(ended))
        });
        let (first, second) = (first?, second?);
        Ok(if first.is_break() { first } else { second })
    }

    /// `kernels` on the stream of the second halves of all launches.
    fn on_other_stream(&self, kernels: &Kernels) -> Result<Kernels> {
        let mut other = self.other.lock().unwrap_or_else(PoisonError::into_inner);
        match &*other {
            Some(other) => Ok(other.clone()),
            None => Ok(other.insert(kernels.on_other_stream()?).clone()),
        }
    }

    /// Trains `runs` to their ends, wave after wave: while the device is at one, the host reports the one
    /// before and prepares the next.
    fn together(
        &self,
        runs: &[FleetRun],
        registry: &Registry,
        kernels: &Kernels,
        watch: &Watch<'_>,
    ) -> Result<ControlFlow<()>> {
        let beginning = self.beginning.lock().unwrap_or_else(PoisonError::into_inner);
        let first = &runs[0].config;
        let share = wave_of(runs.len(), kernels.device().info());
        let own = runs.iter().any(|run| !FewReplicasLearner::share_schedule(&run.config, first));
        let room = FewReplicasRoom { runs: share, schedules: if own { share } else { 1 } };
        let mut waves = runs.chunks(share).enumerate().map(|(i, runs)| (i * share, runs));
        let mut next = waves.next();
        // Both take a while.
        let (wave, made) = std::thread::scope(|scope| {
            let wave = scope.spawn(|| self.prepare(next, room));
            let made = environments(registry, runs).and_then(|mut envs| {
                let on_gpu = envs.as_cuda().ok_or_else(not_on_gpu)?;
                let learner = FewReplicasLearner::new(first, on_gpu, room)?;
                Ok((envs, learner))
            });
            (wave.join(), made)
        });
        let (mut wave, (mut all_envs, mut learner)) = (wave.unwrap_or_else(ended)?, made?);
        let envs = all_envs.as_cuda().ok_or_else(not_on_gpu)?;
        // What is prepared and what is written of ended runs takes as long as a launch: beside all of a wave's.
        let flow = std::thread::scope(|scope| {
            let mut report = Reporter::new(watch, self.threads, scope, beginning);
            while let Some(mut now) = wave.take() {
                if let Some(packed) = now.packed.take() {
                    learner.load(packed, now.first)?;
                }
                next = waves.next();
                let preparing = scope.spawn(move || self.prepare(next, room));
                let flow = report.train(&mut learner, envs, now)?;
                wave = preparing.join().unwrap_or_else(ended)?;
                if flow.is_break() {
                    return report.end().map(|_| flow);
                }
            }
            match report.report(0)?.is_break() {
                true => Ok(ControlFlow::Break(())),
                false => report.end(),
            }
        });
        self.to_free().push(Box::new((all_envs, learner)));
        flow
    }

    /// Where the runs of a wave begin, each initialised from its own seed, for a learner with this room.
    fn prepare<'r>(
        &self,
        wave: Option<(usize, &'r [FleetRun])>,
        room: FewReplicasRoom,
    ) -> Result<Option<Wave<'r>>> {
        let Some((first, runs)) = wave else { return Ok(None) };
        let state = |run: usize| begin::without_moments(&runs[run].config, self.registry);
        let states =
            each(self.threads, runs.len(), state).into_iter().collect::<Result<Vec<_>>>()?;
        let packed = Runs::new(runs.iter().map(|run| &run.config), room.schedules);
        let packed = Some(PackedRuns::new(packed, &states, room.runs)?);
        Ok(Some(Wave { runs, first, states, packed }))
    }
}

//! The executor on a GPU.
//!
//! Replicas live in the device's arrays and never leave them: [`CudaVecEnv::device_step`] and
//! [`CudaVecEnv::cycle`] start kernels and return. As a [`VecEnv`] it also keeps the host's arrays in
//! step, copying back and forth around every call: for replay, evaluation and parity, not for speed.

use super::arg::Arg;
use super::compiler::Build;
use super::device_envs::DeviceEnvs;
use super::env_kernels::{EnvKernels, ExecutorPart, env_kernels};
use super::kernels::Kernels;
use super::launch::{Function, Launch};
use super::pending::Pending;
use super::pointers::{self, Counters};
use crate::blueprint::Blueprint;
use crate::episodes::{EpisodeTotals, Spread};
use crate::error::{Error, Result};
use crate::executor::actions;
use crate::group_actions::GroupActionsMut;
use crate::vec_env::{ArrayIds, VecEnv, VecOptions};
use warp_core::{DType, EnvSpec};
use warp_data::cuda::{Device, DeviceArray, DeviceStore};
use warp_data::{Plan, Store, StoreMut};

/// Blocks of the first stage of the totals at most.
const TOTALS_BLOCKS: usize = 256;
const TOTALS_THREADS: u32 = 64;

/// Replicas of one environment on a GPU.
#[derive(Debug)]
pub struct CudaVecEnv {
    spec: EnvSpec,
    head_sizes: Vec<Vec<usize>>,
    options: VecOptions,
    ids: ArrayIds,
    host: Store,
    device: DeviceStore,
    counters: Counters,
    kernels: Kernels,
    text: EnvKernels,
    build: Build,
    functions: Functions,
    args: [Arg; 3],
    _tables: Vec<DeviceArray>,
    totals: [DeviceArray; 2],
    run_step: u32,
    /// The device has moved on without the host.
    host_is_stale: bool,
    /// The host's arrays that were changed since the device last got them.
    pending: Pending,
    /// What went wrong where nothing could be returned.
    error: Option<Error>,
}

#[derive(Debug)]
struct Functions {
    reset: Function,
    step: Function,
    tick: Function,
    take: Function,
    merge: Function,
    /// Once somebody has asked for them.
    observe: Option<Function>,
    cycle: Option<Function>,
}

impl Functions {
    fn new(kernels: &Kernels, text: &EnvKernels, build: Build) -> Result<Self> {
        let units = ExecutorPart::FIRST.map(|part| text.executor(part));
        let modules = kernels.compile_all(&units.each_ref().map(|unit| (unit, build)))?;
        let [reset, step] = &modules[..] else { unreachable!("a module for each unit") };
        Ok(Self {
            reset: reset.function("warp_reset")?,
            step: step.function("warp_step")?,
            tick: step.function("warp_tick")?,
            take: step.function("warp_take_episodes")?,
            merge: step.function("warp_merge_episodes")?,
            observe: None,
            cycle: None,
        })
    }
}

impl CudaVecEnv {
    /// Replicas at the start of their first episodes. `plan`, `host` and `ids` are what the executor
    /// on the host would have, reset pool included.
    ///
    /// # Errors
    /// Options out of range, no CUDA body or one that does not compile, or too little memory.
    pub(crate) fn new(
        kernels: &Kernels,
        build: Build,
        blueprint: &Blueprint,
        options: VecOptions,
        plan: &Plan,
        host: Store,
        ids: ArrayIds,
    ) -> Result<Self> {
        options.check()?;
        let text = env_kernels(blueprint)?;
        let functions = Functions::new(kernels, &text, build)?;
        let gpu = kernels.device();
        let device = DeviceStore::allocate(plan, gpu)?;
        for id in &ids.pool {
            device.push(*id, &host)?;
        }
        let (spec, n) = (blueprint.spec.clone(), options.n_envs);
        let counters = Counters::new(gpu, &spec, n)?;
        let tables = blueprint.tables.iter().map(|table| pointers::table(gpu, table));
        let tables = tables.collect::<Result<Vec<_>>>()?;
        let args = [
            pointers::tables(&tables),
            pointers::arrays(&spec, &ids, &device, &counters),
            pointers::run(&options),
        ];
        let words = 2 * (1 + 3 * (1 + spec.groups.len()) + spec.statistics.len());
        let totals = [
            DeviceArray::zeros(gpu, "partial totals", DType::U32, &[TOTALS_BLOCKS, words])?,
            DeviceArray::zeros(gpu, "totals", DType::U32, &[words])?,
        ];
        let mut this = Self {
            head_sizes: spec.groups.iter().map(|group| group.action.head_sizes()).collect(),
            functions,
            build,
            kernels: kernels.clone(),
            run_step: 0,
            host_is_stale: true,
            pending: Pending::new(spec.groups.len()),
            error: None,
            _tables: tables,
            spec,
            options,
            ids,
            host,
            device,
            counters,
            text,
            args,
            totals,
        };
        this.device_reset()?;
        Ok(this)
    }

    /// The device's arrays; numbers and names as in [`VecEnv::ids`].
    #[must_use]
    pub fn arrays(&self) -> &DeviceStore {
        &self.device
    }

    /// The GPU.
    #[must_use]
    pub fn gpu(&self) -> &Device {
        self.kernels.device()
    }

    /// The registry that compiled this environment's kernels.
    #[must_use]
    pub fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    /// The environment's source code, for kernels that call its body.
    #[must_use]
    pub fn text(&self) -> &EnvKernels {
        &self.text
    }

    /// The first arguments of every kernel that calls the body: `WarpTables`, `WarpArrays` and
    /// `WarpRun`, by value.
    #[must_use]
    pub fn args(&self) -> &[Arg; 3] {
        &self.args
    }

    /// `run_step`: the device's counter of steps, u32 `[1]`. Code that steps replicas with its own
    /// kernel calls [`CudaVecEnv::tick`] afterwards.
    #[must_use]
    pub fn run_step_array(&self) -> &DeviceArray {
        &self.counters.run_step
    }

    /// Counts `steps` steps that a foreign kernel made.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn tick(&mut self, steps: u32) -> Result<()> {
        self.count_steps(steps)?;
        self.note_steps(steps);
        Ok(())
    }

    /// Has the device count `steps` steps.
    pub(super) fn count_steps(&self, steps: u32) -> Result<()> {
        let launch = Launch { blocks: 1, threads: 1, ..Launch::default() };
        self.functions.tick.launch(&launch, &[self.args[1].clone(), Arg::U32(steps)])
    }

    /// Notes that a replayed graph stepped every replica `steps` times and counted them on the
    /// device.
    pub fn note_steps(&mut self, steps: u32) {
        self.run_step = self.run_step.wrapping_add(steps);
        self.host_is_stale = true;
    }

    /// Starts a step of every replica with the actions on the device.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn device_step(&mut self) -> Result<()> {
        // A block by itself needs no other kernel that counts.
        let alone = self.shape().blocks == 1;
        self.launch_step(u32::from(alone))?;
        if alone { Ok(()) } else { self.count_steps(1) }
    }

    /// Starts a step that the device does not count yet.
    pub(super) fn start_step(&mut self) -> Result<()> {
        self.launch_step(0)
    }

    fn launch_step(&mut self, counts: u32) -> Result<()> {
        let [tables, arrays, run] = self.args.clone();
        let args = [tables, arrays, run, Arg::U32(counts)];
        self.functions.step.launch(&self.shape(), &args)?;
        self.note_steps(1);
        Ok(())
    }

    /// Starts `steps` steps of every replica with random actions, in one launch.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn cycle(&mut self, steps: u32) -> Result<()> {
        let [tables, arrays, run] = self.args.clone();
        let cycle = self.functions.cycle.clone();
        let cycle = cycle.map_or_else(|| self.late(ExecutorPart::Cycle, "warp_cycle"), Ok)?;
        cycle.launch(&self.shape(), &[tables, arrays, run, Arg::U32(steps)])?;
        self.functions.cycle = Some(cycle);
        self.tick(steps)
    }

    /// Starts a new episode in every replica.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn device_reset(&mut self) -> Result<()> {
        self.functions.reset.launch(&self.shape(), &self.args)?;
        self.host_is_stale = true;
        Ok(())
    }

    /// Recomputes the observations.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn device_observe(&mut self) -> Result<()> {
        let observe = self.functions.observe.clone();
        let observe =
            observe.map_or_else(|| self.late(ExecutorPart::Observe, "warp_observe"), Ok)?;
        observe.launch(&self.shape(), &self.args)?;
        self.functions.observe = Some(observe);
        self.host_is_stale = true;
        Ok(())
    }

    /// Starts the sums over ended episodes; their result is [`CudaVecEnv::totals_array`].
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn device_totals(&mut self) -> Result<()> {
        let [_, arrays, run] = self.args.clone();
        let launch = self.totals_shape();
        let [partial, totals] = &self.totals;
        let part = Arg::array(partial, partial.len());
        self.functions.take.launch(&launch, &[arrays, run, part.clone()])?;
        let (blocks, launch) = (Arg::U32(launch.blocks), Launch { blocks: 1, ..launch });
        self.functions.merge.launch(&launch, &[part, blocks, Arg::array(totals, totals.len())])
    }

    /// How the first stage of the sums over ended episodes is launched.
    pub(super) fn totals_shape(&self) -> Launch {
        let blocks = self.options.n_envs.div_ceil(TOTALS_THREADS as usize).min(TOTALS_BLOCKS);
        Launch { blocks: blocks as u32, threads: TOTALS_THREADS, ..Launch::default() }
    }

    /// Totals over ended episodes as f64: count; sum, minimum and maximum of the length and of each
    /// group's return; sums of the statistics.
    #[must_use]
    pub fn totals_array(&self) -> &DeviceArray {
        &self.totals[1]
    }

    /// The contents of [`CudaVecEnv::totals_array`].
    #[must_use]
    pub fn read_totals(&self, words: &[u32]) -> EpisodeTotals {
        let number =
            |i: usize| f64::from_bits(u64::from(words[2 * i]) | u64::from(words[2 * i + 1]) << 32);
        let spread = |i: usize| match number(0) > 0.0 {
            true => Spread { sum: number(i), min: number(i + 1), max: number(i + 2) },
            false => Spread::default(),
        };
        let groups = self.spec.groups.len();
        let first = 1 + 3 * (1 + groups);
        EpisodeTotals {
            count: number(0) as u64,
            length: spread(1),
            returns: (0..groups).map(|g| spread(4 + 3 * g)).collect(),
            statistics: (first..first + self.spec.statistics.len()).map(number).collect(),
        }
    }

    /// The second stage of the sums over ended episodes.
    pub(super) fn merge_function(&self) -> &Function {
        &self.functions.merge
    }

    /// A kernel that is compiled when it is asked for.
    ///
    /// # Errors
    /// Code that does not compile, or a driver that refuses.
    pub(super) fn late(&self, part: ExecutorPart, name: &str) -> Result<Function> {
        self.kernels.compile(&self.text.executor(part), self.build)?.function(name)
    }

    /// How this environment's kernels are launched.
    pub(super) fn shape(&self) -> Launch {
        let EnvKernels { team, teams, shared_bytes, .. } = self.text;
        let blocks = self.options.n_envs.div_ceil(teams as usize) as u32;
        Launch { blocks, threads: team * teams, shared_bytes, cooperative: false }
    }

    /// Gives the device what was changed on the host.
    fn push(&mut self) -> Result<()> {
        for id in self.pending.take(&self.ids) {
            self.device.push(id, &self.host)?;
        }
        Ok(())
    }

    fn pull(&mut self) -> Result<()> {
        let pool = self.ids.pool.len();
        let kept: Vec<_> = self.host.ids().filter(|id| !self.ids.pool.contains(id)).collect();
        debug_assert_eq!(kept.len() + pool, self.host.arrays().count());
        for id in kept {
            self.device.pull(id, &mut self.host)?;
        }
        self.host_is_stale = false;
        Ok(())
    }

    /// Keeps what went wrong until something can return it.
    fn note(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }

    fn moved(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.error.take().map_or(Ok(()), Err)?;
        self.push()?;
        work(self)?;
        self.pull()
    }
}

impl VecEnv for CudaVecEnv {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }
    fn options(&self) -> &VecOptions {
        &self.options
    }
    fn store(&self) -> &Store {
        &self.host
    }

    fn store_mut(&mut self) -> StoreMut<'_> {
        let synced = self.sync();
        self.note(synced);
        self.pending.everything();
        self.host.edit()
    }

    fn actions_mut(&mut self, group: usize) -> Result<GroupActionsMut<'_>> {
        // What is not written anew stays what the device has.
        self.sync()?;
        self.pending.actions_of(group);
        Ok(GroupActionsMut::of(self.host.edit(), self.ids.action[group]))
    }

    fn ids(&self) -> &ArrayIds {
        &self.ids
    }

    fn reset(&mut self) -> Result<()> {
        self.moved(Self::device_reset)
    }

    fn step(&mut self) -> Result<()> {
        actions::check(&self.spec, &self.head_sizes, &self.host, &self.ids)?;
        self.moved(Self::device_step)
    }

    fn observe(&mut self) -> Result<()> {
        self.moved(Self::device_observe)
    }

    fn run_step(&self) -> u32 {
        self.run_step
    }

    fn set_run_step(&mut self, step: u32) {
        self.run_step = step;
        let pushed = self.counters.run_step.push(&[step]);
        self.note(pushed.map_err(Error::from));
    }

    fn take_episodes(&mut self) -> EpisodeTotals {
        let totals = self.device_totals().and_then(|()| Ok(self.totals[1].pull::<u32>()?));
        match totals {
            Ok(words) => self.read_totals(&words),
            Err(error) => {
                self.note(Err(error));
                EpisodeTotals::new(self.spec.groups.len(), self.spec.statistics.len())
            }
        }
    }

    fn sync(&mut self) -> Result<()> {
        self.error.take().map_or(Ok(()), Err)?;
        if self.host_is_stale { self.pull() } else { Ok(()) }
    }

    fn as_cuda(&mut self) -> Option<&mut CudaVecEnv> {
        Some(self)
    }

    fn as_device(&mut self) -> Option<&mut dyn DeviceEnvs> {
        Some(self)
    }
}

impl DeviceEnvs for CudaVecEnv {
    fn kernels(&self) -> &Kernels {
        CudaVecEnv::kernels(self)
    }
    fn arrays(&self) -> &DeviceStore {
        CudaVecEnv::arrays(self)
    }
    fn run_step_array(&self) -> &DeviceArray {
        CudaVecEnv::run_step_array(self)
    }
    fn body(&self) -> Option<&EnvKernels> {
        Some(self.text())
    }
    fn start_step(&mut self) -> Result<()> {
        CudaVecEnv::start_step(self)
    }
    fn count_step(&self) -> Result<()> {
        self.count_steps(1)
    }
    fn steps_by_launches(&self) -> bool {
        true
    }
    fn note_steps(&mut self, steps: u32) {
        CudaVecEnv::note_steps(self, steps);
    }
}

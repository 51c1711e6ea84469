//! Replicas on a GPU that each go their own way: what [`Replicas`] are on the host, the same bits.
//!
//! The body and everything around it are the executor's; a replica is stepped as the only one of a run with its seed
//! and random-number counter. `args` is the kernels' arguments, `shown` the outputs of the replicas. Nothing here
//! waits for the GPU unless its documentation says so.

mod args;
mod shown;

pub use shown::{Numbers, Shown};

use super::arg::Arg;
use super::compiler::{Build, Source};
use super::env_kernels::{EnvKernels, env_kernels};
use super::given::{self, GivenArgs, GivenArray, Strides};
use super::kernel_args::KernelArgs;
use super::kernels::Kernels;
use super::launch::{Function, Launch};
use super::pointers::{self, Counters};
use crate::blueprint::Blueprint;
use crate::error::{Error, Result};
use crate::replicas::{AutoReset, Identity, Orders, Replicas};
use crate::vec_env::{ArrayIds, VecOptions};
use args::OwnArgs;
use shown::Rows;
use warp_core::single::GroupAction;
use warp_core::{DType, EnvSpec, Space};
use warp_data::ArrayId;
use warp_data::cuda::{Device, DeviceArray, DeviceStore, Event, HostWord};

const OWN: &str = include_str!("own.cuh");
const OWN_THREAD: &str = include_str!("own_thread.cu");
const OWN_TEAM: &str = include_str!("own_team.cu");
const THREADS: u32 = 128;

/// The source of the kernels that step such replicas.
///
/// # Errors
/// An environment without a CUDA body.
pub fn replica_source(blueprint: &Blueprint, limit: Option<u32>) -> Result<Source> {
    source_of(&env_kernels(blueprint)?, limit)
}

fn source_of(text: &EnvKernels, limit: Option<u32>) -> Result<Source> {
    let structs =
        super::declare(&[<Strides as super::DeviceStruct>::STRUCT, OwnArgs::ARGS, GivenArgs::ARGS]);
    let layout = if text.team == 1 { OWN_THREAD } else { OWN_TEAM };
    let mut source = text.steps();
    source.name = format!("replicas of {}", source.name);
    source.text = format!(
        "{}\n{structs}\n#line 1 \"given.cuh\"\n{}\n#line 1 \"own.cuh\"\n{OWN}\n#line 1 \"own_layout.cu\"\n{layout}",
        source.text,
        given::TEXT
    );
    Ok(match limit {
        Some(steps) => source.define("WARP_TIME_LIMIT", format!("{steps}u")),
        None => source,
    })
}

/// Replicas of one environment on a GPU, each with a seed and an episode of its own.
///
/// Invalid actions on the GPU are detected when the GPU reaches them: nothing moves from then on, and the next call
/// reports them.
#[derive(Debug)]
pub struct CudaReplicas {
    /// What they are, and everything that their futures depend on as it was when the host last asked.
    host: Replicas,
    identity: Identity,
    kernels: Kernels,
    ids: ArrayIds,
    device: DeviceStore,
    _counters: Counters,
    _tables: Vec<DeviceArray>,
    own: Own,
    /// Arrays of the host, each with its twin on the GPU.
    twins: Vec<(ArrayId, DeviceArray)>,
    /// Where actions of the host are put, by group.
    staged: Vec<DeviceArray>,
    /// What was lent for work that the GPU may not have come to.
    lent: Vec<(Event, Vec<GivenArray>)>,
    take: Function,
    advance: Function,
    args: [Arg; 3],
    shape: Launch,
    teams: u32,
    rows: Rows,
}

/// What such replicas have beside a run's arrays.
#[derive(Debug)]
struct Own {
    seed_low: DeviceArray,
    seed_high: DeviceArray,
    event: DeviceArray,
    phase: DeviceArray,
    final_length: DeviceArray,
    ids: DeviceArray,
    trouble: DeviceArray,
    flag: HostWord,
}

/// Words of a note of trouble: kind, replica, group, element, value.
const TROUBLE: usize = 6;
const BAD_ACTION: u32 = 1;

impl Own {
    fn new(gpu: &Device, n: usize) -> Result<Self> {
        let zeros = |name: &str, dtype, n: usize| DeviceArray::zeros(gpu, name, dtype, &[n]);
        Ok(Self {
            seed_low: zeros("replica.seed_low", DType::U32, n)?,
            seed_high: zeros("replica.seed_high", DType::U32, n)?,
            event: zeros("replica.event", DType::U32, n)?,
            phase: zeros("replica.phase", DType::U8, n)?,
            final_length: zeros("final.elapsed_step", DType::U32, n)?,
            ids: zeros("chosen", DType::U32, n)?,
            trouble: zeros("trouble", DType::U32, TROUBLE)?,
            flag: HostWord::new(gpu)?,
        })
    }
}

/// Which replicas are to move: so many, those that were chosen or the first.
#[derive(Debug, Clone, Copy)]
struct Chosen {
    n: usize,
    some: bool,
}

impl CudaReplicas {
    /// New replicas: those of `host`, which no longer moves them.
    ///
    /// # Errors
    /// No CUDA body or one that does not compile, no NVRTC, or too little memory.
    pub(crate) fn new(
        host: Replicas,
        blueprint: &Blueprint,
        numbers: Numbers,
        kernels: &Kernels,
    ) -> Result<Self> {
        let (gpu, spec, n) = (kernels.device(), host.spec().clone(), host.options().seeds.len());
        let text = env_kernels(blueprint)?;
        let unit = source_of(&text, host.options().max_episode_steps)?;
        // The same bits as on the host.
        let module = kernels.compile(&unit, Build::Parity)?;
        let (plan, ids) = ArrayIds::declare(&spec, n, &blueprint.fields)?;
        let device = DeviceStore::allocate(&plan, gpu)?;
        let counters = Counters::new(gpu, &spec, n)?;
        let tables = blueprint.tables.iter().map(|table| pointers::table(gpu, table));
        let tables = tables.collect::<Result<Vec<_>>>()?;
        let run = VecOptions { n_envs: n, auto_reset: false, ..VecOptions::default() };
        let args = [
            pointers::tables(&tables),
            pointers::arrays(&spec, &ids, &device, &counters),
            pointers::run(&run),
        ];
        let own = Own::new(gpu, n)?;
        let rows = Rows::new(kernels, &host, (&device, &ids), &own.final_length, numbers)?;
        let staged = ids.action.iter().map(|id| {
            let array = device.array(*id);
            DeviceArray::zeros(gpu, "given", array.dtype(), array.shape())
        });
        let mut this = Self {
            staged: staged.collect::<warp_data::Result<_>>()?,
            twins: twins(&host, &device, &ids, &own)?,
            take: module.function("warp_take_actions")?,
            advance: module.function("warp_move")?,
            shape: Launch {
                threads: text.team * text.teams,
                shared_bytes: text.shared_bytes,
                ..Launch::default()
            },
            teams: text.teams,
            kernels: kernels.clone(),
            _counters: counters,
            _tables: tables,
            lent: Vec::new(),
            identity: host.identity(),
            host,
            ids,
            device,
            own,
            args,
            rows,
        };
        this.push()?;
        Ok(this)
    }

    /// One replica seen from outside.
    #[must_use]
    pub fn spec(&self) -> &EnvSpec {
        self.host.spec()
    }

    /// The GPU.
    #[must_use]
    pub fn gpu(&self) -> &Device {
        self.kernels.device()
    }

    /// The seed that each has now.
    #[must_use]
    pub fn seeds(&self) -> &[u64] {
        &self.host.options().seeds
    }

    /// The outputs of all replicas after a step, a row for each; their addresses never change.
    #[must_use]
    pub fn shown(&self) -> &[Shown] {
        self.rows.all()
    }

    /// Starts a step of all replicas, or of those of `ids`, with the actions of every group.
    ///
    /// # Errors
    /// What was refused before; a number of a replica that does not exist or comes twice; actions of another
    /// shape; or a driver that refuses.
    pub fn step(&mut self, given: Vec<GivenArray>, ids: Option<&[u32]>) -> Result<()> {
        self.check()?;
        let chosen = self.choose(ids)?;
        for (group, given) in given.iter().enumerate() {
            self.check_shape(group, given, chosen.n)?;
        }
        for (group, given) in given.iter().enumerate() {
            self.take_actions(group, given, chosen)?;
        }
        self.start(chosen, false)?;
        self.lent.retain(|(event, _)| !event.is_complete());
        if given.iter().any(|given| self.is_foreign(given)) {
            self.lent.push((self.gpu().record_event()?, given));
        }
        Ok(())
    }

    /// As [`CudaReplicas::step`], with actions on the host, where invalid ones are refused at once; those of
    /// replicas that begin an episode may be anything.
    ///
    /// # Errors
    /// As [`CudaReplicas::step`]; an action outside its space.
    pub fn step_from_host(&mut self, orders: &mut Orders, all: bool) -> Result<()> {
        self.check()?;
        let running: Vec<u32> = orders.ids.clone();
        self.host.mark_running(&running)?;
        if self.host.check(orders).is_err() {
            // Unless the GPU says that this replica begins an episode.
            self.pull()?;
            self.host.check(orders)?;
        }
        let given = orders.actions.iter().zip(&self.staged).map(|(actions, staged)| {
            match actions {
                GroupAction::Discrete(heads) => staged.push(&padded(heads, staged.len()))?,
                GroupAction::Continuous(values) => staged.push(&padded(values, staged.len()))?,
            }
            let shape = [&[orders.ids.len()], &staged.shape()[1..]].concat();
            Ok(GivenArray::whole(staged, &shape))
        });
        let given = given.collect::<Result<Vec<_>>>()?;
        self.step(given, (!all).then_some(&orders.ids[..]))
    }

    /// Starts an episode in all replicas, or in those of `ids`; nobody is shown a reward or a flag.
    ///
    /// # Errors
    /// As [`CudaReplicas::step`].
    pub fn begin(&mut self, ids: Option<&[u32]>) -> Result<()> {
        self.check()?;
        let chosen = self.choose(ids)?;
        self.rows.quiet()?;
        self.start(chosen, true)
    }

    /// What is seen of the replicas of `ids`, a row for each in their order; overwritten by the next such call.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn pick(&mut self, ids: &[u32]) -> Result<Vec<Shown>> {
        self.choose(Some(ids))?;
        self.rows.pick(&self.own.ids, ids.len())
    }

    /// Waits for the work that was started, and reports what was refused.
    ///
    /// # Errors
    /// What was refused, or whatever went wrong on the GPU.
    pub fn finish(&mut self) -> Result<()> {
        self.gpu().synchronize()?;
        self.lent.clear();
        self.check()
    }

    /// What was refused so far; the replicas continue as if that and everything after it had not been requested.
    ///
    /// # Errors
    /// What was refused.
    pub fn check(&mut self) -> Result<()> {
        if self.own.flag.get() == 0 {
            return Ok(());
        }
        let words = self.own.trouble.pull::<u32>()?;
        self.own.trouble.push(&[0_u32; TROUBLE])?;
        self.own.flag.set(0);
        Err(self.refused(&words))
    }

    /// The replicas on the host, up to date; waits for the GPU. They may be changed, but not exchanged for others.
    ///
    /// # Errors
    /// As [`CudaReplicas::finish`].
    pub fn pulled(&mut self) -> Result<&mut Replicas> {
        self.finish()?;
        self.pull()?;
        Ok(&mut self.host)
    }

    /// Gives the GPU what was changed of [`CudaReplicas::pulled`].
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn push(&mut self) -> Result<()> {
        for (id, twin) in &self.twins {
            let store = self.host.store();
            match twin.dtype() {
                DType::F32 => twin.push(store.slice::<f32>(*id))?,
                DType::I32 => twin.push(store.slice::<i32>(*id))?,
                DType::U32 => twin.push(store.slice::<u32>(*id))?,
                DType::U8 => twin.push(store.slice::<u8>(*id))?,
            }
        }
        Ok(())
    }

    fn pull(&mut self) -> Result<()> {
        for (id, twin) in &self.twins {
            let mut store = self.host.store_mut();
            match twin.dtype() {
                DType::F32 => twin.pull_into(store.slice_mut::<f32>(*id))?,
                DType::I32 => twin.pull_into(store.slice_mut::<i32>(*id))?,
                DType::U32 => twin.pull_into(store.slice_mut::<u32>(*id))?,
                DType::U8 => twin.pull_into(store.slice_mut::<u8>(*id))?,
            }
        }
        Ok(())
    }

    fn choose(&mut self, ids: Option<&[u32]>) -> Result<Chosen> {
        self.host.check_identity(&self.identity)?;
        let all = self.seeds().len();
        let Some(ids) = ids else { return Ok(Chosen { n: all, some: false }) };
        self.host.check_ids(ids)?;
        self.own.ids.push(&padded(ids, all))?;
        Ok(Chosen { n: ids.len(), some: true })
    }

    fn check_shape(&self, group: usize, given: &GivenArray, rows: usize) -> Result<()> {
        let known = &self.spec().groups[group];
        let width = known.n_agents * known.action.action_width();
        let elements: usize = given.shape[1..].iter().product();
        if given.shape[0] == rows && elements == width {
            return Ok(());
        }
        let reason = format!("{rows} rows of {width} elements are needed");
        Err(Error::InvalidOption { option: "actions", value: format!("{:?}", given.shape), reason })
    }

    fn take_actions(&self, group: usize, given: &GivenArray, chosen: Chosen) -> Result<()> {
        let known = &self.spec().groups[group];
        let elements = chosen.n * known.n_agents * known.action.action_width();
        if elements == 0 {
            return Ok(());
        }
        let [_, arrays, _] = self.args.clone();
        let launch = Launch::over(elements, THREADS);
        self.take.launch(&launch, &[arrays, self.own_args(chosen, false), given.arg(group)])
    }

    fn is_foreign(&self, given: &GivenArray) -> bool {
        self.staged.iter().all(|staged| staged.ptr() != given.memory.ptr())
    }

    fn start(&mut self, chosen: Chosen, begin: bool) -> Result<()> {
        if chosen.n == 0 {
            return Ok(());
        }
        let blocks = chosen.n.div_ceil(self.teams as usize) as u32;
        let [tables, arrays, run] = self.args.clone();
        let own = self.own_args(chosen, begin);
        self.advance.launch(&Launch { blocks, ..self.shape }, &[tables, arrays, run, own])?;
        self.rows.follow()
    }

    fn own_args(&self, chosen: Chosen, begin: bool) -> Arg {
        let own = &self.own;
        OwnArgs {
            seed_low: &own.seed_low,
            seed_high: &own.seed_high,
            event: &own.event,
            phase: &own.phase,
            final_length: &own.final_length,
            ids: &own.ids,
            trouble: &own.trouble,
            flag: own.flag.address(),
            n: chosen.n as u32,
            some: u32::from(chosen.some),
            begin: u32::from(begin),
            auto_reset: match self.host.options().auto_reset {
                AutoReset::NextStep => 0,
                AutoReset::SameStep => 1,
                AutoReset::Disabled => 2,
            },
        }
        .arg()
    }

    /// The error that the words of a note say.
    fn refused(&self, words: &[u32]) -> Error {
        let (replica, element) = (words[1] as usize, words[3] as usize);
        if words[0] != BAD_ACTION {
            return Error::Ended { replica };
        }
        let group = &self.spec().groups[words[2] as usize];
        let width = group.action.action_width();
        let (agent, head) = (element / width, element % width);
        let (action, space) = match &group.action {
            Space::Box { .. } => (f32::from_bits(words[4]).to_string(), group.action.to_string()),
            other => {
                let value = (u64::from(words[4]) | u64::from(words[5]) << 32) as i64;
                let space = Space::Discrete { n: other.head_sizes()[head] };
                (value.to_string(), space.to_string())
            }
        };
        Error::InvalidAction { replica, group: group.name.clone(), agent, head, action, space }
    }

    /// The numbers of the arrays that a run has, which these replicas have too.
    #[must_use]
    pub fn ids(&self) -> &ArrayIds {
        &self.ids
    }

    /// The arrays that a run has.
    #[must_use]
    pub fn arrays(&self) -> &DeviceStore {
        &self.device
    }
}

/// `values` and zeros, `n` together: a copy to the GPU is of whole arrays.
fn padded<T: Copy + Default>(values: &[T], n: usize) -> Vec<T> {
    let mut all = values.to_vec();
    all.resize(n, T::default());
    all
}

/// Every array of the host that futures depend on, with the array on the GPU that is it there.
fn twins(
    host: &Replicas,
    device: &DeviceStore,
    ids: &ArrayIds,
    own: &Own,
) -> Result<Vec<(ArrayId, DeviceArray)>> {
    let store = host.store();
    let mut twins = Vec::new();
    for id in &ids.state {
        let array = device.array(*id);
        twins.push((store.id(array.name())?, array.clone()));
    }
    let mut pair = |name: &str, array: &DeviceArray| {
        twins.push((store.id(&format!("replica.{name}"))?, array.clone()));
        Ok::<_, Error>(())
    };
    pair("seed_low", &own.seed_low)?;
    pair("seed_high", &own.seed_high)?;
    pair("event", &own.event)?;
    pair("phase", &own.phase)?;
    pair("elapsed_step", device.array(ids.episode_length))?;
    for (group, alive) in host.spec().groups.iter().zip(&ids.alive) {
        if let Some(alive) = alive {
            pair(&format!("alive.{}", group.name), device.array(*alive))?;
        }
    }
    if let Some(id) = ids.statistic {
        pair("statistic", device.array(id))?;
    }
    Ok(twins)
}

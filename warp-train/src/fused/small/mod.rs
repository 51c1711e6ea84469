//! Small perceptrons at full speed: a rollout is one launch, an update is another.
//!
//! For two hidden layers of at most 128, padded to 32, 64 or 128: state stays in registers, weights in shared memory, products
//! run on tensor cores with half-precision operands and single-precision sums. The host only passes the
//! position in the run, and reads one block of metrics for many iterations.
//!
//! `SmallLearner` is a policy with all that it learns from; in single-agent environments it also collects;
//! `multi_agent.rs` collects for several agents and policies, `few_replicas.rs` is for runs of few replicas.

#[cfg(test)]
mod epochs;
#[cfg(test)]
mod exchange;
mod few_replicas;
mod few_replicas_runs;
mod figures;
mod gradients;
mod layout;
mod multi_agent;
mod normalise;
mod pieces;
mod readback;
mod refusal;
mod run_sizes;
mod shared;
mod text;

pub(crate) use few_replicas::{FewReplicasLearner, FewReplicasRoom, FewReplicasSpan};
pub(crate) use few_replicas_runs::{
    FewReplicasFigures, MOST_ITERATIONS as MOST_ITERATIONS_AT_ONCE, PackedRuns, Runs, Trained,
};
pub(super) use multi_agent::MultiAgentLearner;
pub(crate) use refusal::{has_few_replicas, refusal, runs_on, shares_launches, unsupported};
pub(crate) use text::common;
pub use text::sources;
pub(super) use text::{fleet_source, run_sources, team_sources};

use crate::config::TrainConfig;
use crate::engine::collectives::{PeerInboxes, RankConnector};
use crate::engine::{Iterated, Progress};
use crate::error::{Error, Result};
use crate::fused::policy_number::PolicyNumber;
use crate::model::LearnerState;
use figures::{figures, iterated, of_all_ranks, schedule, schedule_of, schedule_width};
use layout::{Places, hidden, pack_all, unpack_all};
use normalise::{Normalised, SmallNormaliser};
use pieces::Pieces;
use shared::{CollectArgs, EpisodeFigures, Figures, SizesArgs, SmallRun, SmallSizes, UpdateArgs};
use warp_core::DType;
use warp_func::cuda::{
    Build, CudaVecEnv, Device, DeviceArray, DeviceStruct, DeviceValue, Function, KernelArgs,
    Launch, Module,
};

/// Iterations that one block of figures holds.
pub(crate) const MOST_ITERATIONS: u64 = 256;
/// Threads of an update's block.
const GROUP_THREADS: u32 = 256;

/// A policy's arrays and kernels.
#[derive(Debug)]
pub(crate) struct SmallLearner {
    places: Places,
    policy: String,
    /// The policy's number.
    index: usize,
    /// The number of its first agent.
    first_agent: u32,
    /// Its agents in all replicas.
    n_rows: usize,
    /// Replicas of whose episodes the update is to report.
    n_reported: usize,
    arrays: Arrays,
    normaliser: SmallNormaliser,
    /// What fills the records, if not another.
    collect: Option<(Function, Launch)>,
    update: (Function, Launch),
    actor_blocks: u32,
    /// Steps that the optimiser has made.
    n_steps: u64,
    /// After which mean divergence of an epoch no other begins, if its epochs may end early.
    target_kl: f64,
    /// The way to the other GPUs that learn the same.
    together: Together,
}

/// How GPUs learn together.
#[derive(Debug)]
enum Together {
    /// There is one.
    Alone,
    /// They reach each other's memory.
    Inboxes(Box<PeerInboxes>),
    /// NCCL connects them.
    Relayed(Box<Pieces>),
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
    figures: DeviceArray,
    barrier: DeviceArray,
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
        let sources = run_sources(config, envs.text());
        let units = sources.each_ref().map(|unit| (unit, Build::Release));
        let compile = || envs.kernels().compile_all(&units);
        let modules = config.world.first_then_others("compiled kernels", compile)??;
        let only = PolicyNumber { index: 0, first_agent: 0 };
        let connector = RankConnector::new(envs.gpu(), &config.world);
        let n_parts = config.n_envs().div_ceil(run_sizes::together(config));
        let mut this = Self::of_policy(config, only, &connector, &modules[1], n_parts)?;
        let launch = collecting(config, envs.gpu().info().n_multiprocessors);
        this.collect = Some((modules[0].function("small_collect")?, launch));
        this.n_reported = config.n_envs();
        this.load(state)?;
        Ok(this)
    }

    /// A policy with the update of `module`; its weights are zeros, and another fills its records. What it
    /// normalises by is told in `n_parts` parts of a rollout.
    ///
    /// # Errors
    /// Too little memory, or kernels for another network.
    fn of_policy(
        config: &TrainConfig,
        number: PolicyNumber,
        connector: &RankConnector,
        module: &Module,
        n_parts: usize,
    ) -> Result<Self> {
        let (gpu, PolicyNumber { index, first_agent }) = (connector.device(), number);
        let sizes = sizes(gpu, &module.function("small_sizes")?)?;
        let places = Places::of_policy(config, index);
        if sizes.n_parameters as usize != places.total() {
            let (device, host) = (sizes.n_parameters, places.total());
            return Err(Error::Invalid(format!(
                "the kernels lay out {device} parameters, the host {host}"
            )));
        }
        let plan = &config.policies[index];
        let n_rows = config.n_envs() * plan.n_agents();
        let tiles =
            run_sizes::largest_minibatch(config, index).div_ceil(run_sizes::TILE_ROWS) as u32;
        let most = run_sizes::blocks_of(config, index) * gpu.info().n_multiprocessors;
        let update = Launch {
            blocks: (places.n_nets() as u32 * tiles).min(most),
            threads: GROUP_THREADS,
            shared_bytes: sizes.shared_bytes,
            cooperative: true,
        };
        let updates = run_sizes::n_updates(config, index);
        let width = plan.group(&config.spec).observation_width();
        let schedule = schedule_width(config, index);
        let normalised = Normalised::new(plan, width, n_rows);
        let room = Room { rows: n_rows, schedule, blocks: update.blocks as usize };
        let own = places.n_nets() * sizes.own as usize;
        let (kernel, together) = match &config.world {
            world if world.is_alone() => ("small_update", Together::Alone),
            world if run_sizes::is_relayed(world) => {
                let moments = run_sizes::n_moments(config, index);
                let of = pieces::Of { module, launch: update, updates, own, moments };
                ("small_piece", Together::Relayed(Box::new(Pieces::new(connector, &of)?)))
            }
            // Quads of gradients and two doubles a minibatch, each word with its round.
            _ => {
                let inboxes = PeerInboxes::new(connector, own + 4 * updates)?;
                ("small_update_linked", Together::Inboxes(Box::new(inboxes)))
            }
        };
        Ok(Self {
            policy: plan.name.clone(),
            index,
            first_agent,
            n_rows,
            n_reported: 0,
            arrays: Arrays::new(gpu, config, &sizes, &room)?,
            normaliser: SmallNormaliser::new(gpu, normalised, n_parts, 1)?,
            collect: None,
            update: (module.function(kernel)?, update),
            actor_blocks: match places.n_nets() {
                1 => update.blocks,
                _ => actor_blocks(update.blocks, tiles),
            },
            n_steps: 0,
            target_kl: plan.config.target_kl.unwrap_or_default(),
            together,
            places,
        })
    }

    /// Whether updates are in pieces, between which NCCL gathers.
    pub(super) fn is_in_pieces(&self) -> bool {
        matches!(self.together, Together::Relayed(_))
    }

    /// Takes over weights, moments and what it normalises by.
    ///
    /// # Errors
    /// Tensors that do not fit.
    pub(super) fn load(&mut self, state: &LearnerState) -> Result<()> {
        let all = pack_all(&self.places, &self.policy, state)?;
        for (array, part) in self.arrays.parameters.iter().zip(all.chunks(self.places.total())) {
            array.push(part)?;
        }
        self.n_steps = state.optimizer_steps.first().map_or(0, |(_, steps)| *steps);
        self.normaliser.push(&self.normaliser.of().pack(&self.policy, state)?)?;
        match &self.together {
            Together::Inboxes(inboxes) => inboxes.clear(),
            Together::Alone | Together::Relayed(_) => Ok(()),
        }
    }

    /// Writes weights, moments and what it normalises by into `state`, which has all tensors already.
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
        self.normaliser.of().store(&self.normaliser.pull()?, 0, &self.policy, state);
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
            let run = self.place(config, progress, index);
            self.collect(envs, run)?;
            self.learn(run)?;
        }
        envs.tick((n * config.run.num_steps as u64) as u32)?;
        let rows = self.figures(config, n)?;
        rows.iter().zip(0..).map(|(row, i)| iterated(row, config, at(i))).collect()
    }

    /// Gives the kernels the coefficients of the next `n` iterations.
    fn begin(&mut self, config: &TrainConfig, progress: Progress, n: u64) -> Result<()> {
        let at = |i: u64| progress.env_steps + i * config.steps_per_iteration();
        let mut rows = schedule_of(config, self.index, self.n_steps, n, at);
        rows.resize(self.arrays.schedule.len(), 0);
        Ok(self.arrays.schedule.push(&rows)?)
    }

    /// Waits for what the first `n` iterations of a launch say of themselves, a row each, and counts their updates.
    fn figures(&mut self, config: &TrainConfig, n: u64) -> Result<Vec<Figures>> {
        match &self.together {
            Together::Alone => {}
            Together::Inboxes(inboxes) => inboxes.wait()?,
            Together::Relayed(pieces) => pieces.wait(n)?,
        }
        let mut rows = figures(&self.arrays.figures.pull::<u32>()?);
        rows.truncate(n as usize);
        self.n_steps += rows.iter().map(|row| row.n_updates as u64).sum::<u64>();
        of_all_ranks(&config.world, rows)
    }

    /// Where in the run the kernels of iteration `index` of a launch are.
    fn place(&self, config: &TrainConfig, progress: Progress, index: u64) -> SmallRun {
        SmallRun {
            seed: progress.seed,
            n_rows: self.n_rows as u32,
            n_envs: self.n_reported as u32,
            iteration: (progress.iteration + index) as u32,
            index: index as u32,
            first_agent: self.first_agent,
            actor_blocks: self.actor_blocks,
            shard: config.shards().first as u32,
            steps_before: (index * config.run.num_steps as u64) as u32,
        }
    }

    /// Starts a rollout.
    fn collect(&self, envs: &CudaVecEnv, run: SmallRun) -> Result<()> {
        let Some((kernel, launch)) = &self.collect else { return Ok(()) };
        let Arrays { records, episodes, barrier, .. } = &self.arrays;
        let [tables, arrays, world] = envs.args().clone();
        let parameters = &self.arrays.parameters[0];
        let normaliser = self.normaliser.args();
        let args = CollectArgs { run, parameters, records, episodes, barrier, normaliser };
        Ok(kernel.launch(launch, &[world, arrays, tables, args.arg()])?)
    }

    /// Starts to learn from the records; the barrier's counter is 0.
    fn learn(&mut self, run: SmallRun) -> Result<()> {
        let a = &self.arrays;
        let [parameters, exp_avg, exp_avg_sq] = &a.parameters;
        let args = UpdateArgs {
            run,
            parameters,
            exp_avg,
            exp_avg_sq,
            records: &a.records,
            schedule: &a.schedule,
            episodes: &a.episodes,
            partials: &a.partials,
            reduced: &a.reduced,
            norms: &a.norms,
            state: &a.state,
            totals: &a.totals,
            figures: &a.figures,
            barrier: &a.barrier,
            normaliser: self.normaliser.args(),
            optimiser_steps: self.n_steps as u32,
            target_kl: self.target_kl,
        };
        let (kernel, launch) = &self.update;
        match &mut self.together {
            Together::Alone => Ok(kernel.launch(launch, &[args.arg()])?),
            Together::Inboxes(inboxes) => {
                Ok(kernel.launch(launch, &[args.arg(), inboxes.args()?.arg()])?)
            }
            Together::Relayed(pieces) => pieces.learn(launch, &args),
        }
    }
}

/// How the kernel that collects is launched: spread over all multiprocessors.
fn collecting(config: &TrainConfig, multiprocessors: u32) -> Launch {
    let (together, hidden) = (run_sizes::together(config), hidden(&config.policies[0].config));
    let parts = config.n_envs().div_ceil(together) as u32;
    let (blocks, threads) = match parts.div_ceil(multiprocessors).min(4) {
        _ if together == run_sizes::FEW_REPLICAS => (parts, 2 * hidden as u32),
        warps => (parts.div_ceil(warps), 32 * warps),
    };
    Launch { blocks, threads, shared_bytes: text::collect_bytes(config), ..Launch::default() }
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

fn sizes(gpu: &Device, kernel: &Function) -> Result<SmallSizes> {
    let sizes = &DeviceArray::zeros(gpu, "sizes", DType::U32, &[SmallSizes::WORDS])?;
    let launch = Launch { blocks: 1, threads: 1, ..Launch::default() };
    kernel.launch(&launch, &[SizesArgs { sizes }.arg()])?;
    Ok(SmallSizes::take(&sizes.pull::<u32>()?))
}

/// What a policy's arrays are for.
#[derive(Debug)]
struct Room {
    /// Agents in all replicas.
    rows: usize,
    /// Words of what an iteration learns with.
    schedule: usize,
    /// Blocks that learn.
    blocks: usize,
}

impl Arrays {
    fn new(gpu: &Device, config: &TrainConfig, sizes: &SmallSizes, room: &Room) -> Result<Self> {
        let array = |name: &str, dtype, shape: &[usize]| {
            Ok::<_, Error>(DeviceArray::zeros(gpu, name, dtype, shape)?)
        };
        let parameters = |name| array(name, DType::F32, &[sizes.n_parameters as usize]);
        let (own, n_totals) = (sizes.own as usize, sizes.n_totals as usize);
        let steps = config.run.num_steps + 1 + run_sizes::cuts(config) as usize;
        let (most, &Room { rows, schedule, blocks }) = (MOST_ITERATIONS as usize, room);
        Ok(Self {
            parameters: [parameters("weights")?, parameters("exp_avg")?, parameters("exp_avg_sq")?],
            records: array("records", DType::U32, &[steps, rows, 4 * sizes.record_units as usize])?,
            episodes: array("episodes", DType::F32, &[EpisodeFigures::WORDS, rows])?,
            schedule: array("schedule", DType::U32, &[most, schedule])?,
            partials: array("partial gradients", DType::F32, &[blocks, own])?,
            reduced: array("gradients", DType::F32, &[2, own])?,
            norms: array("norms", DType::F32, &[blocks])?,
            state: array("optimiser", DType::F32, &[blocks, 3, own])?,
            totals: array("totals", DType::U32, &[blocks, 2 * n_totals])?,
            figures: array("figures", DType::U32, &[most, Figures::WORDS])?,
            barrier: array("barrier", DType::U32, &[1])?,
        })
    }
}

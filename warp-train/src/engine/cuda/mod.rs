//! The engine on an NVIDIA GPU: an algorithm's work becomes programs, one kernel each, made for its plan.
//!
//! `op` is an operation and the tracer that records those of an algorithm, `schedule` merges them, `text` and
//! `emit` write the CUDA code, `layout` and `memory` define where everything is stored. Operations that need
//! only their own rows run tile by tile, with a team of blocks on each; all blocks synchronise only where
//! gradients need all rows. Sums have a fixed order, so every run is reproducible bit by bit.

pub mod check;
mod context;
mod emit;
mod emit_halves;
mod emit_models;
mod emit_norms;
mod emit_whole;
mod group;
mod layer;
mod layout;
mod learner;
mod log;
mod machine;
mod member;
mod memory;
mod op;
mod pieces;
mod priorities;
mod ranks;
mod recompute;
mod ring;
mod rounded;
mod row_tiles;
mod schedule;
mod shards;
mod state;
#[cfg(test)]
pub(crate) mod test_compiler;
mod text;
mod tracer;

use super::EngineState;
use super::cpu::Place;
use crate::algorithm::Precision;
use crate::algorithm::{
    CellId, Engine, FigureId, Gradients, ModelId, OptimiserId, PassId, Plan, RowsId,
};
use crate::config::TrainConfig;
use crate::engine::collectives::{AllGather, RankConnector};
use crate::error::Result;
use crate::world;
use context::{Agents, ProgramContext};
use layout::Layout;
pub(crate) use machine::Machine;
use memory::{Memory, World};
use op::Op;
use ranks::{Division, Exchanged};
use std::collections::HashMap;
use text::{KERNEL, Program};
use tracer::{How, Tracer};
use warp_core::DType::U32;
use warp_data::cuda::DeviceArray;
use warp_func::cuda::{
    Arg, Build, CudaVecEnv, Function, Kernels, Launch, Structs, programmatic_launch,
};

pub(crate) use learner::OffPolicyLearner;
pub(crate) use member::{Member, sources, sources_of};

/// The GPU that texts are compiled for where there is none.
pub(crate) const H200: Machine = Machine::H200;

/// How an engine multiplies, and for whom.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    /// Whose rows.
    pub(crate) place: Place,
    /// Where the policy's agents lie.
    pub(crate) agents: Agents,
    /// What operands of products are; fp32 where layers are too wide for less.
    pub(crate) precision: Precision,
    /// Runs that share the GPU, in these launches and in those beside them.
    pub(crate) runs: usize,
    /// The ranks that learn the policy together.
    pub(crate) ranks: world::World,
    /// Shards of the replay memory that are here.
    shards: usize,
}

impl Setting {
    /// Of policy number `index` of `config`, whose agents are numbered from `first_agent`.
    pub(crate) fn new(config: &TrainConfig, (index, first_agent): (usize, u32)) -> Self {
        let policy = &config.policies[index];
        let n_agents = policy.n_agents();
        let place = Place {
            seed: config.run.seed,
            policy: index,
            n_rows: config.n_envs() * n_agents,
            n_agents,
            first_agent,
            first_replica: config.vec_options().first_replica,
        };
        let precision = policy.config.precision;
        let (agents, ranks) = (Agents::new(&config.spec, policy), config.world.clone());
        Self { place, agents, precision, runs: 1, ranks, shards: config.shards().here }
    }

    fn division(&self) -> Division {
        Division { ranks: self.ranks.size(), shards: self.shards }
    }

    /// What of a plan is this rank's: its part of every batch, and of the memory.
    fn part(&self, mut plan: Plan) -> Plan {
        plan.batch_size /= self.ranks.size();
        plan.replay.capacity /= self.ranks.size();
        plan
    }

    /// One of so many runs.
    pub(crate) fn beside(self, runs: usize) -> Self {
        Self { runs, ..self }
    }
}

/// Columns, models and memory of one policy on a GPU, once for each run.
#[derive(Debug)]
pub(crate) struct CudaEngine {
    plan: Plan,
    setting: Setting,
    agents: Agents,
    layout: Layout,
    seeds: Vec<u64>,
    memories: Vec<Memory>,
    /// Sums of figures and how often each was taken, f64 `[runs, 2 n]`.
    figures: DeviceArray,
    /// What every run's cells hold, once they have been set.
    cells: Option<Vec<f32>>,
    /// What kernels get: all memories.
    arg: Arg,
    kernels: Kernels,
    machine: Machine,
    programs: HashMap<Vec<Op>, (Function, Launch)>,
    /// The way to the other ranks, if there are any.
    all_gather: Option<AllGather>,
}

impl CudaEngine {
    /// Takes the memory of `plan`, or of this rank's part of it, for runs of `seeds`, for the agents of each of
    /// `envs`. Parameters are zeros until they are loaded.
    ///
    /// # Errors
    /// Too little memory, or what is not done on a GPU.
    pub(crate) fn new(
        plan: Plan,
        setting: Setting,
        (seeds, envs): (&[u64], &[&mut CudaVecEnv]),
    ) -> Result<Self> {
        let (plan, division) = (setting.part(plan), setting.division());
        let kernels = envs[0].kernels().clone();
        let machine = Machine::of(kernels.device().info()).shared_by(setting.runs);
        let layout = Layout::new(&plan, setting.place.n_rows, machine, setting.precision);
        let agents = setting.agents.clone();
        let memory = |envs: &&mut CudaVecEnv| {
            let world = World::new(envs, &agents);
            Memory::new(kernels.device(), (&plan, &layout, division), &setting.place, world)
        };
        let memories = envs.iter().map(memory).collect::<Result<Vec<_>>>()?;
        // One array, since whoever clears or copies them does so for all runs at once.
        let n_figures = 2 * 2 * plan.figures.len();
        let shape = [memories.len(), n_figures];
        let figures = DeviceArray::zeros(kernels.device(), "figures", U32, &shape)?;
        let numbered = || memories.iter().enumerate();
        let args = || numbered().map(|(run, memory)| memory.arg(&figures, run * n_figures));
        let arg = match args().next() {
            Some(alone) if memories.len() == 1 => alone,
            _ => {
                Arg::Structs(Structs::new(kernels.device(), args().map(|arg| vec![arg]).collect())?)
            }
        };
        let (programs, seeds) = (HashMap::new(), seeds.to_vec());
        let mut engine = Self {
            plan,
            setting,
            agents,
            layout,
            seeds,
            memories,
            figures,
            cells: None,
            arg,
            kernels,
            machine,
            programs,
            all_gather: None,
        };
        for run in 0..engine.memories.len() {
            engine.push_counters(run, [0; 3], &vec![0; engine.plan.optimisers.len()])?;
        }
        engine.set_cells(0, false)?;
        Ok(engine)
    }

    /// Compiles programs, side by side.
    fn prepare(&mut self, lists: &[Vec<Op>]) -> Result<()> {
        let missing: Vec<_> =
            lists.iter().filter(|ops| !self.programs.contains_key(*ops)).cloned().collect();
        let context = self.context();
        let programs: Vec<Program> = missing.iter().map(|ops| context.program(ops)).collect();
        let units: Vec<_> = programs.iter().map(|p| (&p.source, Build::Parity)).collect();
        let compile = || self.kernels.compile_all(&units);
        let modules = self.setting.ranks.first_then_others("compiled kernels", compile)??;
        for ((ops, program), module) in missing.into_iter().zip(programs).zip(modules) {
            self.programs.insert(ops, (module.function(KERNEL)?, program.launch));
        }
        Ok(())
    }

    /// Lets the next program begin before the kernel before it has ended: it has to wait by itself.
    fn programmatic_launch(&self) -> Result<()> {
        Ok(programmatic_launch(self.kernels.device())?)
    }

    fn context(&self) -> ProgramContext<'_> {
        ProgramContext {
            plan: &self.plan,
            layout: &self.layout,
            place: &self.setting.place,
            agents: &self.agents,
            runs: self.memories.len(),
            division: self.setting.division(),
            machine: self.machine,
        }
    }

    /// Starts a program, which is compiled if it is new.
    fn run(&mut self, ops: &[Op]) -> Result<()> {
        if !self.programs.contains_key(ops) {
            self.prepare(&[ops.to_vec()])?;
        }
        let (function, launch) = &self.programs[ops];
        Ok(function.launch(launch, std::slice::from_ref(&self.arg))?)
    }

    /// Joins the other ranks, if there are any; they are all to call it.
    ///
    /// # Errors
    /// As [`AllGather::new`], or text that does not compile.
    pub(crate) fn join(&mut self, connector: &RankConnector) -> Result<()> {
        if self.setting.ranks.size() > 1 {
            let of = (&self.plan, &self.layout, self.setting.shards);
            self.all_gather = Some(ranks::join(&self.kernels, connector, of)?);
        }
        Ok(())
    }

    /// Starts an exchange with the other ranks.
    fn exchange(&self, exchanged: &[Exchanged]) -> Result<()> {
        let (Some(all_gather), Some(arrays)) = (&self.all_gather, &self.memories[0].ranks) else {
            return Ok(());
        };
        all_gather.gather(&arrays.gathered(&self.plan, exchanged))
    }

    /// Sets the cells to their values after `env_steps`; the cell that says to act at random to `random`.
    pub(crate) fn set_cells(&mut self, env_steps: u64, random: bool) -> Result<()> {
        let values = self.plan.cells.iter().map(|cell| cell.value.at(env_steps) as f32);
        let mut cells: Vec<f32> = values.collect();
        cells[self.plan.acting.random.0] = f32::from(u8::from(random));
        // Most never change, and many runs would wait for as many copies.
        if self.cells.as_ref() == Some(&cells) {
            return Ok(());
        }
        self.cells = None;
        self.memories.iter().try_for_each(|memory| memory.cells.push(&cells))?;
        self.cells = Some(cells);
        Ok(())
    }

    /// Packs all weights, which the host has set.
    fn pack(&mut self) -> Result<()> {
        if self.layout.half { self.run(&tracer::packing(&self.plan)) } else { Ok(()) }
    }

    /// Which pieces of work there are.
    fn how(&self) -> How {
        How::of(&self.plan, &self.layout, self.setting.division())
    }

    /// Does what is asked of a tracer, piece by piece.
    fn traced(&mut self, ask: impl FnOnce(&mut Tracer) -> Result<()>) -> Result<()> {
        let mut tracer = Tracer { how: self.how(), ops: Vec::new() };
        ask(&mut tracer)?;
        tracer.ops.into_iter().try_for_each(|op| self.alone(op))
    }

    /// Does one piece of work by itself.
    fn alone(&mut self, op: Op) -> Result<()> {
        self.run(&[op])
    }
}

/// Piece by piece, for tests: a learner runs whole programs.
impl Engine for CudaEngine {
    fn sample(&mut self) -> Result<()> {
        self.traced(|tracer| tracer.sample())
    }

    fn forward(&mut self, passes: &[PassId]) -> Result<()> {
        self.alone(Op::Forward(passes.into(), op::BackwardTarget::Parameters))
    }

    fn backward(&mut self, passes: &[PassId], want: Gradients) -> Result<()> {
        self.traced(|tracer| tracer.backward(passes, want))
    }

    fn rows(&mut self, rows: RowsId) -> Result<()> {
        self.alone(Op::Rows(rows))
    }

    fn step(&mut self, optimiser: OptimiserId) -> Result<()> {
        self.alone(Op::Count(optimiser))?;
        self.alone(Op::Descend(optimiser))
    }

    fn polyak_update(&mut self, targets: &[ModelId], tau: CellId) -> Result<()> {
        self.alone(Op::PolyakUpdate(targets.into(), tau))
    }

    fn figures(&mut self, figures: &[FigureId]) -> Result<()> {
        self.alone(Op::Figures(figures.into()))
    }
}

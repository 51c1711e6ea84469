//! The engine on a processor: tiles of rows are distributed over threads, and results do not depend on
//! their number.
//!
//! In a run on several ranks it has the rows of the shards here. Samples and gradients of each shard are computed
//! separately and summed in the order of shards, so that results do not depend on the number of ranks either.

mod memory;
mod model;
mod optimise;
mod passes;
mod rows;
mod state;
#[cfg(test)]
mod tests;

#[cfg(feature = "cuda")]
pub(super) use rows::ACTING_BITS;

use crate::algorithm::{
    CellId, Column, ColumnId, Engine, FigureId, Gradients, ModelId, OptimiserId, PassId, Plan,
    Replay, RowsId,
};
use crate::config::weights::policy_seed;
use crate::config::{Shards, Sharing};
use crate::engine::EngineState;
use crate::error::Result;
use crate::memory::{Batch, RingShape, Sampling};
use crate::model::Activation;
use memory::Rings;
use model::CpuModel;
use optimise::Moments;
use passes::PassMemory;
use rand::SeedableRng;
use rand::rngs::StdRng;
use warp_func::ThreadPool;

/// Whose rows an engine works for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The run's seed.
    pub(crate) seed: u64,
    /// Number of the policy in the run.
    pub(crate) policy: usize,
    /// Rows that act at a time.
    pub(crate) n_rows: usize,
    /// Agents per replica: row r is agent `r % n_agents` of replica `r / n_agents`.
    pub(crate) n_agents: usize,
    /// Number of the first agent among those of all policies.
    pub(crate) first_agent: u32,
    /// Number of the first replica.
    pub(crate) first_replica: u32,
}

/// Columns, models and memory of one policy.
#[derive(Debug)]
pub(crate) struct CpuEngine {
    /// With the batches of the shards here.
    plan: Plan,
    place: Place,
    sharing: Sharing,
    thread_pool: ThreadPool,
    /// By [`ColumnId`], row-major.
    columns: Vec<Vec<f32>>,
    cells: Vec<f32>,
    models: Vec<CpuModel>,
    passes: Vec<PassMemory>,
    moments: Vec<Moments>,
    memory: Rings,
    /// Updates made.
    updates: u64,
    /// The environments' step, for draws of acting rows.
    run_step: u32,
    /// Sums of figures and how often each was taken.
    figures: Vec<Sum>,
    /// Sums of each optimiser's gradient norms, and its steps.
    grad_norms: Vec<(f64, u64)>,
}

/// A figure's sums and how often it was taken.
#[derive(Debug, Clone)]
struct Sum {
    /// Of each shard here.
    of_shards: Vec<f64>,
    n: u64,
}

impl CpuEngine {
    /// Takes the memory of `plan`, of which it has the part that `sharing` says, and draws the weights from the
    /// run's seed.
    pub(crate) fn new(
        mut plan: Plan,
        place: Place,
        sharing: &Sharing,
        activation: Activation,
        threads: usize,
    ) -> Result<Self> {
        let (Place { n_rows, .. }, shards) = (place, sharing.shards);
        plan.batch_size = plan.batch_size / shards.total * shards.here;
        let what = format!("{n_rows} acting rows and batches of {} samples", plan.batch_size);
        warp_data::memory::check(&what, plan.bytes(n_rows), "num_envs or batch_size")?;
        let width = |column: ColumnId| plan.columns[column.0].width;
        let shape = RingShape {
            n_rows,
            obs: width(plan.replay.obs),
            action: width(plan.replay.action),
            mask: plan.replay.mask.map_or(0, width),
        };
        let prioritised = plan.replay.priority.is_some();
        let memory = Rings::new(plan.replay.capacity, shape, prioritised, sharing)?;
        let column = |c: &Column| c.start.repeat(plan.n_rows(c.rows, n_rows));
        let mut rng = StdRng::seed_from_u64(policy_seed(place.seed, place.policy));
        let mut models: Vec<CpuModel> = Vec::new();
        for model in &plan.models {
            let new = match model.target_of {
                Some(source) => models[source.0].as_target(&model.name),
                None => CpuModel::new(model, activation, &mut rng)?,
            };
            models.push(new);
        }
        if !shards.is_one() {
            models.iter_mut().for_each(|model| model.reserve_shards(shards.here));
        }
        let none = Sum { of_shards: vec![0.0; shards.here], n: 0 };
        let moments = plan.optimisers.iter().map(|o| Moments::new(o, &models));
        Ok(Self {
            columns: plan.columns.iter().map(column).collect(),
            cells: plan.cells.iter().map(|cell| cell.value.at(0) as f32).collect(),
            passes: plan.passes.iter().map(|_| PassMemory::default()).collect(),
            moments: moments.collect::<Result<_>>()?,
            figures: vec![none; plan.figures.len()],
            grad_norms: vec![(0.0, 0); plan.optimisers.len()],
            thread_pool: ThreadPool::new(threads),
            models,
            memory,
            place,
            sharing: sharing.clone(),
            updates: 0,
            run_step: 0,
            plan,
        })
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn column(&self, id: ColumnId) -> &[f32] {
        &self.columns[id.0]
    }

    pub(crate) fn column_mut(&mut self, id: ColumnId) -> &mut [f32] {
        &mut self.columns[id.0]
    }

    /// Sets the cells to their values after `env_steps`; the cell that says to act at random to `random`.
    pub(crate) fn set_cells(&mut self, env_steps: u64, random: bool) {
        for (value, cell) in self.cells.iter_mut().zip(&self.plan.cells) {
            *value = cell.value.at(env_steps) as f32;
        }
        self.cells[self.plan.acting.random.0] = f32::from(u8::from(random));
    }

    /// Says which step of the environments comes next.
    pub(crate) fn set_run_step(&mut self, step: u32) {
        self.run_step = step;
    }

    pub(crate) fn memory_mut(&mut self) -> &mut Rings {
        &mut self.memory
    }

    /// What of a state with the rows of all ranks is this one's.
    pub(crate) fn of_this_rank(&self, state: EngineState) -> EngineState {
        let world = &self.sharing.world;
        state.of_rank(world.rank(), world.size())
    }

    /// Number of the first sample here among those of a batch of all shards.
    fn first_sample(&self) -> u32 {
        let Shards { first, here, .. } = self.sharing.shards;
        (first * (self.plan.batch_size / here)) as u32
    }

    /// Updates made.
    pub(crate) fn updates(&self) -> u64 {
        self.updates
    }

    /// Ends an update: its errors become priorities, and it is counted.
    ///
    /// # Errors
    /// Ranks that have lost each other.
    pub(crate) fn finish_update(&mut self) -> Result<()> {
        if let Some(priority) = self.plan.replay.priority {
            let alpha = self.cells[priority.alpha.0];
            self.memory.update_priorities(&self.columns[self.plan.replay.error.0], alpha)?;
        }
        self.updates += 1;
        Ok(())
    }

    /// Means of the figures since the last call, over the batches of all ranks; those that nobody took are left
    /// out.
    ///
    /// # Errors
    /// Ranks that have lost each other.
    pub(crate) fn take_figures(&mut self) -> Result<Vec<(&'static str, f64)>> {
        let Sharing { world, shards } = &self.sharing;
        let of_shard = |shard| self.figures.iter().map(move |sum: &Sum| sum.of_shards[shard]);
        let here: Vec<f64> = (0..shards.here).flat_map(of_shard).collect();
        let all = world.all_gather_f64("figures", &here)?;
        let n_figures = self.figures.len();
        let whole = |index: usize| all.iter().skip(index).step_by(n_figures).sum::<f64>();
        let figures = self.plan.figures.iter().zip(&mut self.figures).enumerate();
        let taken = figures.filter(|(_, (_, sum))| sum.n > 0);
        let taken = taken.map(|(index, (figure, sum))| {
            let n = std::mem::take(&mut sum.n);
            sum.of_shards.fill(0.0);
            (figure.name, whole(index) / n as f64)
        });
        let mut figures: Vec<_> = taken.collect();
        figures.extend(self.take_grad_norms());
        Ok(figures)
    }
}

impl Engine for CpuEngine {
    fn sample(&mut self) -> Result<()> {
        let Replay { obs, action, reward, discount, next_obs, mask, next_mask, weight, .. } =
            self.plan.replay;
        let sampling = Sampling {
            seed: self.place.seed,
            batch: self.updates as u32,
            first_row: self.first_sample(),
            policy: self.place.policy as u32,
            n_step: self.plan.replay.n_step,
            gamma: self.cells[self.plan.replay.gamma.0],
        };
        let beta = self.plan.replay.priority.map_or(0.0, |priority| self.cells[priority.beta.0]);
        let ids = [Some(obs), Some(action), Some(reward), Some(discount), Some(next_obs)];
        let ids = ids.into_iter().chain([Some(weight), mask, next_mask]);
        let mut taken: Vec<Vec<f32>> = ids
            .clone()
            .map(|id| id.map_or(Vec::new(), |id| std::mem::take(&mut self.columns[id.0])))
            .collect();
        if let [obs, action, reward, discount, next_obs, weight, mask, next_mask] = &mut taken[..] {
            let mut batch =
                Batch { obs, action, reward, discount, next_obs, mask, next_mask, weight };
            self.memory.sample(&sampling, beta, &mut batch)?;
        }
        for (id, column) in ids.zip(taken) {
            if let Some(id) = id {
                self.columns[id.0] = column;
            }
        }
        Ok(())
    }

    fn forward(&mut self, passes: &[PassId]) -> Result<()> {
        self.run_forward(passes);
        Ok(())
    }

    fn backward(&mut self, passes: &[PassId], want: Gradients) -> Result<()> {
        self.plan.check_backward(passes, want)?;
        match want {
            Gradients::OfParameters => self.run_back_to_parameters(passes),
            Gradients::OfInput => self.run_back_to_input(passes),
        }
        Ok(())
    }

    fn rows(&mut self, rows: RowsId) -> Result<()> {
        self.run_rows(rows);
        Ok(())
    }

    fn step(&mut self, optimiser: OptimiserId) -> Result<()> {
        self.run_step_of(optimiser)
    }

    fn polyak_update(&mut self, targets: &[ModelId], tau: CellId) -> Result<()> {
        self.run_blend(targets, self.cells[tau.0]);
        Ok(())
    }

    fn figures(&mut self, figures: &[FigureId]) -> Result<()> {
        let shards = self.sharing.shards;
        for id in figures {
            let column = &self.columns[self.plan.figures[id.0].column.0];
            let rows_of_shard = column.len() / shards.here;
            let n = (rows_of_shard * shards.total) as f64;
            let Sum { of_shards, n: taken } = &mut self.figures[id.0];
            for (figure, rows) in of_shards.iter_mut().zip(column.chunks(rows_of_shard)) {
                *figure += rows.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
            }
            *taken += 1;
        }
        Ok(())
    }
}

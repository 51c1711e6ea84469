//! A simulator of your own that is no `Env`, with the whole `warp` command: replicas that it steps
//! itself, in arrays that trainers read.
//!
//! `cargo run --release -p warp-examples --example 05_your_own_simulator -- train corridor`
//!
//! A walker in a corridor looks for the exit at its right end. What moves it is plain Rust here; it could
//! as well be a library in C or another process.

use std::process::ExitCode;
use warp_core::{DType, Draw, EnvSpec, Error, LimitEnds, Purpose, Space, TimeLimit};
use warp_data::{Store, StoreMut};
use warp_func::{
    ArrayIds, EpisodeTotals, Maker, Result, Start, StateField, VecEnv, VecOptions, check_actions,
};

warp_core::config! {
    /// The configuration of the corridor.
    pub struct CorridorConfig {
        /// Cells from end to end.
        pub cells: u32 = 9,
        /// Steps until the walker is fetched back.
        pub episode_length: u32 = 30,
    }
}

/// Makes corridors.
#[derive(Debug)]
pub struct Corridors;

impl Maker for Corridors {
    type Config = CorridorConfig;

    fn spec(&self, config: &CorridorConfig) -> Result<EnvSpec> {
        if config.cells < 2 {
            return Err(Error::invalid("cells", config.cells, "a corridor has two ends").into());
        }
        let time_limit = TimeLimit { steps: config.episode_length, ends: LimitEnds::Truncated };
        let (place, left_or_right) = (Space::boxed(0.0, 1.0, &[1]), Space::Discrete { n: 2 });
        Ok(EnvSpec::one_agent("corridor", "walker", place, left_or_right, time_limit))
    }

    fn make(&self, config: &CorridorConfig, options: &VecOptions) -> Result<Box<dyn VecEnv>> {
        let spec = self.spec(config)?;
        let cell = StateField { name: "cell", dtype: DType::I32, dims: Vec::new() };
        let (plan, ids) = ArrayIds::declare(&spec, options.n_envs, &[cell])?;
        let (store, totals) = (plan.allocate()?, EpisodeTotals::new(1, 0));
        let (exit, options) = (config.cells as i32 - 1, options.clone());
        let mut made = Corridor { exit, spec, options, store, ids, run_step: 0, totals };
        made.reset()?;
        Ok(Box::new(made))
    }

    fn training(&self) -> Vec<&'static str> {
        vec!["num_envs = 32\ntotal_steps = 100_000\nlearning_rate = 1e-3\ngamma = 0.9"]
    }
}

/// Many walkers.
#[derive(Debug)]
pub struct Corridor {
    exit: i32,
    spec: EnvSpec,
    options: VecOptions,
    store: Store,
    ids: ArrayIds,
    run_step: u32,
    totals: EpisodeTotals,
}

impl VecEnv for Corridor {
    fn step(&mut self) -> Result<()> {
        check_actions(&self.spec, &self.store, &self.ids)?;
        self.run_step += 1;
        (0..self.options.n_envs).for_each(|walker| self.walk(walker));
        Ok(())
    }

    fn reset(&mut self) -> Result<()> {
        (0..self.options.n_envs).for_each(|walker| self.begin(walker));
        let (ids, mut store) = (&self.ids, self.store.edit());
        store.slice_mut::<u8>(ids.terminated).fill(0);
        store.slice_mut::<u8>(ids.truncated).fill(0);
        Ok(())
    }

    fn observe(&mut self) -> Result<()> {
        (0..self.options.n_envs).for_each(|walker| self.look(walker));
        Ok(())
    }

    fn spec(&self) -> &EnvSpec {
        &self.spec
    }
    fn options(&self) -> &VecOptions {
        &self.options
    }
    fn store(&self) -> &Store {
        &self.store
    }
    fn store_mut(&mut self) -> StoreMut<'_> {
        self.store.edit()
    }
    fn ids(&self) -> &ArrayIds {
        &self.ids
    }
    fn run_step(&self) -> u32 {
        self.run_step
    }
    fn set_run_step(&mut self, step: u32) {
        self.run_step = step;
    }
    fn take_episodes(&mut self) -> EpisodeTotals {
        std::mem::replace(&mut self.totals, EpisodeTotals::new(1, 0))
    }
}

impl Corridor {
    /// Moves a walker by its action; an episode that ends is counted, and the next one begins.
    fn walk(&mut self, walker: usize) {
        let (ids, mut store) = (&self.ids, self.store.edit());
        let right = store.slice::<i32>(ids.action[0])[walker];
        let cell = &mut store.slice_mut::<i32>(ids.state[0])[walker];
        *cell = (*cell + 2 * right - 1).max(0);
        let arrived = *cell == self.exit;
        let length = &mut store.slice_mut::<u32>(ids.episode_length)[walker];
        *length += 1;
        let late = !arrived && *length == self.spec.time_limit.steps;
        store.slice_mut::<f32>(ids.reward[0])[walker] = f32::from(arrived);
        store.slice_mut::<f32>(ids.episode_return[0])[walker] += f32::from(arrived);
        store.slice_mut::<u8>(ids.terminated)[walker] = arrived.into();
        store.slice_mut::<u8>(ids.truncated)[walker] = late.into();
        self.look(walker);
        if arrived || late {
            self.end(walker);
        }
    }

    /// Writes what a walker sees: how far it has come.
    fn look(&mut self, walker: usize) {
        let (ids, mut store) = (&self.ids, self.store.edit());
        let cell = store.slice::<i32>(ids.state[0])[walker];
        store.slice_mut::<f32>(ids.obs[0])[walker] = cell as f32 / self.exit as f32;
    }

    /// Keeps what a walker saw last.
    fn end(&mut self, walker: usize) {
        let (ids, mut store) = (&self.ids, self.store.edit());
        let last = store.slice::<f32>(ids.obs[0])[walker];
        store.slice_mut::<f32>(ids.final_obs[0])[walker] = last;
        self.totals.count += 1;
        self.totals.length.add(store.slice::<u32>(ids.episode_length)[walker].into());
        self.totals.returns[0].add(store.slice::<f32>(ids.episode_return[0])[walker].into());
        if self.options.auto_reset {
            self.begin(walker);
        }
    }

    /// Puts a walker into a cell that depends on seed, walker and step alone, so that runs repeat.
    fn begin(&mut self, walker: usize) {
        let VecOptions { seed, first_replica, start, start_seed, .. } = self.options;
        let mut draw = match start {
            Start::Fixed => Draw::new(start_seed.unwrap_or(seed), 0, 0, Purpose::Reset),
            _ => Draw::new(seed, first_replica + walker as u32, self.run_step, Purpose::Reset),
        };
        let (ids, mut store) = (&self.ids, self.store.edit());
        store.slice_mut::<i32>(ids.state[0])[walker] = draw.below(self.exit as u32) as i32;
        store.slice_mut::<u32>(ids.episode_length)[walker] = 0;
        store.slice_mut::<f32>(ids.episode_return[0])[walker] = 0.0;
        self.look(walker);
    }
}

fn main() -> ExitCode {
    warp_examples::run(warp_envs::registry().with_maker("corridor", Corridors))
}

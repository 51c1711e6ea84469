//! The CPU executor: shards of replicas over threads.
//!
//! Shards depend only on the number of replicas, so results do not depend on the number of threads. `shard` steps one
//! range; `lanes` is its fast path for small single-agent environments, many replicas per instruction; `starts` is
//! where episodes begin; `columns` (and `group`) is where pointers into the store are kept.

pub(crate) mod actions;
pub(crate) mod columns;
mod group;
pub(crate) mod lanes;
pub(crate) mod plan;
mod shard;
mod shards;
pub(crate) mod starts;

pub use actions::check_actions;

use crate::episodes::EpisodeTotals;
use crate::error::Result;
use crate::thread_pool::{ThreadPool, thread_count};
use crate::vec_env::{ArrayIds, VecEnv, VecOptions};
use shard::ShardRunner;
use shards::Shards;
use std::sync::Arc;
use warp_core::{Env, EnvSpec};
use warp_data::{Store, StoreMut};

/// Replicas of one environment on the host.
#[derive(Debug)]
pub struct CpuVecEnv<E: Env> {
    spec: EnvSpec,
    /// Sizes of the discrete heads by group, kept so that a step need not allocate them.
    head_sizes: Vec<Vec<usize>>,
    options: VecOptions,
    store: Store,
    ids: ArrayIds,
    shards: Shards<E>,
    thread_pool: ThreadPool,
    run_step: u32,
    totals: EpisodeTotals,
}

impl<E: Env> CpuVecEnv<E> {
    /// Replicas at the start of their first episodes.
    ///
    /// # Errors
    /// Options out of range, a spec that contradicts itself, or too little memory.
    pub fn new(env: E, options: VecOptions) -> Result<Self> {
        options.check()?;
        let spec = EnvSpec::of(&env)?;
        let (plan, ids) = plan::plan(&env, &spec, &options)?;
        let mut store = plan.allocate()?;
        starts::fill_pool(&env, &options, store.edit(), &ids);
        let totals = EpisodeTotals::new(spec.groups.len(), spec.statistics.len());
        let shards = Shards::new(&Arc::new(env), &spec, &options, &store, &ids);
        let thread_pool = ThreadPool::new(thread_count(options.threads).min(shards.len()));
        let head_sizes = spec.groups.iter().map(|group| group.action.head_sizes()).collect();
        let mut this = Self {
            spec,
            head_sizes,
            options,
            store,
            ids,
            shards,
            thread_pool,
            run_step: 0,
            totals,
        };
        this.on_shards(ShardRunner::reset);
        Ok(this)
    }

    fn on_shards(&mut self, work: impl Fn(&mut ShardRunner<E>) + Sync) {
        self.shards.each(&mut self.thread_pool, &work);
    }
}

impl<E: Env> VecEnv for CpuVecEnv<E> {
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

    fn reset(&mut self) -> Result<()> {
        self.on_shards(ShardRunner::reset);
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        actions::check(&self.spec, &self.head_sizes, &self.store, &self.ids)?;
        self.on_shards(ShardRunner::step);
        self.run_step = self.run_step.wrapping_add(1);
        Ok(())
    }

    fn observe(&mut self) -> Result<()> {
        self.on_shards(ShardRunner::observe);
        Ok(())
    }

    fn run_step(&self) -> u32 {
        self.run_step
    }

    fn set_run_step(&mut self, step: u32) {
        self.run_step = step;
        self.on_shards(|shard| shard.run_step = step);
    }

    fn take_episodes(&mut self) -> EpisodeTotals {
        self.totals.clear();
        self.shards.take_episodes(std::slice::from_mut(&mut self.totals));
        self.totals.clone()
    }

    fn take_episodes_of_parts(&mut self) -> Vec<EpisodeTotals> {
        self.totals.clear();
        let mut parts = vec![self.totals.clone(); self.options.parts];
        self.shards.take_episodes(&mut parts);
        parts
    }
}

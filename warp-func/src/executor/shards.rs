//! The shards of an executor, each of which a thread steps: which replicas they have, and how threads get at them.
#![expect(unsafe_code, reason = "hands each shard to one thread at a time")]

use super::shard::ShardRunner;
use crate::episodes::EpisodeTotals;
use crate::thread_pool::ThreadPool;
use crate::vec_env::{ArrayIds, VecOptions};
use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::Arc;
use warp_core::{Env, EnvSpec};
use warp_data::Store;

/// Replicas per shard at least: a multiple of the vector path's chunk.
const SHARD_REPLICAS: usize = 64;
/// Shards at most; more would only cost bookkeeping.
const MAX_SHARDS: usize = 16;

/// The replicas of every shard.
fn cut(spec: &EnvSpec, options: &VecOptions) -> Vec<Range<usize>> {
    // Of a part: its shards are cut as if there were no other.
    let n = options.n_envs / options.parts;
    // Environments with many agents are worth a thread each.
    let least = if spec.n_agents() > 4 { 1 } else { SHARD_REPLICAS };
    let size = n.div_ceil(MAX_SHARDS).next_multiple_of(least);
    let shard = |first: usize, part: usize| part * n + first..part * n + (first + size).min(n);
    let of_part = |part| (0..n).step_by(size).map(move |first| shard(first, part));
    (0..options.parts).flat_map(of_part).collect()
}

/// The shards, each worked on by one thread at a time.
#[derive(Debug)]
pub(super) struct Shards<E: Env> {
    shards: Vec<UnsafeCell<ShardRunner<E>>>,
    parts: usize,
}

// SAFETY: shards are only reached through `&mut self`, which hands each to one thread at a time.
unsafe impl<E: Env> Sync for Shards<E> {}

impl<E: Env> Shards<E> {
    pub(super) fn new(
        env: &Arc<E>,
        spec: &EnvSpec,
        options: &VecOptions,
        store: &Store,
        ids: &ArrayIds,
    ) -> Self {
        let mut shards = Vec::new();
        for replicas in cut(spec, options) {
            let runner = ShardRunner::new(env, spec, options, store, ids, replicas);
            shards.push(UnsafeCell::new(runner));
        }
        Self { shards, parts: options.parts }
    }

    pub(super) fn len(&self) -> usize {
        self.shards.len()
    }

    /// Runs `work` on every shard, spread over the thread pool.
    pub(super) fn each(
        &mut self,
        thread_pool: &mut ThreadPool,
        work: &(impl Fn(&mut ShardRunner<E>) + Sync),
    ) {
        let this = &*self;
        thread_pool.run(this.shards.len(), &|task| {
            // SAFETY: each task is run once, so no other thread has this shard, and `&mut self`
            // keeps everyone else out until all tasks have finished.
            work(unsafe { &mut *this.shards[task].get() });
        });
    }

    /// Merges the episodes of each part into its element of `parts`, or of all parts into the only one, shard by shard, and
    /// clears them.
    pub(super) fn take_episodes(&mut self, parts: &mut [EpisodeTotals]) {
        debug_assert!(parts.len() == 1 || parts.len() == self.parts);
        let of_part = self.shards.len() / self.parts;
        for (index, shard) in self.shards.iter_mut().enumerate() {
            let episodes = &mut shard.get_mut().episodes;
            parts[(index / of_part).min(parts.len() - 1)].merge(episodes);
            episodes.clear();
        }
    }
}

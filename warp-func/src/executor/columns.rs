//! Pointers into the store: the one place where shards get at their rows.
#![expect(unsafe_code, reason = "shards write disjoint rows of shared arrays from several threads")]

use super::shard::ShardRunner;
use crate::crew::Crew;
use crate::vec_env::{ArrayIds, VecOptions};
use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::Arc;
use warp_core::{Bits, Env, EnvSpec, FieldSource};
use warp_data::{Array, ArrayId, Element, Store};

/// Replicas per shard at least: a multiple of the vector path's chunk.
const SHARD_REPLICAS: usize = 64;
/// Shards at most; more would only cost bookkeeping.
const MAX_SHARDS: usize = 16;

/// One array cut into equal rows, one per replica; a shard touches the rows of its replicas only.
#[derive(Debug, Clone)]
pub(super) struct Column<T> {
    // Keeps the memory alive, so that the pointer stays good.
    _array: Array,
    first: *mut T,
    row: usize,
    rows: usize,
}

impl<T: Element> Column<T> {
    pub(super) fn new(store: &Store, id: ArrayId) -> Self {
        let array = store.array(id).clone();
        assert_eq!(array.dtype(), T::DTYPE, "declared by the same executor");
        let rows = array.shape()[0];
        Self { first: array.as_ptr().cast(), row: array.row_len(), rows, _array: array }
    }

    /// Rows `replicas`.
    #[inline(always)]
    pub(super) fn rows(&self, replicas: Range<usize>) -> &[T] {
        debug_assert!(replicas.start <= replicas.end && replicas.end <= self.rows);
        // SAFETY: the range lies within the array (shards cover 0..n_envs). Nobody writes these
        // rows meanwhile: they belong to the shard whose runner holds this column, and the store
        // is borrowed mutably by the executor while shards run.
        unsafe {
            let start = self.first.add(replicas.start * self.row);
            std::slice::from_raw_parts(start, replicas.len() * self.row)
        }
    }

    /// Rows `replicas`, to be changed.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "rows are disjoint between shards, columns are not")]
    pub(super) fn rows_mut(&self, replicas: Range<usize>) -> &mut [T] {
        debug_assert!(replicas.start <= replicas.end && replicas.end <= self.rows);
        // SAFETY: as for `rows`; a shard's runner asks for one row of one column at a time, or for
        // rows of different columns, never twice for the same one.
        unsafe {
            let start = self.first.add(replicas.start * self.row);
            std::slice::from_raw_parts_mut(start, replicas.len() * self.row)
        }
    }

    /// The row of one replica, to be changed.
    #[inline(always)]
    pub(super) fn row_mut(&self, replica: usize) -> &mut [T] {
        self.rows_mut(replica..replica + 1)
    }
}

// SAFETY: a column is a pointer into memory that it keeps alive; disjointness is the shards' matter.
unsafe impl<T: Element> Send for Column<T> {}

/// A state field of any type, as bits.
#[derive(Debug, Clone)]
pub(super) struct FieldColumn {
    _array: Array,
    first: *mut u32,
    row: usize,
}

impl FieldColumn {
    pub(super) fn new(store: &Store, id: ArrayId) -> Self {
        let array = store.array(id).clone();
        assert_eq!(array.dtype().size(), 4, "state fields have four bytes");
        Self { first: array.as_ptr().cast(), row: array.row_len(), _array: array }
    }

    /// Elements of row `row`, as bits. For arrays that nobody writes while shards run.
    pub(super) fn bits(&self, row: usize) -> &[u32] {
        let range = row * self.row..(row + 1) * self.row;
        assert!(range.end <= self._array.len(), "a row of the array");
        // SAFETY: the range was just checked, all state types are four bytes of plain bits, and
        // only a reset pool is read so: it is written before the first shard exists, and after that
        // through the store alone, which is borrowed mutably by the executor while shards run.
        unsafe { std::slice::from_raw_parts(self.first.add(range.start), range.len()) }
    }

    /// Elements of field rows `replicas`, as bits.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "as for Column::rows_mut")]
    pub(super) fn bits_mut(&self, replicas: Range<usize>) -> &mut [u32] {
        // SAFETY: as for `Column::rows_mut`; all state types are four bytes of plain bits.
        unsafe {
            let start = self.first.add(replicas.start * self.row);
            std::slice::from_raw_parts_mut(start, replicas.len() * self.row)
        }
    }
}

// SAFETY: as for `Column`.
unsafe impl Send for FieldColumn {}

/// The state of one replica, field by field.
pub(super) struct RowSource<'a> {
    pub(super) fields: &'a [FieldColumn],
    pub(super) replica: usize,
}

impl<'a> FieldSource<'a> for RowSource<'a> {
    #[inline(always)]
    fn bits(&mut self, field: usize) -> u32 {
        self.fields[field].bits_mut(self.replica..self.replica + 1)[0]
    }
    #[inline(always)]
    fn scalar<T: Bits>(&mut self, field: usize) -> &'a mut T {
        &mut self.row(field)[0]
    }
    #[inline(always)]
    fn row<T: Bits>(&mut self, field: usize) -> &'a mut [T] {
        let column = &self.fields[field];
        // SAFETY: `T` is the field's type, since the array was planned from the same declaration
        // that asks here. A view asks for each field once, and a shard makes one view at a time.
        unsafe {
            let start = column.first.add(self.replica * column.row).cast();
            std::slice::from_raw_parts_mut(start, column.row)
        }
    }
}

/// The shards, each worked on by one thread at a time.
#[derive(Debug)]
pub(super) struct Shards<E: Env> {
    shards: Vec<UnsafeCell<ShardRunner<E>>>,
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
        let n = options.n_envs;
        // Environments with many agents are worth a thread each.
        let least = if spec.n_agents() > 4 { 1 } else { SHARD_REPLICAS };
        let size = n.div_ceil(MAX_SHARDS).next_multiple_of(least);
        let runner = |first: usize| {
            let replicas = first..(first + size).min(n);
            UnsafeCell::new(ShardRunner::new(env, spec, options, (store, ids), replicas))
        };
        Self { shards: (0..n).step_by(size).map(runner).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.shards.len()
    }

    /// Runs `work` on every shard, spread over the crew.
    pub(super) fn each(&mut self, crew: &mut Crew, work: &(impl Fn(&mut ShardRunner<E>) + Sync)) {
        let this = &*self;
        crew.run(this.shards.len(), &|task| {
            // SAFETY: each task is run once, so no other thread has this shard, and `&mut self`
            // keeps everyone else out until all tasks have finished.
            work(unsafe { &mut *this.shards[task].get() });
        });
    }

    /// Runs `work` on every shard in order, on this thread.
    pub(super) fn each_in_order(&mut self, mut work: impl FnMut(&mut ShardRunner<E>)) {
        self.shards.iter_mut().for_each(|shard| work(shard.get_mut()));
    }
}

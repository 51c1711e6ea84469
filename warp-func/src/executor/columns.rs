//! Pointers into the store: the one place where shards get at their rows.
#![expect(unsafe_code, reason = "shards write disjoint rows of shared arrays from several threads")]

use std::marker::PhantomData;
use std::ops::Range;
use warp_core::{Bits, DType, Field, FieldSource, State};
use warp_data::{Array, ArrayId, Element, Store};

/// One array cut into equal rows, one per replica; a shard touches the rows of its replicas only.
#[derive(Debug, Clone)]
pub(crate) struct Column<T> {
    first: *mut T,
    row: usize,
    rows: usize,
    // Keeps the memory alive, so that the pointer stays good.
    _array: Array,
}

impl<T: Element> Column<T> {
    pub(crate) fn new(store: &Store, id: ArrayId) -> Self {
        let array = store.array(id).clone();
        assert_eq!(array.dtype(), T::DTYPE, "declared by the same executor");
        let rows = array.shape()[0];
        Self { first: array.as_ptr().cast(), row: array.row_len(), rows, _array: array }
    }

    /// Rows `replicas`.
    #[inline(always)]
    pub(crate) fn rows(&self, replicas: Range<usize>) -> &[T] {
        debug_assert!(replicas.start <= replicas.end && replicas.end <= self.rows);
        // SAFETY: the range lies within the array, as shards cover 0..n_envs. Nobody writes these rows
        // meanwhile: they belong to the shard whose runner holds this column, and the executor,
        // which never lends its store to be replaced, is borrowed mutably while shards run.
        unsafe {
            let start = self.first.add(replicas.start * self.row);
            std::slice::from_raw_parts(start, replicas.len() * self.row)
        }
    }

    /// Rows `replicas`, to be changed.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "rows are disjoint between shards, columns are not")]
    pub(crate) fn rows_mut(&self, replicas: Range<usize>) -> &mut [T] {
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
    pub(crate) fn row_mut(&self, replica: usize) -> &mut [T] {
        self.rows_mut(replica..replica + 1)
    }
}

// SAFETY: a column is a pointer into memory that it keeps alive; disjointness is the shards' matter.
unsafe impl<T: Element> Send for Column<T> {}
// SAFETY: as above.
unsafe impl<T: Element> Sync for Column<T> {}

/// A state field of any type, as bits.
#[derive(Debug, Clone)]
pub(crate) struct FieldColumn {
    bits: Column<u32>,
}

/// The columns of a state: as many as it has fields, and of their types.
pub(crate) fn field_columns<S: State>(store: &Store, ids: &[ArrayId]) -> Vec<FieldColumn> {
    columns_of(store, ids, S::FIELDS)
}

fn columns_of(store: &Store, ids: &[ArrayId], declared: &[Field]) -> Vec<FieldColumn> {
    let column = |id: &ArrayId| {
        let array = store.array(*id).clone();
        let (row, rows) = (array.row_len(), array.shape()[0]);
        FieldColumn { bits: Column { first: array.as_ptr().cast(), row, rows, _array: array } }
    };
    assert!(
        declared.iter().all(|field| field.dtype.size() == size_of::<u32>()),
        "fields are words"
    );
    let declared = declared.iter().map(|field| field.dtype);
    let planned = ids.iter().map(|id| store.array(*id).dtype());
    assert!(planned.eq(declared), "a state's arrays are planned from its declaration");
    ids.iter().map(column).collect()
}

impl FieldColumn {
    /// Rows `rows`, as bits.
    #[inline(always)]
    pub(crate) fn bits(&self, rows: Range<usize>) -> &[u32] {
        self.bits.rows(rows)
    }

    /// Rows `rows`, as bits, to be changed.
    #[inline(always)]
    pub(crate) fn bits_mut(&self, rows: Range<usize>) -> &mut [u32] {
        self.bits.rows_mut(rows)
    }
}

/// The state of one replica: numbers, which [`put`] takes back, or its rows in place. A shard lets go of
/// one before it asks for the next. No closure stands between it and the bodies: that would keep them from
/// being compiled for the caller's vectors.
#[inline(always)]
pub(crate) fn view<S: State>(fields: &[FieldColumn], replica: usize) -> S::View<'_> {
    S::view(&mut RowSource::<S>::new(fields, replica))
}

/// Takes a view back: numbers are put into the columns; one of rows has written in place, and still holds
/// them. Whatever it is, it is gone before the next one is made.
#[inline(always)]
pub(crate) fn put<S: State>(fields: &[FieldColumn], replica: usize, view: S::View<'_>) {
    if S::SCALARS {
        S::save(&view, |field, bits| fields[field].bits_mut(replica..replica + 1)[0] = bits);
    }
}

/// The fields of one replica's state, in order: each is given out once. Their number and their types are
/// constants, so that in the compiled body nothing is left of the checks.
struct RowSource<'a, S> {
    fields: &'a [FieldColumn],
    next: usize,
    replica: usize,
    state: PhantomData<S>,
}

impl<'a, S: State> RowSource<'a, S> {
    #[inline(always)]
    fn new(fields: &'a [FieldColumn], replica: usize) -> Self {
        Self { fields: &fields[..S::FIELDS.len()], next: 0, replica, state: PhantomData }
    }

    #[inline(always)]
    fn next(&mut self, dtype: Option<DType>) -> &'a FieldColumn {
        let declared = S::FIELDS.get(self.next).expect("a view has no more fields than its state");
        let fits = dtype.is_none_or(|dtype| dtype == declared.dtype);
        assert!(fits, "a view has the types of its state");
        let field = &self.fields[self.next];
        self.next += 1;
        field
    }
}

impl<'a, S: State> FieldSource<'a> for RowSource<'a, S> {
    #[inline(always)]
    fn bits(&mut self) -> u32 {
        let replica = self.replica;
        self.next(None).bits(replica..replica + 1)[0]
    }
    #[inline(always)]
    fn scalar<T: Bits>(&mut self) -> &'a mut T {
        &mut self.row()[0]
    }
    #[inline(always)]
    fn row<T: Bits>(&mut self) -> &'a mut [T] {
        assert!(!S::SCALARS, "a state of scalars is built from bits");
        let row = self.next(Some(T::DTYPE)).bits.row_mut(self.replica);
        // SAFETY: `T` is the array's own type, since it is the field's, as was just checked, and the
        // array's is, too (`field_columns`); it is sealed: f32, i32 or u32. Each field is given out once,
        // and nobody holds two views of a replica (`view`).
        unsafe { std::slice::from_raw_parts_mut(row.as_mut_ptr().cast(), row.len()) }
    }
}

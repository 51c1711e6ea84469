//! Where episodes start: a random state, always the same state, or a row of a pool.

use super::columns::{FieldColumn, field_columns, put, view};
use crate::error::{Error, Result};
use crate::pool::{PoolSource, ResetPool, StateField};
use crate::vec_env::{ArrayIds, Start, VecOptions};
use warp_core::{DType, Draw, Env, Field, Purpose, Record, State};
use warp_data::{Store, StoreMut};

/// Rows of a pool are drawn as of this step of the run, which no run reaches: they share no draw
/// with a replica's.
const BEFORE_THE_RUN: u32 = u32::MAX;

/// How a shard begins its episodes.
#[derive(Debug)]
pub(super) enum Starts {
    /// `reset` with the replica's own draw.
    Fresh,
    /// `reset` with the draw of this seed.
    Fixed(u64),
    /// A row of these arrays, one per state field.
    Pool { fields: Vec<FieldColumn>, rows: u32 },
}

impl Starts {
    pub(super) fn new<S: State>(options: &VecOptions, store: &Store, ids: &ArrayIds) -> Self {
        match options.start {
            Start::Fresh => Starts::Fresh,
            Start::Fixed => Starts::Fixed(seed(options)),
            Start::Pool => Starts::Pool {
                fields: field_columns::<S>(store, &ids.pool),
                // Checked when the executor was built.
                rows: options.pool.rows() as u32,
            },
        }
    }
}

/// Copies row `row` of a pool into the state of `replica`.
pub(super) fn copy_row(pool: &[FieldColumn], row: u32, fields: &[FieldColumn], replica: usize) {
    let row = row as usize;
    for (from, to) in pool.iter().zip(fields) {
        to.bits_mut(replica..replica + 1).copy_from_slice(from.bits(row..row + 1));
    }
}

fn seed(options: &VecOptions) -> u64 {
    options.start_seed.unwrap_or(options.seed)
}

/// How many rows of a pool the arrays of an environment must have room for; 0 without a pool.
pub(super) fn pool_rows(env: &str, fields: &[StateField], options: &VecOptions) -> Result<usize> {
    if options.start != Start::Pool {
        return Ok(0);
    }
    if let PoolSource::Given(pool) = &options.pool {
        pool.check(env, fields)?;
    }
    let rows = options.pool.rows();
    let invalid = |reason: &str| {
        let (value, reason) = (rows.to_string(), reason.to_string());
        Err(Error::InvalidOption { option: "pool_size", value, reason })
    };
    if rows == 0 {
        return invalid("a reset pool needs at least one row");
    }
    if u32::try_from(rows).is_err() {
        return invalid("the rows of a reset pool are numbered with 32 bits");
    }
    let row: u128 = fields.iter().map(StateField::bytes).sum();
    let needed = row.saturating_mul(rows as u128);
    warp_data::memory::check(&format!("a reset pool of {rows} rows"), needed, "pool_size")?;
    Ok(rows)
}

/// The fields of an environment's state, their dimensions resolved.
pub(crate) fn fields<E: Env>(env: &E) -> Result<Vec<StateField>> {
    resolved(E::NAME, &env.dims(), <E::State as Record>::FIELDS)
}

fn resolved(
    env: &str,
    dims: &[(&'static str, usize)],
    fields: &[Field],
) -> Result<Vec<StateField>> {
    let size = |dim: &&str| warp_core::dimension::dim_size(dims, dim).unwrap_or(0);
    let field = |field: &Field| {
        warp_core::dimension::field_len(env, dims, field)?;
        if field.dtype == DType::U8 {
            return Err(narrow_field(env, field));
        }
        let dims = field.dims.iter().map(size).collect();
        Ok(StateField { name: field.name, dtype: field.dtype, dims })
    };
    fields.iter().map(field).collect()
}

/// Executors read states as words, whatever their type.
fn narrow_field(env: &str, field: &Field) -> Error {
    let reason = format!("state field \"{}\" is u8: a state has f32, i32 and u32", field.name);
    warp_core::Error::InvalidSpec { env: env.into(), reason }.into()
}

/// Puts the rows into the pool's arrays.
pub(crate) fn fill_pool<E: Env>(
    env: &E,
    options: &VecOptions,
    store: StoreMut<'_>,
    ids: &ArrayIds,
) {
    if let PoolSource::Given(pool) = &options.pool {
        return copy_pool(pool, store, ids);
    }
    if ids.pool.is_empty() {
        return;
    }
    let fields = field_columns::<E::State>(&store, &ids.pool);
    for row in 0..options.pool.rows() {
        let mut draw = Draw::new(seed(options), row as u32, BEFORE_THE_RUN, Purpose::Reset);
        let mut state = view::<E::State>(&fields, row);
        env.reset(&mut state, &mut draw);
        put::<E::State>(&fields, row, state);
    }
}

fn copy_pool(pool: &ResetPool, mut store: StoreMut<'_>, ids: &ArrayIds) {
    for id in &ids.pool {
        let array = store.array(*id);
        let name = array.name().strip_prefix("pool.").unwrap_or_default();
        let bits = pool.bits(name);
        match array.dtype() {
            DType::F32 => write(store.slice_mut(*id), bits.map(f32::from_bits)),
            DType::I32 => write(store.slice_mut(*id), bits.map(|bits| bits as i32)),
            DType::U32 => write(store.slice_mut(*id), bits),
            DType::U8 => {}
        }
    }
}

fn write<T>(target: &mut [T], values: impl Iterator<Item = T>) {
    target.iter_mut().zip(values).for_each(|(to, value)| *to = value);
}

//! Reset pools from `.npz` files, as `numpy.savez` writes them: an array `[rows, ...]` per field of
//! the environment's state.
//!
//! The rows are no part of a checkpoint. A run's `config.toml` holds the file's digest instead, so
//! that a run that is resumed or evaluated begins its episodes in exactly the same states.

use anyhow::{Context, Result, anyhow, bail, ensure};
use std::path::Path;
use std::sync::Arc;
use warp_data::file;
use warp_envs::numpy::{Numeric, Recorded, read_npz};
use warp_func::{ResetPool, Start};
use warp_train::TrainConfig;
use warp_train::digest;

/// Reads the `pool_file` of `config`, if its episodes start from one, into `config.pool`.
///
/// # Errors
/// A file that can't be read, is damaged, has changed since the run began, or holds something else
/// than numbers of four bytes.
pub fn attach(config: &mut TrainConfig) -> Result<()> {
    let Some(path) = config.run.pool_file.clone() else { return Ok(()) };
    if config.run.start != Start::Pool {
        return Ok(());
    }
    let place = || format!("pool_file \"{path}\"");
    let bytes = file::read(Path::new(&path), file::ARRAYS);
    let bytes = bytes.map_err(|e| anyhow!("it cannot be read: {e}")).with_context(place)?;
    let digest = digest(&bytes);
    if let Some(known) = config.run.pool_digest.as_ref().filter(|known| **known != digest) {
        bail!(
            "pool_file \"{path}\" has the SHA-256 {digest}, but pool_digest says {known}: the file \
             has changed since then; restore the old one, or start a new run without pool_digest"
        );
    }
    let pool = pool(&bytes).with_context(place)?;
    config.run.pool_digest = Some(digest);
    config.pool = Some(Arc::new(pool));
    Ok(())
}

/// The arrays of an `.npz` file as a pool.
fn pool(bytes: &[u8]) -> Result<ResetPool> {
    let mut pool = ResetPool::new();
    for (name, array) in read_npz(bytes)? {
        pool = add(pool, &name, &array)?;
    }
    ensure!(pool != ResetPool::new(), "it contains no arrays");
    Ok(pool)
}

/// Every number is exact: the file's elements of four bytes went through f64.
fn add(pool: ResetPool, name: &str, array: &Recorded) -> Result<ResetPool> {
    let (shape, data) = (&array.shape[..], array.data.iter());
    Ok(match array.dtype {
        Numeric::F32 => pool.with(name, shape, &data.map(|x| *x as f32).collect::<Vec<_>>())?,
        Numeric::I32 => pool.with(name, shape, &data.map(|x| *x as i32).collect::<Vec<_>>())?,
        Numeric::U32 => pool.with(name, shape, &data.map(|x| *x as u32).collect::<Vec<_>>())?,
        other => bail!(
            "array \"{name}\" is {other}; a pool contains float32, int32 and uint32 arrays \
             (.astype(numpy.float32) converts)"
        ),
    })
}

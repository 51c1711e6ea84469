//! Environments with reset pools whose numbers tell their rows, and what their arrays hold.

use super::SEED;
use std::sync::Arc;
use warp_core::{Bits, DType};
use warp_data::Element;
use warp_func::{PoolSource, ResetPool, Start, VecEnv, VecOptions};

pub(crate) fn options(n_envs: usize, pool: PoolSource) -> VecOptions {
    VecOptions { n_envs, seed: SEED, start: Start::Pool, pool, ..VecOptions::default() }
}

pub(crate) fn generated(n_envs: usize, rows: usize) -> VecOptions {
    options(n_envs, PoolSource::Generated { rows })
}

pub(crate) fn given(n_envs: usize, pool: ResetPool) -> VecOptions {
    options(n_envs, PoolSource::Given(Arc::new(pool)))
}

/// A pool of crowds in which every number tells its row.
pub(crate) fn crowds(rows: usize) -> ResetPool {
    let place: Vec<f32> = (0..rows).flat_map(|row| vec![row as f32; 7]).collect();
    let energy: Vec<i32> = (0..rows as i32).flat_map(|row| vec![1 + row % 3; 5]).collect();
    let gone: Vec<i32> = (0..rows as i32).map(|row| -row).collect();
    let pool = ResetPool::new().with("place", &[rows, 7], &place).unwrap();
    let pool = pool.with("energy", &[rows, 5], &energy).unwrap();
    pool.with("gone", &[rows], &gone).unwrap()
}

/// A pool of carts that stand at 0, 0.01, 0.02...
pub(crate) fn carts(rows: usize) -> ResetPool {
    let x: Vec<f32> = (0..rows).map(|row| row as f32 / 100.0).collect();
    let v: Vec<f32> = x.iter().map(|x| -x).collect();
    ResetPool::new().with("x", &[rows], &x).unwrap().with("v", &[rows], &v).unwrap()
}

pub(crate) fn row<T: Element>(envs: &dyn VecEnv, name: &str, replica: usize) -> Vec<T> {
    let width = envs.store().array(envs.store().id(name).unwrap()).row_len();
    envs.store().get::<T>(name).unwrap()[replica * width..][..width].to_vec()
}

/// All arrays with a row per replica as bits, row by row.
pub(crate) fn rows_as_bits(envs: &dyn VecEnv) -> Vec<Vec<u32>> {
    let n = envs.options().n_envs;
    let mut rows = vec![vec![]; n];
    let (store, pooled) = (envs.store(), |name: &str| name.starts_with("pool."));
    for array in store.arrays().filter(|array| !pooled(array.name())) {
        for (replica, row) in rows.iter_mut().enumerate() {
            let range = replica * array.row_len()..(replica + 1) * array.row_len();
            fn push<T: Element + Bits>(row: &mut Vec<u32>, part: &[T]) {
                row.extend(part.iter().map(|x| x.bits()));
            }
            match array.dtype() {
                DType::F32 => push(row, &store.get::<f32>(array.name()).unwrap()[range]),
                DType::I32 => push(row, &store.get::<i32>(array.name()).unwrap()[range]),
                DType::U32 => push(row, &store.get::<u32>(array.name()).unwrap()[range]),
                DType::U8 => {
                    let part = &store.get::<u8>(array.name()).unwrap()[range];
                    row.extend(part.iter().map(|x| u32::from(*x)));
                }
            }
        }
    }
    rows
}

pub(crate) fn ended(envs: &dyn VecEnv) -> Vec<bool> {
    let (ids, store) = (envs.ids(), envs.store());
    let flags = store.slice::<u8>(ids.terminated).iter().zip(store.slice::<u8>(ids.truncated));
    flags.map(|(a, b)| a | b != 0).collect()
}

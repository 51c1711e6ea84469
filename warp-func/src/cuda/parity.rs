//! An environment on the CPU and on a GPU: the same random actions, compared after every step.
//!
//! In the parity build the two are equal bit for bit, free-running, over whole episodes. In the
//! release build, whose sums may fuse, the GPU is given the CPU's state before every step and the
//! largest error of every array is reported.

use super::compiler::Build;
use super::kernels::Kernels;
use crate::check::random_actions;
use crate::error::Result;
use crate::parity::{Parity, bits};
use crate::registry::Entry;
use crate::vec_env::{VecEnv, VecOptions};
use warp_core::DType;
use warp_core::toml::Table;
use warp_data::ArrayId;

/// Steps an environment on both devices, `steps` times, from equal starts.
///
/// `bound` is how far floats of a release build may be apart, relative to max(1, |cpu|).
///
/// # Errors
/// An environment that can't be made on either device.
pub fn compare(
    entry: &Entry,
    config: &Table,
    options: &VecOptions,
    kernels: &Kernels,
    build: Build,
    steps: u32,
    bound: f64,
) -> Result<Parity> {
    let mut cpu = entry.make(config, options)?;
    let mut cuda = entry.make_cuda(config, options, kernels, build)?;
    let mut parity = Parity::new(steps);
    let bound = if build == Build::Parity { 0.0 } else { bound };
    cuda.sync()?;
    take(&mut parity, 0, &*cpu, &*cuda, bound);
    for step in 1..=steps {
        if build == Build::Release {
            teach(&*cpu, &mut *cuda);
        }
        for envs in [&mut *cpu, &mut *cuda] {
            random_actions(envs, options.seed, step)?;
            envs.step()?;
        }
        take(&mut parity, step, &*cpu, &*cuda, bound);
        parity.episodes += cpu.take_episodes().count;
    }
    Ok(parity)
}

/// Gives the GPU the CPU's state.
fn teach(from: &dyn VecEnv, to: &mut dyn VecEnv) {
    let ids: Vec<ArrayId> = from.ids().persistent().collect();
    let mut store = to.store_mut();
    for id in ids {
        match from.store().array(id).dtype() {
            DType::F32 => store.slice_mut::<f32>(id).copy_from_slice(from.store().slice(id)),
            DType::I32 => store.slice_mut::<i32>(id).copy_from_slice(from.store().slice(id)),
            DType::U32 => store.slice_mut::<u32>(id).copy_from_slice(from.store().slice(id)),
            DType::U8 => store.slice_mut::<u8>(id).copy_from_slice(from.store().slice(id)),
        }
    }
}

/// Compares all arrays after a step.
fn take(parity: &mut Parity, step: u32, cpu: &dyn VecEnv, cuda: &dyn VecEnv, bound: f64) {
    parity.take(step, cpu, bound, |id| (!equal(cpu, cuda, id)).then(|| bits(cuda, id)));
}

/// Whether an array has the same bits in two executors of one environment.
#[must_use]
pub fn equal(cpu: &dyn VecEnv, cuda: &dyn VecEnv, id: ArrayId) -> bool {
    let (cpu, cuda) = (cpu.store(), cuda.store());
    match cpu.array(id).dtype() {
        DType::F32 => {
            let pairs = cpu.slice::<f32>(id).iter().zip(cuda.slice::<f32>(id));
            pairs.fold(0, |differ, (a, b)| differ | (a.to_bits() ^ b.to_bits())) == 0
        }
        DType::I32 => cpu.slice::<i32>(id) == cuda.slice::<i32>(id),
        DType::U32 => cpu.slice::<u32>(id) == cuda.slice::<u32>(id),
        DType::U8 => cpu.slice::<u8>(id) == cuda.slice::<u8>(id),
    }
}

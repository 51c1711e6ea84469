//! Both bodies of an environment side by side: the same random actions, compared after every step.
//!
//! In the parity build the two are equal bit for bit, free-running, over whole episodes. In the
//! release build, whose sums may fuse, the GPU is given the CPU's state before every step and the
//! largest error of every array is reported.

use super::compiler::Build;
use super::kernels::Kernels;
use crate::check::random_actions;
use crate::error::Result;
use crate::registry::Entry;
use crate::vec_env::{VecEnv, VecOptions};
use std::fmt;
use warp_core::DType;
use warp_core::toml::Table;
use warp_data::{Array, ArrayId};

/// Two executors after some steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Parity {
    /// Steps compared.
    pub steps: u32,
    /// Episodes that ended meanwhile.
    pub episodes: u64,
    /// What was found per array.
    pub arrays: Vec<ArrayParity>,
    /// The first element that differs.
    pub first: Option<Mismatch>,
}

/// How far one array was apart.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayParity {
    /// Its name.
    pub name: String,
    /// Elements whose bits differed, over all steps.
    pub different: u64,
    /// Elements further apart than the bound, over all steps.
    pub beyond: u64,
    /// Largest |cpu - cuda| / max(1, |cpu|); integers count as numbers.
    pub largest_error: f64,
}

/// One element that differs.
#[derive(Debug, Clone, PartialEq)]
pub struct Mismatch {
    /// The environment.
    pub env: String,
    /// The step, counted from 1; 0: the first observation.
    pub step: u32,
    /// The array.
    pub array: String,
    /// The element, replica first.
    pub index: Vec<usize>,
    /// Its value on the CPU.
    pub cpu: f64,
    /// Its value on the GPU.
    pub cuda: f64,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { env, step, array, index, cpu, cuda } = self;
        write!(f, "{env} step {step} {array}{index:?}: cpu {cpu} cuda {cuda}")
    }
}

impl Parity {
    /// Whether all arrays stayed equal, or within the bound.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.first.is_none()
    }
}

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
    (kernels, build): (&Kernels, Build),
    (steps, bound): (u32, f64),
) -> Result<Parity> {
    let mut cpu = entry.make(config, options)?;
    let mut cuda = entry.make_cuda(config, options, (kernels, build))?;
    let mut parity = Parity { steps, episodes: 0, arrays: Vec::new(), first: None };
    let bound = if build == Build::Parity { 0.0 } else { bound };
    cuda.sync()?;
    parity.take(0, &*cpu, &*cuda, bound);
    for step in 1..=steps {
        if build == Build::Release {
            teach(&*cpu, &mut *cuda);
        }
        for envs in [&mut *cpu, &mut *cuda] {
            random_actions(envs, options.seed, step);
            envs.step()?;
        }
        parity.take(step, &*cpu, &*cuda, bound);
        parity.episodes += cpu.take_episodes().count;
    }
    Ok(parity)
}

/// Gives the GPU the CPU's state.
fn teach(from: &dyn VecEnv, to: &mut dyn VecEnv) {
    let ids: Vec<ArrayId> = from.ids().persistent().collect();
    let store = to.store_mut();
    for id in ids {
        match from.store().array(id).dtype() {
            DType::F32 => store.slice_mut::<f32>(id).copy_from_slice(from.store().slice(id)),
            DType::I32 => store.slice_mut::<i32>(id).copy_from_slice(from.store().slice(id)),
            DType::U32 => store.slice_mut::<u32>(id).copy_from_slice(from.store().slice(id)),
            DType::U8 => store.slice_mut::<u8>(id).copy_from_slice(from.store().slice(id)),
        }
    }
}

impl Parity {
    fn take(&mut self, step: u32, cpu: &dyn VecEnv, cuda: &dyn VecEnv, bound: f64) {
        let compared = cpu.store().ids().filter(|id| !cpu.ids().pool.contains(id));
        for (i, id) in compared.enumerate() {
            let array = cpu.store().array(id);
            if self.arrays.len() == i {
                let name = array.name().to_string();
                self.arrays.push(ArrayParity { name, different: 0, beyond: 0, largest_error: 0.0 });
            }
            if equal(cpu, cuda, id) {
                continue;
            }
            let pair = |at: usize| (value(cpu, id, at), value(cuda, id, at));
            for at in (0..array.len()).filter(|at| bits(cpu, id, *at) != bits(cuda, id, *at)) {
                let (on_cpu, on_cuda) = pair(at);
                let error = error(on_cpu, on_cuda);
                let found = &mut self.arrays[i];
                found.different += 1;
                found.largest_error = found.largest_error.max(error);
                // Numbers that are no measurements (counts, packed levels) have to be equal.
                if array.dtype() == DType::F32 && bound > 0.0 && error <= bound {
                    continue;
                }
                found.beyond += 1;
                self.first.get_or_insert_with(|| Mismatch {
                    env: cpu.spec().name.clone(),
                    step,
                    array: array.name().into(),
                    index: place(array, at),
                    cpu: on_cpu,
                    cuda: on_cuda,
                });
            }
        }
    }
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

/// How far apart two numbers are, relative to max(1, |on the CPU|); the largest number there is where one of
/// them is not finite.
fn error(on_cpu: f64, on_cuda: f64) -> f64 {
    let error = (on_cpu - on_cuda).abs() / on_cpu.abs().max(1.0);
    if error.is_finite() { error } else { f64::MAX }
}

fn bits(envs: &dyn VecEnv, id: ArrayId, at: usize) -> u32 {
    let store = envs.store();
    match store.array(id).dtype() {
        DType::F32 => store.slice::<f32>(id)[at].to_bits(),
        DType::I32 => store.slice::<i32>(id)[at] as u32,
        DType::U32 => store.slice::<u32>(id)[at],
        DType::U8 => u32::from(store.slice::<u8>(id)[at]),
    }
}

fn value(envs: &dyn VecEnv, id: ArrayId, at: usize) -> f64 {
    let store = envs.store();
    match store.array(id).dtype() {
        DType::F32 => f64::from(store.slice::<f32>(id)[at]),
        DType::I32 => f64::from(store.slice::<i32>(id)[at]),
        DType::U32 => f64::from(store.slice::<u32>(id)[at]),
        DType::U8 => f64::from(store.slice::<u8>(id)[at]),
    }
}

/// The indices of element `at`.
fn place(array: &Array, mut at: usize) -> Vec<usize> {
    let mut index: Vec<usize> = array
        .shape()
        .iter()
        .rev()
        .map(|size| {
            let here = at % size;
            at /= size;
            here
        })
        .collect();
    index.reverse();
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_relative_and_never_lost() {
        assert_eq!(error(4.0, 5.0), 0.25);
        assert_eq!(error(0.5, 0.0), 0.5);
        for (cpu, cuda) in [(f64::NAN, 1.0), (1.0, f64::NAN), (1.0, f64::INFINITY)] {
            assert_eq!(error(cpu, cuda), f64::MAX);
        }
    }
}

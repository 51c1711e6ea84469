//! Both bodies of an environment side by side: what is compared after every step, and what is found.
//!
//! The other body runs on a GPU (`cuda/parity.rs`) or in a program of the host ([`crate::host`]).
//! Either is asked for the bits of one array after the other.

use crate::vec_env::VecEnv;
use std::fmt;
use warp_core::DType;
use warp_data::{Array, ArrayId};

/// Two bodies after some steps.
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
    /// Its value by the CUDA body.
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

impl Parity {
    /// Nothing compared yet.
    pub(crate) fn new(steps: u32) -> Self {
        Self { steps, episodes: 0, arrays: Vec::new(), first: None }
    }

    /// Compares all arrays but those of a reset pool; `twin` yields the bits of an array of the CUDA
    /// body, or nothing where it knows that they are equal. Floats within `bound` do not count.
    pub(crate) fn take(
        &mut self,
        step: u32,
        cpu: &dyn VecEnv,
        bound: f64,
        mut twin: impl FnMut(ArrayId) -> Option<Vec<u32>>,
    ) {
        let compared = cpu.store().ids().filter(|id| !cpu.ids().pool.contains(id));
        for (i, id) in compared.enumerate() {
            let array = cpu.store().array(id);
            if self.arrays.len() == i {
                let name = array.name().to_string();
                self.arrays.push(ArrayParity { name, different: 0, beyond: 0, largest_error: 0.0 });
            }
            let Some(cuda) = twin(id) else { continue };
            let (env, dtype) = (&cpu.spec().name, array.dtype());
            for (at, (cpu, cuda)) in bits(cpu, id).into_iter().zip(cuda).enumerate() {
                if cpu == cuda {
                    continue;
                }
                let (cpu, cuda) = (value(cpu, dtype), value(cuda, dtype));
                let error = error(cpu, cuda);
                let found = &mut self.arrays[i];
                found.different += 1;
                found.largest_error = found.largest_error.max(error);
                // Numbers that are no measurements (counts, packed levels) have to be equal.
                if dtype == DType::F32 && bound > 0.0 && error <= bound {
                    continue;
                }
                found.beyond += 1;
                let (env, array, index) = (env.clone(), array.name().into(), place(array, at));
                self.first.get_or_insert(Mismatch { env, step, array, index, cpu, cuda });
            }
        }
    }
}

/// The bits of an array, one word per element.
pub(crate) fn bits(envs: &dyn VecEnv, id: ArrayId) -> Vec<u32> {
    let store = envs.store();
    match store.array(id).dtype() {
        DType::F32 => store.slice::<f32>(id).iter().map(|x| x.to_bits()).collect(),
        DType::I32 => store.slice::<i32>(id).iter().map(|x| *x as u32).collect(),
        DType::U32 => store.slice::<u32>(id).to_vec(),
        DType::U8 => store.slice::<u8>(id).iter().map(|x| u32::from(*x)).collect(),
    }
}

/// The number that a word stands for.
fn value(bits: u32, dtype: DType) -> f64 {
    match dtype {
        DType::F32 => f64::from(f32::from_bits(bits)),
        DType::I32 => f64::from(bits as i32),
        DType::U32 | DType::U8 => f64::from(bits),
    }
}

/// How far apart two numbers are, relative to max(1, |on the CPU|); the largest number there is where one of
/// them is not finite.
fn error(on_cpu: f64, on_cuda: f64) -> f64 {
    let error = (on_cpu - on_cuda).abs() / on_cpu.abs().max(1.0);
    if error.is_finite() { error } else { f64::MAX }
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

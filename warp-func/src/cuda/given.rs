//! Arrays on a GPU that belong to another library, with any type and strides. Host side of `given.cuh`.
#![expect(unsafe_code, reason = "borrows memory of other libraries")]

use super::arg::Arg;
use super::kernel_args::KernelArgs;
use warp_core::DType;
use warp_data::cuda::{Device, DeviceArray};

/// How kernels read them; behind the structs of [`GivenArgs`] and [`Strides`].
pub(super) const TEXT: &str = include_str!("given.cuh");

warp_core::device_struct! {
    /// The layout of a replica's actions in another library's memory, in elements.
    pub struct Strides {
        /// From one replica to the next.
        row: u64,
        /// Elements of each dimension of one replica's actions; 1 where there are fewer dimensions.
        size: [u32; 3],
        /// From one element to the next in each, modulo 2^32.
        step: [i32; 3],
    }
}

crate::kernel_args! {
    /// Numbers of somebody else's: actions of one group, say.
    pub(super) struct GivenArgs {
        from: &[u8],
        strides: Strides,
        /// The element of the first row's first number.
        start: u64,
        /// 0 whole numbers, 1 whole and not negative ones, 2 real ones.
        kind: u32,
        /// Bits of each.
        bits: u32,
        group: u32,
    }
}

/// The kind of numbers in another library's array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberKind {
    /// Whole numbers with a sign, of 8, 16, 32 or 64 bits.
    Signed,
    /// Whole numbers without, likewise.
    Unsigned,
    /// Real numbers of 32 or 64 bits.
    Real,
}

/// Another library's array on a GPU, such as the actions of one group for some replicas.
#[derive(Debug, Clone)]
pub struct GivenArray {
    pub(super) memory: DeviceArray,
    pub(super) strides: Strides,
    pub(super) start: u64,
    pub(super) kind: NumberKind,
    pub(super) bits: u32,
    pub(super) shape: Vec<usize>,
}

/// The memory layout of a tensor.
#[derive(Debug, Clone)]
pub struct Tensor<'a> {
    /// What its elements are.
    pub kind: NumberKind,
    /// Bits of an element.
    pub bits: u32,
    /// Elements of each dimension, rows first.
    pub shape: &'a [usize],
    /// Elements from one to the next in each dimension; none: one after another.
    pub strides: Option<&'a [i64]>,
}

impl Tensor<'_> {
    /// Elements from one to the next in each dimension.
    fn steps(&self) -> Vec<i64> {
        if let Some(strides) = self.strides {
            return strides.to_vec();
        }
        let mut steps = vec![1_i64; self.shape.len()];
        for d in (1..steps.len()).rev() {
            steps[d - 1] = steps[d] * self.shape[d] as i64;
        }
        steps
    }

    /// Elements that lie before its first one in memory, and those from the first in memory to the last.
    fn extent(&self) -> (u64, usize) {
        let (mut before, mut after) = (0_u64, 0_u64);
        for (n, step) in self.shape.iter().zip(self.steps()) {
            let reach = n.saturating_sub(1) as u64 * step.unsigned_abs();
            if step < 0 { before += reach } else { after += reach }
        }
        (before, (before + after + 1) as usize)
    }
}

impl GivenArray {
    /// A tensor whose first element is at `address` on `device`; `keep` keeps it alive. None if it has more
    /// than four dimensions, or strides of more than 31 bits.
    ///
    /// # Safety
    /// The tensor is there, with the type given by `kind` and `bits`, for as long as `keep` lives, and
    /// everything that writes it is ordered before the device's stream.
    #[must_use]
    pub unsafe fn borrow(
        device: &Device,
        tensor: &Tensor<'_>,
        address: u64,
        keep: Box<dyn std::any::Any + Send + Sync>,
    ) -> Option<Self> {
        let steps = tensor.steps();
        let fits = tensor.shape.len() <= 4 && !tensor.shape.is_empty();
        if !fits || steps.iter().skip(1).any(|step| i32::try_from(*step).is_err()) {
            return None;
        }
        let size = u64::from(tensor.bits / 8);
        let (start, elements) = tensor.extent();
        let bytes = [elements * size as usize];
        let first = address - start * size;
        // SAFETY: these are the bytes from the tensor's first element in memory to its last; the rest is the
        // caller's promise.
        let memory =
            unsafe { DeviceArray::borrow(device, ("given", DType::U8, &bytes), first, keep) };
        let (row, steps) = (steps[0] as u64, steps[1..].iter().map(|step| *step as i32));
        let strides = strides(row, tensor.shape, steps);
        let (kind, bits) = (tensor.kind, tensor.bits);
        Some(Self { memory, strides, start, kind, bits, shape: tensor.shape.to_vec() })
    }

    /// Elements in each dimension, rows first.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// What a kernel takes; `group` is whose actions they are, if they are.
    pub(super) fn arg(&self, group: usize) -> Arg {
        let from = &self.memory.as_bytes();
        let (strides, start, kind, bits) = (self.strides, self.start, self.kind as u32, self.bits);
        GivenArgs { from, strides, start, kind, bits, group: group as u32 }.arg()
    }

    /// An array of ours, whose elements lie one after another.
    #[cfg(feature = "replicas")]
    pub(super) fn whole(array: &DeviceArray, shape: &[usize]) -> Self {
        let kind = match array.dtype() {
            DType::F32 => NumberKind::Real,
            _ => NumberKind::Signed,
        };
        let tensor = Tensor { kind, bits: 32, shape, strides: None };
        let steps = tensor.steps();
        let strides = strides(steps[0] as u64, shape, steps[1..].iter().map(|step| *step as i32));
        let (memory, shape) = (array.clone(), shape.to_vec());
        Self { memory, strides, start: 0, kind, bits: 32, shape }
    }
}

/// The strides of a tensor, its last dimensions at the end.
fn strides(row: u64, shape: &[usize], steps: impl ExactSizeIterator<Item = i32>) -> Strides {
    let mut strides = Strides { row, size: [1; 3], step: [0; 3] };
    let first = 3 - steps.len();
    for (d, (n, step)) in shape[1..].iter().zip(steps).enumerate() {
        strides.size[first + d] = *n as u32;
        strides.step[first + d] = step;
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor<'a>(shape: &'a [usize], strides: Option<&'a [i64]>) -> Tensor<'a> {
        Tensor { kind: NumberKind::Signed, bits: 64, shape, strides }
    }

    #[test]
    fn a_tensor_reaches_from_its_first_element_in_memory_to_its_last() {
        assert_eq!(tensor(&[4, 3], None).steps(), [3, 1]);
        assert_eq!(tensor(&[4, 3], None).extent(), (0, 12));
        assert_eq!(tensor(&[4], Some(&[-2])).extent(), (6, 7));
        assert_eq!(tensor(&[4, 2], Some(&[10, -1])).extent(), (1, 32));
        assert_eq!(tensor(&[0, 2], None).extent(), (0, 2));
    }

    #[test]
    fn dimensions_that_there_are_not_have_one_element() {
        let strides = strides(6, &[5, 2, 3], [3, 1].into_iter());
        assert_eq!((strides.size, strides.step), ([1, 2, 3], [0, 3, 1]));
    }
}

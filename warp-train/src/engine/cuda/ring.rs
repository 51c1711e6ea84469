//! The replay memory on the device: a ring of steps for each shard of the rows, in one array after the other.

use crate::algorithm::{ColumnId, Plan};
use crate::error::{Error, Result};
use crate::model::{NamedArray, NamedBytes, NamedTensor};
use std::ops::Range;
use warp_core::DType::{F32, U8};
use warp_data::Element;
use warp_data::cuda::{Device, DeviceArray};

/// The rings `[shards, steps, rows of a shard, ...]`.
#[derive(Debug)]
pub(super) struct RingArrays {
    pub(super) steps: usize,
    /// How many there are, and rows of each.
    shards: usize,
    n_rows: usize,
    /// Observations, those afterwards, actions and rewards, f32.
    pub(super) numbers: [DeviceArray; 4],
    /// Ends, who was in the game, masks and those afterwards, u8.
    pub(super) flags: [DeviceArray; 4],
    /// Numbers per row.
    widths: [[usize; 4]; 2],
}

/// Names of the arrays, as in checkpoints.
const NAMES: [[&str; 4]; 2] =
    [["obs", "next_obs", "action", "reward"], ["ends", "alive", "mask", "next_mask"]];

/// Steps of all rows that the replay memory holds.
pub(super) fn ring_steps(plan: &Plan, n_rows: usize) -> usize {
    (plan.replay.capacity / n_rows.max(1)).max(1)
}

impl RingArrays {
    /// For `n_rows` in so many shards.
    pub(super) fn new(device: &Device, plan: &Plan, n_rows: usize, shards: usize) -> Result<Self> {
        let width = |column: ColumnId| plan.columns[column.0].width;
        let steps = ring_steps(plan, n_rows);
        let cells = steps.saturating_mul(n_rows);
        if cells > u32::MAX as usize {
            let reason = format!("transitions are numbered with 32 bits, but these are {cells}");
            let capacity = plan.replay.capacity;
            return Err(warp_core::Error::invalid("buffer_size", capacity, &reason).into());
        }
        let (obs, mask) = (width(plan.replay.obs), plan.replay.mask.map_or(0, width));
        let widths = [[obs, obs, width(plan.replay.action), 1], [1, 1, mask, mask]];
        let n_rows = n_rows / shards;
        let make = |kind: usize, i: usize| {
            let name = format!("replay.{}", NAMES[kind][i]);
            let dtype = if kind == 0 { F32 } else { U8 };
            DeviceArray::zeros(device, &name, dtype, &[shards * steps, n_rows, widths[kind][i]])
        };
        let four = |kind| -> Result<[DeviceArray; 4]> {
            Ok([make(kind, 0)?, make(kind, 1)?, make(kind, 2)?, make(kind, 3)?])
        };
        Ok(Self { steps, shards, n_rows, numbers: four(0)?, flags: four(1)?, widths })
    }

    /// The first `size` steps, for a checkpoint: `[size, rows of all shards, ...]`, without what has no numbers.
    pub(super) fn arrays(&self, size: usize) -> Result<(Vec<NamedTensor>, Vec<NamedBytes>)> {
        let numbers = self.numbers.iter().enumerate().map(|(i, of)| self.pull([0, i], of, size));
        let flags = self.flags.iter().enumerate().filter(|(i, _)| self.widths[1][*i] > 0);
        let flags = flags.map(|(i, of)| self.pull([1, i], of, size));
        Ok((numbers.collect::<Result<_>>()?, flags.collect::<Result<_>>()?))
    }

    /// Takes over what [`RingArrays::arrays`] gave of `size` steps.
    ///
    /// # Errors
    /// An array that is missing or of another size.
    pub(super) fn load(
        &self,
        numbers: &[NamedTensor],
        flags: &[NamedBytes],
        size: usize,
    ) -> Result<()> {
        let mut of_numbers = self.numbers.iter().enumerate();
        of_numbers.try_for_each(|(i, to)| self.push([0, i], to, numbers, size))?;
        let mut of_flags = self.flags.iter().enumerate();
        of_flags.try_for_each(|(i, to)| self.push([1, i], to, flags, size))
    }

    /// Where the first `size` steps of a shard lie in an array of so many numbers per row.
    fn places(&self, shard: usize, size: usize, width: usize) -> Range<usize> {
        let of_step = self.n_rows * width;
        let first = shard * self.steps * of_step;
        first..first + size * of_step
    }

    fn pull<T: Element + Default>(
        &self,
        [kind, i]: [usize; 2],
        array: &DeviceArray,
        size: usize,
    ) -> Result<NamedArray<T>> {
        let width = self.widths[kind][i];
        let shard = |shard| part_of::<T>(array, self.places(shard, size, width));
        let parts = (0..self.shards).map(shard).collect::<Result<Vec<_>>>()?;
        let name = format!("replay.{}", NAMES[kind][i]);
        Ok(of_shards(&name, [size, self.n_rows, width], parts))
    }

    fn push<T: Element>(
        &self,
        [kind, i]: [usize; 2],
        array: &DeviceArray,
        given: &[NamedArray<T>],
        size: usize,
    ) -> Result<()> {
        let (name, width) = (format!("replay.{}", NAMES[kind][i]), self.widths[kind][i]);
        let len = self.shards * self.places(0, size, width).len();
        let found = given.iter().find(|given| given.name == name);
        let Some(found) = found.filter(|found| found.data.len() == len) else {
            let reason =
                format!("the array \"{name}\" of {len} elements is missing or of another size");
            return if len == 0 { Ok(()) } else { Err(Error::Invalid(reason)) };
        };
        if self.shards == 1 {
            return push_part(array, 0, &found.data);
        }
        (0..self.shards).try_for_each(|shard| {
            let part = found.part(shard, self.shards);
            push_part(array, self.places(shard, size, width).start, &part.data)
        })
    }
}

/// An array of the rows of all shards, from those of each, `[steps, rows, width]`.
pub(super) fn of_shards<T: Copy>(
    name: &str,
    shape: [usize; 3],
    parts: impl IntoIterator<Item = Vec<T>>,
) -> NamedArray<T> {
    let mut parts = parts.into_iter();
    let (name, shape, data) = (name.into(), shape.into(), parts.next().unwrap_or_default());
    let others: Vec<Vec<T>> = parts.collect();
    let others: Vec<&[T]> = others.iter().map(|part| &part[..]).collect();
    NamedArray { name, shape, data }.with_rows_of(&others)
}

/// Some elements of an array.
fn part_of<T: Element + Default>(array: &DeviceArray, elements: Range<usize>) -> Result<Vec<T>> {
    if elements.len() == array.len() {
        return Ok(array.pull()?);
    }
    let part = DeviceArray::zeros(array.device(), "part", T::DTYPE, &[elements.len()])?;
    part.copy_part(0, array, elements)?;
    Ok(part.pull()?)
}

/// Sets elements of an array, from `first` on.
fn push_part<T: Element>(array: &DeviceArray, first: usize, data: &[T]) -> Result<()> {
    let part = DeviceArray::from_slice(array.device(), "part", &[data.len()], data)?;
    Ok(array.copy_part(first, &part, 0..data.len())?)
}

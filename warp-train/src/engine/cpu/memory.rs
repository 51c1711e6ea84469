//! The replay memory of an engine: a ring for each shard of its rows, and batches that take as many samples of
//! each, so that it does not matter which rank has which shards.

use crate::config::{Shards, Sharing};
use crate::error::Result;
use crate::memory::{Batch, Importance, PriorityStats, Ring, RingShape, Sampling, Transition};
use crate::model::{NamedArray, NamedBytes, NamedTensor};

/// The rings of the shards here, all of which have as many steps.
#[derive(Debug)]
pub(crate) struct Rings {
    rings: Vec<Ring>,
    sharing: Sharing,
}

impl Rings {
    /// Empty memories of `capacity` transitions together with those of all other ranks; `shape` is that of all
    /// rows here.
    ///
    /// # Errors
    /// Too little memory.
    pub(super) fn new(
        capacity: usize,
        shape: RingShape,
        prioritised: bool,
        sharing: &Sharing,
    ) -> Result<Self> {
        let Shards { here, total, .. } = sharing.shards;
        let (capacity, shape) =
            (capacity / total, RingShape { n_rows: shape.n_rows / here, ..shape });
        if here > 1 {
            let bytes = Ring::bytes(capacity, shape).saturating_mul(here as u128);
            warp_data::memory::check(&format!("{here} replay memories"), bytes, "buffer_size")?;
        }
        let ring = || {
            let ring = Ring::new(capacity, shape)?;
            if prioritised { ring.prioritised() } else { Ok(ring) }
        };
        let rings = (0..here).map(|_| ring()).collect::<Result<_>>()?;
        Ok(Self { rings, sharing: sharing.clone() })
    }

    /// Stores a step of all rows here.
    pub(crate) fn store(&mut self, step: &Transition<'_>) {
        let n_rows = step.reward.len();
        for (shard, ring) in self.rings.iter_mut().enumerate() {
            ring.store(&step.rows(self.sharing.shards.rows(n_rows, shard)));
        }
    }

    /// Draws the part of a batch that is here, as many samples of each ring. Importance weights have the power
    /// `beta`.
    ///
    /// # Errors
    /// Ranks that have lost each other.
    pub(super) fn sample(
        &mut self,
        sampling: &Sampling,
        beta: f32,
        batch: &mut Batch<'_>,
    ) -> Result<()> {
        let (shards, n) = (self.sharing.shards, batch.reward.len());
        for (shard, ring) in self.rings.iter_mut().enumerate() {
            let rows = shards.rows(n, shard);
            let first_row = sampling.first_row + rows.start as u32;
            ring.sample(&Sampling { first_row, ..*sampling }, &mut batch.rows(rows));
        }
        let here: Vec<PriorityStats> = self.rings.iter().filter_map(Ring::priority_stats).collect();
        if here.is_empty() {
            return Ok(());
        }
        let numbers: Vec<f32> = here.iter().flat_map(|stats| [stats.sum, stats.min]).collect();
        let all = self.sharing.world.all_gather_f32("priorities", &numbers)?;
        let (all, _) = all.as_chunks::<2>();
        let all: Vec<PriorityStats> =
            all.iter().map(|[sum, min]| PriorityStats { sum: *sum, min: *min }).collect();
        let weights = batch.weight.chunks_mut(n / shards.here);
        for ((ring, own), weights) in self.rings.iter().zip(here).zip(weights) {
            ring.importance_weights(&Importance::of(&all, own, beta), weights);
        }
        Ok(())
    }

    /// Makes new priorities of the samples of the last batch here from their errors.
    ///
    /// # Errors
    /// Ranks that have lost each other.
    pub(super) fn update_priorities(&mut self, errors: &[f32], alpha: f32) -> Result<()> {
        let Sharing { world, shards } = &self.sharing;
        for (shard, ring) in self.rings.iter_mut().enumerate() {
            ring.update_priorities(&errors[shards.rows(errors.len(), shard)], alpha);
        }
        if shards.is_one() {
            return Ok(());
        }
        let here: Vec<f32> = self.rings.iter().filter_map(Ring::max_priority).collect();
        let all = world.all_gather_f32("largest priorities", &here)?;
        let max = all.into_iter().fold(0.0, f32::max);
        self.rings.iter_mut().for_each(|ring| ring.raise_max_priority(max));
        Ok(())
    }

    /// What is there, for a checkpoint, with all rows here.
    pub(super) fn arrays(&self) -> (Vec<NamedTensor>, Vec<NamedBytes>) {
        let (numbers, flags): (Vec<_>, Vec<_>) = self.rings.iter().map(Ring::arrays).unzip();
        (together(numbers), together(flags))
    }

    /// Where the next step goes.
    pub(super) fn head(&self) -> usize {
        self.rings.first().map_or(0, Ring::head)
    }

    /// Takes over what [`Rings::arrays`] gave, and [`Rings::head`].
    ///
    /// # Errors
    /// An array that is missing or of another shape, in words.
    pub(super) fn load(
        &mut self,
        numbers: &[NamedTensor],
        flags: &[NamedBytes],
        head: usize,
    ) -> std::result::Result<(), String> {
        let n = self.rings.len();
        if let [ring] = &mut self.rings[..] {
            return ring.load(numbers, flags, head);
        }
        for (index, ring) in self.rings.iter_mut().enumerate() {
            let numbers: Vec<_> = numbers.iter().map(|array| array.part(index, n)).collect();
            let flags: Vec<_> = flags.iter().map(|array| array.part(index, n)).collect();
            ring.load(&numbers, &flags, head)?;
        }
        Ok(())
    }
}

/// From the arrays of each ring to those of all rings.
fn together<T: Copy>(rings: Vec<Vec<NamedArray<T>>>) -> Vec<NamedArray<T>> {
    let mut rings = rings.into_iter();
    let first = rings.next().unwrap_or_default();
    let others: Vec<_> = rings.collect();
    let joined = |(i, array): (usize, NamedArray<T>)| {
        let others: Vec<&[T]> = others.iter().map(|ring| &ring[i].data[..]).collect();
        array.with_rows_of(&others)
    };
    first.into_iter().enumerate().map(joined).collect()
}

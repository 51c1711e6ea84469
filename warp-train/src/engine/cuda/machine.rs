//! The GPU: what of it decides how work is cut.

use warp_func::cuda::DeviceInfo;

/// Shared memory of a pass at most, where a multiprocessor has two blocks.
const MOST_SHARED: usize = 100 << 10;
/// What a block takes beside it: a program's own, and the driver's.
const SHARED_BESIDE: usize = 5 << 10;
/// Shared memory of half of eight tiles of weights, moments and targets, of their biases, and of the rows on their way to
/// them.
pub(super) const GROUP_BYTES: usize = 8 * 4 * (16 * 32 + 32) * 4 + 3 * 2 * 16 * 208 * 2;
/// Shared memory of a tile whose gradients make a step at once: rows on their way to each warp, and parameters, moments
/// and targets.
pub(super) const LEARN_BYTES: usize = 8 * 2 * 2 * 16 * 40 * 2 + 4 * (32 * 32 + 32) * 4;
/// Runs from which on a run has more tiles of weights than warps.
const MANY_RUNS: usize = 8;

/// What of a GPU decides how work is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Machine {
    multiprocessors: usize,
    /// Shared memory of each, in bytes.
    shared: usize,
    /// Runs that share it.
    runs: usize,
    /// Compute capability, the major version.
    generation: u32,
}

impl Machine {
    /// The H200.
    pub(crate) const H200: Self =
        Self { multiprocessors: 132, shared: 228 << 10, runs: 1, generation: 9 };

    pub(crate) fn of(info: &DeviceInfo) -> Self {
        let multiprocessors = info.n_multiprocessors as usize;
        let shared = info.shared_per_multiprocessor as usize;
        Self { multiprocessors, shared, runs: 1, generation: info.capability.0 }
    }

    /// A part of it, for each of so many runs.
    pub(crate) fn shared_by(self, runs: usize) -> Self {
        Self { runs, ..self }
    }

    /// Runs that share it.
    pub(crate) fn runs(self) -> usize {
        self.runs
    }

    /// Shared memory that each of two blocks of a multiprocessor can have, in bytes.
    fn half_of_shared(self) -> usize {
        (self.shared / 2).saturating_sub(SHARED_BESIDE)
    }

    /// That of passes.
    pub(super) fn most_shared(self) -> usize {
        self.half_of_shared().min(MOST_SHARED)
    }

    /// Whether each of two blocks of a multiprocessor can have so many bytes of shared memory.
    pub(super) fn fits_twice(self, bytes: usize) -> bool {
        bytes <= self.half_of_shared()
    }

    /// Whether so many share it that a run has few blocks, each of which takes several tiles of weights at a time: a
    /// multiprocessor must have shared memory for two of them.
    pub(super) fn is_crowded(self) -> bool {
        self.runs >= MANY_RUNS && self.generation >= 9 && self.fits_twice(GROUP_BYTES)
    }

    /// Runs that have a place at the same time at most.
    pub(crate) fn most_runs(self) -> usize {
        2 * self.multiprocessors
    }

    /// Whether products with operands in both kinds of half precision are known.
    pub(super) fn has_halves(self) -> bool {
        self.generation >= 8
    }

    /// Blocks, `largest` at most, that share a tile where there are `n`: clusters came with generation 9.
    pub(super) fn team(self, n: usize, largest: usize) -> usize {
        let largest = if self.generation >= 9 && self.runs == 1 { largest } else { 1 };
        1 << (self.multiprocessors / n).clamp(1, largest).ilog2()
    }

    /// Whether so many tiles keep half of a run's multiprocessors busy, or, of one of several runs, more than half of its
    /// blocks.
    pub(super) fn is_busy_with(self, tiles: usize) -> bool {
        match self.runs {
            1 => tiles >= self.multiprocessors / 2,
            _ => 2 * tiles > self.most_blocks(),
        }
    }

    /// Blocks of a program of one run at most. All run at the same time, so that they can meet: a multiprocessor
    /// takes two of them, and a quarter of the places is left over for clusters that must not be torn apart.
    pub(super) fn most_blocks(self) -> usize {
        match self.runs {
            1 => self.multiprocessors * 3 / 2,
            runs => (self.most_runs() / runs).max(1),
        }
    }
}

/// Bytes of a tile's numbers in half precision, before and after a layer, and of warps' parts of sums.
pub(super) fn half_bytes(high: usize, widest: usize) -> usize {
    2 * 2 * 16 * high * (widest + 8) + 8 * 16 * 32 * 4
}

#[cfg(test)]
mod tests {
    use super::super::row_tiles::{MOST_PASSES, RowTiles};
    use super::*;

    /// The rows of a batch of 256, for layers of 256, in so many runs on a GPU with so many KB in each multiprocessor.
    fn batch(kilobytes: usize, runs: usize) -> (usize, bool) {
        let machine = Machine { shared: kilobytes << 10, generation: 12, ..Machine::H200 };
        let machine = machine.shared_by(runs);
        let high = RowTiles::of_passes(256, machine, 256, MOST_PASSES).high;
        assert!(half_bytes(high, 256) + SHARED_BESIDE <= (kilobytes << 10) / 2);
        (high, machine.is_crowded())
    }

    #[test]
    fn two_blocks_of_a_program_fit_into_a_multiprocessor() {
        let batches = |kilobytes| [1, 12, 32, 64].map(|runs| batch(kilobytes, runs));
        assert_eq!(batches(228), [(1, false), (1, true), (2, true), (4, true)]);
        assert_eq!(batches(164), [(1, false), (1, false), (2, false), (2, false)]);
        assert_eq!(batches(100), [(1, false); 4]);
        let brings_tiles = |kilobytes: usize| {
            Machine { shared: kilobytes << 10, ..Machine::H200 }.fits_twice(LEARN_BYTES)
        };
        assert_eq!([228, 164, 100].map(brings_tiles), [true, true, false]);
    }
}

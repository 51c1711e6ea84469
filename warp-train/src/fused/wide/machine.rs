//! The GPU: what of it decides how a network runs.

use warp_data::cuda::DeviceInfo;

/// Bytes of a multiprocessor's shared memory that a block takes for itself.
pub(super) const OWN_BYTES: usize = 1024;

/// What of a GPU decides how a network runs.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Machine {
    pub(super) shared: SharedMemory,
    pub(super) multiprocessors: usize,
    /// Compute capability, the major version.
    pub(super) generation: u32,
}

impl Machine {
    /// The H200.
    pub(super) const H200: Self =
        Self { shared: SharedMemory::H200, multiprocessors: 132, generation: 9 };

    pub(in super::super) fn of(info: &DeviceInfo) -> Self {
        Self {
            shared: SharedMemory::of(info),
            multiprocessors: info.n_multiprocessors as usize,
            generation: info.capability.0,
        }
    }
}

/// Shared memory of a GPU, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedMemory {
    pub(super) per_block: usize,
    pub(super) per_multiprocessor: usize,
}

impl SharedMemory {
    /// Those of the H200.
    pub(super) const H200: Self = Self { per_block: 232_448, per_multiprocessor: 233_472 };

    pub(super) fn of(info: &DeviceInfo) -> Self {
        let per_multiprocessor = info.shared_per_multiprocessor as usize;
        Self { per_block: info.shared_per_block as usize, per_multiprocessor }
    }

    /// For each of so many blocks of a multiprocessor, without what is kept back of each.
    pub(super) fn of_each(self, blocks: usize) -> usize {
        self.per_multiprocessor / blocks - OWN_BYTES
    }
}

//! The reward of every cell as a table that a body reads without a bounds check.

use super::landscape::{Landscape, MOST_CELLS};

/// What a body reads and all replicas share.
#[derive(Debug, Clone)]
pub(super) struct Tables {
    pub(super) rewards: Rewards,
}

/// Reward of a step into each cell of the slab, f32 `[n_cells]`, the goal's own reward not included.
#[derive(Clone)]
pub(super) struct Rewards {
    /// Longer than the grid, so that a masked index is always within it.
    padded: Box<[f32; MOST_CELLS]>,
    last_cell: u32,
}

impl std::fmt::Debug for Rewards {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rewards").field("last_cell", &self.last_cell).finish_non_exhaustive()
    }
}

impl Rewards {
    pub(super) fn of(landscape: &Landscape) -> Self {
        let n_cells = landscape.energies.len();
        // Zeros that nobody writes take no memory.
        let mut padded = vec![0.0; MOST_CELLS].into_boxed_slice();
        for (place, reward) in padded.iter_mut().zip(landscape.rewards()) {
            *place = reward as f32;
        }
        let Ok(padded) = padded.try_into() else { unreachable!("it was made as long") };
        Self { padded, last_cell: n_cells as u32 - 1 }
    }

    /// The table itself.
    pub(super) fn cells(&self) -> &[f32] {
        &self.padded[..=self.last_cell as usize]
    }

    /// The reward of cell `number`, of numbers beyond the last cell that of the last.
    #[inline(always)]
    pub(super) fn get_clamped(&self, number: usize) -> f32 {
        // Numbers come from 32 bits, of which a vector holds more than of 64.
        let number = (number as u32).min(self.last_cell);
        self.padded[number as usize & (MOST_CELLS - 1)]
    }
}

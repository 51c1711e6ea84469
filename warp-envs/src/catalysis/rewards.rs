//! The reward of every cell as a table that a body can read without a bounds check.

use super::landscape::{Landscape, MOST_CELLS};

/// Reward of a step into each cell of the slab, f32 `[n_cells]`, the goal's own reward not included.
#[derive(Clone)]
pub(super) struct Rewards {
    /// Longer than the grid, so that a masked index is always within it.
    padded: Box<[f32; MOST_CELLS]>,
    n_cells: usize,
}

impl std::fmt::Debug for Rewards {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rewards").field("n_cells", &self.n_cells).finish_non_exhaustive()
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
        Self { padded, n_cells }
    }

    /// The table itself.
    pub(super) fn cells(&self) -> &[f32] {
        &self.padded[..self.n_cells]
    }

    /// The reward of cell `number`, at most the last one.
    #[inline(always)]
    pub(super) fn get(&self, number: u32) -> f32 {
        self.padded[number as usize & (MOST_CELLS - 1)]
    }
}

//! How rows are cut into tiles, and blocks into teams that share them.

use super::machine::{Machine, half_bytes};

/// Warps of a block.
pub(super) const WARPS: usize = 8;
/// Rows from which on tiles of rows are two parts high, where products are in fp32.
const MANY_ROWS: usize = 4096;
/// Most blocks that a team has, and most passes that it takes at a time where products are in half precision.
const LARGEST_TEAM: usize = 8;
pub(super) const MOST_PASSES: usize = 4;
/// Columns of a layer for which a block has warps: 32 each.
pub(super) const BLOCK_COLUMNS: usize = 32 * WARPS;

/// How rows are cut into tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowTiles {
    pub(super) rows: usize,
    /// Parts of 16 rows in a tile.
    pub(super) high: usize,
    /// Blocks that share a tile.
    pub(super) team: usize,
    /// Those of a team that share the layers of a pass, where products are in half precision.
    pub(super) share: usize,
    /// Blocks of a team in a run that has the GPU for itself: the order of sums does not depend on other runs.
    pub(super) team_alone: usize,
    /// Tiles.
    pub(super) n: usize,
}

impl RowTiles {
    /// Where a team shares layers.
    pub(super) fn of_layers(rows: usize, machine: Machine) -> Self {
        let high = if rows < MANY_ROWS { 1 } else { 2 };
        let n = rows.div_ceil(16 * high);
        let team_alone = machine.shared_by(1).team(n, LARGEST_TEAM);
        Self { rows, high, team: machine.team(n, LARGEST_TEAM), share: 1, team_alone, n }
    }

    /// Where a team takes `passes` at a time at most, each by one block, or by as many as have a warp for every 32 columns of
    /// the widest layer: tiles as high as fits, while there are enough of them.
    pub(super) fn of_passes(rows: usize, machine: Machine, widest: usize, passes: usize) -> Self {
        let n = |high: usize| rows.div_ceil(16 * high);
        let fits = |high: &usize| {
            rows >= 16 * high
                && machine.is_busy_with(n(*high))
                && half_bytes(*high, widest) <= machine.most_shared()
        };
        let high = [4, 2].into_iter().find(fits).unwrap_or(1);
        let n = n(high);
        let share = widest.div_ceil(BLOCK_COLUMNS).next_power_of_two();
        let team = machine.team(n, (passes * share).min(LARGEST_TEAM));
        Self { rows, high, team, share: share.min(team), team_alone: team, n }
    }

    pub(super) fn padded(&self) -> usize {
        self.n * 16 * self.high
    }
}

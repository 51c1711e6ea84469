//! FrozenLake's body: one draw a step, which way the ice lets the elf go.

use super::{FrozenLakeParams, FrozenLakeState, Tables};
use crate::slippery::slip;
use warp_core::{Actions, Draw, Observation, StepOut};

#[inline(always)]
pub(super) fn reset(tables: &Tables, state: &mut FrozenLakeState, draw: &mut Draw) {
    state.state = tables.starts[draw.below(tables.starts.len() as u32) as usize];
}

#[inline(always)]
pub(super) fn step(
    params: &FrozenLakeParams,
    tables: &Tables,
    state: &mut FrozenLakeState,
    actions: &Actions<'_>,
    draw: &mut Draw,
    out: &mut StepOut<'_>,
) {
    let turn = slip(draw.uniform(), params.first, params.second);
    let cell = moved(params, state.state, (actions.discrete[0][0] + turn) % 4);
    let tile = tables.tiles[cell as usize];
    state.state = cell;
    out.reward[0][0] = tables.rewards[tile as usize];
    out.terminated = tile != 0;
}

/// The cell to the left of `cell` (0), below it (1), to its right (2) or above it (3); itself at the
/// border.
#[inline(always)]
fn moved(params: &FrozenLakeParams, cell: i32, direction: i32) -> i32 {
    let row = cell / params.columns + i32::from(direction == 1) - i32::from(direction == 3);
    let column = cell % params.columns + i32::from(direction == 2) - i32::from(direction == 0);
    let row = row.clamp(0, params.rows - 1);
    let column = column.clamp(0, params.columns - 1);
    row * params.columns + column
}

/// What is seen, as the number that kernels show one-hot.
#[inline(always)]
pub(super) fn shown_number(state: &FrozenLakeState) -> i32 {
    state.state
}

pub(super) fn observe(
    params: &FrozenLakeParams,
    state: &FrozenLakeState,
    out: &mut Observation<'_>,
) {
    let number = shown_number(state);
    for cell in 0..params.rows * params.columns {
        out.obs[0][cell as usize] = if cell == number { 1.0 } else { 0.0 };
    }
}

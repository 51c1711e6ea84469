//! CliffWalking's body: one draw a step, which way the walker slips.

use super::{COLUMNS, CliffWalkingParams, CliffWalkingState, GOAL, ROWS, START};
use crate::slippery::slip;
use warp_core::{Actions, Draw, Observation, StepOut};

#[inline(always)]
pub(super) fn reset(state: &mut CliffWalkingState) {
    state.state = START;
}

#[inline(always)]
pub(super) fn step(
    params: &CliffWalkingParams,
    state: &mut CliffWalkingState,
    actions: &Actions<'_>,
    draw: &mut Draw,
    out: &mut StepOut<'_>,
) {
    let turn = slip(draw.uniform(), params.first, params.second);
    let direction = (actions.discrete[0][0] + turn) % 4;
    let row = state.state / COLUMNS + i32::from(direction == 2) - i32::from(direction == 0);
    let column = state.state % COLUMNS + i32::from(direction == 1) - i32::from(direction == 3);
    let cell = row.clamp(0, ROWS - 1) * COLUMNS + column.clamp(0, COLUMNS - 1);
    // `&` and not `&&`: a branch would keep the compiler from stepping many replicas at once.
    let falls = (cell > START) & (cell < GOAL);
    state.state = if falls { START } else { cell };
    out.reward[0][0] = if falls { -100.0 } else { -1.0 };
    out.terminated = cell == GOAL;
}

/// What is seen, as the number that kernels show one-hot.
#[inline(always)]
pub(super) fn shown_number(state: &CliffWalkingState) -> i32 {
    state.state
}

#[inline(always)]
pub(super) fn observe(state: &CliffWalkingState, out: &mut Observation<'_>) {
    let number = shown_number(state);
    for cell in 0..ROWS * COLUMNS {
        out.obs[0][cell as usize] = if cell == number { 1.0 } else { 0.0 };
    }
}

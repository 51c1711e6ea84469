//! Catch's body: one draw, at reset.

use super::{CatchParams, CatchState};
use warp_core::{Actions, Draw, Observation, StepOut};

#[inline(always)]
pub(super) fn reset(params: &CatchParams, state: &mut CatchState, draw: &mut Draw) {
    state.ball_row = 0;
    state.ball_column = draw.below(params.width as u32) as i32;
    state.paddle = params.width / 2;
}

#[inline(always)]
pub(super) fn step(
    params: &CatchParams,
    state: &mut CatchState,
    actions: &Actions<'_>,
    out: &mut StepOut<'_>,
) {
    let paddle = state.paddle + actions.discrete[0][0] - 1;
    state.paddle = paddle.clamp(0, params.width - 1);
    state.ball_row += 1;
    let down = state.ball_row >= params.height - 1;
    let caught = if state.ball_column == state.paddle { 1.0 } else { -1.0 };
    out.reward[0][0] = if down { caught } else { 0.0 };
    out.terminated = down;
}

#[inline(always)]
pub(super) fn observe(params: &CatchParams, state: &CatchState, out: &mut Observation<'_>) {
    let ball = state.ball_row * params.width + state.ball_column;
    let paddle = (params.height - 1) * params.width + state.paddle;
    let cells = (params.height * params.width) as usize;
    // As long as the loop, so that cells are written as vectors.
    let board = &mut out.obs[0][..cells];
    for cell in 0..cells {
        let shown = (cell as i32 == ball) | (cell as i32 == paddle);
        board[cell] = if shown { 1.0 } else { 0.0 };
    }
}

//! NChain's body: one draw a step, whether the action slips.

use super::{N_STATES, NChainState};
use warp_core::{Actions, Draw, Observation, StepOut};

/// How often the other action takes place.
const SLIP: f32 = 0.2;
/// The last state.
const LAST: i32 = 4;

#[inline(always)]
pub(super) fn reset(state: &mut NChainState) {
    state.state = 0;
}

#[inline(always)]
pub(super) fn step(
    state: &mut NChainState,
    actions: &Actions<'_>,
    draw: &mut Draw,
    out: &mut StepOut<'_>,
) {
    let slips = draw.uniform() < SLIP;
    let back = (actions.discrete[0][0] == 1) != slips;
    let at_end = state.state == LAST;
    let ahead = if at_end { LAST } else { state.state + 1 };
    let reward = if at_end { 10.0 } else { 0.0 };
    state.state = if back { 0 } else { ahead };
    out.reward[0][0] = if back { 2.0 } else { reward };
}

/// What is seen, as the number that kernels show one-hot.
#[inline(always)]
pub(super) fn shown_number(state: &NChainState) -> i32 {
    state.state
}

#[inline(always)]
pub(super) fn observe(state: &NChainState, out: &mut Observation<'_>) {
    let number = shown_number(state);
    for i in 0..N_STATES {
        out.obs[0][i] = if i as i32 == number { 1.0 } else { 0.0 };
    }
}

//! ContinuousMountainCar's body. Branch-free, so that many replicas share a vector.

use super::{
    ContinuousMountainCarParams, ContinuousMountainCarState, MAX_POSITION, MAX_PUSH, MAX_SPEED,
    MIN_POSITION,
};
use warp_core::{Actions, Draw, Observation, StepOut, math};

/// The flag's position.
const GOAL: f32 = 0.45;
/// What a push of 1 adds to the velocity in a step.
const POWER: f32 = 0.0015;
/// What the steepest slope adds to the velocity in a step.
const GRAVITY: f32 = 0.0025;

#[inline(always)]
pub(super) fn reset(state: &mut ContinuousMountainCarState, draw: &mut Draw) {
    state.position = draw.uniform_in(-0.6, -0.4);
    state.velocity = 0.0;
}

#[inline(always)]
pub(super) fn observe(state: &ContinuousMountainCarState, out: &mut Observation<'_>) {
    let obs = &mut *out.obs[0];
    obs[0] = state.position;
    obs[1] = state.velocity;
}

#[inline(always)]
pub(super) fn step(
    params: &ContinuousMountainCarParams,
    state: &mut ContinuousMountainCarState,
    actions: &Actions<'_>,
    out: &mut StepOut<'_>,
) {
    let action = actions.continuous[0][0];
    let push = action.clamp(-MAX_PUSH, MAX_PUSH) * POWER;
    let slope = math::cos(3.0 * state.position) * GRAVITY;
    let velocity = (state.velocity + (push - slope)).clamp(-MAX_SPEED, MAX_SPEED);
    state.position = (state.position + velocity).clamp(MIN_POSITION, MAX_POSITION);
    let at_wall = (state.position == MIN_POSITION) & (velocity < 0.0);
    state.velocity = if at_wall { 0.0 } else { velocity };
    // `&` and not `&&`: a branch would keep the compiler from stepping many replicas at once.
    let reached = (state.position >= GOAL) & (state.velocity >= params.goal_velocity);
    let prize = if reached { 100.0 } else { 0.0 };
    // As in the original, the cost is the action's as it was given, not the push's.
    out.reward[0][0] = prize - 0.1 * (action * action);
    out.terminated = reached;
}

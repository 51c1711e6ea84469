//! MountainCar's body. Branch-free, so that many replicas share a vector.

use super::{MAX_POSITION, MAX_SPEED, MIN_POSITION, MountainCarParams, MountainCarState};
use warp_core::{Actions, Draw, Observation, StepOut, math};

/// The flag's position.
const GOAL: f32 = 0.5;
/// What the motor adds to the velocity in a step.
const FORCE: f32 = 0.001;
/// What the steepest slope adds to the velocity in a step.
const GRAVITY: f32 = 0.0025;

#[inline(always)]
pub(super) fn reset(state: &mut MountainCarState, draw: &mut Draw) {
    state.position = draw.uniform_in(-0.6, -0.4);
    state.velocity = 0.0;
}

#[inline(always)]
pub(super) fn observe(state: &MountainCarState, out: &mut Observation<'_>) {
    let obs = &mut *out.obs[0];
    obs[0] = state.position;
    obs[1] = state.velocity;
}

#[inline(always)]
pub(super) fn step(
    params: &MountainCarParams,
    state: &mut MountainCarState,
    actions: &Actions<'_>,
    out: &mut StepOut<'_>,
) {
    // 0 pushes left, 1 not at all, 2 right.
    let push = (actions.discrete[0][0] - 1) as f32 * FORCE;
    let slope = math::cos(3.0 * state.position) * GRAVITY;
    let velocity = (state.velocity + (push - slope)).clamp(-MAX_SPEED, MAX_SPEED);
    state.position = (state.position + velocity).clamp(MIN_POSITION, MAX_POSITION);
    let at_wall = (state.position == MIN_POSITION) & (velocity < 0.0);
    state.velocity = if at_wall { 0.0 } else { velocity };
    out.reward[0][0] = -1.0;
    // `&` and not `&&`: a branch would keep the compiler from stepping many replicas at once.
    out.terminated = (state.position >= GOAL) & (state.velocity >= params.goal_velocity);
}

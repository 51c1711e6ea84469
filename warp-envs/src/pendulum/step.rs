//! Pendulum's body: semi-implicit Euler over 0.05 s. Branch-free, so that replicas share a vector.

use super::{MAX_SPEED, MAX_TORQUE, PendulumParams, PendulumState};
use std::f32::consts::PI;
use warp_core::{Actions, Draw, Observation, StepOut, math};

/// s.
const TAU: f32 = 0.05;
/// kg.
const MASS: f32 = 1.0;
/// m.
const LENGTH: f32 = 1.0;

#[inline(always)]
pub(super) fn reset(state: &mut PendulumState, draw: &mut Draw) {
    state.theta = draw.uniform_in(-PI, PI);
    state.theta_dot = draw.uniform_in(-1.0, 1.0);
}

#[inline(always)]
pub(super) fn observe(state: &PendulumState, out: &mut Observation<'_>) {
    let obs = &mut *out.obs[0];
    let (sin, cos) = math::sin_cos(state.theta);
    obs[0] = cos;
    obs[1] = sin;
    obs[2] = state.theta_dot;
}

#[inline(always)]
pub(super) fn step(
    params: &PendulumParams,
    state: &mut PendulumState,
    actions: &Actions<'_>,
    out: &mut StepOut<'_>,
) {
    let torque = actions.continuous[0][0].clamp(-MAX_TORQUE, MAX_TORQUE);
    // The original's angle grows without bound; taking whole turns off keeps an f32 accurate.
    let theta = math::wrap_angle(state.theta);
    let speed = state.theta_dot;
    out.reward[0][0] = -(theta * theta + 0.1 * (speed * speed) + 0.001 * (torque * torque));
    let falling = 3.0 * params.gravity / (2.0 * LENGTH) * math::sin(theta);
    let driven = 3.0 / (MASS * LENGTH * LENGTH) * torque;
    state.theta_dot = (speed + (falling + driven) * TAU).clamp(-MAX_SPEED, MAX_SPEED);
    state.theta = theta + state.theta_dot * TAU;
}

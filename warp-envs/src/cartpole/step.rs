//! CartPole's body: explicit Euler over 0.02 s. Branch-free, so that many replicas share a vector.

use super::{CartPoleParams, CartPoleState, THETA_LIMIT, X_LIMIT};
use warp_core::{Actions, Draw, Observation, StepOut, math};

/// m/s^2.
const GRAVITY: f32 = 9.8;
/// kg.
const POLE_MASS: f32 = 0.1;
/// Cart and pole together, kg.
const TOTAL_MASS: f32 = 1.1;
/// Half the pole's length, m.
const LENGTH: f32 = 0.5;
/// kg m.
const POLE_MASS_LENGTH: f32 = POLE_MASS * LENGTH;
/// N.
const FORCE: f32 = 10.0;
/// s.
const TAU: f32 = 0.02;

#[inline(always)]
pub(super) fn reset(params: &CartPoleParams, state: &mut CartPoleState, draw: &mut Draw) {
    let range = params.start_range;
    state.x = draw.uniform_in(-range, range);
    state.x_dot = draw.uniform_in(-range, range);
    state.theta = draw.uniform_in(-range, range);
    state.theta_dot = draw.uniform_in(-range, range);
}

#[inline(always)]
pub(super) fn observe(state: &CartPoleState, out: &mut Observation<'_>) {
    let obs = &mut *out.obs[0];
    obs[0] = state.x;
    obs[1] = state.x_dot;
    obs[2] = state.theta;
    obs[3] = state.theta_dot;
}

#[inline(always)]
pub(super) fn step(state: &mut CartPoleState, actions: &Actions<'_>, out: &mut StepOut<'_>) {
    let force = if actions.discrete[0][0] == 1 { FORCE } else { -FORCE };
    let (sin, cos) = math::sin_cos(state.theta);
    let swing = POLE_MASS_LENGTH * state.theta_dot * state.theta_dot * sin;
    let temp = (force + swing) / TOTAL_MASS;
    let inertia = LENGTH * (4.0 / 3.0 - POLE_MASS * cos * cos / TOTAL_MASS);
    let theta_acc = (GRAVITY * sin - cos * temp) / inertia;
    let x_acc = temp - POLE_MASS_LENGTH * theta_acc * cos / TOTAL_MASS;
    state.x += TAU * state.x_dot;
    state.x_dot += TAU * x_acc;
    state.theta += TAU * state.theta_dot;
    state.theta_dot += TAU * theta_acc;
    out.reward[0][0] = 1.0;
    // `|` and not `||`: a branch would keep the compiler from stepping many replicas at once.
    out.terminated = (state.x.abs() > X_LIMIT) | (state.theta.abs() > THETA_LIMIT);
}

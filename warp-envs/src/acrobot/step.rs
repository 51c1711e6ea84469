//! Acrobot's body: one Runge-Kutta step over 0.2 s. Branch-free, so that replicas share a vector.

use super::{AcrobotParams, AcrobotState, MAX_SPEEDS};
use warp_core::{Actions, Draw, Observation, StepOut, math};

/// m/s^2.
const GRAVITY: f32 = 9.8;
/// Of each link, kg.
const MASS: f32 = 1.0;
/// Of the first link, m; the second one's does not matter.
const LENGTH: f32 = 1.0;
/// From each link's joint to its centre of mass, m.
const CENTRE: f32 = 0.5;
/// Moment of inertia of each link, kg m^2.
const INERTIA: f32 = 1.0;
/// s.
const TAU: f32 = 0.2;

/// Both angles, then both angular velocities.
type Links = [f32; 4];

#[inline(always)]
pub(super) fn reset(params: &AcrobotParams, state: &mut AcrobotState, draw: &mut Draw) {
    let range = params.start_range;
    state.theta1 = draw.uniform_in(-range, range);
    state.theta2 = draw.uniform_in(-range, range);
    state.theta1_dot = draw.uniform_in(-range, range);
    state.theta2_dot = draw.uniform_in(-range, range);
}

#[inline(always)]
pub(super) fn observe(state: &AcrobotState, out: &mut Observation<'_>) {
    let obs = &mut *out.obs[0];
    (obs[1], obs[0]) = math::sin_cos(state.theta1);
    (obs[3], obs[2]) = math::sin_cos(state.theta2);
    obs[4] = state.theta1_dot;
    obs[5] = state.theta2_dot;
}

#[inline(always)]
pub(super) fn step(state: &mut AcrobotState, actions: &Actions<'_>, out: &mut StepOut<'_>) {
    // 0 turns one way, 1 not at all, 2 the other way; N m.
    let torque = (actions.discrete[0][0] - 1) as f32;
    let links = [state.theta1, state.theta2, state.theta1_dot, state.theta2_dot];
    let k1 = derivative(links, torque);
    let k2 = derivative(moved(links, k1, TAU / 2.0), torque);
    let k3 = derivative(moved(links, k2, TAU / 2.0), torque);
    let k4 = derivative(moved(links, k3, TAU), torque);
    let after = |i: usize| links[i] + TAU / 6.0 * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]);
    // All before angles are wrapped: compilers for GPUs keep this order, and the velocities' division takes long.
    let (theta1, theta2, omega1, omega2) = (after(0), after(1), after(2), after(3));
    state.theta1 = math::wrap_angle(theta1);
    state.theta2 = math::wrap_angle(theta2);
    state.theta1_dot = omega1.clamp(-MAX_SPEEDS[0], MAX_SPEEDS[0]);
    state.theta2_dot = omega2.clamp(-MAX_SPEEDS[1], MAX_SPEEDS[1]);
    // The tip's height above the joint, for links of 1 m, and the bar's.
    let (sin1, cos1) = math::sin_cos(state.theta1);
    let (sin2, cos2) = math::sin_cos(state.theta2);
    let height = -cos1 - (cos1 * cos2 - sin1 * sin2);
    out.terminated = height > 1.0;
    out.reward[0][0] = if out.terminated { 0.0 } else { -1.0 };
}

#[inline(always)]
fn moved(links: Links, rate: Links, time: f32) -> Links {
    let mut to = links;
    for i in 0..4 {
        to[i] = links[i] + time * rate[i];
    }
    to
}

/// How fast the links turn and speed up: the equations of Sutton and Barto's book (1998, 11.3),
/// `d1 acc1 + d2 acc2 = -phi1` and `d2 acc1 + d3 acc2 = rest`, solved for both at once. The book
/// puts one into the other, which takes another division and leaves a larger error in f32.
#[inline(always)]
fn derivative([theta1, theta2, omega1, omega2]: Links, torque: f32) -> Links {
    let (sin1, cos1) = math::sin_cos(theta1);
    let (sin2, cos2) = math::sin_cos(theta2);
    // Sine of the second link's angle from straight down.
    let sin12 = sin1 * cos2 + cos1 * sin2;
    let coupling = MASS * LENGTH * CENTRE;
    let d3 = MASS * CENTRE * CENTRE + INERTIA;
    let d2 = d3 + coupling * cos2;
    let d1 = 2.0 * d3 + MASS * LENGTH * LENGTH + 2.0 * coupling * cos2;
    let phi2 = MASS * CENTRE * GRAVITY * sin12;
    let whirl = coupling * sin2 * (omega2 * (omega2 + 2.0 * omega1));
    let phi1 = MASS * (CENTRE + LENGTH) * GRAVITY * sin1 + phi2 - whirl;
    let rest = torque - coupling * sin2 * (omega1 * omega1) - phi2;
    // d1 d3 - d2^2, without the parts that cancel.
    let determinant = d3 * (d3 + MASS * LENGTH * LENGTH) - (coupling * cos2) * (coupling * cos2);
    let acc1 = -(d3 * phi1 + d2 * rest) / determinant;
    let acc2 = (d1 * rest + d2 * phi1) / determinant;
    [omega1, omega2, acc1, acc2]
}

//! One atom: the body. Branch-free, so that many replicas share a vector.

use super::rewards::Tables;
use super::{CatalysisParams, CatalysisState};
use warp_core::{Actions, Draw, Observation, StepOut, math};

#[inline(always)]
pub(super) fn reset(params: &CatalysisParams, state: &mut CatalysisState, draw: &mut Draw) {
    state.x = params.start_x;
    state.y = params.start_y;
    state.z = params.start_z;
    if params.exploring_starts > 0.0 && draw.uniform() < params.exploring_starts {
        state.x = draw.below(params.nx as u32) as i32;
        state.y = draw.below(params.ny as u32) as i32;
        state.z = params.z_lower + draw.below(params.layers as u32) as i32;
    }
}

#[inline(always)]
pub(super) fn step(
    params: &CatalysisParams,
    tables: &Tables,
    state: &mut CatalysisState,
    actions: &Actions<'_>,
    out: &mut StepOut<'_>,
) {
    let action = actions.discrete[0][0];
    let x = moved(state.x, action, 0, params.nx);
    let y = moved(state.y, action, 1, params.ny);
    let z = moved(state.z, action, 2, params.nz);
    let outside = (z < params.z_lower) | (z >= params.z_upper);
    let stays = outside & (params.holds_back == 1);
    let plane = x.wrapping_mul(params.ny).wrapping_add(y);
    let cell = plane.wrapping_mul(params.layers).wrapping_add(z.wrapping_sub(params.z_lower));
    // Outside the slab the number means nothing, and the reward is not used.
    let inside_reward = tables.rewards.get_clamped(cell as u32 as usize);
    let reward = if outside { params.outside_reward } else { inside_reward };
    state.x = x;
    state.y = y;
    state.z = if stays { state.z } else { z };
    let there = (x == params.goal_x) & (y == params.goal_y) & (state.z == params.goal_z);
    out.reward[0][0] = reward + if there { params.terminate_reward } else { 0.0 };
    out.terminated = there;
}

/// One coordinate of an atom after `action`: 0 and 1 move along axis 0, forth and back, and so on;
/// at the end of its `n` cells an axis begins again.
#[inline(always)]
pub(super) fn moved(at: i32, action: i32, axis: i32, n: i32) -> i32 {
    let by = i32::from(action == 2 * axis) - i32::from(action == 2 * axis + 1);
    let to = at.wrapping_add(by);
    let to = if to < 0 { to.wrapping_add(n) } else { to };
    if to >= n { to.wrapping_sub(n) } else { to }
}

#[inline(always)]
pub(super) fn observe(params: &CatalysisParams, state: &CatalysisState, out: &mut Observation<'_>) {
    let away = distance(
        state.x.wrapping_sub(params.goal_x),
        state.y.wrapping_sub(params.goal_y),
        state.z.wrapping_sub(params.goal_z),
    );
    let obs = &mut *out.obs[0];
    obs[0] = state.x as f32 * params.scale_x;
    obs[1] = state.y as f32 * params.scale_y;
    obs[2] = state.z as f32 * params.scale_z;
    obs[3] = away / params.start_distance;
}

/// Length of a way in cells.
#[inline(always)]
pub(super) fn distance(dx: i32, dy: i32, dz: i32) -> f32 {
    let (dx, dy, dz) = (dx as f32, dy as f32, dz as f32);
    math::sqrt(dx * dx + dy * dy + dz * dz)
}

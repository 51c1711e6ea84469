//! Two atoms: the body. Branch-free.

use super::{CatalysisTwoAtomsParams, CatalysisTwoAtomsState, Tables};
use crate::catalysis::step::{distance, moved};
use warp_core::{Actions, Draw, Observation, StepOut};

/// No move, for the atom that was not chosen.
const STAY: i32 = -1;

#[inline(always)]
pub(super) fn reset(
    params: &CatalysisTwoAtomsParams,
    state: &mut CatalysisTwoAtomsState,
    draw: &mut Draw,
) {
    state.x1 = params.start_x1;
    state.y1 = params.start_y1;
    state.z1 = params.start_z1;
    state.x2 = params.start_x2;
    state.y2 = params.start_y2;
    state.z2 = params.start_z2;
    if params.exploring_starts > 0.0 && draw.uniform() < params.exploring_starts {
        state.x1 = draw.below(params.nx as u32) as i32;
        state.y1 = draw.below(params.ny as u32) as i32;
        state.z1 = params.z_lower + draw.below(params.layers as u32) as i32;
        state.x2 = draw.below(params.nx as u32) as i32;
        state.y2 = draw.below(params.ny as u32) as i32;
        state.z2 = params.z_lower + draw.below(params.layers as u32) as i32;
    }
}

#[inline(always)]
pub(super) fn step(
    params: &CatalysisTwoAtomsParams,
    tables: &Tables,
    state: &mut CatalysisTwoAtomsState,
    actions: &Actions<'_>,
    out: &mut StepOut<'_>,
) {
    let (atom, action) = (actions.discrete[0][0], actions.discrete[0][1]);
    let first = if atom == 0 { action } else { STAY };
    let second = if atom == 0 { STAY } else { action };
    state.x1 = moved(state.x1, first, 0, params.nx);
    state.y1 = moved(state.y1, first, 1, params.ny);
    state.x2 = moved(state.x2, second, 0, params.nx);
    state.y2 = moved(state.y2, second, 1, params.ny);
    let z1 = moved(state.z1, first, 2, params.nz);
    let z2 = moved(state.z2, second, 2, params.nz);
    let outside = (z1 < params.z_lower)
        | (z1 >= params.z_upper)
        | (z2 < params.z_lower)
        | (z2 >= params.z_upper);
    let one = number(params, 0, state.x1, state.y1, z1);
    let cell = number(params, one, state.x2, state.y2, z2);
    // Outside the slab the number means nothing, and the reward is not used.
    let inside_reward = tables.rewards.get_clamped(cell as usize);
    let reward = if outside { params.outside_reward } else { inside_reward };
    state.z1 = if outside { state.z1 } else { z1 };
    state.z2 = if outside { state.z2 } else { z2 };
    let there = (state.x1 == params.goal_x1)
        & (state.y1 == params.goal_y1)
        & (state.z1 == params.goal_z1)
        & (state.x2 == params.goal_x2)
        & (state.y2 == params.goal_y2)
        & (state.z2 == params.goal_z2);
    out.reward[0][0] = reward + if there { params.terminate_reward } else { 0.0 };
    out.terminated = there;
}

/// The number of a cell, behind that of the other atom's.
#[inline(always)]
fn number(params: &CatalysisTwoAtomsParams, before: u32, x: i32, y: i32, z: i32) -> u32 {
    let row = before.wrapping_mul(params.nx as u32).wrapping_add(x as u32);
    let plane = row.wrapping_mul(params.ny as u32).wrapping_add(y as u32);
    plane.wrapping_mul(params.layers as u32).wrapping_add(z.wrapping_sub(params.z_lower) as u32)
}

#[inline(always)]
pub(super) fn observe(
    params: &CatalysisTwoAtomsParams,
    state: &CatalysisTwoAtomsState,
    out: &mut Observation<'_>,
) {
    let away1 = distance(
        state.x1.wrapping_sub(params.goal_x1),
        state.y1.wrapping_sub(params.goal_y1),
        state.z1.wrapping_sub(params.goal_z1),
    );
    let away2 = distance(
        state.x2.wrapping_sub(params.goal_x2),
        state.y2.wrapping_sub(params.goal_y2),
        state.z2.wrapping_sub(params.goal_z2),
    );
    let obs = &mut *out.obs[0];
    obs[0] = state.x1 as f32 * params.scale_x;
    obs[1] = state.y1 as f32 * params.scale_y;
    obs[2] = state.z1 as f32 * params.scale_z;
    obs[3] = state.x2 as f32 * params.scale_x;
    obs[4] = state.y2 as f32 * params.scale_y;
    obs[5] = state.z2 as f32 * params.scale_z;
    obs[6] = away1 / params.start_distance1;
    obs[7] = away2 / params.start_distance2;
}

//! Tag on a plane: start and step, from which `step.cu` is made.

use super::agents::reward;
use super::tiles::{tag_in_tiles, travel_in_tiles};
use super::{TAGGER, TagContinuous, TagContinuousState};
use std::f32::consts::{FRAC_PI_2, PI};
use warp_core::{Actions, Draw, StepOut, team};

/// Every agent draws from its own stream: x, y, heading.
#[inline(always)]
pub(super) fn reset(env: &TagContinuous, state: &mut TagContinuousState<'_>, draw: &mut Draw) {
    let (params, tables) = (&env.params, &env.tables);
    for agent in team::each(state.loc_x.len()) {
        let mut own = draw.agent(agent as u32);
        let x = params.grid_length * own.uniform();
        let y = params.grid_length * own.uniform();
        let quarter = own.below(4);
        let direction = if quarter & 1 != 0 { FRAC_PI_2 } else { 0.0 };
        let direction = if quarter & 2 != 0 { PI + direction } else { direction };
        let fixed = params.fixed_location == 1;
        state.loc_x[agent] = if fixed { tables.start_x[agent] } else { x };
        state.loc_y[agent] = if fixed { tables.start_y[agent] } else { y };
        let fixed = params.fixed_direction == 1;
        state.direction[agent] = if fixed { tables.start_direction[agent] } else { direction };
        state.speed[agent] = 0.0;
        state.acceleration[agent] = 0.0;
        state.still_in_the_game[agent] = 1;
        state.was_in_the_game[agent] = 1;
        state.edge_hit_reward_penalty[agent] = 0.0;
    }
    team::once(|| {
        *state.num_runners = params.n_runners;
        *state.timestep = 0;
    });
}

#[inline(always)]
pub(super) fn step(
    env: &TagContinuous,
    state: &mut TagContinuousState<'_>,
    actions: &Actions<'_>,
    out: &mut StepOut<'_>,
) {
    let params = &env.params;
    let n_taggers = out.reward[TAGGER].len();
    // Runners that each tagger has tagged in this step.
    let mut tags_of = team::scratch::<i32>(n_taggers);
    for tagger in team::each(n_taggers) {
        tags_of[tagger] = 0;
    }
    travel_in_tiles(env, state, actions);
    let timestep = *state.timestep + 1;
    let last = timestep >= params.episode_length;
    let end = if last { params.end_of_game_reward_for_runner } else { 0.0 };
    let tags = tag_in_tiles(env, state, &mut tags_of, end, out);
    for tagger in team::each(n_taggers) {
        let tagged = tags_of[tagger] as f32 * params.tag_reward_for_tagger;
        out.reward[TAGGER][tagger] = reward(env, state, tagger, tagged, 0.0);
    }
    team::once(|| {
        let exits = params.runner_exits_game_after_tagged == 1;
        *state.num_runners -= if exits { tags } else { 0 };
        *state.timestep = timestep;
        out.statistics[0] += tags as f32;
        out.terminated = last | (*state.num_runners == 0);
    });
}

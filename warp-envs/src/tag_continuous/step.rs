//! Tag on a plane: start and step. Agents are moved in tiles of [`LANES`] on the stack, which alias
//! nothing and therefore vectorise; tags, which are rare, are dealt with one by one.

use super::tile::{LANES, load, store};
use super::{RUNNER, TAGGER, TagContinuous, TagContinuousParams, TagContinuousState};
use std::f32::consts::{FRAC_PI_2, PI, TAU};
use warp_core::{Actions, Draw, StepOut, math};

/// Headings at the start, rad.
const DIRECTIONS: [f32; 4] = [0.0, FRAC_PI_2, PI, PI + FRAC_PI_2];

/// Every agent draws from its own stream: x, y, heading.
#[inline(always)]
pub(super) fn reset(env: &TagContinuous, state: &mut TagContinuousState<'_>, draw: &mut Draw) {
    let (params, tables) = (&env.params, &env.tables);
    let n = state.loc_x.len();
    for agent in 0..n {
        let mut draw = draw.agent(agent as u32);
        let x = params.grid_length * draw.uniform();
        let y = params.grid_length * draw.uniform();
        let direction = DIRECTIONS[draw.below(4) as usize & 3];
        let fixed = params.fixed_location == 1;
        state.loc_x[agent] = if fixed { tables.start_x[agent] } else { x };
        state.loc_y[agent] = if fixed { tables.start_y[agent] } else { y };
        let fixed = params.fixed_direction == 1;
        state.direction[agent] = if fixed { tables.start_direction[agent] } else { direction };
    }
    state.speed.fill(0.0);
    state.acceleration.fill(0.0);
    state.still_in_the_game.fill(1);
    state.was_in_the_game.fill(1);
    state.edge_hit_reward_penalty.fill(0.0);
    *state.num_runners = params.n_runners;
    *state.timestep = 0;
}

#[inline(always)]
pub(super) fn step(
    env: &TagContinuous,
    state: &mut TagContinuousState<'_>,
    actions: &Actions<'_>,
    out: &mut StepOut<'_>,
) {
    let params = &env.params;
    let (n, n_taggers) = (state.loc_x.len(), params.n_taggers as usize);
    *state.timestep += 1;
    steer(env, state, actions.discrete[TAGGER], 0);
    steer(env, state, actions.discrete[RUNNER], n_taggers);
    for first in (0..n).step_by(LANES) {
        travel(env, state, first);
    }
    state.was_in_the_game.copy_from_slice(state.still_in_the_game);

    let mut first = n_taggers;
    while first < n {
        let (tagged, nearest) = nearest_tagger(params, state, first);
        if tagged.iter().any(|tagged| *tagged) {
            tag(params, state, (first, tagged, nearest), out);
        }
        first += LANES;
    }
    reward(env, state, out);
    out.terminated = (*state.timestep >= params.episode_length) | (*state.num_runners == 0);
}

/// Adds what the actions of one group mean to acceleration and direction. Out of the game the
/// acceleration changes as well, for a moment: a speed of 0 makes it 0.
#[inline(always)]
fn steer(
    env: &TagContinuous,
    state: &mut TagContinuousState<'_>,
    actions: &[i32],
    first_agent: usize,
) {
    let (pushes, turns) = (&env.tables.acceleration_actions, &env.tables.turn_actions);
    let acceleration = state.acceleration[first_agent..].iter_mut();
    let motion = acceleration.zip(&mut state.direction[first_agent..]);
    for (action, (acceleration, direction)) in actions.chunks_exact(2).zip(motion) {
        *acceleration += pushes[action[0] as usize];
        *direction += turns[action[1] as usize];
    }
}

/// Moves the agents of one tile.
#[inline(always)]
fn travel(env: &TagContinuous, state: &mut TagContinuousState<'_>, first: usize) {
    let params = &env.params;
    let in_game = load(state.still_in_the_game, first);
    let skill = load(&env.tables.skill_levels, first);
    let mut acceleration = load(state.acceleration, first);
    let mut direction = load(state.direction, first);
    let mut speed = load(state.speed, first);
    let mut x = load(state.loc_x, first);
    let mut y = load(state.loc_y, first);
    let mut edge = [0.0; LANES];
    for l in 0..LANES {
        let in_game = in_game[l] as f32;
        let limit = params.max_speed * skill[l];
        direction[l] = math::modulo(direction[l], TAU) * in_game;
        let faster = speed[l] + acceleration[l];
        let faster = if faster > 0.0 { faster } else { 0.0 };
        speed[l] = (if faster < limit { faster } else { limit }) * in_game;
        let cruising = (speed[l] > 0.0) & (speed[l] < limit);
        acceleration[l] = if cruising { acceleration[l] } else { 0.0 };
        let (sin, cos) = math::sin_cos(direction[l]);
        let (to_x, to_y) = (x[l] + speed[l] * cos, y[l] + speed[l] * sin);
        x[l] = within(to_x, params.grid_length);
        y[l] = within(to_y, params.grid_length);
        let crossed = (x[l] != to_x) | (y[l] != to_y);
        edge[l] = if crossed { params.edge_hit_penalty } else { 0.0 };
    }
    store(state.acceleration, first, &acceleration);
    store(state.direction, first, &direction);
    store(state.speed, first, &speed);
    store(state.loc_x, first, &x);
    store(state.loc_y, first, &y);
    store(state.edge_hit_reward_penalty, first, &edge);
}

/// `place` inside `[0, high]`.
#[inline(always)]
fn within(place: f32, high: f32) -> f32 {
    let place = if place < 0.0 { 0.0 } else { place };
    if place > high { high } else { place }
}

/// For the runners of one tile: who is tagged, and which tagger is nearest.
#[inline(always)]
fn nearest_tagger(
    params: &TagContinuousParams,
    state: &TagContinuousState<'_>,
    first: usize,
) -> ([bool; LANES], [u32; LANES]) {
    let n_taggers = params.n_taggers as usize;
    // Lanes beyond the last runner are out of the game.
    let in_game = load(state.still_in_the_game, first);
    let (x, y) = (load(state.loc_x, first), load(state.loc_y, first));
    let mut shortest = [f32::INFINITY; LANES];
    let mut nearest = [0; LANES];
    let taggers = state.loc_x[..n_taggers].iter().zip(&state.loc_y[..n_taggers]);
    for (tagger, (tagger_x, tagger_y)) in (0..).zip(taggers) {
        for l in 0..LANES {
            let (dx, dy) = (x[l] - tagger_x, y[l] - tagger_y);
            let distance = dx * dx + dy * dy;
            let nearer = distance < shortest[l];
            shortest[l] = if nearer { distance } else { shortest[l] };
            nearest[l] = if nearer { tagger } else { nearest[l] };
        }
    }
    let mut tagged = [false; LANES];
    for l in 0..LANES {
        let near = math::sqrt(shortest[l]) < params.distance_margin_for_reward;
        tagged[l] = near & (in_game[l] != 0);
    }
    (tagged, nearest)
}

/// Counts the tags of one tile in the rewards of both sides, where [`reward`] turns counts, which
/// add up to the same in any order, into rewards.
#[inline(always)]
fn tag(
    params: &TagContinuousParams,
    state: &mut TagContinuousState<'_>,
    (first, tagged, nearest): (usize, [bool; LANES], [u32; LANES]),
    out: &mut StepOut<'_>,
) {
    let n_taggers = params.n_taggers as usize;
    for l in (0..LANES).filter(|l| tagged[*l]) {
        let runner = first + l - n_taggers;
        out.reward[TAGGER][nearest[l] as usize] += 1.0;
        out.reward[RUNNER][runner] += 1.0;
        out.statistics[0] += 1.0;
        if params.runner_exits_game_after_tagged == 1 {
            state.still_in_the_game[first + l] = 0;
            *state.num_runners -= 1;
            out.alive[RUNNER][runner] = 0;
        }
    }
}

/// Rewards of everyone, from the numbers of tags that [`tag`] left in their places.
#[inline(always)]
fn reward(env: &TagContinuous, state: &TagContinuousState<'_>, out: &mut StepOut<'_>) {
    let params = &env.params;
    let last = *state.timestep >= params.episode_length;
    let end = if last { params.end_of_game_reward_for_runner } else { 0.0 };
    for (group, first, per_tag, end) in [
        (TAGGER, 0, params.tag_reward_for_tagger, 0.0),
        (RUNNER, params.n_taggers as usize, params.tag_penalty_for_runner, end),
    ] {
        let rewards = out.reward[group].iter_mut();
        let per_step = env.tables.step_rewards[first..].iter();
        let edges = state.edge_hit_reward_penalty[first..].iter();
        let was = state.was_in_the_game[first..].iter();
        let still = state.still_in_the_game[first..].iter();
        for ((((reward, per_step), edge), was), still) in
            rewards.zip(per_step).zip(edges).zip(was).zip(still)
        {
            let played = if *was != 0 { edge + per_step } else { 0.0 };
            let stayed = if *still != 0 { end } else { 0.0 };
            *reward = played + *reward * per_tag + stayed;
        }
    }
}

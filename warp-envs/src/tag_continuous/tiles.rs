//! The CPU's twins of [`travel`] and [`tag`]: agents in tiles of [`LANES`] on the stack, which alias
//! nothing and therefore vectorise; tags, which are rare, are dealt with one by one.

use super::agents::{Motion, moved, reward};
#[cfg(doc)]
use super::agents::{tag, travel};
use super::tile::{LANES, load, store};
use super::{RUNNER, TAGGER, TagContinuous, TagContinuousParams, TagContinuousState};
use warp_core::{Actions, StepOut, math};

/// Twin of [`travel`] for the CPU.
#[inline(always)]
pub(super) fn travel_in_tiles(
    env: &TagContinuous,
    state: &mut TagContinuousState<'_>,
    actions: &Actions<'_>,
) {
    steer(env, state, actions.discrete[TAGGER], 0);
    steer(env, state, actions.discrete[RUNNER], env.params.n_taggers as usize);
    for first in (0..state.loc_x.len()).step_by(LANES) {
        travel_in_tile(env, state, first);
    }
    state.was_in_the_game.copy_from_slice(state.still_in_the_game);
}

/// Adds what the actions of one group mean to acceleration and direction.
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
fn travel_in_tile(env: &TagContinuous, state: &mut TagContinuousState<'_>, first: usize) {
    let in_game = load(state.still_in_the_game, first);
    let skill = load(&env.tables.skill_levels, first);
    let mut acceleration = load(state.acceleration, first);
    let mut direction = load(state.direction, first);
    let mut speed = load(state.speed, first);
    let mut x = load(state.loc_x, first);
    let mut y = load(state.loc_y, first);
    let mut edge = [0.0; LANES];
    for l in 0..LANES {
        let from = Motion {
            x: x[l],
            y: y[l],
            speed: speed[l],
            direction: direction[l],
            acceleration: acceleration[l],
            edge: 0.0,
        };
        let to = moved(&env.params, from, skill[l], in_game[l]);
        (x[l], y[l], speed[l]) = (to.x, to.y, to.speed);
        (direction[l], acceleration[l], edge[l]) = (to.direction, to.acceleration, to.edge);
    }
    store(state.acceleration, first, &acceleration);
    store(state.direction, first, &direction);
    store(state.speed, first, &speed);
    store(state.loc_x, first, &x);
    store(state.loc_y, first, &y);
    store(state.edge_hit_reward_penalty, first, &edge);
}

/// Twin of [`tag`] for the CPU.
#[inline(always)]
pub(super) fn tag_in_tiles(
    env: &TagContinuous,
    state: &mut TagContinuousState<'_>,
    tags_of: &mut [i32],
    end: f32,
    out: &mut StepOut<'_>,
) -> i32 {
    let params = &env.params;
    let (n, n_taggers) = (state.loc_x.len(), tags_of.len());
    let mut tags = 0;
    out.reward[RUNNER].fill(0.0);
    for first in (n_taggers..n).step_by(LANES) {
        let (tagged, nearest) = nearest_tagger(params, state, first);
        if !tagged.iter().any(|tagged| *tagged) {
            continue;
        }
        for l in (0..LANES).filter(|l| tagged[*l]) {
            let runner = first + l - n_taggers;
            tags += 1;
            tags_of[nearest[l] as usize] += 1;
            out.reward[RUNNER][runner] = 1.0;
            if params.runner_exits_game_after_tagged == 1 {
                state.still_in_the_game[first + l] = 0;
                out.alive[RUNNER][runner] = 0;
            }
        }
    }
    for (runner, place) in out.reward[RUNNER].iter_mut().enumerate() {
        let tagged = *place * params.tag_penalty_for_runner;
        *place = reward(env, state, n_taggers + runner, tagged, end);
    }
    tags
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

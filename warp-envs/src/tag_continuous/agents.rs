//! Tag on a plane: how agents move, tag and are rewarded. What most time goes to has a twin for the CPU
//! in `tiles.rs`.

use super::{RUNNER, TAGGER, TagContinuous, TagContinuousParams, TagContinuousState};
use std::f32::consts::TAU;
use warp_core::{Actions, StepOut, math, team};

/// An agent's motion, and what the edges gave.
#[derive(Clone, Copy)]
pub(super) struct Motion {
    pub(super) x: f32,
    pub(super) y: f32,
    pub(super) speed: f32,
    pub(super) direction: f32,
    pub(super) acceleration: f32,
    pub(super) edge: f32,
}

/// Moves an agent that its action has steered. Out of the game its speed is 0, which makes its
/// acceleration 0 as well.
#[inline(always)]
pub(super) fn moved(
    params: &TagContinuousParams,
    from: Motion,
    skill: f32,
    in_game: i32,
) -> Motion {
    let in_game = in_game as f32;
    let limit = params.max_speed * skill;
    let direction = math::modulo(from.direction, TAU) * in_game;
    let faster = from.speed + from.acceleration;
    let faster = if faster > 0.0 { faster } else { 0.0 };
    let speed = (if faster < limit { faster } else { limit }) * in_game;
    let cruising = (speed > 0.0) & (speed < limit);
    let acceleration = if cruising { from.acceleration } else { 0.0 };
    let (sin, cos) = math::sin_cos(direction);
    let (to_x, to_y) = (from.x + speed * cos, from.y + speed * sin);
    let (x, y) = (within(to_x, params.grid_length), within(to_y, params.grid_length));
    let crossed = (x != to_x) | (y != to_y);
    let edge = if crossed { params.edge_hit_penalty } else { 0.0 };
    Motion { x, y, speed, direction, acceleration, edge }
}

/// `place` inside `[0, high]`.
#[inline(always)]
fn within(place: f32, high: f32) -> f32 {
    let place = if place < 0.0 { 0.0 } else { place };
    if place > high { high } else { place }
}

/// Steers and moves everyone.
#[expect(dead_code, reason = "the CPU runs its twin")]
pub(super) fn travel(
    env: &TagContinuous,
    state: &mut TagContinuousState<'_>,
    actions: &Actions<'_>,
) {
    let n_taggers = env.params.n_taggers as usize;
    for agent in team::each(state.loc_x.len()) {
        let (push, turn) = if agent < n_taggers {
            let own = actions.discrete[TAGGER];
            (own[2 * agent], own[2 * agent + 1])
        } else {
            let (own, runner) = (actions.discrete[RUNNER], agent - n_taggers);
            (own[2 * runner], own[2 * runner + 1])
        };
        let from = Motion {
            x: state.loc_x[agent],
            y: state.loc_y[agent],
            speed: state.speed[agent],
            direction: state.direction[agent] + env.tables.turn_actions[turn as usize],
            acceleration: state.acceleration[agent]
                + env.tables.acceleration_actions[push as usize],
            edge: 0.0,
        };
        let in_game = state.still_in_the_game[agent];
        let to = moved(&env.params, from, env.tables.skill_levels[agent], in_game);
        state.loc_x[agent] = to.x;
        state.loc_y[agent] = to.y;
        state.speed[agent] = to.speed;
        state.direction[agent] = to.direction;
        state.acceleration[agent] = to.acceleration;
        state.edge_hit_reward_penalty[agent] = to.edge;
        state.was_in_the_game[agent] = in_game;
    }
}

/// Lets taggers tag, counts for each how often it did, gives runners their rewards and returns the
/// number of all tags.
#[expect(dead_code, reason = "the CPU runs its twin")]
pub(super) fn tag(
    env: &TagContinuous,
    state: &mut TagContinuousState<'_>,
    tags_of: &mut [i32],
    end: f32,
    out: &mut StepOut<'_>,
) -> i32 {
    let params = &env.params;
    team::sum(out.reward[RUNNER].len(), |runner| {
        let agent = tags_of.len() + runner;
        let by = tagged_by(params, state, agent);
        if by >= 0 {
            team::add(tags_of, by as usize, 1);
            if params.runner_exits_game_after_tagged == 1 {
                state.still_in_the_game[agent] = 0;
                out.alive[RUNNER][runner] = 0;
            }
        }
        let tagged = if by >= 0 { 1.0 } else { 0.0 };
        let tagged = tagged * params.tag_penalty_for_runner;
        out.reward[RUNNER][runner] = reward(env, state, agent, tagged, end);
        i32::from(by >= 0)
    })
}

/// The tagger by whom a runner is tagged, or -1.
#[inline(always)]
fn tagged_by(params: &TagContinuousParams, state: &TagContinuousState<'_>, runner: usize) -> i32 {
    let (x, y) = (state.loc_x[runner], state.loc_y[runner]);
    let mut shortest = f32::INFINITY;
    let mut nearest = 0;
    for tagger in 0..params.n_taggers as usize {
        let (dx, dy) = (x - state.loc_x[tagger], y - state.loc_y[tagger]);
        let distance = dx * dx + dy * dy;
        let nearer = distance < shortest;
        shortest = if nearer { distance } else { shortest };
        nearest = if nearer { tagger as i32 } else { nearest };
    }
    let near = math::sqrt(shortest) < params.distance_margin_for_reward;
    if near & (state.still_in_the_game[runner] != 0) { nearest } else { -1 }
}

/// The reward of one agent: for the step, for its tags, and for who is left at the end.
#[inline(always)]
pub(super) fn reward(
    env: &TagContinuous,
    state: &TagContinuousState<'_>,
    agent: usize,
    tagged: f32,
    end: f32,
) -> f32 {
    let step = state.edge_hit_reward_penalty[agent] + env.tables.step_rewards[agent];
    let played = if state.was_in_the_game[agent] != 0 { step } else { 0.0 };
    let stayed = if state.still_in_the_game[agent] != 0 { end } else { 0.0 };
    played + tagged + stayed
}

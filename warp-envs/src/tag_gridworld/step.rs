//! Tag on a grid: the body. Loops over agents are free of branches, so that they vectorise.

use super::{RUNNER, TAGGER, TagGridworld, TagGridworldParams, TagGridworldState};
use warp_core::{Actions, Draw, Observation, StepOut};

/// The runner's cell is drawn from all, a tagger's from all others, each agent from its own stream:
/// the same distribution as drawing everyone again until no tagger stands on the runner's cell.
#[inline(always)]
pub(super) fn reset(env: &TagGridworld, state: &mut TagGridworldState<'_>, draw: &mut Draw) {
    *state.timestep = 0;
    if env.params.fixed_start == 1 {
        state.loc_x.copy_from_slice(&env.start_x);
        state.loc_y.copy_from_slice(&env.start_y);
        return;
    }
    let side = env.params.grid_length as u32 + 1;
    let n_taggers = env.params.n_taggers as u32;
    let runner = draw.agent(n_taggers).below(side * side);
    let places = state.loc_x.iter_mut().zip(state.loc_y.iter_mut());
    for (agent, (x, y)) in (0..).zip(places) {
        let other = draw.agent(agent).below(side * side - 1);
        let tagger = other + u32::from(other >= runner);
        let cell = if agent == n_taggers { runner } else { tagger };
        *x = (cell % side) as i32;
        *y = (cell / side) as i32;
    }
}

#[inline(always)]
pub(super) fn step(
    params: &TagGridworldParams,
    state: &mut TagGridworldState<'_>,
    actions: &Actions<'_>,
    out: &mut StepOut<'_>,
) {
    *state.timestep += 1;
    let n_taggers = params.n_taggers as usize;
    let (x, runner_x) = state.loc_x.split_at_mut(n_taggers);
    let (y, runner_y) = state.loc_y.split_at_mut(n_taggers);
    let [tagger_reward, runner_reward, ..] = &mut out.reward;
    walk(params, x, y, actions.discrete[TAGGER], tagger_reward);
    walk(params, runner_x, runner_y, actions.discrete[RUNNER], runner_reward);

    let on_runner = |(x, y): (&i32, &i32)| (*x == runner_x[0]) & (*y == runner_y[0]);
    let tags = x.iter().zip(y.iter()).map(|place| i32::from(on_runner(place))).sum::<i32>();
    let caught = tags > 0;
    let cost = params.step_cost_for_tagger;
    let team = if caught { params.tag_reward_for_tagger } else { -cost };
    tagger_reward.iter_mut().for_each(|reward| *reward += team);
    runner_reward[0] += if caught { -params.tag_penalty_for_runner } else { cost };
    out.terminated = caught | (*state.timestep >= params.episode_length);
    out.statistics[0] = if caught { 1.0 } else { 0.0 };
}

/// Moves agents by one cell each; `reward` becomes what the walls cost.
#[inline(always)]
fn walk(
    params: &TagGridworldParams,
    x: &mut [i32],
    y: &mut [i32],
    actions: &[i32],
    reward: &mut [f32],
) {
    let high = params.grid_length;
    let places = x.iter_mut().zip(y.iter_mut());
    for (((x, y), action), reward) in places.zip(actions).zip(reward.iter_mut()) {
        let to_x = *x + i32::from(*action == 1) - i32::from(*action == 2);
        let to_y = *y + i32::from(*action == 3) - i32::from(*action == 4);
        *x = to_x.clamp(0, high);
        *y = to_y.clamp(0, high);
        // One action can hit one wall only.
        let hit = (*x != to_x) | (*y != to_y);
        *reward = if hit { -params.wall_hit_penalty } else { 0.0 };
    }
}

#[inline(always)]
pub(super) fn observe(
    params: &TagGridworldParams,
    state: &TagGridworldState<'_>,
    out: &mut Observation<'_>,
) {
    let time = *state.timestep as f32 / params.episode_length as f32;
    if params.use_full_observation == 1 {
        observe_all(params, state, time, out);
    } else {
        observe_one(params, state, time, out);
    }
}

/// Everyone sees the same but for the one-hot of the own number: the runner's row is the pattern.
#[inline(always)]
fn observe_all(
    params: &TagGridworldParams,
    state: &TagGridworldState<'_>,
    time: f32,
    out: &mut Observation<'_>,
) {
    let n = state.loc_x.len();
    let high = params.grid_length as f32;
    let [taggers, pattern, ..] = &mut out.obs;
    let (xs, rest) = pattern.split_at_mut(n);
    let (ys, rest) = rest.split_at_mut(n);
    for (seen, x) in xs.iter_mut().zip(state.loc_x.iter()) {
        *seen = *x as f32 / high;
    }
    for (seen, y) in ys.iter_mut().zip(state.loc_y.iter()) {
        *seen = *y as f32 / high;
    }
    rest.fill(0.0);
    rest[n - 1] = 1.0;
    rest[2 * n - 1] = 1.0;
    rest[2 * n] = time;
    let width = 4 * n + 1;
    for (agent, row) in taggers.chunks_exact_mut(width).enumerate() {
        row.copy_from_slice(pattern);
        row[4 * n - 1] = 0.0;
        row[3 * n + agent] = 1.0;
    }
}

#[inline(always)]
fn observe_one(
    params: &TagGridworldParams,
    state: &TagGridworldState<'_>,
    time: f32,
    out: &mut Observation<'_>,
) {
    let high = params.grid_length as f32;
    let n_taggers = params.n_taggers as usize;
    let (xs, ys) = (&*state.loc_x, &*state.loc_y);
    let (runner_x, runner_y) = (xs[n_taggers], ys[n_taggers]);
    let (seen_x, seen_y) = (runner_x as f32 / high, runner_y as f32 / high);
    let (mut nearest, mut shortest) = (0, i64::MAX);
    let rows = out.obs[TAGGER].chunks_exact_mut(6);
    for (agent, ((row, x), y)) in rows.zip(xs).zip(ys).enumerate() {
        let (dx, dy) = (i64::from(*x - runner_x), i64::from(*y - runner_y));
        let distance = dx * dx + dy * dy;
        let nearer = distance < shortest;
        nearest = if nearer { agent } else { nearest };
        shortest = if nearer { distance } else { shortest };
        let own = [*x as f32 / high, *y as f32 / high];
        row.copy_from_slice(&[own[0], own[1], seen_x, seen_y, 0.0, time]);
    }
    let other = [xs[nearest] as f32 / high, ys[nearest] as f32 / high];
    out.obs[RUNNER].copy_from_slice(&[seen_x, seen_y, other[0], other[1], 1.0, time]);
}

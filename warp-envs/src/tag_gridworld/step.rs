//! Tag on a grid: the body, from which `step.cu` is made.

use super::{FIXED, INNER, RUNNER, TAGGER, TagGridworld, TagGridworldParams, TagGridworldState};
use warp_core::{Actions, Draw, Observation, StepOut, team};

/// Numbers of an agent's row in a partial observation.
const PARTIAL: usize = 6;
/// Bits for an agent's number below a distance.
const NUMBER_BITS: u32 = 20;

/// The runner's cell is drawn from all, a tagger's from all others, each agent from its own stream:
/// the same distribution as drawing everyone again until no tagger stands on the runner's cell.
#[inline(always)]
pub(super) fn reset(env: &TagGridworld, state: &mut TagGridworldState<'_>, draw: &mut Draw) {
    let n = state.loc_x.len();
    team::once(|| *state.timestep = 0);
    if env.params.starts == FIXED {
        for agent in team::each(n) {
            state.loc_x[agent] = env.tables.start_x[agent];
            state.loc_y[agent] = env.tables.start_y[agent];
        }
        return;
    }
    if env.params.starts == INNER {
        let side = env.params.grid_length as u32 - 1;
        for agent in team::each(n) {
            let cell = draw.agent(agent as u32).below(side * side);
            let is_runner = agent == n - 1;
            state.loc_x[agent] = if is_runner { 0 } else { 1 + (cell % side) as i32 };
            state.loc_y[agent] = if is_runner { 0 } else { 1 + (cell / side) as i32 };
        }
        return;
    }
    let side = env.params.grid_length as u32 + 1;
    let runner = draw.agent(n as u32 - 1).below(side * side);
    for agent in team::each(n) {
        let other = draw.agent(agent as u32).below(side * side - 1);
        let tagger = other + u32::from(other >= runner);
        let cell = if agent == n - 1 { runner } else { tagger };
        state.loc_x[agent] = (cell % side) as i32;
        state.loc_y[agent] = (cell / side) as i32;
    }
}

/// Where an action leads to, and whether a wall was in the way.
#[derive(Clone, Copy)]
struct Place {
    x: i32,
    y: i32,
    hit: bool,
}

#[inline(always)]
fn walked(params: &TagGridworldParams, x: i32, y: i32, action: i32) -> Place {
    let high = params.grid_length;
    let to_x = x + i32::from(action == 1) - i32::from(action == 2);
    let to_y = y + i32::from(action == 3) - i32::from(action == 4);
    let (x, y) = (to_x.max(0).min(high), to_y.max(0).min(high));
    Place { x, y, hit: (x != to_x) | (y != to_y) }
}

/// Taggers walk twice, at first only to see whether one catches the runner: then nobody waits for
/// what another has written, and rewards are written once.
#[inline(always)]
pub(super) fn step(
    params: &TagGridworldParams,
    state: &mut TagGridworldState<'_>,
    actions: &Actions<'_>,
    out: &mut StepOut<'_>,
) {
    // The last agent is the runner.
    let last = state.loc_x.len() - 1;
    let runner = walked(params, state.loc_x[last], state.loc_y[last], actions.discrete[RUNNER][0]);
    let (x, y) = (&mut state.loc_x[..last], &mut state.loc_y[..last]);
    let (moves, rewards) = (&actions.discrete[TAGGER][..last], &mut out.reward[TAGGER][..last]);
    let caught = team::any(last, |agent| {
        let place = walked(params, x[agent], y[agent], moves[agent]);
        (place.x == runner.x) & (place.y == runner.y)
    });
    let cost = params.step_cost_for_tagger;
    let wall = -params.wall_hit_penalty;
    let reward = if caught { params.tag_reward_for_tagger } else { -cost };
    for agent in team::each(last) {
        let place = walked(params, x[agent], y[agent], moves[agent]);
        x[agent] = place.x;
        y[agent] = place.y;
        rewards[agent] = (if place.hit { wall } else { 0.0 }) + reward;
    }
    team::once(|| {
        state.loc_x[last] = runner.x;
        state.loc_y[last] = runner.y;
        let reward = if caught { -params.tag_penalty_for_runner } else { cost };
        out.reward[RUNNER][0] = (if runner.hit { wall } else { 0.0 }) + reward;
        *state.timestep += 1;
        out.terminated = caught | (*state.timestep >= params.episode_length);
        out.statistics[0] = if caught { 1.0 } else { 0.0 };
    });
}

#[inline(always)]
pub(super) fn observe(
    params: &TagGridworldParams,
    state: &TagGridworldState<'_>,
    out: &mut Observation<'_>,
) {
    let time = *state.timestep as f32 / params.episode_length as f32;
    if params.use_full_observation == 1 {
        observe_by_row(params, state, time, out);
    } else {
        observe_one(params, state, time, out);
    }
}

/// Everyone sees the same but for the one-hot of the own number: that row is made once, as that of
/// nobody, with one division per place.
#[expect(dead_code, reason = "the CPU runs its twin")]
fn observe_all(
    params: &TagGridworldParams,
    state: &TagGridworldState<'_>,
    time: f32,
    out: &mut Observation<'_>,
) {
    let n = state.loc_x.len();
    let (runner, width) = (n - 1, 4 * n + 1);
    let mut row = team::scratch::<f32>(width);
    let high = params.grid_length as f32;
    for agent in team::each(n) {
        row[agent] = state.loc_x[agent] as f32 / high;
        row[n + agent] = state.loc_y[agent] as f32 / high;
        row[2 * n + agent] = if agent == runner { 1.0 } else { 0.0 };
        row[3 * n + agent] = 0.0;
        if agent == 0 {
            row[4 * n] = time;
        }
    }
    spread(&row[..width], runner, out);
}

/// The row of nobody for each of the taggers and the runner, whose number follows theirs, with the
/// one-hot of the own number.
fn spread(row: &[f32], runner: usize, out: &mut Observation<'_>) {
    let first = 3 * (runner + 1);
    team::fill(out.obs[TAGGER], runner, row.len(), |tagger, column| {
        let seen = row[column];
        if column as u32 == (first + tagger) as u32 { 1.0 } else { seen }
    });
    team::fill(out.obs[RUNNER], 1, row.len(), |_, column| {
        let seen = row[column];
        if column as u32 == (first + runner) as u32 { 1.0 } else { seen }
    });
}

/// Twin of [`observe_all`] for the CPU: the runner's row is the pattern.
#[inline(always)]
fn observe_by_row(
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
    for (tagger, row) in taggers.chunks_exact_mut(4 * n + 1).enumerate() {
        row.copy_from_slice(pattern);
        row[4 * n - 1] = 0.0;
        row[3 * n + tagger] = 1.0;
    }
}

#[inline(always)]
fn observe_one(
    params: &TagGridworldParams,
    state: &TagGridworldState<'_>,
    time: f32,
    out: &mut Observation<'_>,
) {
    let last = state.loc_x.len() - 1;
    let (x, y) = (&state.loc_x[..last], &state.loc_y[..last]);
    let high = params.grid_length as f32;
    let runner = (state.loc_x[last], state.loc_y[last]);
    let seen = (runner.0 as f32 / high, runner.1 as f32 / high);
    // Distance and below it the number: the least is the nearest, of several the lowest.
    let nearest = team::least(last, |agent| {
        let (dx, dy) = (i64::from(x[agent] - runner.0), i64::from(y[agent] - runner.1));
        ((dx * dx + dy * dy) << NUMBER_BITS) | agent as i64
    });
    let nearest = (nearest as u32 & ((1 << NUMBER_BITS) - 1)) as usize;
    team::fill(out.obs[TAGGER], last, PARTIAL, |agent, column| {
        let (own_x, own_y) = (x[agent], y[agent]);
        let place = if column == 0 { own_x } else { own_y };
        let common = tagger_sees(column, seen.0, seen.1, time);
        if column < 2 { place as f32 / high } else { common }
    });
    team::fill(out.obs[RUNNER], 1, PARTIAL, |_, column| match column {
        0 => seen.0,
        1 => seen.1,
        2 => x[nearest] as f32 / high,
        3 => y[nearest] as f32 / high,
        4 => 1.0,
        _ => time,
    });
}

/// What a tagger sees beside its own place: the runner's, that it is none, and the time.
#[inline(always)]
fn tagger_sees(column: usize, runner_x: f32, runner_y: f32, time: f32) -> f32 {
    match column {
        2 => runner_x,
        3 => runner_y,
        4 => 0.0,
        _ => time,
    }
}

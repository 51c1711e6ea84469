//! Tag on a plane: what agents see, as a function of the state alone.

use super::nearest::{Crowd, Nearest, Neighbour, PASS};
use super::tile::LANES;
use super::{FEATURES, RUNNER, TAGGER, TagContinuousParams, TagContinuousState};
use warp_core::{Observation, team};

/// 1 / 2 pi.
const ANGLE_SCALE: f32 = 0.159_154_94;

#[inline(always)]
pub(super) fn observe(
    params: &TagContinuousParams,
    state: &TagContinuousState<'_>,
    out: &mut Observation<'_>,
) {
    let time = *state.timestep as f32 / params.episode_length as f32;
    if params.use_full_observation == 1 {
        observe_rows(params, state, time, out);
    } else {
        observe_nearest(params, state, time, out);
    }
}

/// What is seen of an agent.
#[derive(Clone, Copy)]
struct Look {
    x: f32,
    y: f32,
    speed: f32,
    acceleration: f32,
    direction: f32,
    in_game: i32,
}

#[inline(always)]
fn look(state: &TagContinuousState<'_>, agent: usize) -> Look {
    Look {
        x: state.loc_x[agent],
        y: state.loc_y[agent],
        speed: state.speed[agent],
        acceleration: state.acceleration[agent],
        direction: state.direction[agent],
        in_game: state.was_in_the_game[agent],
    }
}

/// Everyone sees everyone. Neighbouring threads write neighbouring places of the same row.
#[expect(dead_code, reason = "the CPU runs its twin")]
fn observe_all(
    params: &TagContinuousParams,
    state: &TagContinuousState<'_>,
    time: f32,
    out: &mut Observation<'_>,
) {
    let (n, n_taggers) = (state.loc_x.len(), params.n_taggers as usize);
    let width = FEATURES * (n - 1) + 1;
    for slot in team::each(n) {
        let clock = if state.was_in_the_game[slot] != 0 { time } else { 0.0 };
        if slot < n_taggers {
            out.obs[TAGGER][(slot + 1) * width - 1] = clock;
        } else {
            out.obs[RUNNER][(slot - n_taggers + 1) * width - 1] = clock;
        }
        if slot == n - 1 {
            continue;
        }
        // By whether the agent's own number leaves the slot to itself or to the next.
        let (low, high) = (look(state, slot), look(state, slot + 1));
        for agent in 0..n_taggers {
            let own = look(state, agent);
            let seen = if slot < agent { low } else { high };
            let other = if slot < agent { slot } else { slot + 1 };
            let to = &mut out.obs[TAGGER][agent * width + slot..];
            show(params, own, seen, to, n - 1, other < n_taggers);
        }
        for agent in n_taggers..n {
            let own = look(state, agent);
            let seen = if slot < agent { low } else { high };
            let other = if slot < agent { slot } else { slot + 1 };
            let to = &mut out.obs[RUNNER][(agent - n_taggers) * width + slot..];
            show(params, own, seen, to, n - 1, other < n_taggers);
        }
    }
}

/// Writes what `own` sees of another into the first of the blocks, which lie `apart`.
#[inline(always)]
fn show(
    params: &TagContinuousParams,
    own: Look,
    seen: Look,
    to: &mut [f32],
    apart: usize,
    is_tagger: bool,
) {
    let plays = own.in_game != 0;
    let place = if plays { params.location_scale } else { 0.0 };
    let motion = if plays { params.speed_scale } else { 0.0 };
    let angle = if plays { ANGLE_SCALE } else { 0.0 };
    to[0] = (seen.x - own.x) * place;
    to[apart] = (seen.y - own.y) * place;
    to[2 * apart] = (seen.speed - own.speed) * motion;
    to[3 * apart] = (seen.acceleration - own.acceleration) * motion;
    to[4 * apart] = (seen.direction - own.direction) * angle;
    to[5 * apart] = if is_tagger { 1.0 } else { 0.0 };
    to[6 * apart] = seen.in_game as f32;
}

/// The blocks that are differences, with their factors.
#[inline(always)]
fn relative<'a>(
    params: &TagContinuousParams,
    state: &'a TagContinuousState<'_>,
) -> [(&'a [f32], f32); 5] {
    [
        (state.loc_x, params.location_scale),
        (state.loc_y, params.location_scale),
        (state.speed, params.speed_scale),
        (state.acceleration, params.speed_scale),
        (state.direction, ANGLE_SCALE),
    ]
}

/// Twin of [`observe_all`] for the CPU.
#[inline(always)]
fn observe_rows(
    params: &TagContinuousParams,
    state: &TagContinuousState<'_>,
    time: f32,
    out: &mut Observation<'_>,
) {
    let (n, n_taggers) = (state.loc_x.len(), params.n_taggers as usize);
    let others = n - 1;
    let width = FEATURES * others + 1;
    let relative = relative(params, state);
    for (group, first) in [(TAGGER, 0), (RUNNER, n_taggers)] {
        let rows = out.obs[group].chunks_exact_mut(width);
        for (agent, row) in (first..).zip(rows) {
            let in_game = state.was_in_the_game[agent] != 0;
            for (block, (values, scale)) in row[..5 * others].chunks_exact_mut(others).zip(relative)
            {
                let (own, scale) = (values[agent], if in_game { scale } else { 0.0 });
                differences(&mut block[..agent], &values[..agent], own, scale);
                differences(&mut block[agent..], &values[agent + 1..], own, scale);
            }
            let (types, flags) = row[5 * others..7 * others].split_at_mut(others);
            let taggers = if agent < n_taggers { n_taggers - 1 } else { n_taggers };
            types[..taggers].fill(1.0);
            types[taggers..].fill(0.0);
            as_numbers(&mut flags[..agent], &state.was_in_the_game[..agent]);
            as_numbers(&mut flags[agent..], &state.was_in_the_game[agent + 1..]);
            row[7 * others] = if in_game { time } else { 0.0 };
        }
    }
}

#[inline(always)]
fn differences(to: &mut [f32], from: &[f32], own: f32, scale: f32) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = (from - own) * scale;
    }
}

#[inline(always)]
fn as_numbers(to: &mut [f32], from: &[i32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from as f32;
    }
}

/// Everyone sees the nearest.
///
/// Twin in CUDA: nearest.cu
#[inline(always)]
fn observe_nearest(
    params: &TagContinuousParams,
    state: &TagContinuousState<'_>,
    time: f32,
    out: &mut Observation<'_>,
) {
    let (n, n_taggers) = (state.loc_x.len(), params.n_taggers as usize);
    let shown = params.num_other_agents_observed as usize;
    let width = FEATURES * shown + 1;
    let crowd = Crowd { x: state.loc_x, y: state.loc_y, in_game: state.was_in_the_game };
    let mut nearest = Nearest::new();
    let [taggers, runners, ..] = &mut out.obs;
    for first in (0..n).step_by(LANES) {
        let mut last = [Neighbour::FIRST; LANES];
        for slot in (0..shown).step_by(PASS) {
            let wanted = PASS.min(shown - slot);
            let found = match slot {
                0 => nearest.after::<false>(&crowd, first, &last, wanted),
                _ => nearest.after::<true>(&crowd, first, &last, wanted),
            };
            last = found[wanted - 1];
            for l in 0..LANES.min(n - first) {
                let row = row_of(taggers, runners, first + l, (n_taggers, width));
                show_found(params, state, (first + l, l), (row, slot), found);
            }
        }
        for agent in first..n.min(first + LANES) {
            let row = row_of(taggers, runners, agent, (n_taggers, width));
            let in_game = state.was_in_the_game[agent] != 0;
            row[FEATURES * shown] = if in_game { time } else { 0.0 };
        }
    }
}

/// The observation of `agent`.
#[inline(always)]
fn row_of<'a>(
    taggers: &'a mut [f32],
    runners: &'a mut [f32],
    agent: usize,
    (n_taggers, width): (usize, usize),
) -> &'a mut [f32] {
    if agent < n_taggers {
        &mut taggers[agent * width..][..width]
    } else {
        &mut runners[(agent - n_taggers) * width..][..width]
    }
}

/// Writes what `agent`, searcher `l`, sees of `found` into its row from `slot` on.
#[inline(always)]
fn show_found(
    params: &TagContinuousParams,
    state: &TagContinuousState<'_>,
    (agent, l): (usize, usize),
    (row, slot): (&mut [f32], usize),
    found: &[[Neighbour; LANES]],
) {
    let shown = params.num_other_agents_observed as usize;
    let (n, n_taggers) = (state.loc_x.len(), params.n_taggers as usize);
    let mut blocks = row.chunks_exact_mut(shown);
    // Slices of equal length in variables of their own: the compiler then needs one test of an
    // index for all of them.
    let mut block = || &mut blocks.next().unwrap_or_default()[slot..][..found.len()];
    let (to_x, to_y, to_speed, to_acceleration) = (block(), block(), block(), block());
    let (to_direction, to_type, to_flag) = (block(), block(), block());
    let (x, y, speed) = (&state.loc_x[..n], &state.loc_y[..n], &state.speed[..n]);
    let (acceleration, direction) = (&state.acceleration[..n], &state.direction[..n]);
    let (place, motion) = (params.location_scale, params.speed_scale);
    let searching = state.was_in_the_game[agent] != 0;
    for (rank, neighbour) in found.iter().enumerate() {
        let other = if searching { neighbour[l].agent() } else { n };
        let seen = other < n;
        let i = if seen { other } else { agent };
        to_x[rank] = (x[i] - x[agent]) * place;
        to_y[rank] = (y[i] - y[agent]) * place;
        to_speed[rank] = (speed[i] - speed[agent]) * motion;
        to_acceleration[rank] = (acceleration[i] - acceleration[agent]) * motion;
        to_direction[rank] = (direction[i] - direction[agent]) * ANGLE_SCALE;
        to_type[rank] = if other < n_taggers { 1.0 } else { 0.0 };
        to_flag[rank] = if seen { 1.0 } else { 0.0 };
    }
}

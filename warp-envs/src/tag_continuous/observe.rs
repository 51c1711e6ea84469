//! Tag on a plane: what agents see, as a function of the state alone.

use super::nearest::{Crowd, Nearest, Neighbour, PASS};
use super::{FEATURES, RUNNER, TAGGER, TagContinuousParams, TagContinuousState};
use warp_core::Observation;

/// Agents whose distances are held at once: enough for most games, and for large ones.
const BLOCKS: [usize; 2] = [128, 1024];
/// 1 / 2 pi.
const ANGLE_SCALE: f32 = 0.159_154_94;

#[inline(always)]
pub(super) fn observe(
    params: &TagContinuousParams,
    state: &TagContinuousState<'_>,
    out: &mut Observation<'_>,
) {
    if params.use_full_observation == 1 {
        observe_all(params, state, out);
    } else if state.loc_x.len() <= BLOCKS[0] {
        observe_nearest::<{ BLOCKS[0] }>(params, state, out);
    } else {
        observe_nearest::<{ BLOCKS[1] }>(params, state, out);
    }
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

/// Time / `episode_length`.
#[inline(always)]
fn time(params: &TagContinuousParams, state: &TagContinuousState<'_>) -> f32 {
    *state.timestep as f32 / params.episode_length as f32
}

#[inline(always)]
fn observe_all(
    params: &TagContinuousParams,
    state: &TagContinuousState<'_>,
    out: &mut Observation<'_>,
) {
    let (n, n_taggers) = (state.loc_x.len(), params.n_taggers as usize);
    let others = n - 1;
    let width = FEATURES * others + 1;
    let time = time(params, state);
    let relative = relative(params, state);
    for (group, first) in [(TAGGER, 0), (RUNNER, n_taggers)] {
        let rows = out.obs[group].chunks_exact_mut(width);
        for (agent, row) in (first..).zip(rows) {
            let in_game = state.was_in_the_game[agent] != 0;
            for (block, (values, scale)) in
                row[..5 * others].chunks_exact_mut(others).zip(relative)
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

#[inline(always)]
fn observe_nearest<const BLOCK: usize>(
    params: &TagContinuousParams,
    state: &TagContinuousState<'_>,
    out: &mut Observation<'_>,
) {
    let n_taggers = params.n_taggers as usize;
    let shown = params.num_other_agents_observed as usize;
    let width = FEATURES * shown + 1;
    let time = time(params, state);
    let crowd = Crowd { x: state.loc_x, y: state.loc_y, in_game: state.was_in_the_game };
    let mut nearest = Nearest::<BLOCK>::new();
    for (group, first) in [(TAGGER, 0), (RUNNER, n_taggers)] {
        let rows = out.obs[group].chunks_exact_mut(width);
        for (agent, row) in (first..).zip(rows) {
            if state.was_in_the_game[agent] == 0 {
                row.fill(0.0);
                continue;
            }
            let (mut slot, mut last) = (0, Neighbour::NONE);
            while slot < shown {
                let wanted = PASS.min(shown - slot);
                let found = nearest.after(&crowd, agent, last, wanted);
                show(params, state, agent, (row, slot), found);
                slot += found.len();
                match found.last() {
                    Some(neighbour) if found.len() == wanted => last = *neighbour,
                    _ => break,
                }
            }
            if slot < shown {
                for block in row[..FEATURES * shown].chunks_exact_mut(shown) {
                    block[slot..].fill(0.0);
                }
            }
            row[FEATURES * shown] = time;
        }
    }
}

/// Writes what `agent` sees of `found` into its row from `slot` on.
#[inline(always)]
fn show(
    params: &TagContinuousParams,
    state: &TagContinuousState<'_>,
    agent: usize,
    (row, slot): (&mut [f32], usize),
    found: &[Neighbour],
) {
    let shown = params.num_other_agents_observed as usize;
    let n_taggers = params.n_taggers as usize;
    let mut blocks = row[..FEATURES * shown].chunks_exact_mut(shown);
    for ((values, scale), block) in relative(params, state).into_iter().zip(blocks.by_ref()) {
        let own = values[agent];
        for (to, other) in block[slot..].iter_mut().zip(found) {
            *to = (values[other.agent()] - own) * scale;
        }
    }
    let is_tagger = |other: &Neighbour| f32::from(u8::from(other.agent() < n_taggers));
    if let Some(types) = blocks.next() {
        types[slot..].iter_mut().zip(found).for_each(|(to, other)| *to = is_tagger(other));
    }
    if let Some(flags) = blocks.next() {
        flags[slot..].iter_mut().zip(found).for_each(|(to, _)| *to = 1.0);
    }
}

//! The vector path: up to 64 replicas at a time, copied into a tile on the stack, stepped lane by lane in one
//! loop that the compiler turns into vector instructions, and copied back.
//!
//! For environments of one agent whose state and action are a few numbers. An observation of a few numbers is
//! made lane by lane, too; a longer one, such as a board, row by row where it is shown. What begins an episode,
//! or ends one that the next follows at once, is rare, and done by the general path afterwards.

use super::batch::{Columns, Layout, Seen};
use super::plan::Phase;
use super::runner::{Part, Runner};
use crate::executor::columns::Column;
use crate::executor::lanes::{
    LANES, Lane, MAX_FIELDS, MAX_WIDTH, observation_fits_tile, state_fits_tile,
};
use std::ops::Range;
use warp_core::single::GroupAction;
use warp_core::{
    Actions, Draw, Env, EnvSpec, LimitEnds, Observation, Purpose, Record, Space, State, StepOut,
    TimeLimit,
};
use warp_data::Element;

/// How tiles of an environment are stepped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fast {
    discrete: bool,
    numbered: bool,
}

impl Fast {
    /// Whether an environment is small and plain enough.
    pub(super) fn of<E: Env>(spec: &EnvSpec, layout: Layout) -> Option<Self> {
        let group = &spec.groups[0];
        let lone = spec.groups.len() == 1 && group.n_agents == 1 && !group.mortal;
        let plain = spec.statistics.is_empty() && spec.global_observation.is_none();
        let one = group.action.action_width() == 1;
        // Those of lanes have no place for a mask.
        let shown = layout.numbered || !observation_fits_tile::<E>() || group.mask_width() == 0;
        let discrete = !matches!(group.action, Space::Box { .. });
        (state_fits_tile::<E>() && lone && plain && one && shown)
            .then_some(Self { discrete, numbered: layout.numbered })
    }
}

/// Some replicas on the stack, lane by lane.
struct Tile {
    fields: [[u32; LANES]; MAX_FIELDS],
    seed_low: [u32; LANES],
    seed_high: [u32; LANES],
    event: [u32; LANES],
    elapsed_step: [u32; LANES],
    before: [u8; LANES],
    phase: [u8; LANES],
    /// The first block of what each lane draws in its step, word by word.
    block: [[u32; LANES]; 4],
    discrete: [i32; LANES],
    continuous: [f32; LANES],
    chance: [u8; LANES],
    reward: [f32; LANES],
    terminated: [u8; LANES],
    truncated: [u8; LANES],
    number: [i32; LANES],
    obs: [[f32; LANES]; MAX_WIDTH],
}

impl Tile {
    fn new() -> Self {
        Self {
            fields: [[0; LANES]; MAX_FIELDS],
            seed_low: [0; LANES],
            seed_high: [0; LANES],
            event: [0; LANES],
            elapsed_step: [0; LANES],
            before: [0; LANES],
            phase: [0; LANES],
            block: [[0; LANES]; 4],
            discrete: [0; LANES],
            continuous: [0.0; LANES],
            chance: [0; LANES],
            reward: [0.0; LANES],
            terminated: [0; LANES],
            truncated: [0; LANES],
            number: [0; LANES],
            obs: [[0.0; LANES]; MAX_WIDTH],
        }
    }
}

/// The replicas of a tile: neighbours, whose rows are copied as one, or any.
#[derive(Clone, Copy)]
struct Members<'a> {
    ids: &'a [u32],
    neighbours: bool,
}

impl<'a> Members<'a> {
    #[inline(always)]
    fn of(ids: &'a [u32]) -> Self {
        Self { ids, neighbours: ids.windows(2).all(|pair| pair[1] == pair[0] + 1) }
    }

    fn range(self) -> Range<usize> {
        let first = self.ids[0] as usize;
        first..first + self.ids.len()
    }

    #[inline(always)]
    fn load<T: Element>(self, column: &Column<T>, lanes: &mut [T; LANES]) {
        if self.neighbours {
            lanes[..self.ids.len()].copy_from_slice(column.rows(self.range()));
        } else {
            let each = lanes.iter_mut().zip(self.ids);
            each.for_each(|(lane, id)| *lane = column.row_mut(*id as usize)[0]);
        }
    }

    #[inline(always)]
    fn store<T: Element>(self, column: &Column<T>, lanes: &[T; LANES]) {
        if self.neighbours {
            column.rows_mut(self.range()).copy_from_slice(&lanes[..self.ids.len()]);
        } else {
            let each = lanes.iter().zip(self.ids);
            each.for_each(|(lane, id)| column.row_mut(*id as usize)[0] = *lane);
        }
    }
}

#[inline(always)]
pub(super) fn step<E: Env>(runner: &Runner<E>, part: &Part<'_>, fast: Fast) {
    match (fast.discrete, fast.numbered) {
        (true, true) => step_tiles::<E, true, true>(runner, part),
        (true, false) => step_tiles::<E, true, false>(runner, part),
        (false, true) => step_tiles::<E, false, true>(runner, part),
        (false, false) => step_tiles::<E, false, false>(runner, part),
    }
}

#[inline(always)]
fn step_tiles<E: Env, const DISCRETE: bool, const NUMBERED: bool>(
    runner: &Runner<E>,
    part: &Part<'_>,
) {
    let mut tile = Tile::new();
    let mut first = part.rows.start;
    while first < part.rows.end {
        let n = LANES.min(part.rows.end - first);
        let members = Members::of(&part.orders.ids[first..first + n]);
        load::<E>(runner, &mut tile, members);
        let to = part.to + first - part.rows.start;
        match &part.orders.actions[0] {
            GroupAction::Discrete(all) => {
                tile.discrete[..n].copy_from_slice(&all[first..first + n])
            }
            GroupAction::Continuous(all) => {
                tile.continuous[..n].copy_from_slice(&all[first..first + n]);
            }
        }
        let starting = starting(&tile.before, n);
        if starting.count_ones() as usize == n {
            (first..first + n).for_each(|at| runner.step(part, at));
            first += n;
            continue;
        }
        make_steppable::<E>(&mut tile, n, starting);
        draw_lanes(&mut tile);
        step_lanes::<E, DISCRETE, NUMBERED>(&runner.env, &mut tile);
        if part.out.now.chance.is_some() {
            chance_lanes::<E, DISCRETE>(&runner.env, &mut tile);
        }
        count_lanes(&mut tile, runner.time_limit());
        store::<E>(runner, &tile, members);
        show::<E>(runner, part.out, &tile, members, to);
        lanes(starting)
            .for_each(|lane| runner.begin_shown(members.ids[lane] as usize, part.out, to + lane));
        follow::<E>(runner, part.out, &tile, members, to, starting);
        first += n;
    }
}

#[inline(always)]
fn load<E: Env>(runner: &Runner<E>, tile: &mut Tile, members: Members<'_>) {
    for (lanes, column) in tile.fields.iter_mut().zip(&runner.fields) {
        if members.neighbours {
            lanes[..members.ids.len()].copy_from_slice(column.bits(members.range()));
        } else {
            for (lane, id) in lanes.iter_mut().zip(members.ids) {
                *lane = column.bits(*id as usize..*id as usize + 1)[0];
            }
        }
    }
    members.load(&runner.seed_low, &mut tile.seed_low);
    members.load(&runner.seed_high, &mut tile.seed_high);
    members.load(&runner.event, &mut tile.event);
    members.load(&runner.elapsed_step, &mut tile.elapsed_step);
    members.load(&runner.phase, &mut tile.before);
}

/// A bit for each of the `n` replicas that begins an episode instead of a step.
#[inline(always)]
fn starting(before: &[u8; LANES], n: usize) -> u64 {
    let mut bits = 0;
    for (lane, phase) in before.iter().enumerate() {
        bits |= u64::from(*phase != Phase::Running as u8) << lane;
    }
    bits & all_before(n)
}

/// The bits of the first `n` lanes, at least one.
fn all_before(n: usize) -> u64 {
    u64::MAX >> (LANES - n)
}

/// The lanes whose bits are set.
fn lanes(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (lane < LANES).then_some(lane)
    })
}

/// Replicas that begin an episode, and lanes beyond the `n` replicas, make the step of one that runs, which nobody
/// reads: bodies may rely on states that reset or step has made, and on actions within their spaces.
#[inline(always)]
fn make_steppable<E: Env>(tile: &mut Tile, n: usize, starting: u64) {
    // The first that runs; there is one.
    let from = (!starting).trailing_zeros() as usize;
    let fields = tile.fields.iter_mut().take(E::State::FIELDS.len());
    fields.for_each(|field| replace(field, from, n, starting));
    replace(&mut tile.discrete, from, n, starting);
    replace(&mut tile.continuous, from, n, starting);
}

/// Gives what lane `from` has to those that begin an episode and to those beyond the `n` replicas.
#[inline(always)]
fn replace<T: Copy>(values: &mut [T; LANES], from: usize, n: usize, starting: u64) {
    let value = values[from];
    values[n..].fill(value);
    lanes(starting).for_each(|lane| values[lane] = value);
}

#[inline(always)]
fn stream_of(tile: &Tile, lane: usize) -> Draw {
    let seed = u64::from(tile.seed_low[lane]) | u64::from(tile.seed_high[lane]) << 32;
    Draw::new(seed, 0, tile.event[lane], Purpose::Step)
}

#[inline(always)]
fn draw_of(tile: &Tile, lane: usize) -> Draw {
    let [a, b, c, d] = &tile.block;
    stream_of(tile, lane).with_first_block([a[lane], b[lane], c[lane], d[lane]])
}

/// First blocks by themselves, which become vector instructions whatever the bodies are. Bodies that draw
/// nothing leave nothing of it in the compiled code.
#[inline(always)]
fn draw_lanes(tile: &mut Tile) {
    for lane in 0..LANES {
        let block = stream_of(tile, lane).block(0);
        for word in 0..4 {
            tile.block[word][lane] = block[word];
        }
    }
}

/// Nobody reads what lanes do that are no replica or begin an episode.
#[inline(always)]
fn step_lanes<E: Env, const DISCRETE: bool, const NUMBERED: bool>(env: &E, tile: &mut Tile) {
    for lane in 0..LANES {
        let mut view = E::State::view(&mut Lane { fields: &tile.fields, lane, next: 0 });
        let (discrete, continuous) = ([tile.discrete[lane]], [tile.continuous[lane]]);
        let mut actions = Actions::default();
        if DISCRETE {
            actions.discrete[0] = &discrete;
        } else {
            actions.continuous[0] = &continuous;
        }
        let (mut reward, mut obs) = ([0.0], [0.0; MAX_WIDTH]);
        let mut out = StepOut {
            reward: [&mut reward, &mut [], &mut [], &mut [], &mut [], &mut [], &mut [], &mut []],
            alive: [(); 8].map(|()| &mut [][..]),
            terminated: false,
            statistics: &mut [],
        };
        let mut draw = draw_of(tile, lane);
        env.step(&mut view, &actions, &mut draw, &mut out);
        tile.terminated[lane] = u8::from(out.terminated);
        tile.reward[lane] = reward[0];
        if NUMBERED {
            tile.number[lane] = env.number(&view).unwrap_or(0);
        } else if observation_fits_tile::<E>() {
            let seen = &mut obs[..E::OBSERVATION_WIDTH];
            let mut out = Observation {
                obs: [seen, &mut [], &mut [], &mut [], &mut [], &mut [], &mut [], &mut []],
                action_mask: [(); 8].map(|()| &mut [][..]),
                global: &mut [],
            };
            env.observe(&view, &mut out);
            for (element, lanes) in tile.obs.iter_mut().enumerate().take(E::OBSERVATION_WIDTH) {
                lanes[lane] = obs[element];
            }
        }
        E::State::save(&view, |field, bits| tile.fields[field][lane] = bits);
    }
}

#[inline(always)]
fn chance_lanes<E: Env, const DISCRETE: bool>(env: &E, tile: &mut Tile) {
    for lane in 0..LANES {
        let (discrete, continuous) = ([tile.discrete[lane]], [tile.continuous[lane]]);
        let mut actions = Actions::default();
        if DISCRETE {
            actions.discrete[0] = &discrete;
        } else {
            actions.continuous[0] = &continuous;
        }
        tile.chance[lane] = env.chance(&actions, &mut draw_of(tile, lane)) as u8;
    }
}

/// After the bodies: the time limit, flags, counts. A replica that begins an episode has made no step.
#[inline(always)]
fn count_lanes(tile: &mut Tile, TimeLimit { steps, ends }: TimeLimit) {
    let terminates = u8::from(ends == LimitEnds::Terminated);
    for lane in 0..LANES {
        let stepped = u32::from(tile.before[lane] == Phase::Running as u8);
        tile.event[lane] = tile.event[lane].wrapping_add(stepped);
        tile.elapsed_step[lane] = tile.elapsed_step[lane].wrapping_add(1);
        let over = u8::from(tile.elapsed_step[lane] >= steps);
        let terminated = tile.terminated[lane] | (over & terminates);
        let truncated = over & (1 - terminated);
        tile.terminated[lane] = terminated;
        tile.truncated[lane] = truncated;
        tile.phase[lane] = Phase::Running as u8 + (terminated | truncated);
    }
}

#[inline(always)]
fn store<E: Env>(runner: &Runner<E>, tile: &Tile, members: Members<'_>) {
    for (lanes, column) in tile.fields.iter().zip(&runner.fields) {
        if members.neighbours {
            column.bits_mut(members.range()).copy_from_slice(&lanes[..members.ids.len()]);
        } else {
            for (lane, id) in lanes.iter().zip(members.ids) {
                column.bits_mut(*id as usize..*id as usize + 1)[0] = *lane;
            }
        }
    }
    members.store(&runner.event, &tile.event);
    members.store(&runner.elapsed_step, &tile.elapsed_step);
    members.store(&runner.phase, &tile.phase);
}

/// Writes what all replicas of a tile show after their steps.
#[inline(always)]
fn show<E: Env>(runner: &Runner<E>, out: &Columns, tile: &Tile, members: Members<'_>, to: usize) {
    let n = members.ids.len();
    let rows = to..to + n;
    let each = out.env_id.rows_mut(rows.clone()).iter_mut().zip(members.ids);
    each.for_each(|(shown, id)| *shown = *id as i32);
    out.reward[0].rows_mut(rows.clone()).copy_from_slice(&tile.reward[..n]);
    out.terminated.rows_mut(rows.clone()).copy_from_slice(&tile.terminated[..n]);
    out.truncated.rows_mut(rows.clone()).copy_from_slice(&tile.truncated[..n]);
    let each = out.now.elapsed_step.rows_mut(rows.clone()).iter_mut().zip(&tile.elapsed_step);
    each.for_each(|(shown, steps)| *shown = *steps as i32);
    if let Some(chance) = &out.now.chance {
        chance.rows_mut(rows.clone()).copy_from_slice(&tile.chance[..n]);
    }
    match &out.now.obs {
        Seen::Number(numbers) => {
            numbers.rows_mut(rows.clone()).copy_from_slice(&tile.number[..n]);
            if let Some(mask) = &out.now.action_mask[0] {
                for (row, id) in rows.zip(members.ids) {
                    runner.show_mask(*id as usize, mask.row_mut(row));
                }
            }
        }
        Seen::Values(_) if !observation_fits_tile::<E>() => {
            for (row, id) in rows.zip(members.ids) {
                runner.show_values(*id as usize, &out.now, row);
            }
        }
        Seen::Values(obs) => {
            let obs = obs[0].rows_mut(rows);
            for (lane, row) in obs.chunks_exact_mut(E::OBSERVATION_WIDTH.max(1)).enumerate() {
                for (element, value) in row.iter_mut().enumerate() {
                    *value = tile.obs[element][lane];
                }
            }
        }
    }
}

/// Begins the next episode of those whose last one has ended, where that follows at once.
#[inline(always)]
fn follow<E: Env>(
    runner: &Runner<E>,
    out: &Columns,
    tile: &Tile,
    members: Members<'_>,
    to: usize,
    starting: u64,
) {
    let n = members.ids.len();
    let ended = tile.phase[..n].iter().fold(0, |all, phase| all | phase);
    if out.last.is_some() && ended & Phase::Ended as u8 != 0 {
        for lane in lanes(all_before(n) & !starting) {
            if tile.phase[lane] == Phase::Ended as u8 {
                runner.follow(members.ids[lane] as usize, out, to + lane, tile.chance[lane]);
            }
        }
    }
}

//! The step path, compiled for each vector width, and the fast path for small environments.
//!
//! A scalar environment with one agent is stepped a chunk of replicas at a time: columns are copied
//! into a tile on the stack, one branch-free loop steps all lanes (which the compiler turns into
//! vector instructions, since a tile aliases nothing), and the tile is copied back. Restarts are a
//! second pass. No instruction set changes a result: bodies never use fused multiply-add.

use super::shard::ShardRunner;
use crate::vectors::{Work, widest};
use warp_core::{
    Actions, Env, EnvSpec, FieldSource, Observation, Purpose, Record, Space, State, StepOut,
};

/// Replicas per tile.
pub(crate) const LANES: usize = 64;
/// Fewer replicas are stepped one by one: a tile takes the time of all its lanes.
pub(crate) const FEW: usize = 6;
/// State fields that fit in a tile.
pub(crate) const MAX_FIELDS: usize = 8;
/// Observation elements that fit in a tile.
pub(crate) const MAX_WIDTH: usize = 8;

/// The kind of action that the fast path's one agent takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FastPath {
    Discrete,
    Continuous,
}

impl FastPath {
    /// That of an environment whose spec is plain enough.
    fn of_spec(spec: &EnvSpec) -> Option<FastPath> {
        let group = &spec.groups[0];
        let lone = spec.groups.len() == 1 && group.n_agents == 1 && !group.mortal;
        let plain = spec.statistics.is_empty() && spec.global_observation.is_none();
        let one = group.mask_width() == 0 && group.action.action_width() == 1;
        if !(lone && plain && one) {
            return None;
        }
        match group.action {
            Space::Box { .. } => Some(FastPath::Continuous),
            _ => Some(FastPath::Discrete),
        }
    }

    /// That of an environment whose state and observation fit into a tile and whose spec is plain enough.
    pub(super) fn of<E: Env>(spec: &EnvSpec) -> Option<FastPath> {
        if const { fits_tile::<E>() } { Self::of_spec(spec) } else { None }
    }
}

/// Whether state and observation of an environment fit into a tile.
const fn fits_tile<E: Env>() -> bool {
    state_fits_tile::<E>() && observation_fits_tile::<E>()
}

/// Whether the state of an environment fits into a tile.
pub(crate) const fn state_fits_tile<E: Env>() -> bool {
    E::State::SCALARS && E::State::FIELDS.len() <= MAX_FIELDS
}

/// Whether what an environment's agent sees fits into a tile.
pub(crate) const fn observation_fits_tile<E: Env>() -> bool {
    E::OBSERVATION_WIDTH > 0 && E::OBSERVATION_WIDTH <= MAX_WIDTH
}

/// A step of a shard's bodies, all replicas of it.
struct StepShard<'a, E: Env> {
    shard: &'a mut ShardRunner<E>,
    fast: Option<FastPath>,
}

impl<E: Env> Work for StepShard<'_, E> {
    #[inline(always)]
    fn run(self) {
        step_any(self.shard, self.fast);
    }
}

/// Runs the bodies of all replicas with the widest vectors that this machine has.
pub(super) fn step<E: Env>(shard: &mut ShardRunner<E>, fast: Option<FastPath>) {
    widest(StepShard { shard, fast });
}

#[inline(always)]
fn step_any<E: Env>(shard: &mut ShardRunner<E>, fast: Option<FastPath>) {
    // A constant, so that the bodies of larger environments are not compiled for tiles.
    if const { fits_tile::<E>() } {
        match fast.filter(|_| shard.replicas.len() >= FEW) {
            None => shard.step_all_rows(),
            Some(FastPath::Discrete) => step_tiles::<E, true>(shard),
            Some(FastPath::Continuous) => step_tiles::<E, false>(shard),
        }
    } else {
        shard.step_all_rows();
    }
}

/// A chunk of replicas on the stack, lane by lane.
struct Tile {
    fields: [[u32; LANES]; MAX_FIELDS],
    discrete: [i32; LANES],
    continuous: [f32; LANES],
    reward: [f32; LANES],
    terminated: [u8; LANES],
    obs: [[f32; LANES]; MAX_WIDTH],
}

/// The fields of one lane, in order.
pub(crate) struct Lane<'t> {
    pub(crate) fields: &'t [[u32; LANES]; MAX_FIELDS],
    pub(crate) lane: usize,
    pub(crate) next: usize,
}

impl<'a> FieldSource<'a> for Lane<'_> {
    #[inline(always)]
    fn bits(&mut self) -> u32 {
        let bits = self.fields[self.next][self.lane];
        self.next += 1;
        bits
    }
    fn scalar<T: warp_core::Bits>(&mut self) -> &'a mut T {
        panic!("a state of scalars is built from bits")
    }
    fn row<T: warp_core::Bits>(&mut self) -> &'a mut [T] {
        panic!("a state of scalars has no rows")
    }
}

#[inline(always)]
fn step_tiles<E: Env, const DISCRETE: bool>(shard: &mut ShardRunner<E>) {
    let mut tile = Tile {
        fields: [[0; LANES]; MAX_FIELDS],
        discrete: [0; LANES],
        continuous: [0.0; LANES],
        reward: [0.0; LANES],
        terminated: [0; LANES],
        obs: [[0.0; LANES]; MAX_WIDTH],
    };
    let group = &shard.groups[0];
    let mut first = shard.replicas.start;
    while first < shard.replicas.end {
        let n = LANES.min(shard.replicas.end - first);
        let rows = first..first + n;
        for (lanes, column) in tile.fields.iter_mut().zip(&shard.fields) {
            load(lanes, column.bits(rows.clone()));
        }
        if let (true, Some(column)) = (DISCRETE, &group.discrete) {
            load(&mut tile.discrete, column.rows(rows.clone()));
        }
        if let (false, Some(column)) = (DISCRETE, &group.continuous) {
            load(&mut tile.continuous, column.rows(rows.clone()));
        }
        step_lanes::<E, DISCRETE>(shard, &mut tile, first);
        for (lanes, column) in tile.fields.iter().zip(&shard.fields) {
            column.bits_mut(rows.clone()).copy_from_slice(&lanes[..n]);
        }
        group.reward.rows_mut(rows.clone()).copy_from_slice(&tile.reward[..n]);
        shard.terminated.rows_mut(rows.clone()).copy_from_slice(&tile.terminated[..n]);
        let returns = group.episode_return.rows_mut(rows.clone());
        returns.iter_mut().zip(&tile.reward).for_each(|(sum, reward)| *sum += reward);
        shard.episode_length.rows_mut(rows.clone()).iter_mut().for_each(|length| *length += 1);
        let obs = group.obs.rows_mut(rows);
        for (lane, row) in obs.chunks_exact_mut(E::OBSERVATION_WIDTH).enumerate() {
            for (element, value) in row.iter_mut().enumerate() {
                *value = tile.obs[element][lane];
            }
        }
        first += n;
    }
}

/// Copies the numbers of a chunk to its lanes, and the last replica's to those behind it: bodies may rely on
/// states that reset or step has made, and on actions within their spaces.
#[inline(always)]
fn load<T: Copy>(lanes: &mut [T; LANES], rows: &[T]) {
    if rows.len() < LANES {
        lanes.fill(rows[rows.len() - 1]);
    }
    lanes[..rows.len()].copy_from_slice(rows);
}

/// Nobody reads what lanes beyond the last replica do.
#[inline(always)]
fn step_lanes<E: Env, const DISCRETE: bool>(shard: &ShardRunner<E>, tile: &mut Tile, first: usize) {
    let env = &*shard.env;
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
        let mut draw = shard.draw(first + lane, Purpose::Step);
        env.step(&mut view, &actions, &mut draw, &mut out);
        tile.terminated[lane] = u8::from(out.terminated);
        tile.reward[lane] = reward[0];
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
        E::State::save(&view, |field, bits| tile.fields[field][lane] = bits);
    }
}

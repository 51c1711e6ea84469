//! FrozenLake: an elf crosses a frozen lake to a present, on ice that does not always carry it where
//! it wants to go.
//!
//! Rules of Gymnasium's `FrozenLake-v1` and `FrozenLake8x8-v1` (version 1.4).
//!
//! **Environment**: tiles of a map, S start, F frozen, H hole, G goal, in rows from top to bottom. A
//! cell is numbered row x columns + column. An episode starts on a start tile, drawn evenly from all of
//! them.
//!
//! **Actions**, `Discrete(4)`: 0 left, 1 down, 2 right, 3 up; a step off the map stays. On slippery ice
//! the elf goes where it wants with `success_rate`, else to the left or to the right of that, as often
//! to either.
//!
//! **Reward**: `reward_schedule`, by the tile that the elf stands on after the step (goal, hole, other).
//!
//! **The end**: terminated on the goal and in a hole, truncated after `episode_length` steps.
//!
//! **Observation**: the cell, one-hot, f32 `[rows x columns]`.

mod map;
mod step;

pub use map::MapName;

use crate::preset::{limit_of, probability};
use crate::slippery::slip;
use warp_core::{
    Actions, Draw, Env, EnvSpec, Error, Kernel, Layout, Observation, Result, Space, StepOut, Table,
    TimeLimit,
};

warp_core::config! {
    /// The configuration of [`FrozenLake`].
    pub struct FrozenLakeConfig {
        /// Rows of the map, of the letters S (start), F (frozen), H (hole) and G (goal); unset: see
        /// map_name.
        pub desc: Option<Vec<String>> = None,
        /// Which map: "4x4", "8x8", or "random" for one of 8 x 8 tiles that is made from map_seed.
        pub map_name: MapName = MapName::Small,
        /// Which of the random maps.
        pub map_seed: u64 = 0,
        /// Whether the elf may slip to a side.
        pub is_slippery: bool = true,
        /// How often it goes where it wants on slippery ice, 0 to 1.
        pub success_rate: f64 = 1.0 / 3.0,
        /// Rewards for a step onto the goal, into a hole and onto any other tile.
        pub reward_schedule: Vec<f32> = vec![1.0, 0.0, 0.0],
        /// Steps in an episode at most; unset: 200 on the map "8x8", else 100.
        pub episode_length: Option<u32> = None,
    }
}

warp_core::params! {
    /// What all replicas share.
    pub struct FrozenLakeParams {
        /// Rows of the map.
        rows: i32,
        /// Columns of the map.
        columns: i32,
        /// Below it a draw turns the elf to the left.
        first: f32,
        /// Below it, and not below `first`, the elf goes where it wants; above, to the right.
        second: f32,
    }
}

warp_core::state! {
    /// The elf.
    pub struct FrozenLakeState {
        /// Its cell.
        state: i32,
    }
}

/// What the tables hold.
#[derive(Debug, Clone)]
struct Tables {
    /// What each cell is: 0 frozen, 1 hole, 2 goal.
    tiles: Vec<i32>,
    /// Cells of start tiles.
    starts: Vec<i32>,
    /// Rewards, by what a cell is.
    rewards: Vec<f32>,
}

/// The environment.
#[derive(Debug, Clone)]
pub struct FrozenLake {
    limit: TimeLimit,
    params: FrozenLakeParams,
    tables: Tables,
    /// How likely it is that the elf slips to one side, and that it goes where it wants; on firm ice the
    /// latter is all.
    chances: Vec<f64>,
}

impl Env for FrozenLake {
    const NAME: &'static str = "frozen_lake";
    type Config = FrozenLakeConfig;
    type Params = FrozenLakeParams;
    type State = FrozenLakeState;

    fn new(config: &FrozenLakeConfig) -> Result<Self> {
        let map = map::Map::new(config)?;
        let rate = probability("success_rate", config.success_rate)?;
        let &[goal, hole, frozen] = config.reward_schedule.as_slice() else {
            let given = format!("{:?}", config.reward_schedule);
            let reason = "must be three numbers, for goal, hole and other tiles";
            return Err(Error::invalid("reward_schedule", given, reason));
        };
        let large = config.desc.is_none() && config.map_name == MapName::Large;
        let limit = limit_of(config.episode_length.or(Some(if large { 200 } else { 100 })))?;
        let side = if config.is_slippery { (1.0 - rate) / 2.0 } else { 0.0 };
        let (first, second) = (side as f32, (1.0 - side) as f32);
        let (rows, columns) = (map.rows as i32, map.columns as i32);
        let params = FrozenLakeParams { rows, columns, first, second };
        let rewards = vec![frozen, hole, goal];
        let tables = Tables { tiles: map.tiles, starts: map.starts, rewards };
        let chances = if config.is_slippery { vec![(1.0 - rate) / 2.0, rate] } else { vec![1.0] };
        Ok(Self { limit, params, tables, chances })
    }

    fn spec(&self) -> EnvSpec {
        let observation = Space::Discrete { n: self.tables.tiles.len() };
        let action = Space::Discrete { n: 4 };
        EnvSpec::one_agent(Self::NAME, "elf", observation, action, self.limit)
    }

    fn params(&self) -> &FrozenLakeParams {
        &self.params
    }

    fn tables(&self) -> Vec<Table<'_>> {
        let Tables { tiles, starts, rewards } = &self.tables;
        let rewards = Table::f32("rewards", rewards);
        vec![Table::i32("tiles", tiles), Table::i32("starts", starts), rewards]
    }

    fn kernel() -> Option<Kernel> {
        let text = include_str!("step.cu");
        Some(Kernel { file: "frozen_lake/step.cu", text, layout: Layout::ThreadPerReplica })
    }

    #[inline(always)]
    fn reset(&self, state: &mut FrozenLakeState, draw: &mut Draw) {
        step::reset(&self.tables, state, draw);
    }

    fn observe(&self, state: &FrozenLakeState, out: &mut Observation<'_>) {
        step::observe(&self.params, state, out);
    }

    #[inline(always)]
    fn number(&self, state: &FrozenLakeState) -> Option<i32> {
        Some(step::shown_number(state))
    }

    fn chances(&self) -> Vec<f64> {
        self.chances.clone()
    }

    #[inline(always)]
    fn chance(&self, _actions: &Actions<'_>, draw: &mut Draw) -> usize {
        usize::from(slip(draw.uniform(), self.params.first, self.params.second) == 0)
    }

    #[inline(always)]
    fn step(
        &self,
        state: &mut FrozenLakeState,
        actions: &Actions<'_>,
        draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        step::step(&self.params, &self.tables, state, actions, draw, out);
    }
}

//! Tag on a plane: taggers hunt runners, all of them steering by acceleration and turn.
//!
//! Rules of WarpDrive's `TagContinuous` (Lan, Srinivasa, Wang and Zheng, 2021, arXiv:2108.13976;
//! version 2.7.1); where its programs for CPU and GPU differ, the one for the CPU. The plane is the
//! square `[0, grid_length]^2`.
//!
//! **Agents**: group `tagger`, numbers `0..num_taggers`, then group `runner`. Runners leave the game
//! when they are tagged, unless `runner_exits_game_after_tagged = false`; taggers never do.
//!
//! **Actions**, `MultiDiscrete[num_acceleration_levels + 1, num_turn_levels + 1]`: 0 changes nothing,
//! i >= 1 is the i-th of evenly spaced levels from `min_*` to `max_*`.
//!
//! **A step**: acceleration and direction change by the action, the speed by the acceleration (within
//! 0 and `max_speed` times skill; at either end the acceleration becomes 0), the place by the speed.
//! Who crosses an edge is put back onto it and gets `edge_hit_penalty`. A runner whose nearest tagger
//! (the lowest number of several) is nearer than `tagging_distance * grid_length` is tagged by it. The
//! game is over after `episode_length` steps or with the last runner; both count as terminated.
//!
//! **Rewards** of agents in the game: `edge_hit_penalty` at an edge, and `step_penalty_for_tagger` or
//! `step_reward_for_runner` each step; at a tag `tag_penalty_for_runner`, and `tag_reward_for_tagger` as
//! often as the tagger tagged; at the end of the time `end_of_game_reward_for_runner`, not for a
//! runner that this very step removed. Agents out of the game get 0.
//!
//! **Observation**: seven blocks of S numbers, one per other agent shown, then time / `episode_length`.
//!
//! | index | element (d: other minus self) |
//! |---|---|
//! | 0 .. S | dx / (`grid_length` sqrt 2) |
//! | S .. 2S | dy / (`grid_length` sqrt 2) |
//! | 2S .. 3S | d speed / (`max_speed` + 1e-10) |
//! | 3S .. 4S | d acceleration / (`max_speed` + 1e-10) |
//! | 4S .. 5S | d direction / 2 pi, not wrapped |
//! | 5S .. 6S | 1 for a tagger, 0 for a runner |
//! | 6S .. 7S | 1 if in the game |
//! | 7S | time / `episode_length` |
//!
//! *Full*: S = N - 1, the others by number; who is out of the game sees the last two blocks only, and
//! time 0. *Partial*: S = `num_other_agents_observed`, the nearest agents in the game by distance (of
//! equally distant ones the lowest number first), zeros where there are fewer; who is out of the game
//! sees zeros. "In the game" is as of before this step's tags, so a tagged runner sees its last step.
//!
//! **Statistic**: `tags`, the number of tags in the episode; a runner that stays in the game can be
//! tagged in every step.
//!
//! **Deviations**: agents are numbered taggers first, where the original picks the taggers' numbers at
//! random; starts are drawn afresh for every replica and episode, where the original has one.

mod agents;
mod config;
mod nearest;
mod observe;
mod step;
#[cfg(test)]
mod tests;
mod tile;
mod tiles;

pub use config::TagContinuousConfig;

use warp_core::{
    Actions, Draw, Env, EnvSpec, GroupSpec, Kernel, Layout, LimitEnds, Observation, Result, Space,
    StepOut, Table, TableData, TimeLimit, View,
};

/// Number of the group of taggers.
const TAGGER: usize = 0;
/// Number of the group of runners.
const RUNNER: usize = 1;
/// Blocks of an observation.
const FEATURES: usize = 7;

warp_core::params! {
    /// What all replicas share.
    pub struct TagContinuousParams {
        /// Number of taggers.
        n_taggers: i32,
        /// Number of runners at the start.
        n_runners: i32,
        /// Steps in an episode.
        episode_length: i32,
        /// Other agents in a partial observation.
        num_other_agents_observed: i32,
        /// 1: agents see everyone; 0: the nearest.
        use_full_observation: i32,
        /// 1: a tagged runner leaves the game.
        runner_exits_game_after_tagged: i32,
        /// 1: places at the start are `start_x` and `start_y`; 0: they are drawn.
        fixed_location: i32,
        /// 1: directions at the start are `start_direction`; 0: they are drawn.
        fixed_direction: i32,
        /// Side of the square.
        grid_length: f32,
        /// Highest speed for a skill of 1, per step.
        max_speed: f32,
        /// A runner is tagged below this distance.
        distance_margin_for_reward: f32,
        /// Reward for crossing an edge, 0 or less.
        edge_hit_penalty: f32,
        /// A tagger's reward per tag.
        tag_reward_for_tagger: f32,
        /// A runner's reward for being tagged, 0 or less.
        tag_penalty_for_runner: f32,
        /// A runner's reward for being in the game at the end of the time.
        end_of_game_reward_for_runner: f32,
        /// Factor of distances in observations: 1 / (`grid_length` sqrt 2).
        location_scale: f32,
        /// Factor of speeds and accelerations in observations: 1 / (`max_speed` + 1e-10).
        speed_scale: f32,
    }
}

warp_core::state! {
    /// Everyone's motion and who is in the game; taggers first.
    pub struct TagContinuousState {
        /// Place, 0 to `grid_length`.
        loc_x: [f32; n_agents],
        /// Place, 0 to `grid_length`.
        loc_y: [f32; n_agents],
        /// Distance per step.
        speed: [f32; n_agents],
        /// Heading, rad, 0 to 2 pi; 0 is along x.
        direction: [f32; n_agents],
        /// Change of speed per step.
        acceleration: [f32; n_agents],
        /// 1: in the game; 0: out of it.
        still_in_the_game: [i32; n_agents],
        /// As `still_in_the_game`, before the last step's tags; what observations show.
        was_in_the_game: [i32; n_agents],
        /// What the edges gave in the last step.
        edge_hit_reward_penalty: [f32; n_agents],
        /// Runners in the game.
        num_runners: i32,
        /// Steps since the episode began.
        timestep: i32,
    }
}

/// The environment.
#[derive(Debug, Clone)]
pub struct TagContinuous {
    params: TagContinuousParams,
    tables: Tables,
}

/// What agents share, or have each for the whole run.
#[derive(Debug, Clone, Default)]
struct Tables {
    /// Change of acceleration by action, f32 `[num_acceleration_levels + 1]`.
    acceleration_actions: Vec<f32>,
    /// Change of direction by action, rad, f32 `[num_turn_levels + 1]`.
    turn_actions: Vec<f32>,
    /// Factor of the highest speed, f32 `[n_agents]`.
    skill_levels: Vec<f32>,
    /// Reward per step in the game, f32 `[n_agents]`.
    step_rewards: Vec<f32>,
    /// Places at the start, f32 `[n_agents]`; zeros if they are drawn.
    start_x: Vec<f32>,
    start_y: Vec<f32>,
    /// Headings at the start, rad, f32 `[n_agents]`; zeros if they are drawn.
    start_direction: Vec<f32>,
}

impl TagContinuous {
    fn n_agents(&self) -> usize {
        (self.params.n_taggers + self.params.n_runners) as usize
    }

    /// Other agents in one agent's observation.
    fn n_shown(&self) -> usize {
        match self.params.use_full_observation {
            1 => self.n_agents() - 1,
            _ => self.params.num_other_agents_observed as usize,
        }
    }
}

/// A table of numbers in a row.
fn table<'a>(name: &'static str, data: &'a [f32]) -> Table<'a> {
    Table { name, shape: vec![data.len()], data: TableData::F32(data) }
}

impl Env for TagContinuous {
    const NAME: &'static str = "tag_continuous";
    type Config = TagContinuousConfig;
    type Params = TagContinuousParams;
    type State = TagContinuousState<'static>;

    fn new(config: &TagContinuousConfig) -> Result<Self> {
        config.check()?;
        Ok(Self { params: config.params(), tables: config.tables() })
    }

    fn spec(&self) -> EnvSpec {
        let heads = [&self.tables.acceleration_actions, &self.tables.turn_actions];
        let group = |name: &str, n_agents: i32, mortal| GroupSpec {
            name: name.into(),
            n_agents: n_agents as usize,
            observation: Space::unbounded(FEATURES * self.n_shown() + 1),
            action: Space::MultiDiscrete { sizes: heads.map(Vec::len).to_vec() },
            mortal,
        };
        let exits = self.params.runner_exits_game_after_tagged == 1;
        EnvSpec {
            name: Self::NAME.into(),
            groups: vec![
                group("tagger", self.params.n_taggers, false),
                group("runner", self.params.n_runners, exits),
            ],
            time_limit: TimeLimit {
                steps: self.params.episode_length as u32,
                ends: LimitEnds::Terminated,
            },
            statistics: vec!["tags".into()],
            global_observation: None,
        }
    }

    fn params(&self) -> &TagContinuousParams {
        &self.params
    }

    fn tables(&self) -> Vec<Table<'_>> {
        let Tables { acceleration_actions, turn_actions, skill_levels, .. } = &self.tables;
        let Tables { step_rewards, start_x, start_y, start_direction, .. } = &self.tables;
        let named = [
            ("acceleration_actions", acceleration_actions),
            ("turn_actions", turn_actions),
            ("skill_levels", skill_levels),
            ("step_rewards", step_rewards),
            ("start_x", start_x),
            ("start_y", start_y),
            ("start_direction", start_direction),
        ];
        named.into_iter().map(|(name, data)| table(name, data)).collect()
    }

    fn dims(&self) -> Vec<(&'static str, usize)> {
        let nearest = match self.params.use_full_observation {
            1 => 0,
            _ => self.n_shown(),
        };
        // All but the first for nearest.cu, whose loops over them are unrolled.
        vec![
            ("n_agents", self.n_agents()),
            ("n_taggers", self.params.n_taggers as usize),
            ("n_shown", self.n_shown()),
            ("n_nearest", nearest),
        ]
    }

    fn kernel() -> Option<Kernel> {
        let text = include_str!("step.cu");
        Some(Kernel { file: "tag_continuous/step.cu", text, layout: Layout::TeamPerReplica })
    }

    #[inline(always)]
    fn reset(&self, state: &mut View<'_, Self>, draw: &mut Draw) {
        step::reset(self, state, draw);
    }

    #[inline(always)]
    fn observe(&self, state: &View<'_, Self>, out: &mut Observation<'_>) {
        observe::observe(&self.params, state, out);
    }

    #[inline(always)]
    fn step(
        &self,
        state: &mut View<'_, Self>,
        actions: &Actions<'_>,
        _draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        step::step(self, state, actions, out);
    }
}

//! Tag on a plane: its keys, what they may be, and the numbers that follow from them.

use super::{Tables, TagContinuousParams};
use std::f64::consts::{FRAC_PI_2, SQRT_2};
use warp_core::{Error, Result, in_range};

/// Agents of both groups at most, and levels of an action at most; more would be a slip.
const MAX_COUNT: u32 = 100_000;
/// Lengths, speeds and rewards at most, so that their squares and sums stay finite.
const MAX_REAL: f64 = 1e9;
/// Side of the square at least, so that its inverse stays finite.
const MIN_LENGTH: f64 = 1e-9;
/// Turns and headings at most, rad: what a remainder by 2 pi is exact for.
const MAX_ANGLE: f64 = 1000.0;

warp_core::config! {
    /// The configuration of [`TagContinuous`](super::TagContinuous).
    pub struct TagContinuousConfig {
        /// Number of taggers, at least 1.
        pub num_taggers: u32 = 1,
        /// Number of runners, at least 1.
        pub num_runners: u32 = 10,
        /// Side of the square that agents move in, above 0.
        pub grid_length: f64 = 10.0,
        /// Maximum number of steps in an episode.
        pub episode_length: u32 = 100,
        /// Start x of every agent, taggers first, 0 to grid_length; unset: uniformly random.
        pub starting_location_x: Option<Vec<f32>> = None,
        /// Start y of every agent; needed if starting_location_x is set.
        pub starting_location_y: Option<Vec<f32>> = None,
        /// Start heading of every agent, rad; unset: one of the four directions along the axes.
        pub starting_directions: Option<Vec<f32>> = None,
        /// Highest speed for a skill of 1, per step.
        pub max_speed: f64 = 1.0,
        /// Factor of a runner's highest speed.
        pub skill_level_runner: f64 = 1.0,
        /// Factor of a tagger's highest speed.
        pub skill_level_tagger: f64 = 1.0,
        /// Highest level of the acceleration action, per step.
        pub max_acceleration: f64 = 1.0,
        /// Lowest level of the acceleration action, per step.
        pub min_acceleration: f64 = -1.0,
        /// Highest level of the turn action, rad.
        pub max_turn: f64 = FRAC_PI_2,
        /// Lowest level of the turn action, rad.
        pub min_turn: f64 = -FRAC_PI_2,
        /// Levels of the acceleration action, beside "no change".
        pub num_acceleration_levels: u32 = 10,
        /// Levels of the turn action, beside "no change".
        pub num_turn_levels: u32 = 10,
        /// Reward for crossing an edge, 0 or less.
        pub edge_hit_penalty: f64 = 0.0,
        /// Whether agents see everyone, or only the nearest.
        pub use_full_observation: bool = true,
        /// How many others a partial observation shows, at most the number of agents.
        pub num_other_agents_observed: u32 = 2,
        /// A runner is tagged below this distance, as a part of grid_length, 0 to 1.
        pub tagging_distance: f64 = 0.01,
        /// A tagger's reward per tag, 0 or more.
        pub tag_reward_for_tagger: f64 = 1.0,
        /// A tagger's reward per step, 0 or less.
        pub step_penalty_for_tagger: f64 = 0.0,
        /// A runner's reward for being tagged, 0 or less.
        pub tag_penalty_for_runner: f64 = -1.0,
        /// A runner's reward per step in the game, 0 or more.
        pub step_reward_for_runner: f64 = 0.0,
        /// A runner's reward for being in the game when the time is over, 0 or more.
        pub end_of_game_reward_for_runner: f64 = 1.0,
        /// Whether a runner leaves the game when it is tagged.
        pub runner_exits_game_after_tagged: bool = true,
    }
}

impl TagContinuousConfig {
    /// Refuses what is out of range.
    pub(super) fn check(&self) -> Result<()> {
        in_range("num_taggers", self.num_taggers, 1, MAX_COUNT)?;
        in_range("num_runners", self.num_runners, 1, MAX_COUNT)?;
        in_range("episode_length", self.episode_length, 1, i32::MAX as u32)?;
        in_range("num_acceleration_levels", self.num_acceleration_levels, 0, MAX_COUNT)?;
        in_range("num_turn_levels", self.num_turn_levels, 0, MAX_COUNT)?;
        let n_agents = self.num_taggers + self.num_runners;
        let shown = self.num_other_agents_observed;
        if shown > n_agents {
            let reason = format!("must be at most the number of agents, {n_agents}");
            return Err(Error::invalid("num_other_agents_observed", shown, reason));
        }
        in_range("grid_length", self.grid_length, MIN_LENGTH, MAX_REAL)?;
        in_range("max_speed", self.max_speed, 0.0, MAX_REAL)?;
        in_range("skill_level_runner", self.skill_level_runner, 0.0, MAX_REAL)?;
        in_range("skill_level_tagger", self.skill_level_tagger, 0.0, MAX_REAL)?;
        in_range("max_acceleration", self.max_acceleration, -MAX_REAL, MAX_REAL)?;
        in_range("min_acceleration", self.min_acceleration, -MAX_REAL, MAX_REAL)?;
        in_range("max_turn", self.max_turn, -MAX_ANGLE, MAX_ANGLE)?;
        in_range("min_turn", self.min_turn, -MAX_ANGLE, MAX_ANGLE)?;
        in_range("tagging_distance", self.tagging_distance, 0.0, 1.0)?;
        in_range("edge_hit_penalty", self.edge_hit_penalty, -MAX_REAL, 0.0)?;
        in_range("tag_reward_for_tagger", self.tag_reward_for_tagger, 0.0, MAX_REAL)?;
        in_range("step_penalty_for_tagger", self.step_penalty_for_tagger, -MAX_REAL, 0.0)?;
        in_range("tag_penalty_for_runner", self.tag_penalty_for_runner, -MAX_REAL, 0.0)?;
        in_range("step_reward_for_runner", self.step_reward_for_runner, 0.0, MAX_REAL)?;
        let end_reward = self.end_of_game_reward_for_runner;
        in_range("end_of_game_reward_for_runner", end_reward, 0.0, MAX_REAL)?;
        self.check_starts()
    }

    fn check_starts(&self) -> Result<()> {
        let (x, y) = (&self.starting_location_x, &self.starting_location_y);
        if x.is_some() != y.is_some() {
            let missing = if x.is_some() { "starting_location_y" } else { "starting_location_x" };
            return Err(Error::invalid(missing, "unset", "is needed when the other axis is set"));
        }
        let n_agents = (self.num_taggers + self.num_runners) as usize;
        let (grid, angle) = (self.grid_length as f32, MAX_ANGLE as f32);
        for (key, values, low, high) in [
            ("starting_location_x", x, 0.0, grid),
            ("starting_location_y", y, 0.0, grid),
            ("starting_directions", &self.starting_directions, -angle, angle),
        ] {
            let Some(values) = values else { continue };
            if values.len() != n_agents {
                let reason = format!("{n_agents} agents need {n_agents} numbers");
                return Err(Error::invalid(key, format!("{values:?}"), reason));
            }
            values.iter().try_for_each(|value| in_range(key, *value, low, high))?;
        }
        Ok(())
    }

    /// The scalars. As in the original, lengths are rounded to f32 first; products are taken in f64.
    pub(super) fn params(&self) -> TagContinuousParams {
        let (grid, speed) = (self.grid_length as f32, self.max_speed as f32);
        TagContinuousParams {
            n_taggers: self.num_taggers as i32,
            n_runners: self.num_runners as i32,
            episode_length: self.episode_length as i32,
            num_other_agents_observed: self.num_other_agents_observed as i32,
            use_full_observation: i32::from(self.use_full_observation),
            runner_exits_game_after_tagged: i32::from(self.runner_exits_game_after_tagged),
            fixed_location: i32::from(self.starting_location_x.is_some()),
            fixed_direction: i32::from(self.starting_directions.is_some()),
            grid_length: grid,
            max_speed: speed,
            distance_margin_for_reward: (self.tagging_distance * f64::from(grid)) as f32,
            edge_hit_penalty: self.edge_hit_penalty as f32,
            tag_reward_for_tagger: self.tag_reward_for_tagger as f32,
            tag_penalty_for_runner: self.tag_penalty_for_runner as f32,
            end_of_game_reward_for_runner: self.end_of_game_reward_for_runner as f32,
            location_scale: (1.0 / (f64::from(grid) * SQRT_2)) as f32,
            speed_scale: (1.0 / (f64::from(speed) + 1e-10)) as f32,
        }
    }

    /// The arrays.
    pub(super) fn tables(&self) -> Tables {
        let per_group = |tagger: f64, runner: f64| {
            let taggers = vec![tagger as f32; self.num_taggers as usize];
            [taggers, vec![runner as f32; self.num_runners as usize]].concat()
        };
        let zeros = || per_group(0.0, 0.0);
        Tables {
            acceleration_actions: action_table(
                self.min_acceleration,
                self.max_acceleration,
                self.num_acceleration_levels,
            ),
            turn_actions: action_table(self.min_turn, self.max_turn, self.num_turn_levels),
            skill_levels: per_group(self.skill_level_tagger, self.skill_level_runner),
            step_rewards: per_group(self.step_penalty_for_tagger, self.step_reward_for_runner),
            start_x: self.starting_location_x.clone().unwrap_or_else(zeros),
            start_y: self.starting_location_y.clone().unwrap_or_else(zeros),
            start_direction: self.starting_directions.clone().unwrap_or_else(zeros),
        }
    }
}

/// 0 and then `levels` evenly spaced numbers from `low` to `high`, as NumPy's `linspace` makes them
/// from two f32: in f64, the last one exact, a single one the lowest.
fn action_table(low: f64, high: f64, levels: u32) -> Vec<f32> {
    let (low, high) = (f64::from(low as f32), f64::from(high as f32));
    let step = (high - low) / f64::from(levels.max(2) - 1);
    let level = |i: u32| match i {
        i if i > 0 && i == levels - 1 => high,
        i => f64::from(i) * step + low,
    };
    [0.0].into_iter().chain((0..levels).map(|i| level(i) as f32)).collect()
}

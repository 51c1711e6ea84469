//! MountainCar: a car in a valley, too weak for the hill, must swing to gather speed.
//!
//! Rules of Gymnasium's `MountainCar-v0` (Moore, 1990): reward -1 for every step, the one that
//! reaches the goal included, truncation after 200 steps. The body terminates an episode at the
//! goal only: `terminated` says that it was reached (or, with the preset "warpdrive", the limit).

mod step;

use crate::preset::Preset;
use warp_core::{
    Actions, Draw, Env, EnvSpec, Error, Kernel, Layout, Observation, Result, Space, StepOut,
    TimeLimit,
};

/// Where the wall on the left stands.
const MIN_POSITION: f32 = -1.2;
/// The right end of the track, just behind the goal.
const MAX_POSITION: f32 = 0.6;
/// The highest speed, either way, per step.
const MAX_SPEED: f32 = 0.07;

warp_core::config! {
    /// The configuration of [`MountainCar`].
    pub struct MountainCarConfig {
        /// Whose rules: "gymnasium" truncates at the time limit, "warpdrive" terminates there.
        pub preset: Preset = Preset::Gymnasium,
        /// Steps in an episode at most; unset: the preset's, 200 ("gymnasium") or 500
        /// ("warpdrive").
        pub episode_length: Option<u32> = None,
        /// Lowest velocity with which the goal counts as reached.
        pub goal_velocity: f32 = 0.0,
    }
}

warp_core::params! {
    /// What all replicas share.
    pub struct MountainCarParams {
        /// Lowest velocity with which the goal counts as reached.
        goal_velocity: f32,
    }
}

warp_core::state! {
    /// The car.
    pub struct MountainCarState {
        /// Position along the track; the valley's floor is at -pi / 6.
        position: f32,
        /// Velocity, per step.
        velocity: f32,
    }
}

/// The environment.
#[derive(Debug, Clone)]
pub struct MountainCar {
    limit: TimeLimit,
    params: MountainCarParams,
}

impl Env for MountainCar {
    const NAME: &'static str = "mountain_car";
    const ALIASES: &'static [&'static str] = &["MountainCar-v0"];
    const OBSERVATION_WIDTH: usize = 2;
    type Config = MountainCarConfig;
    type Params = MountainCarParams;
    type State = MountainCarState;

    fn new(config: &MountainCarConfig) -> Result<Self> {
        let preset = config.preset;
        let limit = preset.time_limit(config.episode_length.unwrap_or(preset.choose(200, 500)))?;
        let goal_velocity = config.goal_velocity;
        if !(-MAX_SPEED..=MAX_SPEED).contains(&goal_velocity) {
            let reason = format!("must lie between -{MAX_SPEED} and {MAX_SPEED}, the car's limits");
            return Err(Error::invalid("goal_velocity", goal_velocity, reason));
        }
        Ok(Self { limit, params: MountainCarParams { goal_velocity } })
    }

    fn spec(&self) -> EnvSpec {
        let low = vec![MIN_POSITION, -MAX_SPEED];
        let high = vec![MAX_POSITION, MAX_SPEED];
        let observation = Space::Box { low, high, shape: vec![2] };
        EnvSpec::one_agent(Self::NAME, "car", observation, Space::Discrete { n: 3 }, self.limit)
    }

    fn params(&self) -> &MountainCarParams {
        &self.params
    }

    fn kernel() -> Option<Kernel> {
        let text = include_str!("step.cu");
        Some(Kernel { file: "mountain_car/step.cu", text, layout: Layout::ThreadPerReplica })
    }

    #[inline(always)]
    fn reset(&self, state: &mut MountainCarState, draw: &mut Draw) {
        step::reset(state, draw);
    }

    #[inline(always)]
    fn observe(&self, state: &MountainCarState, out: &mut Observation<'_>) {
        step::observe(state, out);
    }

    #[inline(always)]
    fn step(
        &self,
        state: &mut MountainCarState,
        actions: &Actions<'_>,
        _draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        step::step(&self.params, state, actions, out);
    }
}

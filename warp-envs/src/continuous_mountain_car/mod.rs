//! ContinuousMountainCar: the car in the valley with a motor that pushes as hard as it is told.
//!
//! Rules of Gymnasium's `MountainCarContinuous-v0`: every step costs a tenth of the action squared,
//! the goal pays 100, truncation after 999 steps. The body terminates an episode at the goal only:
//! `terminated` says that the goal was reached (or, with the preset "warpdrive", the limit).

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
/// The largest push, either way; a larger action pushes no harder and costs more.
const MAX_PUSH: f32 = 1.0;

warp_core::config! {
    /// The configuration of [`ContinuousMountainCar`].
    pub struct ContinuousMountainCarConfig {
        /// Whose rules: "gymnasium" truncates at the time limit, "warpdrive" terminates there.
        pub preset: Preset = Preset::Gymnasium,
        /// Steps in an episode at most; unset: the preset's, 999 ("gymnasium") or 1000
        /// ("warpdrive").
        pub episode_length: Option<u32> = None,
        /// Lowest velocity with which the goal counts as reached.
        pub goal_velocity: f32 = 0.0,
    }
}

warp_core::params! {
    /// What all replicas share.
    pub struct ContinuousMountainCarParams {
        /// Lowest velocity with which the goal counts as reached.
        goal_velocity: f32,
    }
}

warp_core::state! {
    /// The car.
    pub struct ContinuousMountainCarState {
        /// Position along the track; the valley's floor is at -pi / 6.
        position: f32,
        /// Velocity, per step.
        velocity: f32,
    }
}

/// The environment.
#[derive(Debug, Clone)]
pub struct ContinuousMountainCar {
    limit: TimeLimit,
    params: ContinuousMountainCarParams,
}

impl Env for ContinuousMountainCar {
    const NAME: &'static str = "continuous_mountain_car";
    const ALIASES: &'static [&'static str] = &["MountainCarContinuous-v0"];
    const OBSERVATION_WIDTH: usize = 2;
    type Config = ContinuousMountainCarConfig;
    type Params = ContinuousMountainCarParams;
    type State = ContinuousMountainCarState;

    fn new(config: &ContinuousMountainCarConfig) -> Result<Self> {
        let preset = config.preset;
        let limit = preset.time_limit(config.episode_length.unwrap_or(preset.choose(999, 1000)))?;
        let goal_velocity = config.goal_velocity;
        if !(-MAX_SPEED..=MAX_SPEED).contains(&goal_velocity) {
            let reason = format!("must lie between -{MAX_SPEED} and {MAX_SPEED}, the car's limits");
            return Err(Error::invalid("goal_velocity", goal_velocity, reason));
        }
        Ok(Self { limit, params: ContinuousMountainCarParams { goal_velocity } })
    }

    fn spec(&self) -> EnvSpec {
        let low = vec![MIN_POSITION, -MAX_SPEED];
        let high = vec![MAX_POSITION, MAX_SPEED];
        let observation = Space::Box { low, high, shape: vec![2] };
        EnvSpec::one_agent(
            Self::NAME,
            "car",
            observation,
            Space::boxed(-MAX_PUSH, MAX_PUSH, &[1]),
            self.limit,
        )
    }

    fn params(&self) -> &ContinuousMountainCarParams {
        &self.params
    }

    fn kernel() -> Option<Kernel> {
        let text = include_str!("step.cu");
        Some(Kernel {
            file: "continuous_mountain_car/step.cu",
            text,
            layout: Layout::ThreadPerReplica,
        })
    }

    #[inline(always)]
    fn reset(&self, state: &mut ContinuousMountainCarState, draw: &mut Draw) {
        step::reset(state, draw);
    }

    #[inline(always)]
    fn observe(&self, state: &ContinuousMountainCarState, out: &mut Observation<'_>) {
        step::observe(state, out);
    }

    #[inline(always)]
    fn step(
        &self,
        state: &mut ContinuousMountainCarState,
        actions: &Actions<'_>,
        _draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        step::step(&self.params, state, actions, out);
    }
}

//! Acrobot: two links hang from a joint; the motor between them swings the tip above the bar.
//!
//! Rules of Gymnasium's `Acrobot-v1` (Sutton, 1996; the dynamics of Sutton and Barto's book):
//! reward -1 for every step and 0 for the one that reaches the height, truncation after 500 steps.

mod step;

use crate::preset::Preset;
use std::f32::consts::{FRAC_PI_2, PI};
use warp_core::{
    Actions, Draw, Env, EnvSpec, Error, Kernel, Layout, Observation, Result, Space, StepOut,
    TimeLimit,
};

/// Where the angular velocities stop growing, rad/s.
const MAX_SPEEDS: [f32; 2] = [4.0 * PI, 9.0 * PI];

warp_core::config! {
    /// The configuration of [`Acrobot`].
    pub struct AcrobotConfig {
        /// Whose rules: "gymnasium" truncates at the time limit, "warpdrive" terminates there.
        pub preset: Preset = Preset::Gymnasium,
        /// Maximum number of steps in an episode.
        pub episode_length: u32 = 500,
        /// Bound of each start value, which is uniform between minus this and this.
        pub start_range: f32 = 0.1,
    }
}

warp_core::params! {
    /// What all replicas share.
    pub struct AcrobotParams {
        /// Bound of each start value.
        start_range: f32,
    }
}

warp_core::state! {
    /// Both links.
    pub struct AcrobotState {
        /// Angle of the first link, rad; 0 hangs straight down.
        theta1: f32,
        /// Angle of the second link, rad, seen from the first.
        theta2: f32,
        /// Angular velocity of the first link, rad/s.
        theta1_dot: f32,
        /// Angular velocity of the second link, rad/s, seen from the first.
        theta2_dot: f32,
    }
}

/// The environment.
#[derive(Debug, Clone)]
pub struct Acrobot {
    limit: TimeLimit,
    params: AcrobotParams,
}

impl Env for Acrobot {
    const NAME: &'static str = "acrobot";
    const ALIASES: &'static [&'static str] = &["Acrobot-v1"];
    const OBSERVATION_WIDTH: usize = 6;
    type Config = AcrobotConfig;
    type Params = AcrobotParams;
    type State = AcrobotState;

    fn new(config: &AcrobotConfig) -> Result<Self> {
        let limit = config.preset.time_limit(config.episode_length)?;
        let range = config.start_range;
        if !(0.0..FRAC_PI_2).contains(&range) {
            let reason = "must lie between 0 and pi / 2, or the tip starts above the bar";
            return Err(Error::invalid("start_range", range, reason));
        }
        Ok(Self { limit, params: AcrobotParams { start_range: range } })
    }

    fn spec(&self) -> EnvSpec {
        let high = vec![1.0, 1.0, 1.0, 1.0, MAX_SPEEDS[0], MAX_SPEEDS[1]];
        let low = high.iter().map(|h| -h).collect();
        let observation = Space::Box { low, high, shape: vec![6] };
        EnvSpec::one_agent(Self::NAME, "arm", observation, Space::Discrete { n: 3 }, self.limit)
    }

    fn params(&self) -> &AcrobotParams {
        &self.params
    }

    fn kernel() -> Option<Kernel> {
        let text = include_str!("step.cu");
        Some(Kernel { file: "acrobot/step.cu", text, layout: Layout::ThreadPerReplica })
    }

    #[inline(always)]
    fn reset(&self, state: &mut AcrobotState, draw: &mut Draw) {
        step::reset(&self.params, state, draw);
    }

    #[inline(always)]
    fn observe(&self, state: &AcrobotState, out: &mut Observation<'_>) {
        step::observe(state, out);
    }

    #[inline(always)]
    fn step(
        &self,
        state: &mut AcrobotState,
        actions: &Actions<'_>,
        _draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        step::step(state, actions, out);
    }
}

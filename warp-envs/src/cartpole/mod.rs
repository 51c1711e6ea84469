//! CartPole: a cart is pushed left or right to keep a pole upright.
//!
//! Rules of Gymnasium's `CartPole-v1` (Barto, Sutton and Anderson, 1983): reward 1 for every step,
//! the end when the cart leaves the track or the pole falls, truncation after 500 steps.

mod step;

use crate::preset::Preset;
use warp_core::{
    Actions, Draw, Env, EnvSpec, Error, Kernel, Layout, Observation, Result, Space, StepOut,
    TimeLimit,
};

/// Where the cart leaves the track, m.
const X_LIMIT: f32 = 2.4;
/// Where the pole counts as fallen, rad: 12 degrees.
const THETA_LIMIT: f32 = 0.209_439_51;

warp_core::config! {
    /// The configuration of [`CartPole`].
    pub struct CartPoleConfig {
        /// Whose rules: "gymnasium" truncates at the time limit, "warpdrive" terminates there.
        pub preset: Preset = Preset::Gymnasium,
        /// Maximum number of steps in an episode.
        pub episode_length: u32 = 500,
        /// Bound of each start value, which is uniform between minus this and this.
        pub start_range: f32 = 0.05,
    }
}

warp_core::params! {
    /// What all replicas share.
    pub struct CartPoleParams {
        /// Bound of each start value.
        start_range: f32,
    }
}

warp_core::state! {
    /// Cart and pole.
    pub struct CartPoleState {
        /// Position of the cart, m.
        x: f32,
        /// Velocity of the cart, m/s.
        x_dot: f32,
        /// Angle of the pole, rad; 0 is upright.
        theta: f32,
        /// Angular velocity of the pole, rad/s.
        theta_dot: f32,
    }
}

/// The environment.
#[derive(Debug, Clone)]
pub struct CartPole {
    limit: TimeLimit,
    params: CartPoleParams,
}

impl Env for CartPole {
    const NAME: &'static str = "cartpole";
    const ALIASES: &'static [&'static str] = &["CartPole-v1"];
    const OBSERVATION_WIDTH: usize = 4;
    type Config = CartPoleConfig;
    type Params = CartPoleParams;
    type State = CartPoleState;

    fn new(config: &CartPoleConfig) -> Result<Self> {
        let limit = config.preset.time_limit(config.episode_length)?;
        let range = config.start_range;
        if !(0.0..=THETA_LIMIT).contains(&range) {
            let reason = format!("must lie between 0 and {THETA_LIMIT}, or the pole starts fallen");
            return Err(Error::invalid("start_range", range, reason));
        }
        let params = CartPoleParams { start_range: range };
        Ok(Self { limit, params })
    }

    fn spec(&self) -> EnvSpec {
        // Twice the limits, since the terminal observation lies beyond them.
        let high = vec![2.0 * X_LIMIT, f32::INFINITY, 2.0 * THETA_LIMIT, f32::INFINITY];
        let low = high.iter().map(|h| -h).collect();
        let observation = Space::Box { low, high, shape: vec![4] };
        EnvSpec::one_agent(Self::NAME, "pole", observation, Space::Discrete { n: 2 }, self.limit)
    }

    fn params(&self) -> &CartPoleParams {
        &self.params
    }

    fn kernel() -> Option<Kernel> {
        let text = include_str!("step.cu");
        Some(Kernel { file: "cartpole/step.cu", text, layout: Layout::ThreadPerReplica })
    }

    #[inline(always)]
    fn reset(&self, state: &mut CartPoleState, draw: &mut Draw) {
        step::reset(&self.params, state, draw);
    }

    #[inline(always)]
    fn observe(&self, state: &CartPoleState, out: &mut Observation<'_>) {
        step::observe(state, out);
    }

    #[inline(always)]
    fn step(
        &self,
        state: &mut CartPoleState,
        actions: &Actions<'_>,
        _draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        step::step(state, actions, out);
    }
}

//! Pendulum: a motor that is too weak to lift the pendulum swings it up and holds it there.
//!
//! Rules of Gymnasium's `Pendulum-v1`: the cost of a step grows with the distance from upright, the
//! speed and the torque; an episode ends by truncation only, after 200 steps.

mod step;

use crate::preset::Preset;
use warp_core::{
    Actions, Draw, Env, EnvSpec, Error, Kernel, Layout, Observation, Result, Space, StepOut,
    TimeLimit,
};

/// Where the angular velocity stops growing, rad/s.
const MAX_SPEED: f32 = 8.0;
/// The motor's strength, N m.
const MAX_TORQUE: f32 = 2.0;

warp_core::config! {
    /// The configuration of [`Pendulum`].
    pub struct PendulumConfig {
        /// Whose rules: "gymnasium" truncates at the time limit, "warpdrive" terminates there.
        pub preset: Preset = Preset::Gymnasium,
        /// Steps in an episode at most; unset: the preset's, 200 ("gymnasium") or 500
        /// ("warpdrive").
        pub episode_length: Option<u32> = None,
        /// Acceleration of gravity, m/s^2; unset: the preset's, 10 ("gymnasium") or 9.81
        /// ("warpdrive").
        pub gravity: Option<f32> = None,
    }
}

warp_core::params! {
    /// What all replicas share.
    pub struct PendulumParams {
        /// Acceleration of gravity, m/s^2.
        gravity: f32,
    }
}

warp_core::state! {
    /// The pendulum, a rod.
    pub struct PendulumState {
        /// Angle, rad, within a turn of 0, which is upright.
        theta: f32,
        /// Angular velocity, rad/s.
        theta_dot: f32,
    }
}

/// The environment.
#[derive(Debug, Clone)]
pub struct Pendulum {
    limit: TimeLimit,
    params: PendulumParams,
}

impl Env for Pendulum {
    const NAME: &'static str = "pendulum";
    const ALIASES: &'static [&'static str] = &["Pendulum-v1"];
    const OBSERVATION_WIDTH: usize = 3;
    type Config = PendulumConfig;
    type Params = PendulumParams;
    type State = PendulumState;

    fn new(config: &PendulumConfig) -> Result<Self> {
        let preset = config.preset;
        let limit = preset.time_limit(config.episode_length.unwrap_or(preset.choose(200, 500)))?;
        let gravity = config.gravity.unwrap_or(preset.choose(10.0, 9.81));
        if !(0.0..=1_000.0).contains(&gravity) {
            let reason = "must lie between 0 and 1000 m/s^2";
            return Err(Error::invalid("gravity", gravity, reason));
        }
        Ok(Self { limit, params: PendulumParams { gravity } })
    }

    fn spec(&self) -> EnvSpec {
        let high = vec![1.0, 1.0, MAX_SPEED];
        let low = high.iter().map(|h| -h).collect();
        let observation = Space::Box { low, high, shape: vec![3] };
        EnvSpec::one_agent(
            Self::NAME,
            "pendulum",
            observation,
            Space::boxed(-MAX_TORQUE, MAX_TORQUE, &[1]),
            self.limit,
        )
    }

    fn params(&self) -> &PendulumParams {
        &self.params
    }

    fn kernel() -> Option<Kernel> {
        let text = include_str!("step.cu");
        Some(Kernel { file: "pendulum/step.cu", text, layout: Layout::ThreadPerReplica })
    }

    #[inline(always)]
    fn reset(&self, state: &mut PendulumState, draw: &mut Draw) {
        step::reset(state, draw);
    }

    #[inline(always)]
    fn observe(&self, state: &PendulumState, out: &mut Observation<'_>) {
        step::observe(state, out);
    }

    #[inline(always)]
    fn step(
        &self,
        state: &mut PendulumState,
        actions: &Actions<'_>,
        _draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        step::step(&self.params, state, actions, out);
    }
}

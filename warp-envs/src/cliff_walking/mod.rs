//! CliffWalking: the shortest path to the goal leads along a cliff.
//!
//! Rules of Gymnasium's `CliffWalking-v1` and `CliffWalkingSlippery-v1` (version 1.4; Sutton and Barto,
//! Reinforcement Learning, example 6.6).
//!
//! **Environment**: 4 rows of 12 cells, numbered row x 12 + column from top left. Start is 36, the
//! lower left corner, the goal 47, the lower right; the ten cells between them are the cliff.
//!
//! **Actions**, `Discrete(4)`: 0 up, 1 right, 2 down, 3 left; a step off the board stays. On slippery
//! ground the walker goes to the left of that, there, or to the right of that, a third each.
//!
//! **Reward**: -1 a step. Who steps into the cliff gets -100 instead and stands at the start again.
//!
//! **The end**: terminated at the goal. There is no time limit unless `episode_length` sets one.
//!
//! **Observation**: the cell, one-hot, f32 `[48]`.

mod step;

use crate::preset::limit_of;
use warp_core::{
    Actions, Draw, Env, EnvSpec, Kernel, Layout, Observation, Result, Space, StepOut, TimeLimit,
};

/// Rows of the board.
const ROWS: i32 = 4;
/// Columns of the board.
const COLUMNS: i32 = 12;
/// Where the walk begins.
const START: i32 = 36;
/// Where it ends.
const GOAL: i32 = 47;

warp_core::config! {
    /// The configuration of [`CliffWalking`].
    pub struct CliffWalkingConfig {
        /// Whether the walker may slip to a side.
        pub is_slippery: bool = false,
        /// Steps in an episode at most, then it is truncated; unset: no limit.
        pub episode_length: Option<u32> = None,
    }
}

warp_core::params! {
    /// What all replicas share.
    pub struct CliffWalkingParams {
        /// Below it a draw turns the walker to the left.
        first: f32,
        /// Below it, and not below `first`, the walker goes where it wants; above, to the right.
        second: f32,
    }
}

warp_core::state! {
    /// The walker.
    pub struct CliffWalkingState {
        /// Its cell.
        state: i32,
    }
}

/// The environment.
#[derive(Debug, Clone)]
pub struct CliffWalking {
    limit: TimeLimit,
    params: CliffWalkingParams,
}

impl Env for CliffWalking {
    const NAME: &'static str = "cliff_walking";
    const OBSERVATION_WIDTH: usize = (ROWS * COLUMNS) as usize;
    type Config = CliffWalkingConfig;
    type Params = CliffWalkingParams;
    type State = CliffWalkingState;

    fn new(config: &CliffWalkingConfig) -> Result<Self> {
        let limit = limit_of(config.episode_length)?;
        let (first, second) = if config.is_slippery { (1.0 / 3.0, 2.0 / 3.0) } else { (0.0, 1.0) };
        Ok(Self { limit, params: CliffWalkingParams { first, second } })
    }

    fn spec(&self) -> EnvSpec {
        let observation = Space::Discrete { n: (ROWS * COLUMNS) as usize };
        let action = Space::Discrete { n: 4 };
        EnvSpec::one_agent(Self::NAME, "walker", observation, action, self.limit)
    }

    fn params(&self) -> &CliffWalkingParams {
        &self.params
    }

    fn kernel() -> Option<Kernel> {
        let text = include_str!("step.cu");
        Some(Kernel { file: "cliff_walking/step.cu", text, layout: Layout::ThreadPerReplica })
    }

    #[inline(always)]
    fn reset(&self, state: &mut CliffWalkingState, _draw: &mut Draw) {
        step::reset(state);
    }

    #[inline(always)]
    fn observe(&self, state: &CliffWalkingState, out: &mut Observation<'_>) {
        step::observe(state, out);
    }

    #[inline(always)]
    fn number(&self, state: &CliffWalkingState) -> Option<i32> {
        Some(step::shown_number(state))
    }

    fn chances(&self) -> Vec<f64> {
        vec![if self.params.first > 0.0 { 1.0 / 3.0 } else { 1.0 }]
    }

    #[inline(always)]
    fn step(
        &self,
        state: &mut CliffWalkingState,
        actions: &Actions<'_>,
        draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        step::step(&self.params, state, actions, draw, out);
    }
}

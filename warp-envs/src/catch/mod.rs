//! Catch: a ball falls, and a paddle must be where it comes down.
//!
//! Rules of EnvPool's `Catch-v0` (bsuite's catch; Osband and others, 2020).
//!
//! **Environment**: `height` rows of `width` cells. The ball begins in the top row, in a uniformly random
//! column; the paddle begins in the middle of the bottom row.
//!
//! **Actions**, `Discrete(3)`: 0 left, 1 stay, 2 right, within the board. Then the ball falls by a row.
//!
//! **Reward**: when the ball reaches the bottom, 1 if the paddle is there, else -1; before, 0.
//!
//! **The end**: terminated when the ball reaches the bottom.
//!
//! **Observation**, f32 `[height, width]`: 1 at the ball and at the paddle, else 0.

mod step;

use warp_core::{
    Actions, Draw, Env, EnvSpec, Kernel, Layout, Observation, Result, Space, StepOut, TimeLimit,
    in_range,
};

/// Cells of a side at most; more would be a slip.
const MAX_SIDE: u32 = 1_000;

warp_core::config! {
    /// The configuration of [`Catch`].
    pub struct CatchConfig {
        /// Rows, 2 to 1000.
        pub height: u32 = 10,
        /// Columns, 1 to 1000.
        pub width: u32 = 5,
    }
}

warp_core::params! {
    /// What all replicas share.
    pub struct CatchParams {
        /// Rows.
        height: i32,
        /// Columns.
        width: i32,
    }
}

warp_core::state! {
    /// Ball and paddle.
    pub struct CatchState {
        /// Row of the ball, 0 at the top.
        ball_row: i32,
        /// Column of the ball.
        ball_column: i32,
        /// Column of the paddle.
        paddle: i32,
    }
}

/// The environment.
#[derive(Debug, Clone)]
pub struct Catch {
    params: CatchParams,
}

impl Env for Catch {
    const NAME: &'static str = "catch";
    type Config = CatchConfig;
    type Params = CatchParams;
    type State = CatchState;

    fn new(config: &CatchConfig) -> Result<Self> {
        in_range("height", config.height, 2, MAX_SIDE)?;
        in_range("width", config.width, 1, MAX_SIDE)?;
        let params = CatchParams { height: config.height as i32, width: config.width as i32 };
        Ok(Self { params })
    }

    fn spec(&self) -> EnvSpec {
        let shape = [self.params.height as usize, self.params.width as usize];
        let observation = Space::boxed(0.0, 1.0, &shape);
        let action = Space::Discrete { n: 3 };
        EnvSpec::one_agent(Self::NAME, "paddle", observation, action, TimeLimit::UNLIMITED)
    }

    fn params(&self) -> &CatchParams {
        &self.params
    }

    fn kernel() -> Option<Kernel> {
        let text = include_str!("step.cu");
        Some(Kernel { file: "catch/step.cu", text, layout: Layout::ThreadPerReplica })
    }

    #[inline(always)]
    fn reset(&self, state: &mut CatchState, draw: &mut Draw) {
        step::reset(&self.params, state, draw);
    }

    #[inline(always)]
    fn observe(&self, state: &CatchState, out: &mut Observation<'_>) {
        step::observe(&self.params, state, out);
    }

    #[inline(always)]
    fn step(
        &self,
        state: &mut CatchState,
        actions: &Actions<'_>,
        _draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        step::step(&self.params, state, actions, out);
    }
}

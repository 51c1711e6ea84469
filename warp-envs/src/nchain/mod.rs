//! NChain: a small reward at once, or a large one for patience.
//!
//! Rules of EnvPool's `NChain-v0` (Strens, 2000, a Bayesian framework for reinforcement learning).
//!
//! **Environment**: five states in a row, 0 to 4; an episode starts in 0.
//!
//! **Actions**, `Discrete(2)`: 0 goes forward by a state, for no reward; in state 4 it stays, for reward
//! 10. 1 goes back to state 0, for reward 2. With probability 0.2 the other action takes place.
//!
//! **The end**: truncated after `episode_length` steps.
//!
//! **Observation**: the state, one-hot, f32 `[5]`.

mod step;

use crate::preset::limit_of;
use warp_core::{
    Actions, Draw, Env, EnvSpec, Kernel, Layout, Observation, Result, Space, StepOut, TimeLimit,
};

/// States.
const N_STATES: usize = 5;

warp_core::config! {
    /// The configuration of [`NChain`].
    pub struct NChainConfig {
        /// Steps in an episode.
        pub episode_length: u32 = 1000,
    }
}

warp_core::params! {
    /// What all replicas share: nothing.
    pub struct NChainParams {}
}

warp_core::state! {
    /// The place in the chain.
    pub struct NChainState {
        /// 0 to 4.
        state: i32,
    }
}

/// The environment.
#[derive(Debug, Clone)]
pub struct NChain {
    limit: TimeLimit,
    params: NChainParams,
}

impl Env for NChain {
    const NAME: &'static str = "nchain";
    const OBSERVATION_WIDTH: usize = N_STATES;
    type Config = NChainConfig;
    type Params = NChainParams;
    type State = NChainState;

    fn new(config: &NChainConfig) -> Result<Self> {
        let limit = limit_of(Some(config.episode_length))?;
        Ok(Self { limit, params: NChainParams {} })
    }

    fn spec(&self) -> EnvSpec {
        let observation = Space::Discrete { n: N_STATES };
        let action = Space::Discrete { n: 2 };
        EnvSpec::one_agent(Self::NAME, "walker", observation, action, self.limit)
    }

    fn params(&self) -> &NChainParams {
        &self.params
    }

    fn kernel() -> Option<Kernel> {
        let text = include_str!("step.cu");
        Some(Kernel { file: "nchain/step.cu", text, layout: Layout::ThreadPerReplica })
    }

    #[inline(always)]
    fn reset(&self, state: &mut NChainState, _draw: &mut Draw) {
        step::reset(state);
    }

    #[inline(always)]
    fn observe(&self, state: &NChainState, out: &mut Observation<'_>) {
        step::observe(state, out);
    }

    #[inline(always)]
    fn number(&self, state: &NChainState) -> Option<i32> {
        Some(step::shown_number(state))
    }

    #[inline(always)]
    fn step(
        &self,
        state: &mut NChainState,
        actions: &Actions<'_>,
        draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        step::step(state, actions, draw, out);
    }
}

//! An environment of your own, with the whole `warp` command.
//!
//! `cargo run --release -p warp-examples --example 03_your_own_environment -- train hike`
//!
//! A hiker on a ridge of random length wants to stand on the top when the whistle blows.

use std::process::ExitCode;
use warp_core::{
    Actions, Draw, Env, EnvSpec, Error, GroupSpec, LimitEnds, Observation, Result, Space, StepOut,
    TimeLimit,
};

warp_core::config! {
    /// The configuration of [`Hike`].
    pub struct HikeConfig {
        /// Longest ridge, in steps.
        pub ridge: u32 = 20,
        /// Steps until the whistle blows.
        pub episode_length: u32 = 30,
    }
}

warp_core::params! {
    /// What all hikers share.
    pub struct HikeParams {
        /// Longest ridge, in steps.
        ridge: u32,
    }
}

warp_core::state! {
    /// One hiker.
    pub struct HikeState {
        /// Where the hiker stands.
        position: i32,
        /// Where the top is.
        top: i32,
    }
}

/// The environment.
#[derive(Debug)]
pub struct Hike {
    config: HikeConfig,
    params: HikeParams,
}

impl Env for Hike {
    const NAME: &'static str = "hike";
    const OBSERVATION_WIDTH: usize = 1;
    type Config = HikeConfig;
    type Params = HikeParams;
    type State = HikeState;

    fn new(config: &HikeConfig) -> Result<Self> {
        if config.ridge == 0 {
            return Err(Error::invalid("ridge", 0, "a ridge is at least one step long"));
        }
        Ok(Self { config: config.clone(), params: HikeParams { ridge: config.ridge } })
    }

    fn spec(&self) -> EnvSpec {
        let hiker = GroupSpec {
            name: "hiker".into(),
            n_agents: 1,
            observation: Space::boxed(-1e3, 1e3, &[1]),
            action: Space::Discrete { n: 3 },
            mortal: false,
        };
        EnvSpec {
            name: Self::NAME.into(),
            groups: vec![hiker],
            time_limit: TimeLimit { steps: self.config.episode_length, ends: LimitEnds::Truncated },
            statistics: Vec::new(),
            global_observation: None,
        }
    }

    fn params(&self) -> &HikeParams {
        &self.params
    }

    fn reset(&self, state: &mut HikeState, draw: &mut Draw) {
        let top = 1 + draw.below(self.params.ridge);
        *state = HikeState { position: 0, top: top as i32 };
    }

    fn observe(&self, state: &HikeState, out: &mut Observation<'_>) {
        out.obs[0][0] = (state.top - state.position) as f32;
    }

    fn step(&self, s: &mut HikeState, a: &Actions<'_>, _: &mut Draw, out: &mut StepOut<'_>) {
        s.position += a.discrete[0][0] - 1;
        out.reward[0][0] = if s.position == s.top { 1.0 } else { 0.0 };
    }
}

fn main() -> ExitCode {
    warp_examples::run(warp_envs::registry().with::<Hike>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_contract() {
        let registry = warp_func::Registry::new().with::<Hike>();
        registry.get("hike").unwrap().check(&Default::default(), 3).unwrap();
    }
}

//! An environment of your own, with the whole `warp` command.
//!
//! `cargo run --release -p warp-examples --example 03_your_own_environment -- train hike`
//!
//! `warp translate` has made its CUDA text from this file, so that it runs on a GPU as well.
//!
//! A hiker on a ridge of random length wants to stand on the top when the whistle blows.

use std::process::ExitCode;
use warp_core::{
    Actions, Draw, Env, EnvSpec, Error, GroupSpec, Kernel, Layout, LimitEnds, Observation, Result,
    Space, StepOut, TimeLimit,
};
use warp_examples::render::{Scene, View, colours};

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

    fn kernel() -> Option<Kernel> {
        // `warp translate` has made it from this file; with it, `--device cuda` works.
        let text = include_str!("03_your_own_environment.cu");
        Some(Kernel { file: "hike.cu", text, layout: Layout::ThreadPerReplica })
    }

    fn reset(&self, state: &mut HikeState, draw: &mut Draw) {
        state.position = 0;
        state.top = 1 + draw.below(self.params.ridge) as i32;
    }

    fn observe(&self, state: &HikeState, out: &mut Observation<'_>) {
        out.obs[0][0] = (state.top - state.position) as f32;
    }

    fn step(&self, s: &mut HikeState, a: &Actions<'_>, _: &mut Draw, out: &mut StepOut<'_>) {
        s.position += a.discrete[0][0] - 1;
        out.reward[0][0] = if s.position == s.top { 1.0 } else { 0.0 };
    }
}

/// What `warp train hike` starts with, in the keys of `warp config hike`; optional.
const DEFAULTS: &str = "num_envs = 32\ntotal_steps = 200_000\nlearning_rate = 1e-3\ngamma = 0.9";

/// What `warp render` and `warp watch` show; without it, the observations as bars.
fn draw(view: &View<'_>) -> Option<Scene> {
    let (position, top) = (view.array::<i32>("position")?[0], view.array::<i32>("top")?[0]);
    let (position, top) = (position as f32, top as f32);
    let height = |x: f32| 0.4 * (top - (x - top).abs());
    let mut scene = Scene::new(-6.0..top + 6.0, -3.0..0.4 * top + 2.0);
    let ridge = [-6.0, top, top + 6.0].map(|x| (x, height(x)));
    scene.line(&ridge, 0.2, colours::GROUND);
    scene.disc((position, height(position) + 0.5), 0.4, colours::RED);
    scene.legend = vec![(colours::RED, "hiker".into())];
    Some(scene)
}

fn main() -> ExitCode {
    let registry = warp_envs::registry().with::<Hike>();
    warp_examples::run(registry.with_drawing::<Hike>(draw).with_defaults::<Hike>(DEFAULTS))
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

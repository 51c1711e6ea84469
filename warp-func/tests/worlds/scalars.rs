//! Environments whose state is a few scalars: the executor steps many of their replicas at once.

use warp_core::{
    Actions, Draw, Env, EnvSpec, GroupSpec, LimitEnds, Observation, Result, Space, StepOut,
    TimeLimit,
};

fn lone_agent(name: &str, width: usize, action: Space, limit: u32) -> EnvSpec {
    EnvSpec {
        name: name.into(),
        groups: vec![GroupSpec {
            name: "driver".into(),
            n_agents: 1,
            observation: Space::unbounded(width),
            action,
            mortal: false,
        }],
        time_limit: TimeLimit { steps: limit, ends: LimitEnds::Truncated },
        statistics: vec![],
        global_observation: None,
    }
}

warp_core::config! {
    /// Configuration of all three.
    pub(crate) struct RoadConfig {
        /// Steps in an episode at most.
        pub(crate) limit: u32 = 25,
    }
}
warp_core::params! {
    /// What all replicas share.
    pub(crate) struct RoadParams { limit: u32 }
}

macro_rules! road {
    ($(#[doc = $doc:expr])* $env:ident, $name:literal, $state:ident, $width:literal, $action:expr) => {
        $(#[doc = $doc])*
        #[derive(Debug)]
        pub(crate) struct $env(RoadParams);

        impl Env for $env {
            const NAME: &'static str = $name;
            const OBSERVATION_WIDTH: usize = $width;
            type Config = RoadConfig;
            type Params = RoadParams;
            type State = $state;

            fn new(config: &RoadConfig) -> Result<Self> {
                Ok(Self(RoadParams { limit: config.limit }))
            }
            fn spec(&self) -> EnvSpec {
                lone_agent(Self::NAME, $width, $action, self.0.limit)
            }
            fn params(&self) -> &RoadParams {
                &self.0
            }
            fn reset(&self, state: &mut $state, draw: &mut Draw) {
                state.reset(draw);
            }
            fn observe(&self, state: &$state, out: &mut Observation<'_>) {
                state.observe(out.obs[0]);
            }
            fn step(
                &self,
                state: &mut $state,
                actions: &Actions<'_>,
                draw: &mut Draw,
                out: &mut StepOut<'_>,
            ) {
                state.step(actions, draw, out);
            }
        }
    };
}

warp_core::state! {
    /// A cart.
    pub(crate) struct CartState { x: f32, v: f32 }
}
road!(
    /// A cart pushed left or right until it leaves the road.
    Cart, "cart", CartState, 2, Space::Discrete { n: 2 }
);

impl CartState {
    fn reset(&mut self, draw: &mut Draw) {
        *self = CartState { x: draw.uniform_in(-0.5, 0.5), v: draw.uniform_in(-0.1, 0.1) };
    }
    fn observe(&self, out: &mut [f32]) {
        out.copy_from_slice(&[self.x, self.v]);
    }
    fn step(&mut self, actions: &Actions<'_>, _: &mut Draw, out: &mut StepOut<'_>) {
        self.v += 0.1 * (2 * actions.discrete[0][0] - 1) as f32;
        self.x += self.v;
        out.reward[0][0] = 1.0 - self.x * self.x;
        out.terminated = self.x.abs() > 1.0;
    }
}

warp_core::state! {
    /// A walker.
    pub(crate) struct SlipState { position: i32, slips: u32 }
}
road!(
    /// A walk on ice: chance in every step.
    Slip, "slip", SlipState, 1, Space::Discrete { n: 3 }
);

impl SlipState {
    fn reset(&mut self, draw: &mut Draw) {
        *self = SlipState { position: draw.below(3) as i32 - 1, slips: 0 };
    }
    fn observe(&self, out: &mut [f32]) {
        out[0] = self.position as f32 + 0.25 * self.slips as f32;
    }
    fn step(&mut self, actions: &Actions<'_>, draw: &mut Draw, out: &mut StepOut<'_>) {
        let slip = u32::from(draw.uniform() < 0.3);
        self.slips += slip;
        self.position += (actions.discrete[0][0] - 1) * (1 - 2 * slip as i32);
        out.reward[0][0] = -draw.uniform();
        out.terminated = self.position.abs() > 4;
    }
}

warp_core::state! {
    /// A glider.
    pub(crate) struct GlideState { x: f32 }
}
road!(
    /// Pushed by a real number.
    Glide, "glide", GlideState, 1, Space::boxed(-0.5, 0.5, &[1])
);

impl GlideState {
    fn reset(&mut self, draw: &mut Draw) {
        self.x = draw.uniform_in(-0.5, 0.5);
    }
    fn observe(&self, out: &mut [f32]) {
        out[0] = self.x;
    }
    fn step(&mut self, actions: &Actions<'_>, _: &mut Draw, out: &mut StepOut<'_>) {
        self.x += actions.continuous[0][0];
        out.reward[0][0] = self.x;
        out.terminated = self.x.abs() > 1.5;
    }
}

warp_core::state! {
    /// A clock.
    pub(crate) struct ClockState { period: i32, time: i32 }
}
road!(
    /// Strikes every few steps; relies on a period that reset has drawn, and on actions within their space.
    Clock, "clock", ClockState, 2, Space::Discrete { n: 2 }
);

impl ClockState {
    fn reset(&mut self, draw: &mut Draw) {
        *self = ClockState { period: 1 + draw.below(3) as i32, time: 0 };
    }
    fn observe(&self, out: &mut [f32]) {
        out.copy_from_slice(&[self.period as f32, (self.time % self.period) as f32]);
    }
    fn step(&mut self, actions: &Actions<'_>, _: &mut Draw, out: &mut StepOut<'_>) {
        self.time += 1;
        let strikes = self.time % self.period == 0;
        out.reward[0][0] =
            [0.0, 1.0][actions.discrete[0][0] as usize] * f32::from(u8::from(strikes));
        out.terminated = self.time > 4 * self.period;
    }
}

/// A cart that declares another width of its observation, which is 2.
pub(crate) struct Misjudged<const WIDTH: usize>(Cart);

impl<const WIDTH: usize> Env for Misjudged<WIDTH> {
    const NAME: &'static str = "misjudged";
    const OBSERVATION_WIDTH: usize = WIDTH;
    type Config = RoadConfig;
    type Params = RoadParams;
    type State = CartState;

    fn new(config: &RoadConfig) -> Result<Self> {
        Ok(Self(Cart::new(config)?))
    }
    fn spec(&self) -> EnvSpec {
        EnvSpec { name: Self::NAME.into(), ..self.0.spec() }
    }
    fn params(&self) -> &RoadParams {
        self.0.params()
    }
    fn reset(&self, state: &mut CartState, draw: &mut Draw) {
        self.0.reset(state, draw);
    }
    fn observe(&self, state: &CartState, out: &mut Observation<'_>) {
        self.0.observe(state, out);
    }
    fn step(
        &self,
        state: &mut CartState,
        actions: &Actions<'_>,
        draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        self.0.step(state, actions, draw, out);
    }
}

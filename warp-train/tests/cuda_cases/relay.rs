//! An environment of the tests' own: three runners in two groups, episodes that are cut off, several heads.

use warp_core::{
    Actions, Draw, Env, EnvSpec, GroupSpec, Kernel, Layout, LimitEnds, Observation, Result, Space,
    StepOut, TimeLimit,
};

warp_core::config! {
    /// Configuration of [`Relay`].
    pub(crate) struct RelayConfig {
        /// Steps after which an episode is cut off.
        pub(crate) limit: u32 = 7,
        /// Numbers of an action, of which the first two count.
        pub(crate) heads: u32 = 2,
    }
}
warp_core::params! {
    /// What all replicas share.
    pub(crate) struct RelayParams { goal: f32 }
}
warp_core::state! {
    /// Who is where.
    pub(crate) struct RelayState { place: [f32; n_agents] }
}

/// Runners go one way or the other, slowly or fast; an episode ends when the last arrives.
#[derive(Debug)]
pub(crate) struct Relay {
    params: RelayParams,
    limit: u32,
    heads: usize,
}

const TEXT: &str = "
__device__ void reset(const Env& env, State& state, WarpDraw& draw) {
    for (int i = warp_first(); i < n_agents; i += warp_stride()) {
        WarpDraw own = warp_draw_agent(&draw, (unsigned int)i);
        state.place[i] = warp_draw_uniform_in(&own, -1.0f, 1.0f);
    }
}
__device__ void observe(const Env& env, const State& state, Observation& out) {
    for (int i = warp_first(); i < n_agents; i += warp_stride()) {
        float* seen = i < 2 ? out.obs[0] + 2 * i : out.obs[1];
        seen[0] = state.place[i];
        seen[1] = state.place[(i + 1) % n_agents];
    }
}
__device__ void step(const Env& env, State& state, const Actions& actions, WarpDraw& draw,
                     StepOut& out) {
    for (int i = warp_first(); i < n_agents; i += warp_stride()) {
        const int* chosen = i < 2 ? actions.discrete[0] + n_heads * i : actions.discrete[1];
        WarpDraw own = warp_draw_agent(&draw, (unsigned int)i);
        float way = (float)(chosen[0] - 1) * (float)(chosen[1] + 1);
        state.place[i] += 0.25f * way * warp_draw_uniform(&own);
        float* reward = i < 2 ? out.reward[0] + i : out.reward[1];
        *reward = state.place[i] * (float)(i + 1);
    }
    warp_sync();
    if (warp_first() == 0) out.terminated = state.place[n_agents - 1] > env.params.goal;
}
";

impl Env for Relay {
    const NAME: &'static str = "relay";
    type Config = RelayConfig;
    type Params = RelayParams;
    type State = RelayState<'static>;

    fn new(config: &RelayConfig) -> Result<Self> {
        let heads = config.heads as usize;
        Ok(Self { params: RelayParams { goal: 1.25 }, limit: config.limit, heads })
    }

    fn spec(&self) -> EnvSpec {
        let group = |name: &str, n_agents| GroupSpec {
            name: name.into(),
            n_agents,
            observation: Space::unbounded(2),
            // More than two are alike.
            action: Space::MultiDiscrete {
                sizes: if self.heads == 2 { vec![3, 2] } else { vec![3; self.heads] },
            },
            mortal: false,
        };
        EnvSpec {
            name: Self::NAME.into(),
            groups: vec![group("pair", 2), group("last", 1)],
            time_limit: TimeLimit { steps: self.limit, ends: LimitEnds::Truncated },
            statistics: vec![],
            global_observation: None,
        }
    }

    fn params(&self) -> &RelayParams {
        &self.params
    }

    fn dims(&self) -> Vec<(&'static str, usize)> {
        vec![("n_agents", 3), ("n_heads", self.heads)]
    }

    fn kernel() -> Option<Kernel> {
        Some(Kernel { file: "relay.cu", text: TEXT, layout: Layout::TeamPerReplica })
    }

    fn reset(&self, state: &mut RelayState<'_>, draw: &mut Draw) {
        for (i, place) in state.place.iter_mut().enumerate() {
            *place = draw.agent(i as u32).uniform_in(-1.0, 1.0);
        }
    }

    fn observe(&self, state: &RelayState<'_>, out: &mut Observation<'_>) {
        for (i, place) in state.place.iter().enumerate() {
            let seen = &mut out.obs[i / 2][i % 2 * 2..][..2];
            seen.copy_from_slice(&[*place, state.place[(i + 1) % 3]]);
        }
    }

    fn step(
        &self,
        state: &mut RelayState<'_>,
        actions: &Actions<'_>,
        draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        for (i, place) in state.place.iter_mut().enumerate() {
            let chosen = &actions.discrete[i / 2][i % 2 * self.heads..];
            let way = (chosen[0] - 1) as f32 * (chosen[1] + 1) as f32;
            *place += 0.25 * way * draw.agent(i as u32).uniform();
            out.reward[i / 2][i % 2] = *place * (i + 1) as f32;
        }
        out.terminated = state.place[2] > self.params.goal;
    }
}

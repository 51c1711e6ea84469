//! Arrays beside rows: agents in space who seek a goal, stepped by a team.

use warp_core::{
    Actions, Draw, Env, EnvSpec, GroupSpec, Kernel, Layout, LimitEnds, Observation, Result, Space,
    StepOut, TimeLimit, team,
};

warp_core::config! {
    /// Configuration of [`Swarm`].
    pub(crate) struct SwarmConfig {
        /// Number of agents.
        pub(crate) agents: u32 = 5,
    }
}
warp_core::params! {
    /// What all swarms share.
    pub(crate) struct SwarmParams {
        /// How far one step leads.
        stride: f32,
    }
}
warp_core::state! {
    /// One swarm.
    pub(crate) struct SwarmState {
        /// Where each agent is.
        place: [f32; n_agents, 3],
        /// Where all want to be.
        goal: [f32; 3],
        /// How many have been there.
        arrivals: i32,
    }
}

/// Agents choose an axis to walk along.
#[derive(Debug)]
pub(crate) struct Swarm {
    n_agents: usize,
    params: SwarmParams,
}

impl Env for Swarm {
    const NAME: &'static str = "swarm";
    type Config = SwarmConfig;
    type Params = SwarmParams;
    type State = SwarmState<'static>;

    fn new(config: &SwarmConfig) -> Result<Self> {
        Ok(Self { n_agents: config.agents as usize, params: SwarmParams { stride: 0.25 } })
    }

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: Self::NAME.into(),
            groups: vec![GroupSpec {
                name: "seeker".into(),
                n_agents: self.n_agents,
                observation: Space::unbounded(3),
                action: Space::Discrete { n: 6 },
                mortal: false,
            }],
            time_limit: TimeLimit { steps: 20, ends: LimitEnds::Truncated },
            statistics: vec![],
            global_observation: None,
        }
    }

    fn params(&self) -> &SwarmParams {
        &self.params
    }

    fn dims(&self) -> Vec<(&'static str, usize)> {
        vec![("n_agents", self.n_agents)]
    }

    fn kernel() -> Option<Kernel> {
        let (file, layout) = ("swarm.cu", Layout::TeamPerReplica);
        Some(Kernel { file, text: include_str!("swarm.cu"), layout })
    }

    fn reset(&self, state: &mut SwarmState<'_>, draw: &mut Draw) {
        for i in team::each(state.place.len() / 3) {
            let mut own = draw.agent(i as u32);
            for axis in 0..3 {
                state.place[3 * i + axis] = own.uniform_in(-1.0, 1.0);
            }
        }
        team::once(|| {
            for axis in 0..state.goal.len() {
                state.goal[axis] = draw.uniform_in(-0.5, 0.5);
            }
            *state.arrivals = 0;
        });
    }

    fn observe(&self, state: &SwarmState<'_>, out: &mut Observation<'_>) {
        for i in team::each(state.place.len()) {
            out.obs[0][i] = state.goal[i % 3] - state.place[i];
        }
    }

    fn step(
        &self,
        state: &mut SwarmState<'_>,
        actions: &Actions<'_>,
        draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        let stride = self.params.stride;
        let n = state.place.len() / 3;
        for i in team::each(n) {
            let action = actions.discrete[0][i] as usize;
            let by = if action & 1 == 0 { stride } else { -stride };
            state.place[3 * i + action / 2] += by;
            out.reward[0][i] = -distance(&state.place[3 * i..3 * i + 3], state.goal);
        }
        let arrived = team::sum(n, |i| {
            i32::from(distance(&state.place[3 * i..3 * i + 3], state.goal) < stride)
        });
        team::once(|| {
            *state.arrivals += arrived;
            state.goal[0] += draw.uniform_in(-0.1, 0.1);
            out.terminated = *state.arrivals >= 2;
        });
    }
}

/// Along the axes.
fn distance(place: &[f32], goal: &[f32]) -> f32 {
    let mut sum = 0.0;
    for axis in 0..goal.len() {
        sum += (place[axis] - goal[axis]).abs();
    }
    sum
}

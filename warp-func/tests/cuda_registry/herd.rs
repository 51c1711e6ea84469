//! An environment of the test's own, of any number of agents, with its CUDA body.

use warp_core::{
    Actions, Draw, Env, EnvSpec, GroupSpec, Kernel, Layout, LimitEnds, Observation, Result, Space,
    StepOut, Table, TableData, TimeLimit, math,
};

warp_core::config! {
    /// Configuration of [`Herd`].
    pub(crate) struct HerdConfig {
        /// Number of agents.
        pub(crate) agents: u32 = 5,
        /// Where an agent has strayed.
        pub(crate) fence: f64 = 1.0,
    }
}
warp_core::params! {
    /// What all replicas share.
    pub(crate) struct HerdParams { fence: f32 }
}
warp_core::state! {
    /// Who is where, and how many have strayed.
    pub(crate) struct HerdState { place: [f32; n_agents], strayed: i32 }
}

/// Agents wander; an episode ends when most have strayed.
#[derive(Debug)]
pub(crate) struct Herd {
    n_agents: usize,
    params: HerdParams,
    pull: [f32; 2],
}

impl Env for Herd {
    const NAME: &'static str = "herd";
    type Config = HerdConfig;
    type Params = HerdParams;
    type State = HerdState<'static>;

    fn new(config: &HerdConfig) -> Result<Self> {
        let params = HerdParams { fence: config.fence as f32 };
        Ok(Self { n_agents: config.agents as usize, params, pull: [0.5, 0.75] })
    }

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: Self::NAME.into(),
            groups: vec![GroupSpec {
                name: "sheep".into(),
                n_agents: self.n_agents,
                observation: Space::unbounded(2),
                action: Space::Discrete { n: 3 },
                mortal: false,
            }],
            time_limit: TimeLimit { steps: 7, ends: LimitEnds::Truncated },
            statistics: vec![],
            global_observation: None,
        }
    }

    fn params(&self) -> &HerdParams {
        &self.params
    }

    fn tables(&self) -> Vec<Table<'_>> {
        vec![Table { name: "pull", shape: vec![2], data: TableData::F32(&self.pull) }]
    }

    fn dims(&self) -> Vec<(&'static str, usize)> {
        vec![("n_agents", self.n_agents)]
    }

    fn kernel() -> Option<Kernel> {
        let (file, layout) = ("herd.cu", Layout::TeamPerReplica);
        Some(Kernel { file, text: include_str!("herd.cu"), layout })
    }

    fn reset(&self, state: &mut HerdState<'_>, draw: &mut Draw) {
        for (agent, place) in state.place.iter_mut().enumerate() {
            *place = draw.agent(agent as u32).uniform_in(-1.0, 1.0);
        }
        *state.strayed = 0;
    }

    fn observe(&self, state: &HerdState<'_>, out: &mut Observation<'_>) {
        for (agent, seen) in out.obs[0].chunks_exact_mut(2).enumerate() {
            seen[0] = state.place[agent];
            seen[1] = state.place[(agent + 1) % self.n_agents];
        }
    }

    fn step(
        &self,
        state: &mut HerdState<'_>,
        actions: &Actions<'_>,
        draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        *state.strayed = 0;
        for (agent, place) in state.place.iter_mut().enumerate() {
            let mut own = draw.agent(agent as u32);
            let way = (actions.discrete[0][agent] - 1) as f32 * own.uniform();
            *place += self.pull[agent % 2] * way;
            *state.strayed += i32::from(*place > self.params.fence);
            out.reward[0][agent] = math::sin(*place);
        }
        out.terminated = 4 * *state.strayed as usize > 3 * self.n_agents;
    }
}

//! Rows, two groups of agents, one of them mortal, a dictionary with a mask, statistics, a global
//! observation and chance in every step.

use warp_core::{
    Actions, Draw, Env, EnvSpec, GroupSpec, LimitEnds, Observation, Result, Space, StepOut,
    TimeLimit,
};

/// The hunters' group.
pub(crate) const HUNTER: usize = 0;
/// The prey's group.
pub(crate) const PREY: usize = 1;
const HUNTERS: usize = 2;
const MAX_ENERGY: i32 = 3;

warp_core::config! {
    /// Configuration of [`Crowd`].
    pub(crate) struct CrowdConfig {
        /// Number of prey.
        pub(crate) prey: u32 = 5,
        /// Steps in an episode at most.
        pub(crate) limit: u32 = 12,
        /// Whether the limit truncates; else it terminates.
        pub(crate) truncates: bool = true,
    }
}
warp_core::params! {
    /// What all replicas share.
    pub(crate) struct CrowdParams { prey: u32 }
}
warp_core::state! {
    /// Who is where, and how tired.
    pub(crate) struct CrowdState { place: [f32; n_agents], energy: [i32; n_prey], gone: i32 }
}

/// Hunters look on while prey tires and leaves.
#[derive(Debug)]
pub(crate) struct Crowd {
    config: CrowdConfig,
    params: CrowdParams,
}

impl Crowd {
    fn n_prey(&self) -> usize {
        self.params.prey as usize
    }
}

impl Env for Crowd {
    const NAME: &'static str = "crowd";
    type Config = CrowdConfig;
    type Params = CrowdParams;
    type State = CrowdState<'static>;

    fn new(config: &CrowdConfig) -> Result<Self> {
        Ok(Self { config: config.clone(), params: CrowdParams { prey: config.prey } })
    }

    fn spec(&self) -> EnvSpec {
        let seen = |name: &str, space| (name.to_string(), space);
        let prey = Space::Dict(vec![
            seen("place", Space::unbounded(1)),
            seen("action_mask", Space::boxed(0.0, 1.0, &[5])),
            seen("Energy", Space::Discrete { n: MAX_ENERGY as usize + 1 }),
        ]);
        let group = |name: &str, n_agents, observation, action, mortal| GroupSpec {
            name: name.into(),
            n_agents,
            observation,
            action,
            mortal,
        };
        let heads = Space::MultiDiscrete { sizes: vec![2, 3] };
        let watch = Space::Discrete { n: 3 };
        let truncates = self.config.truncates;
        EnvSpec {
            name: Self::NAME.into(),
            groups: vec![
                group("hunter", HUNTERS, Space::unbounded(2), watch, false),
                group("prey", self.n_prey(), prey, heads, true),
            ],
            time_limit: TimeLimit {
                steps: self.config.limit,
                ends: if truncates { LimitEnds::Truncated } else { LimitEnds::Terminated },
            },
            statistics: vec!["gone".into()],
            global_observation: Some(Space::unbounded(1)),
        }
    }

    fn params(&self) -> &CrowdParams {
        &self.params
    }

    fn dims(&self) -> Vec<(&'static str, usize)> {
        vec![("n_agents", HUNTERS + self.n_prey()), ("n_prey", self.n_prey())]
    }

    fn reset(&self, state: &mut CrowdState<'_>, draw: &mut Draw) {
        state.place.iter_mut().for_each(|place| *place = draw.uniform_in(-1.0, 1.0));
        state.energy.iter_mut().for_each(|e| *e = 1 + draw.below(MAX_ENERGY as u32) as i32);
        *state.gone = 0;
    }

    fn observe(&self, state: &CrowdState<'_>, out: &mut Observation<'_>) {
        for (place, seen) in state.place.iter().zip(out.obs[HUNTER].chunks_exact_mut(2)) {
            seen.copy_from_slice(&[*place, *state.gone as f32]);
        }
        let rows = out.obs[PREY].chunks_exact_mut(MAX_ENERGY as usize + 2);
        let masks = out.action_mask[PREY].chunks_exact_mut(5);
        for (p, (seen, mask)) in rows.zip(masks).enumerate() {
            seen.fill(0.0);
            seen[state.energy[p] as usize] = 1.0;
            seen[MAX_ENERGY as usize + 1] = state.place[HUNTERS + p];
            mask.copy_from_slice(&[1, u8::from(state.energy[p] > 1), 1, 1, 1]);
        }
        out.global[0] = *state.gone as f32;
    }

    fn step(
        &self,
        state: &mut CrowdState<'_>,
        actions: &Actions<'_>,
        draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        let mut leavers = 0;
        for p in 0..self.n_prey() {
            if out.alive[PREY][p] == 0 {
                continue;
            }
            let &[run, turn] = &actions.discrete[PREY][2 * p..][..2] else { unreachable!() };
            let mut own = draw.agent((HUNTERS + p) as u32);
            let trapped = i32::from(own.uniform() < 0.25);
            state.place[HUNTERS + p] += (turn - 1) as f32 * (1.0 + own.uniform());
            state.energy[p] = (state.energy[p] - trapped - run * trapped).max(0);
            out.reward[PREY][p] = 0.5;
            if state.energy[p] == 0 {
                out.alive[PREY][p] = 0;
                out.reward[PREY][p] = -1.0;
                leavers += 1;
            }
        }
        for h in 0..HUNTERS {
            state.place[h] += (actions.discrete[HUNTER][h] - 1) as f32;
            out.reward[HUNTER][h] = leavers as f32;
        }
        *state.gone += leavers;
        out.statistics[0] += leavers as f32;
        out.terminated = *state.gone as usize == self.n_prey();
    }
}

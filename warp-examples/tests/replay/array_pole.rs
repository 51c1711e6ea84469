//! CartPole with its four numbers in one array, to be replayed from recordings of CartPole.

use warp_core::{Actions, Draw, Env, EnvSpec, Observation, Result, StepOut};
use warp_envs::cartpole::{CartPole, CartPoleConfig, CartPoleParams, CartPoleState};

warp_core::state! {
    /// Cart and pole.
    pub(crate) struct ArrayPoleState {
        /// x, x_dot, theta, theta_dot.
        pole: [f32; 4],
    }
}

/// The environment.
#[derive(Debug)]
pub(crate) struct ArrayPole(CartPole);

fn fields(state: &ArrayPoleState) -> CartPoleState {
    let [x, x_dot, theta, theta_dot] = state.pole;
    CartPoleState { x, x_dot, theta, theta_dot }
}

fn array(state: CartPoleState) -> ArrayPoleState {
    let CartPoleState { x, x_dot, theta, theta_dot } = state;
    ArrayPoleState { pole: [x, x_dot, theta, theta_dot] }
}

impl Env for ArrayPole {
    const NAME: &'static str = "array_pole";
    type Config = CartPoleConfig;
    type Params = CartPoleParams;
    type State = ArrayPoleState;

    fn new(config: &CartPoleConfig) -> Result<Self> {
        CartPole::new(config).map(Self)
    }
    fn spec(&self) -> EnvSpec {
        EnvSpec { name: Self::NAME.into(), ..self.0.spec() }
    }
    fn params(&self) -> &CartPoleParams {
        self.0.params()
    }
    fn reset(&self, state: &mut ArrayPoleState, draw: &mut Draw) {
        let mut inner = fields(state);
        self.0.reset(&mut inner, draw);
        *state = array(inner);
    }
    fn observe(&self, state: &ArrayPoleState, out: &mut Observation<'_>) {
        self.0.observe(&fields(state), out);
    }
    fn step(
        &self,
        state: &mut ArrayPoleState,
        actions: &Actions<'_>,
        draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        let mut inner = fields(state);
        self.0.step(&mut inner, actions, draw, out);
        *state = array(inner);
    }
}

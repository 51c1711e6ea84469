//! Taxi: a driver fetches a passenger from one of four places and brings the passenger to another.
//!
//! Rules of Gymnasium's `Taxi-v4` (version 1.4; Dietterich, 2000); dry, `Taxi-v3` is the same.
//!
//! **Environment**: 5 x 5 cells, places 0 red (0, 0), 1 green (0, 4), 2 yellow (4, 0), 3 blue (4, 3), walls
//! east of column 1 in rows 0 and 1 and of columns 0 and 2 in rows 3 and 4. State ((row x 5 + column) x 5 +
//! passenger) x 4 + destination, passenger 4 in the taxi. A start is any with the passenger elsewhere.
//!
//! **Actions**, `Discrete(6)`: 0 south, 1 north, 2 east, 3 west, 4 pick up, 5 drop off. A move into a wall
//! or off the board stays. The mask allows what changes the state; it is advice: other actions take place.
//! In the rain a move that is possible may go to the left or the right of its heading, as often to either,
//! and stays at a wall. A fickle passenger chooses another destination when the taxi first moves with it.
//!
//! **Reward**: -1 a step; 20 for the passenger dropped at the destination, where the episode ends; -10 for
//! picking up nobody or dropping off where that cannot be. Episodes are truncated after `episode_length`.
//!
//! **Observation**: the state, one-hot, f32 `[500]`.

mod step;

use crate::preset::{limit_of, probability};
use warp_core::{
    Actions, Draw, Env, EnvSpec, Kernel, Layout, Observation, Result, Space, StepOut, TimeLimit,
};

/// States.
const N_STATES: usize = 500;

warp_core::config! {
    /// The configuration of [`Taxi`].
    pub struct TaxiConfig {
        /// Whether moves may go in another direction (rain).
        pub is_rainy: bool = false,
        /// Probability that a move in the rain goes as intended, 0 to 1.
        pub rainy_probability: f64 = 0.8,
        /// Whether passengers may change their destination on the way.
        pub fickle_passenger: bool = false,
        /// Probability that a passenger does, 0 to 1.
        pub fickle_probability: f64 = 0.3,
        /// Maximum number of steps in an episode.
        pub episode_length: u32 = 200,
    }
}

warp_core::params! {
    /// What all replicas share.
    pub struct TaxiParams {
        /// Below it a draw lets a move go where it should.
        first: f32,
        /// Below it, and not below `first`, a move goes to the left; above, to the right.
        second: f32,
        /// How many passengers are fickle.
        fickle: f32,
    }
}

warp_core::state! {
    /// Taxi and passenger.
    pub struct TaxiState {
        /// Cell, passenger and destination in one number.
        state: i32,
        /// 1: the passenger will choose another destination.
        fickle_armed: i32,
    }
}

/// The environment.
#[derive(Debug, Clone)]
pub struct Taxi {
    limit: TimeLimit,
    params: TaxiParams,
    /// How likely it is that the rain moves the taxi to one side, and that it does not, where it may; then 1.
    /// When it is dry, 1 is all.
    chances: Vec<f64>,
    /// The mask of every state.
    masks: Vec<[u8; 6]>,
}

impl Env for Taxi {
    const NAME: &'static str = "taxi";
    type Config = TaxiConfig;
    type Params = TaxiParams;
    type State = TaxiState;

    fn new(config: &TaxiConfig) -> Result<Self> {
        let rain = probability("rainy_probability", config.rainy_probability)?;
        let fickle = probability("fickle_probability", config.fickle_probability)?;
        let first = if config.is_rainy { rain } else { 1.0 };
        let params = TaxiParams {
            first: first as f32,
            second: (first + (1.0 - first) / 2.0) as f32,
            fickle: if config.fickle_passenger { fickle as f32 } else { 0.0 },
        };
        let chances = if config.is_rainy { vec![(1.0 - rain) / 2.0, rain, 1.0] } else { vec![1.0] };
        let limit = limit_of(Some(config.episode_length))?;
        let mask = |state| {
            let mut mask = [0; 6];
            step::shown_mask(&TaxiState { state, fickle_armed: 0 }, &mut mask);
            mask
        };
        let masks = (0..N_STATES as i32).map(mask).collect();
        Ok(Self { limit, params, chances, masks })
    }

    fn spec(&self) -> EnvSpec {
        let observation = Space::Dict(vec![
            (warp_core::space::ACTION_MASK.into(), Space::boxed(0.0, 1.0, &[6])),
            ("state".into(), Space::Discrete { n: N_STATES }),
        ]);
        let action = Space::Discrete { n: 6 };
        EnvSpec::one_agent(Self::NAME, "driver", observation, action, self.limit)
    }

    fn params(&self) -> &TaxiParams {
        &self.params
    }

    fn kernel() -> Option<Kernel> {
        let text = include_str!("step.cu");
        Some(Kernel { file: "taxi/step.cu", text, layout: Layout::ThreadPerReplica })
    }

    fn reset(&self, state: &mut TaxiState, draw: &mut Draw) {
        step::reset(&self.params, state, draw);
    }

    fn observe(&self, state: &TaxiState, out: &mut Observation<'_>) {
        step::observe(state, out);
    }

    #[inline(always)]
    fn number(&self, state: &TaxiState) -> Option<i32> {
        Some(step::shown_number(state))
    }

    #[inline(always)]
    fn number_mask(&self, state: &TaxiState, mask: &mut [u8]) {
        // A state from outside may be none.
        if let Some(known) = self.masks.get(state.state as usize) {
            mask.copy_from_slice(known);
        }
    }

    fn chances(&self) -> Vec<f64> {
        self.chances.clone()
    }

    #[inline(always)]
    fn chance(&self, actions: &Actions<'_>, draw: &mut Draw) -> usize {
        step::chance(&self.params, actions, draw)
    }

    fn step(
        &self,
        state: &mut TaxiState,
        actions: &Actions<'_>,
        draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        step::step(&self.params, state, actions, draw, out);
    }
}

//! Blackjack: cards that add up to more than the dealer's, but not to more than 21.
//!
//! Rules of Gymnasium's `Blackjack-v1` (version 1.4; Sutton and Barto, Reinforcement Learning, example
//! 5.1). Cards are drawn from an infinite deck: 1 (the ace) to 9 with probability 1/13 each, 10 with 4/13.
//!
//! **A hand** counts the sum of its cards, and 10 more if it has an ace and that does not exceed 21; then
//! the ace is called usable.
//!
//! **An episode** begins with two cards each, the dealer's first. **Actions**, `Discrete(2)`: 1 takes a
//! card, 0 leaves it to the dealer, who takes cards while the dealer's hand counts less than 17.
//!
//! **Reward**: -1 for a hand above 21, which ends the episode; otherwise, at the end, 1 for the higher
//! hand (a dealer above 21 counts 0), -1 for the lower, 0 for a draw. An ace and a ten as the player's
//! two cards are a natural: with `sab` it wins 1 unless the dealer has one too; with `natural`, and without
//! `sab`, a natural that wins pays 1.5.
//!
//! **The end**: terminated; an episode is over after twenty steps at most.
//!
//! **Observation**, f32 `[3]`: what the own hand counts, the dealer's first card, 1 for a usable ace.

mod step;

use warp_core::{
    Actions, Draw, Env, EnvSpec, Fault, Kernel, Layout, Observation, Result, Space, StepOut,
    TimeLimit,
};

warp_core::config! {
    /// The configuration of [`Blackjack`].
    pub struct BlackjackConfig {
        /// Whether a natural pays 1.5; has no effect if sab is set.
        pub natural: bool = false,
        /// Whether to play as in Sutton and Barto's book: a natural wins unless the dealer has one.
        pub sab: bool = true,
    }
}

warp_core::params! {
    /// What all replicas share.
    pub struct BlackjackParams {
        /// 1: a natural pays 1.5.
        natural: i32,
        /// 1: a natural wins unless the dealer has one.
        sab: i32,
    }
}

warp_core::state! {
    /// Both hands.
    pub struct BlackjackState {
        /// Sum of the player's cards, an ace counted as 1.
        player_sum: i32,
        /// 1: the player has an ace.
        player_ace: i32,
        /// How many cards the player has.
        player_cards: i32,
        /// Sum of the dealer's cards, an ace counted as 1.
        dealer_sum: i32,
        /// 1: the dealer has an ace.
        dealer_ace: i32,
        /// The dealer's first card, 1 to 10.
        dealer_card: i32,
    }
}

/// The environment.
#[derive(Debug, Clone)]
pub struct Blackjack {
    params: BlackjackParams,
}

/// The largest number that a hand comes to.
const MOST_SEEN: i32 = 31;

impl Env for Blackjack {
    const NAME: &'static str = "blackjack";
    const OBSERVATION_WIDTH: usize = 3;
    type Config = BlackjackConfig;
    type Params = BlackjackParams;
    type State = BlackjackState;

    fn new(config: &BlackjackConfig) -> Result<Self> {
        let params =
            BlackjackParams { natural: i32::from(config.natural), sab: i32::from(config.sab) };
        Ok(Self { params })
    }

    fn spec(&self) -> EnvSpec {
        let observation = Space::boxed(0.0, 31.0, &[3]);
        let action = Space::Discrete { n: 2 };
        EnvSpec::one_agent(Self::NAME, "player", observation, action, TimeLimit::UNLIMITED)
    }

    fn params(&self) -> &BlackjackParams {
        &self.params
    }

    fn kernel() -> Option<Kernel> {
        let text = include_str!("step.cu");
        Some(Kernel { file: "blackjack/step.cu", text, layout: Layout::ThreadPerReplica })
    }

    /// A dealer with a debt would take cards for ever.
    fn fault(&self, state: &BlackjackState) -> Option<Fault> {
        let fields = [
            ("player_sum", state.player_sum),
            ("player_ace", state.player_ace),
            ("player_cards", state.player_cards),
            ("dealer_sum", state.dealer_sum),
            ("dealer_ace", state.dealer_ace),
            ("dealer_card", state.dealer_card),
        ];
        let (field, value) =
            fields.into_iter().find(|(_, value)| !(0..=MOST_SEEN).contains(value))?;
        let reason = format!("hands count from 0 to {MOST_SEEN}");
        Some(Fault { field, value: value.to_string(), reason })
    }

    #[inline(always)]
    fn reset(&self, state: &mut BlackjackState, draw: &mut Draw) {
        step::reset(state, draw);
    }

    #[inline(always)]
    fn observe(&self, state: &BlackjackState, out: &mut Observation<'_>) {
        step::observe(state, out);
    }

    #[inline(always)]
    fn step(
        &self,
        state: &mut BlackjackState,
        actions: &Actions<'_>,
        draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        step::step(&self.params, state, actions, draw, out);
    }
}

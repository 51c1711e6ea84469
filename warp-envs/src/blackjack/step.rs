//! Blackjack's body: a draw is a card.

use super::{BlackjackParams, BlackjackState};
use warp_core::{Actions, Draw, Observation, StepOut};

/// What a hand counts at most.
const MOST: i32 = 21;
/// From here on the dealer takes no card.
const DEALER_STANDS: i32 = 17;

/// A card: 1 (the ace) to 9, or 10, of which there are four kinds.
#[inline(always)]
fn card(draw: &mut Draw) -> i32 {
    let kind = draw.below(13) as i32 + 1;
    kind.min(10)
}

/// Whether an ace counts 11 in a hand of this sum.
#[inline(always)]
fn usable(sum: i32, ace: i32) -> bool {
    ace == 1 && sum + 10 <= MOST
}

/// What a hand counts.
#[inline(always)]
fn count(sum: i32, ace: i32) -> i32 {
    if usable(sum, ace) { sum + 10 } else { sum }
}

#[inline(always)]
pub(super) fn reset(state: &mut BlackjackState, draw: &mut Draw) {
    let first = card(draw);
    let second = card(draw);
    state.dealer_card = first;
    state.dealer_sum = first + second;
    state.dealer_ace = i32::from(first == 1 || second == 1);
    let first = card(draw);
    let second = card(draw);
    state.player_sum = first + second;
    state.player_ace = i32::from(first == 1 || second == 1);
    state.player_cards = 2;
}

#[inline(always)]
pub(super) fn step(
    params: &BlackjackParams,
    state: &mut BlackjackState,
    actions: &Actions<'_>,
    draw: &mut Draw,
    out: &mut StepOut<'_>,
) {
    if actions.discrete[0][0] == 1 {
        let drawn = card(draw);
        state.player_sum += drawn;
        state.player_ace |= i32::from(drawn == 1);
        state.player_cards += 1;
        out.terminated = state.player_sum > MOST;
        out.reward[0][0] = if out.terminated { -1.0 } else { 0.0 };
    } else {
        // Of two cards only an ace and a ten count 21.
        let player = count(state.player_sum, state.player_ace);
        let natural = state.player_cards == 2 && player == MOST;
        let dealer_natural = count(state.dealer_sum, state.dealer_ace) == MOST;
        while count(state.dealer_sum, state.dealer_ace) < DEALER_STANDS {
            let drawn = card(draw);
            state.dealer_sum += drawn;
            state.dealer_ace |= i32::from(drawn == 1);
        }
        let dealer = count(state.dealer_sum, state.dealer_ace);
        let dealer = if dealer > MOST { 0 } else { dealer };
        let wins = player > dealer;
        let mut reward = i32::from(wins) as f32 - i32::from(player < dealer) as f32;
        if params.sab == 1 {
            reward = if natural && !dealer_natural { 1.0 } else { reward };
        } else if params.natural == 1 {
            reward = if natural && wins { 1.5 } else { reward };
        }
        out.terminated = true;
        out.reward[0][0] = reward;
    }
}

#[inline(always)]
pub(super) fn observe(state: &BlackjackState, out: &mut Observation<'_>) {
    out.obs[0][0] = count(state.player_sum, state.player_ace) as f32;
    out.obs[0][1] = state.dealer_card as f32;
    out.obs[0][2] = if usable(state.player_sum, state.player_ace) { 1.0 } else { 0.0 };
}

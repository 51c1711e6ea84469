//! Blackjack against its rules.

use warp_core::Env;
use warp_core::single::{GroupAction, Single};
use warp_envs::blackjack::*;
use warp_envs::registry;

fn table(natural: bool, sab: bool, seed: u64) -> Single<Blackjack> {
    Single::new(Blackjack::new(&BlackjackConfig { natural, sab }).unwrap(), seed).unwrap()
}

/// Leaves it to the dealer, with these hands: their sums, aces counted as 1, and whether they have one.
fn leave(one: &mut Single<Blackjack>, cards: i32, player: (i32, i32), dealer: (i32, i32)) -> f32 {
    one.edit(|state| {
        (state.player_sum, state.player_ace) = player;
        (state.dealer_sum, state.dealer_ace) = dealer;
        state.player_cards = cards;
    });
    assert!(one.step(&[GroupAction::Discrete(vec![0])]).unwrap().terminated);
    one.reward(0)[0]
}

#[test]
fn keeps_the_contract() {
    for text in ["", "sab = false\nnatural = true"] {
        registry().get("blackjack").unwrap().check(&text.parse().unwrap(), 7).unwrap();
    }
}

#[test]
fn hands_are_compared() {
    let mut one = table(false, true, 0);
    let twenty = (20, 0);
    assert_eq!(leave(&mut one, 2, twenty, (19, 0)), 1.0);
    assert_eq!(leave(&mut one, 2, twenty, twenty), 0.0);
    assert_eq!(leave(&mut one, 2, (12, 0), (17, 0)), -1.0);
    // An ace counts 11 where it can: 18 against 17 of a hand without one.
    assert_eq!(leave(&mut one, 2, (8, 1), (17, 0)), 1.0);
    assert_eq!(leave(&mut one, 3, (18, 1), (19, 0)), -1.0);
    // A dealer above 21 loses, whatever the player has.
    assert_eq!(leave(&mut one, 2, (4, 0), (26, 0)), 1.0);
}

#[test]
fn naturals_pay_as_configured() {
    let (natural, dealer_21, dealer_natural) = ((11, 1), (21, 0), (11, 1));
    let paid = |natural_pays, sab, dealer| {
        let mut one = table(natural_pays, sab, 0);
        leave(&mut one, 2, natural, dealer)
    };
    assert_eq!(paid(true, false, (20, 0)), 1.5);
    assert_eq!(paid(false, false, (20, 0)), 1.0);
    assert_eq!(paid(true, true, (20, 0)), 1.0);
    assert_eq!(paid(true, false, dealer_natural), 0.0);
    assert_eq!(paid(true, true, dealer_natural), 0.0);
    // 21 of three cards counts as much as a natural.
    let mut one = table(true, false, 0);
    assert_eq!(leave(&mut one, 3, natural, (20, 0)), 1.0);
    assert_eq!(leave(&mut one, 2, natural, dealer_21), 0.0);
}

#[test]
fn the_dealer_takes_cards_up_to_17() {
    let mut one = table(false, true, 4);
    let mut above = 0;
    for _ in 0..500 {
        leave(&mut one, 2, (20, 0), (12, 0));
        one.edit(|state| {
            let count =
                state.dealer_sum + 10 * i32::from(state.dealer_ace == 1 && state.dealer_sum <= 11);
            assert!((17..=26).contains(&count), "{state:?}");
            above += i32::from(count > 21);
        });
    }
    // Known: 12 exceeds 21 in 46 % of hands.
    assert!((190..280).contains(&above), "{above}");
}

#[test]
fn a_card_too_many_loses() {
    let mut one = table(false, true, 0);
    let card = [GroupAction::Discrete(vec![1])];
    let mut kinds = [0; 11];
    for _ in 0..13_000 {
        one.edit(|state| (state.player_sum, state.player_ace, state.player_cards) = (12, 0, 2));
        let ended = one.step(&card).unwrap().terminated;
        one.edit(|state| kinds[(state.player_sum - 12) as usize] += 1);
        assert_eq!(
            (ended, one.reward(0)[0]),
            (one.obs(0)[0] > 21.0, if ended { -1.0 } else { 0.0 })
        );
    }
    // Within five standard deviations of 1/13 and 4/13.
    assert!(kinds[1..10].iter().all(|n| (845..1_155).contains(n)), "{kinds:?}");
    assert!((3_735..4_265).contains(&kinds[10]) && kinds[0] == 0, "{kinds:?}");
}

#[test]
fn the_player_sees_both_hands() {
    let mut one = table(false, true, 0);
    one.edit(|state| {
        (state.player_sum, state.player_ace, state.dealer_card) = (7, 1, 10);
    });
    assert_eq!(one.obs(0), [17.0, 10.0, 1.0]);
    one.edit(|state| state.player_sum = 12);
    assert_eq!(one.obs(0), [12.0, 10.0, 0.0]);
}

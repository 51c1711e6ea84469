//! Taxi against its rules.

use warp_core::single::{GroupAction, Single};
use warp_core::{Config, Env};
use warp_envs::registry;
use warp_envs::taxi::*;

fn taxi(text: &str, seed: u64) -> Single<Taxi> {
    let config = TaxiConfig::from_table(&text.parse().unwrap()).unwrap();
    Single::new(Taxi::new(&config).unwrap(), seed).unwrap()
}

/// Row, column, passenger, destination.
type Place = (i32, i32, i32, i32);

fn put(one: &mut Single<Taxi>, (row, column, passenger, destination): Place) {
    one.edit(|state| state.state = ((row * 5 + column) * 5 + passenger) * 4 + destination);
}

fn seen(one: &Single<Taxi>) -> Place {
    let state = one.obs(0).iter().position(|x| *x == 1.0).unwrap() as i32;
    (state / 100, state / 20 % 5, state / 4 % 5, state % 4)
}

fn go(one: &mut Single<Taxi>, action: i32) -> (Place, f32, bool) {
    let ended = one.step(&[GroupAction::Discrete(vec![action])]).unwrap();
    (seen(one), one.reward(0)[0], ended.terminated)
}

#[test]
fn keeps_the_contract() {
    for text in ["", "is_rainy = true\nfickle_passenger = true\nepisode_length = 30"] {
        registry().get("taxi").unwrap().check(&text.parse().unwrap(), 7).unwrap();
    }
}

#[test]
fn a_ride_from_yellow_to_red() {
    let mut one = taxi("", 0);
    put(&mut one, (3, 0, 2, 0));
    assert_eq!(go(&mut one, 4), ((3, 0, 2, 0), -10.0, false));
    assert_eq!(go(&mut one, 0), ((4, 0, 2, 0), -1.0, false));
    assert_eq!(one.action_mask(0), [0, 1, 0, 0, 1, 0]);
    assert_eq!(go(&mut one, 5), ((4, 0, 2, 0), -10.0, false));
    assert_eq!(go(&mut one, 4), ((4, 0, 4, 0), -1.0, false));
    assert_eq!(one.action_mask(0), [0, 1, 0, 0, 0, 1]);
    assert_eq!(go(&mut one, 5), ((4, 0, 2, 0), -1.0, false));
    assert_eq!(go(&mut one, 4), ((4, 0, 4, 0), -1.0, false));
    (0..4).for_each(|_| assert_eq!(go(&mut one, 1).1, -1.0));
    assert_eq!(go(&mut one, 5), ((0, 0, 0, 0), 20.0, true));
}

#[test]
fn walls_and_borders_stop_the_taxi() {
    let mut one = taxi("", 0);
    let walls = [(0, 1), (1, 1), (3, 0), (4, 0), (3, 2), (4, 2)];
    for row in 0..5 {
        for column in 0..5 {
            put(&mut one, (row, column, 0, 1));
            let east = i32::from(column < 4 && !walls.contains(&(row, column)));
            let west = i32::from(column > 0 && !walls.contains(&(row, column - 1)));
            let mask = [i32::from(row < 4), i32::from(row > 0), east, west];
            assert_eq!(one.action_mask(0)[..4], mask.map(|x| x as u8), "{row} {column}");
            let moves = [(mask[0], 0), (-mask[1], 0), (0, east), (0, -west)];
            for (action, (down, right)) in moves.into_iter().enumerate() {
                put(&mut one, (row, column, 0, 1));
                let place = (row + down, column + right, 0, 1);
                assert_eq!(go(&mut one, action as i32), (place, -1.0, false));
            }
        }
    }
}

#[test]
fn rain_turns_moves_that_are_possible() {
    let mut one = taxi("is_rainy = true\nrainy_probability = 0.6", 5);
    let mut cells = [[0; 5]; 5];
    for _ in 0..5_000 {
        put(&mut one, (2, 2, 0, 1));
        let ((row, column, ..), ..) = go(&mut one, 2);
        cells[row as usize][column as usize] += 1;
    }
    // East, north to its left, south to its right; within five standard deviations.
    let near = |count: i32, expected: i32| (count - expected).abs() < 175;
    assert!(near(cells[2][3], 3_000) && near(cells[1][2], 1_000) && near(cells[3][2], 1_000));
    for _ in 0..50 {
        put(&mut one, (0, 1, 0, 1));
        assert_eq!(go(&mut one, 2).0, (0, 1, 0, 1));
        // West is possible; to its left is south, to its right the border.
        put(&mut one, (0, 1, 0, 1));
        assert!([(0, 0), (1, 1), (0, 1)].contains(&(go(&mut one, 3).0.0, seen(&one).1)));
    }
}

#[test]
fn a_fickle_passenger_changes_the_destination_once_on_the_way() {
    let mut one = taxi("fickle_passenger = true\nfickle_probability = 1", 2);
    let mut chosen = [0; 4];
    for _ in 0..300 {
        one.reset();
        put(&mut one, (2, 2, 4, 1));
        one.edit(|state| assert_eq!(state.fickle_armed, 1));
        assert_eq!(go(&mut one, 4).0.3, 1);
        let destination = go(&mut one, 1).0.3;
        chosen[destination as usize] += 1;
        assert_eq!(go(&mut one, 0).0.3, destination);
    }
    assert!(chosen[1] == 0 && [0, 2, 3].iter().all(|i| chosen[*i] > 60), "{chosen:?}");
    let mut never = taxi("fickle_passenger = true\nfickle_probability = 0", 2);
    never.edit(|state| assert_eq!(state.fickle_armed, 0));
}

#[test]
fn starts_are_all_states_with_somewhere_to_go() {
    let mut one = taxi("", 0);
    let mut starts = std::collections::BTreeSet::new();
    for _ in 0..6_000 {
        let (_, _, passenger, destination) = seen(&one);
        assert!(passenger < 4 && passenger != destination);
        starts.insert(seen(&one));
        go(&mut one, 4);
        one.reset();
    }
    assert_eq!(starts.len(), 300);
}

#[test]
fn bad_values_are_refused_in_a_sentence() {
    let refused = |text: &str| {
        let config = TaxiConfig::from_table(&text.parse().unwrap());
        config.and_then(|c| Taxi::new(&c)).unwrap_err().to_string()
    };
    assert!(refused("rainy_probability = -0.5").starts_with("rainy_probability = -0.5: "));
    assert!(refused("fickle_probability = 2").starts_with("fickle_probability = 2: "));
    assert!(refused("episode_length = 0").starts_with("episode_length = 0: "));
}

//! Catch against its rules.

use warp_core::single::{GroupAction, Single};
use warp_core::{Config, Env};
use warp_envs::catch::*;
use warp_envs::registry;

fn catch(height: u32, width: u32) -> Single<Catch> {
    Single::new(Catch::new(&CatchConfig { height, width }).unwrap(), 0).unwrap()
}

#[test]
fn keeps_the_contract() {
    for text in ["", "height = 3\nwidth = 8"] {
        registry().get("catch").unwrap().check(&text.parse().unwrap(), 7).unwrap();
    }
}

#[test]
fn the_ball_falls_to_the_paddle_or_beside_it() {
    for (column, way, caught) in [(0, 0, 1.0), (0, 2, -1.0), (3, 2, 1.0), (2, 1, 1.0), (2, 0, -1.0)]
    {
        let mut one = catch(4, 4);
        one.edit(|state| state.ball_column = column);
        let cells = |one: &Single<Catch>| -> Vec<usize> {
            (0..16).filter(|cell| one.obs(0)[*cell] == 1.0).collect()
        };
        assert_eq!(cells(&one), [column as usize, 14]);
        let mut seen = Vec::new();
        for _ in 0..3 {
            let ended = one.step(&[GroupAction::Discrete(vec![way])]).unwrap();
            seen.push((one.reward(0)[0], ended.terminated));
        }
        assert_eq!(seen, [(0.0, false), (0.0, false), (caught, true)]);
        let paddle = if way == 0 { 12 } else { 13 + way as usize };
        let mut expected = vec![12 + column as usize, paddle];
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(cells(&one), expected);
    }
}

#[test]
fn balls_begin_in_every_column() {
    let mut one = catch(2, 3);
    let mut columns = [0; 3];
    for _ in 0..300 {
        columns[(0..3).find(|cell| one.obs(0)[*cell] == 1.0).unwrap()] += 1;
        one.step(&[GroupAction::Discrete(vec![1])]).unwrap();
        one.reset();
    }
    assert!(columns.iter().all(|n| *n > 60), "{columns:?}");
}

#[test]
fn bad_values_are_refused_in_a_sentence() {
    let refused = |text: &str| {
        let config = CatchConfig::from_table(&text.parse().unwrap());
        config.and_then(|c| Catch::new(&c)).unwrap_err().to_string()
    };
    assert!(refused("height = 1").starts_with("height = 1: "));
    assert!(refused("width = 0").starts_with("width = 0: "));
    assert!(refused("width = 2000").contains("1000"));
}

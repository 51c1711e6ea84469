//! CliffWalking against its rules.

use warp_core::single::{GroupAction, Single};
use warp_core::{Config, Env, TimeLimit};
use warp_envs::cliff_walking::*;
use warp_envs::registry;

fn walk(one: &mut Single<CliffWalking>, way: i32) -> (usize, f32, bool) {
    let ended = one.step(&[GroupAction::Discrete(vec![way])]).unwrap();
    let cell = one.obs(0).iter().position(|x| *x == 1.0).unwrap();
    (cell, one.reward(0)[0], ended.terminated)
}

#[test]
fn keeps_the_contract() {
    for text in ["", "is_slippery = true\nepisode_length = 20"] {
        registry().get("cliff_walking").unwrap().check(&text.parse().unwrap(), 7).unwrap();
    }
}

#[test]
fn the_way_home_leads_around_the_cliff() {
    let env = CliffWalking::new(&CliffWalkingConfig::default()).unwrap();
    let mut one = Single::new(env, 0).unwrap();
    assert_eq!(walk(&mut one, 1), (36, -100.0, false));
    assert_eq!(walk(&mut one, 3), (36, -1.0, false));
    assert_eq!(walk(&mut one, 2), (36, -1.0, false));
    assert_eq!(walk(&mut one, 0), (24, -1.0, false));
    for column in 1..12 {
        assert_eq!(walk(&mut one, 1), (24 + column, -1.0, false));
    }
    assert_eq!(walk(&mut one, 1), (35, -1.0, false));
    assert_eq!(walk(&mut one, 2), (47, -1.0, true));
    one.edit(|state| state.state = 30);
    assert_eq!(walk(&mut one, 2), (36, -100.0, false));
}

#[test]
fn slippery_ground_turns_the_walker_in_two_of_three_steps() {
    let config = CliffWalkingConfig { is_slippery: true, ..Default::default() };
    let mut one = Single::new(CliffWalking::new(&config).unwrap(), 1).unwrap();
    let mut seen = [0; 48];
    for _ in 0..3_000 {
        one.edit(|state| state.state = 13);
        seen[walk(&mut one, 0).0] += 1;
    }
    // To the left, up, to the right; within five standard deviations.
    assert!([12, 1, 14].iter().all(|cell| (870..1_130).contains(&seen[*cell])), "{seen:?}");
    assert_eq!(seen[12] + seen[1] + seen[14], 3_000);
}

#[test]
fn a_limit_truncates_and_is_optional() {
    let config = CliffWalkingConfig::from_table(&"episode_length = 2".parse().unwrap()).unwrap();
    let mut one = Single::new(CliffWalking::new(&config).unwrap(), 0).unwrap();
    let up = [GroupAction::Discrete(vec![0])];
    assert!(!one.step(&up).unwrap().truncated && one.step(&up).unwrap().truncated);
    let free = CliffWalking::new(&CliffWalkingConfig::default()).unwrap();
    assert_eq!(free.spec().time_limit, TimeLimit::UNLIMITED);
    let none = CliffWalkingConfig { episode_length: Some(0), ..Default::default() };
    let error = CliffWalking::new(&none).unwrap_err().to_string();
    assert!(error.starts_with("episode_length = 0: "), "{error}");
}

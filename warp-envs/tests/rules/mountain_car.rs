//! MountainCar against its rules.

use warp_core::single::{Ended, GroupAction, Single};
use warp_core::{Config, Env, LimitEnds};
use warp_envs::mountain_car::*;
use warp_envs::{Preset, registry};

const ON: Ended = Ended { terminated: false, truncated: false };
const GOAL: Ended = Ended { terminated: true, truncated: false };

fn at(position: f32, velocity: f32, config: &MountainCarConfig) -> Single<MountainCar> {
    let mut one = Single::new(MountainCar::new(config).unwrap(), 0).unwrap();
    one.edit(|state| *state = MountainCarState { position, velocity });
    one
}

fn push(one: &mut Single<MountainCar>, action: i32) -> Ended {
    one.step(&[GroupAction::Discrete(vec![action])]).unwrap()
}

#[test]
fn keeps_the_contract() {
    for text in ["", "preset = \"warpdrive\"", "goal_velocity = 0.05"] {
        registry().get("mountain_car").unwrap().check(&text.parse().unwrap(), 7).unwrap();
    }
}

#[test]
fn one_step_follows_the_equations() {
    for action in [0, 1, 2] {
        let mut one = at(-0.5, 0.01, &MountainCarConfig::default());
        assert_eq!(push(&mut one, action), ON);
        let velocity = 0.01 + f64::from(action - 1) * 0.001 - 0.0025 * (-1.5f64).cos();
        let expected = [-0.5 + velocity, velocity];
        for (seen, expected) in one.obs(0).iter().zip(expected) {
            assert!((f64::from(*seen) - expected).abs() < 1e-7, "{seen} {expected}");
        }
        assert_eq!(one.reward(0), [-1.0]);
    }
}

#[test]
fn the_wall_stops_the_car() {
    let mut one = at(-1.19, -0.07, &MountainCarConfig::default());
    assert_eq!(push(&mut one, 0), ON);
    assert_eq!(one.obs(0), [-1.2, 0.0]);
}

#[test]
fn the_goal_terminates_and_still_costs_a_step() {
    let mut one = at(0.45, 0.07, &MountainCarConfig::default());
    assert_eq!(push(&mut one, 2), GOAL);
    assert_eq!(one.reward(0), [-1.0]);
    // Position and velocity stop at their bounds.
    let mut one = at(0.59, 0.07, &MountainCarConfig::default());
    assert_eq!(push(&mut one, 2), GOAL);
    assert_eq!(one.obs(0), [0.6, 0.07]);
    // Rolling back over the line does not count, nor does arriving more slowly than asked.
    assert_eq!(push(&mut at(0.59, -0.03, &MountainCarConfig::default()), 2), ON);
    let fast = MountainCarConfig { goal_velocity: 0.05, ..Default::default() };
    assert_eq!(push(&mut at(0.49, 0.04, &fast), 2), ON);
    assert_eq!(push(&mut at(0.49, 0.06, &fast), 2), GOAL);
}

#[test]
fn presets_set_the_limit() {
    let made = |text: &str| {
        let config = MountainCarConfig::from_table(&text.parse().unwrap()).unwrap();
        let limit = MountainCar::new(&config).unwrap().spec().time_limit;
        (limit.steps, limit.ends)
    };
    assert_eq!(made(""), (200, LimitEnds::Truncated));
    assert_eq!(made("preset = \"warpdrive\""), (500, LimitEnds::Terminated));
    assert_eq!(made("preset = \"warpdrive\"\nepisode_length = 3"), (3, LimitEnds::Terminated));
}

#[test]
fn the_limit_ends_an_idle_episode() {
    let ended = |preset, steps: u32| {
        let mut one = at(-0.5, 0.0, &MountainCarConfig { preset, ..Default::default() });
        (1..steps).for_each(|_| assert_eq!(push(&mut one, 1), ON));
        push(&mut one, 1)
    };
    assert_eq!(ended(Preset::Gymnasium, 200), Ended { terminated: false, truncated: true });
    assert_eq!(ended(Preset::WarpDrive, 500), GOAL);
}

#[test]
fn starts_at_rest_near_the_floor() {
    let mut one = at(0.0, 0.0, &MountainCarConfig::default());
    for _ in 0..100 {
        push(&mut one, 0);
        one.reset();
        assert!((-0.6..=-0.4).contains(&one.obs(0)[0]) && one.obs(0)[1] == 0.0);
    }
}

#[test]
fn bad_values_are_refused_in_a_sentence() {
    let refused = |text: &str| {
        let config = MountainCarConfig::from_table(&text.parse().unwrap());
        config.and_then(|c| MountainCar::new(&c)).unwrap_err().to_string()
    };
    assert!(refused("episode_length = 0").starts_with("episode_length = 0: "));
    assert!(refused("goal_velocity = 0.1").starts_with("goal_velocity = 0.1: "));
    assert!(refused("preset = \"gym\"").contains("one of \"gymnasium\", \"warpdrive\""));
}

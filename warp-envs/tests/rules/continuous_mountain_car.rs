//! ContinuousMountainCar against its rules.

use warp_core::single::{Ended, GroupAction, Single};
use warp_core::{Config, Env, LimitEnds};
use warp_envs::continuous_mountain_car::*;
use warp_envs::{Preset, registry};

const ON: Ended = Ended { terminated: false, truncated: false };
const GOAL: Ended = Ended { terminated: true, truncated: false };

type Car = Single<ContinuousMountainCar>;

fn at(position: f32, velocity: f32, config: &ContinuousMountainCarConfig) -> Car {
    let mut one = Single::new(ContinuousMountainCar::new(config).unwrap(), 0).unwrap();
    one.edit(|state| *state = ContinuousMountainCarState { position, velocity });
    one
}

fn push(one: &mut Car, action: f32) -> Ended {
    one.step(&[GroupAction::Continuous(vec![action])]).unwrap()
}

#[test]
fn keeps_the_contract() {
    for text in ["", "preset = \"warpdrive\"", "goal_velocity = 0.05"] {
        let entry = registry();
        entry.get("continuous_mountain_car").unwrap().check(&text.parse().unwrap(), 7).unwrap();
    }
}

#[test]
fn one_step_follows_the_equations() {
    // A push beyond the bounds moves as the bound does and costs what was asked for.
    for (action, force) in [(0.5f32, 0.5), (1.0, 1.0), (-3.0, -1.0)] {
        let mut one = at(-0.5, 0.01, &ContinuousMountainCarConfig::default());
        assert_eq!(push(&mut one, action), ON);
        let velocity = 0.01 + force * 0.0015 - 0.0025 * (-1.5f64).cos();
        let expected = [-0.5 + velocity, velocity];
        for (seen, expected) in one.obs(0).iter().zip(expected) {
            assert!((f64::from(*seen) - expected).abs() < 1e-7, "{seen} {expected}");
        }
        let cost = 0.1 * f64::from(action) * f64::from(action);
        assert!((f64::from(one.reward(0)[0]) + cost).abs() < 1e-7, "{action}");
    }
}

#[test]
fn the_wall_stops_the_car() {
    let mut one = at(-1.19, -0.07, &ContinuousMountainCarConfig::default());
    assert_eq!(push(&mut one, -1.0), ON);
    assert_eq!(one.obs(0), [-1.2, 0.0]);
}

#[test]
fn the_goal_terminates_and_pays() {
    let default = ContinuousMountainCarConfig::default();
    let mut one = at(0.40, 0.07, &default);
    assert_eq!(push(&mut one, 2.0), GOAL);
    assert_eq!(one.reward(0), [100.0 - 0.4]);
    // Rolling back over the line does not count, nor does arriving more slowly than asked.
    assert_eq!(push(&mut at(0.59, -0.03, &default), 1.0), ON);
    let fast = ContinuousMountainCarConfig { goal_velocity: 0.05, ..Default::default() };
    assert_eq!(push(&mut at(0.44, 0.04, &fast), 1.0), ON);
    assert_eq!(push(&mut at(0.44, 0.06, &fast), 1.0), GOAL);
}

#[test]
fn presets_set_the_limit() {
    let made = |text: &str| {
        let config = ContinuousMountainCarConfig::from_table(&text.parse().unwrap()).unwrap();
        let limit = ContinuousMountainCar::new(&config).unwrap().spec().time_limit;
        (limit.steps, limit.ends)
    };
    assert_eq!(made(""), (999, LimitEnds::Truncated));
    assert_eq!(made("preset = \"warpdrive\""), (1000, LimitEnds::Terminated));
    assert_eq!(made("preset = \"warpdrive\"\nepisode_length = 3"), (3, LimitEnds::Terminated));
}

#[test]
fn the_limit_ends_an_idle_episode() {
    let ended = |preset, steps: u32| {
        let mut one = at(-0.5, 0.0, &ContinuousMountainCarConfig { preset, ..Default::default() });
        (1..steps).for_each(|_| assert_eq!(push(&mut one, 0.0), ON));
        let ended = push(&mut one, 0.0);
        assert_eq!(one.reward(0), [0.0]);
        ended
    };
    assert_eq!(ended(Preset::Gymnasium, 999), Ended { terminated: false, truncated: true });
    assert_eq!(ended(Preset::WarpDrive, 1000), GOAL);
}

#[test]
fn starts_at_rest_near_the_floor() {
    let mut one = at(0.0, 0.0, &ContinuousMountainCarConfig::default());
    for _ in 0..100 {
        push(&mut one, 0.0);
        one.reset();
        assert!((-0.6..=-0.4).contains(&one.obs(0)[0]) && one.obs(0)[1] == 0.0);
    }
}

#[test]
fn bad_values_are_refused_in_a_sentence() {
    let refused = |text: &str| {
        let config = ContinuousMountainCarConfig::from_table(&text.parse().unwrap());
        config.and_then(|c| ContinuousMountainCar::new(&c)).unwrap_err().to_string()
    };
    assert!(refused("episode_length = 0").starts_with("episode_length = 0: "));
    assert!(refused("goal_velocity = -0.1").starts_with("goal_velocity = -0.1: "));
    assert!(refused("preset = \"gym\"").contains("one of \"gymnasium\", \"warpdrive\""));
}

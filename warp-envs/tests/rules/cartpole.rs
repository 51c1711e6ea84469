//! CartPole against its rules.

use warp_core::single::{GroupAction, Single};
use warp_core::{Config, Env};
use warp_envs::cartpole::*;
use warp_envs::{Preset, VecOptions, registry};

#[test]
fn keeps_the_contract() {
    registry().get("cartpole").unwrap().check(&Default::default(), 7).unwrap();
}

#[test]
fn one_step_from_rest_follows_the_equations() {
    let mut one = Single::new(CartPole::new(&CartPoleConfig::default()).unwrap(), 0).unwrap();
    one.edit(|state| *state = CartPoleState::default());
    one.step(&[GroupAction::Discrete(vec![1])]).unwrap();
    // From rest, upright: temp = 10 / 1.1, theta'' = -temp / (0.5 (4/3 - 0.1 / 1.1)).
    let temp = 10.0 / 1.1;
    let theta_acc = -temp / (0.5 * (4.0 / 3.0 - 0.1 / 1.1));
    let x_acc = temp - 0.05 * theta_acc / 1.1;
    let expected = [0.0, 0.02 * x_acc, 0.0, 0.02 * theta_acc];
    for (seen, expected) in one.obs(0).iter().zip(expected) {
        assert!((f64::from(*seen) - expected).abs() < 1e-6, "{seen} {expected}");
    }
}

#[test]
fn the_limit_truncates_by_default_and_terminates_as_warpdrive() {
    let ended = |preset| {
        let config = CartPoleConfig { preset, episode_length: 3, ..Default::default() };
        let mut one = Single::new(CartPole::new(&config).unwrap(), 0).unwrap();
        let left = [GroupAction::Discrete(vec![0])];
        one.step(&left).unwrap();
        one.step(&left).unwrap();
        let ended = one.step(&left).unwrap();
        (ended.terminated, ended.truncated)
    };
    assert_eq!(ended(Preset::Gymnasium), (false, true));
    assert_eq!(ended(Preset::WarpDrive), (true, false));
}

#[test]
fn starts_are_fresh_unless_fixed() {
    let start = |start| {
        let options = VecOptions { n_envs: 100, start, ..Default::default() };
        let envs = registry().get("cartpole").unwrap().make(&Default::default(), &options).unwrap();
        let obs = envs.store().get::<f32>("obs.pole").unwrap().to_vec();
        assert!(obs.iter().all(|x| x.abs() <= 0.05));
        obs.chunks(4).filter(|row| *row == &obs[..4]).count()
    };
    assert_eq!(start(warp_envs::Start::Fresh), 1);
    assert_eq!(start(warp_envs::Start::Fixed), 100);
}

#[test]
fn bad_values_are_refused_in_a_sentence() {
    let refused = |text: &str| {
        let config = CartPoleConfig::from_table(&text.parse().unwrap());
        config.and_then(|c| CartPole::new(&c)).unwrap_err().to_string()
    };
    assert!(refused("episode_length = 0").starts_with("episode_length = 0: "));
    assert!(refused("start_range = 1.5").starts_with("start_range = 1.5: "));
    assert!(refused("preset = \"gym\"").contains("one of \"gymnasium\", \"warpdrive\""));
    assert!(refused("episode_lenght = 5").contains("nearest known key is \"episode_length\""));
}

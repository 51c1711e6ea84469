//! Pendulum against its rules.

use warp_core::single::{Ended, GroupAction, Single};
use warp_core::{Config, Env, LimitEnds};
use warp_envs::pendulum::*;
use warp_envs::{Preset, registry};

fn at(theta: f32, theta_dot: f32, config: &PendulumConfig) -> Single<Pendulum> {
    let mut one = Single::new(Pendulum::new(config).unwrap(), 0).unwrap();
    one.edit(|state| *state = PendulumState { theta, theta_dot });
    one
}

fn push(one: &mut Single<Pendulum>, torque: f32) -> Ended {
    one.step(&[GroupAction::Continuous(vec![torque])]).unwrap()
}

fn assert_near(seen: &[f32], expected: &[f64]) {
    for (seen, expected) in seen.iter().zip(expected) {
        assert!((f64::from(*seen) - expected).abs() < 1e-6, "{seen} {expected}");
    }
}

#[test]
fn keeps_the_contract() {
    for text in ["", "preset = \"warpdrive\"", "gravity = 0.0"] {
        registry().get("pendulum").unwrap().check(&text.parse().unwrap(), 7).unwrap();
    }
}

#[test]
fn one_step_follows_the_equations() {
    let mut one = at(1.0, 0.5, &PendulumConfig::default());
    push(&mut one, 2.0);
    let theta_dot = 0.5 + (15.0 * 1f64.sin() + 3.0 * 2.0) * 0.05;
    let theta = 1.0 + theta_dot * 0.05;
    assert_near(one.obs(0), &[theta.cos(), theta.sin(), theta_dot]);
    // The cost is that of the state before the step.
    assert_near(one.reward(0), &[-(1.0 + 0.1 * 0.25 + 0.001 * 4.0)]);
}

#[test]
fn torque_and_speed_are_clipped() {
    let mut one = at(0.0, 7.9, &PendulumConfig::default());
    push(&mut one, 50.0);
    assert_eq!(one.obs(0)[2], 8.0);
    assert_near(one.reward(0), &[-(0.1 * 7.9 * 7.9 + 0.001 * 4.0)]);
    let mut one = at(0.0, -7.9, &PendulumConfig::default());
    push(&mut one, -50.0);
    assert_eq!(one.obs(0)[2], -8.0);
}

#[test]
fn whole_turns_do_not_matter() {
    let turned = 1.0 + 3.0 * std::f64::consts::TAU;
    let mut one = at(turned as f32, 0.0, &PendulumConfig::default());
    push(&mut one, 0.0);
    // Floats near 19.8 are 1.9e-6 apart.
    assert!((one.reward(0)[0] + 1.0).abs() < 4e-6, "{}", one.reward(0)[0]);
    // However long it turns, the angle stays small enough to be accurate.
    let mut one = at(0.0, 8.0, &PendulumConfig { gravity: Some(0.0), ..Default::default() });
    (0..2_000).for_each(|_| assert!(!push(&mut one, 2.0).terminated));
    one.edit(|state| assert!(state.theta.abs() < std::f32::consts::TAU));
}

#[test]
fn presets_set_what_is_unset() {
    let made = |text: &str| {
        let config = PendulumConfig::from_table(&text.parse().unwrap()).unwrap();
        let env = Pendulum::new(&config).unwrap();
        (env.spec().time_limit.steps, env.spec().time_limit.ends, env.params().gravity)
    };
    assert_eq!(made(""), (200, LimitEnds::Truncated, 10.0));
    assert_eq!(made("preset = \"warpdrive\""), (500, LimitEnds::Terminated, 9.81));
    let explicit = "preset = \"warpdrive\"\nepisode_length = 3\ngravity = 1.6";
    assert_eq!(made(explicit), (3, LimitEnds::Terminated, 1.6));
}

#[test]
fn only_the_limit_ends_an_episode() {
    let ended = |preset, steps: u32| {
        let mut one = at(0.0, 0.0, &PendulumConfig { preset, ..Default::default() });
        for _ in 1..steps {
            assert_eq!(push(&mut one, 0.1), Ended { terminated: false, truncated: false });
        }
        push(&mut one, 0.1)
    };
    assert_eq!(ended(Preset::Gymnasium, 200), Ended { terminated: false, truncated: true });
    assert_eq!(ended(Preset::WarpDrive, 500), Ended { terminated: true, truncated: false });
}

#[test]
fn starts_cover_the_circle() {
    let mut one = Single::new(Pendulum::new(&PendulumConfig::default()).unwrap(), 3).unwrap();
    let mut seen = Vec::new();
    for _ in 0..1_000 {
        push(&mut one, 0.0);
        one.reset();
        one.edit(|state| seen.push((state.theta, state.theta_dot)));
    }
    let inside =
        |(theta, speed): &(f32, f32)| theta.abs() <= std::f32::consts::PI && speed.abs() <= 1.0;
    assert!(seen.iter().all(inside));
    assert!(seen.iter().any(|s| s.0 > 3.1) && seen.iter().any(|s| s.0 < -3.1));
    assert!(seen.iter().any(|s| s.1 > 0.98) && seen.iter().any(|s| s.1 < -0.98));
}

#[test]
fn bad_values_are_refused_in_a_sentence() {
    let refused = |text: &str| {
        let config = PendulumConfig::from_table(&text.parse().unwrap());
        config.and_then(|c| Pendulum::new(&c)).unwrap_err().to_string()
    };
    assert!(refused("episode_length = 0").starts_with("episode_length = 0: "));
    assert!(refused("gravity = -9.81").starts_with("gravity = -9.81: "));
    assert!(refused("gravity = nan").starts_with("gravity = nan: expected a finite number"));
    assert!(refused("preset = \"gym\"").contains("one of \"gymnasium\", \"warpdrive\""));
    assert!(refused("g = 9.81").starts_with("unknown key \"g\""));
}

//! Acrobot against its rules.

use std::f32::consts::{FRAC_PI_2, PI};
use warp_core::single::{Ended, GroupAction, Single};
use warp_core::{Config, Env, LimitEnds};
use warp_envs::acrobot::*;
use warp_envs::{Preset, registry};

const ON: Ended = Ended { terminated: false, truncated: false };

fn at([theta1, theta2, theta1_dot, theta2_dot]: [f32; 4]) -> Single<Acrobot> {
    let mut one = Single::new(Acrobot::new(&AcrobotConfig::default()).unwrap(), 0).unwrap();
    one.edit(|state| *state = AcrobotState { theta1, theta2, theta1_dot, theta2_dot });
    one
}

fn turn(one: &mut Single<Acrobot>, action: i32) -> Ended {
    one.step(&[GroupAction::Discrete(vec![action])]).unwrap()
}

/// The book's equations in f64, written down once more, with the numbers put in.
fn derivative(s: [f64; 4], torque: f64) -> [f64; 4] {
    let [t1, t2, w1, w2] = s;
    let half_turn = std::f64::consts::FRAC_PI_2;
    let d1 = 0.25 + (1.25 + t2.cos()) + 2.0;
    let d2 = 0.25 + 0.5 * t2.cos() + 1.0;
    let phi2 = 0.5 * 9.8 * (t1 + t2 - half_turn).cos();
    let phi1 =
        -0.5 * w2 * w2 * t2.sin() - w2 * w1 * t2.sin() + 1.5 * 9.8 * (t1 - half_turn).cos() + phi2;
    let a2 = (torque + d2 / d1 * phi1 - 0.5 * w1 * w1 * t2.sin() - phi2) / (1.25 - d2 * d2 / d1);
    [w1, w2, -(d2 * a2 + phi1) / d1, a2]
}

fn runge_kutta(s: [f64; 4], torque: f64) -> [f64; 4] {
    let moved = |k: [f64; 4], t: f64| [0, 1, 2, 3].map(|i| s[i] + t * k[i]);
    let k1 = derivative(s, torque);
    let k2 = derivative(moved(k1, 0.1), torque);
    let k3 = derivative(moved(k2, 0.1), torque);
    let k4 = derivative(moved(k3, 0.2), torque);
    [0, 1, 2, 3].map(|i| s[i] + 0.2 / 6.0 * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]))
}

#[test]
fn keeps_the_contract() {
    for text in ["", "preset = \"warpdrive\"", "start_range = 0.0"] {
        registry().get("acrobot").unwrap().check(&text.parse().unwrap(), 7).unwrap();
    }
}

#[test]
fn at_rest_the_motor_alone_turns_the_links() {
    // Hanging straight: d1 = 4.5, d2 = 1.75, so theta2'' = 1 / (1.25 - 1.75^2 / 4.5).
    let acc2 = 1.0 / (1.25 - 1.75 * 1.75 / 4.5);
    let expected = [0.0, 0.0, -1.75 * acc2 / 4.5, acc2];
    for (seen, expected) in derivative([0.0; 4], 1.0).iter().zip(expected) {
        assert!((seen - expected).abs() < 1e-15, "{seen} {expected}");
    }
    let mut one = at([0.0; 4]);
    assert_eq!(turn(&mut one, 1), ON);
    assert_eq!(one.obs(0), [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(one.reward(0), [-1.0]);
}

#[test]
fn one_step_follows_the_equations() {
    for (action, torque) in [(0, -1.0), (1, 0.0), (2, 1.0)] {
        for start in [[0.0; 4], [0.4, -0.7, 0.9, -1.3], [-1.2, 2.5, -2.0, 3.0]] {
            let mut one = at(start);
            turn(&mut one, action);
            let [t1, t2, w1, w2] = runge_kutta(start.map(f64::from), torque);
            let expected = [t1.cos(), t1.sin(), t2.cos(), t2.sin(), w1, w2];
            for (seen, expected) in one.obs(0).iter().zip(expected) {
                assert!((f64::from(*seen) - expected).abs() < 4e-6, "{seen} {expected}");
            }
        }
    }
}

#[test]
fn angles_are_wrapped_and_speeds_clipped() {
    // Start, and the signs of both velocities after the step, which unclipped are far larger.
    for (start, signs) in
        [([-2.6, -1.2, 11.7, 21.0], [1.0, -1.0]), ([0.3, 2.8, 6.5, 26.5], [-1.0, 1.0])]
    {
        let [t1, t2, w1, w2] = runge_kutta(start.map(f64::from), 0.0);
        assert!(w1.abs() > 6.0 * f64::from(PI) && w2.abs() > 13.0 * f64::from(PI));
        let mut one = at(start);
        turn(&mut one, 1);
        one.edit(|state| {
            assert_eq!(state.theta1_dot, signs[0] * 4.0 * PI);
            assert_eq!(state.theta2_dot, signs[1] * 9.0 * PI);
            for (seen, expected) in [(state.theta1, t1), (state.theta2, t2)] {
                let turns = (f64::from(seen) - expected) / std::f64::consts::TAU;
                assert!(
                    seen.abs() <= PI && (turns - turns.round()).abs() < 1e-6,
                    "{seen} {expected}"
                );
            }
        });
    }
}

#[test]
fn the_tip_above_the_bar_ends_it_for_nothing() {
    // Upright at rest the tip stands at height 2; with both links level it stands at 0.
    let mut one = at([PI, 0.0, 0.0, 0.0]);
    assert_eq!(turn(&mut one, 1), Ended { terminated: true, truncated: false });
    assert_eq!(one.reward(0), [0.0]);
    let mut one = at([FRAC_PI_2, 0.0, 0.0, 0.0]);
    assert_eq!(turn(&mut one, 1), ON);
    assert_eq!(one.reward(0), [-1.0]);
}

#[test]
fn the_limit_truncates_by_default_and_terminates_as_warpdrive() {
    let ended = |preset| {
        let config = AcrobotConfig { preset, start_range: 0.0, ..Default::default() };
        let mut one = Single::new(Acrobot::new(&config).unwrap(), 0).unwrap();
        (1..500).for_each(|_| assert_eq!(turn(&mut one, 1), ON));
        turn(&mut one, 1)
    };
    assert_eq!(ended(Preset::Gymnasium), Ended { terminated: false, truncated: true });
    assert_eq!(ended(Preset::WarpDrive), Ended { terminated: true, truncated: false });
    let short = AcrobotConfig { episode_length: 3, ..Default::default() };
    let limit = Acrobot::new(&short).unwrap().spec().time_limit;
    assert_eq!((limit.steps, limit.ends), (3, LimitEnds::Truncated));
}

#[test]
fn starts_lie_within_their_range() {
    let mut one = at([0.0; 4]);
    let mut widest = 0.0f32;
    for _ in 0..100 {
        turn(&mut one, 1);
        one.reset();
        one.edit(|s| {
            let values = [s.theta1, s.theta2, s.theta1_dot, s.theta2_dot];
            widest = values.iter().fold(widest, |w, v| w.max(v.abs()));
        });
    }
    assert!((0.09..=0.1).contains(&widest), "{widest}");
}

#[test]
fn bad_values_are_refused_in_a_sentence() {
    let refused = |text: &str| {
        let config = AcrobotConfig::from_table(&text.parse().unwrap());
        config.and_then(|c| Acrobot::new(&c)).unwrap_err().to_string()
    };
    assert!(refused("episode_length = 0").starts_with("episode_length = 0: "));
    assert!(refused("start_range = 1.6").starts_with("start_range = 1.6: "));
    assert!(refused("start_range = -0.1").starts_with("start_range = -0.1: "));
    assert!(refused("preset = \"gym\"").contains("one of \"gymnasium\", \"warpdrive\""));
}

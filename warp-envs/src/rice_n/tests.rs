//! RICE-N against its rules; recorded trajectories are replayed by `warp replay`.

use super::*;
use warp_core::Config;
use warp_core::single::{GroupAction, Single};

fn world(text: &str) -> Single<RiceN> {
    let config = RiceNConfig::from_table(&text.parse().unwrap()).unwrap();
    Single::new(RiceN::new(&config).unwrap(), 0).unwrap()
}

/// All regions do the same: savings, mitigation, export share, tariffs, imports; then 0.
fn alike(one: &Single<RiceN>, choices: [i32; 5]) -> Vec<i32> {
    let heads = one.env().heads().len();
    let [savings, mitigation, export, tariff, import] = choices;
    let mut own = vec![savings, mitigation, export];
    own.extend([tariff; N_REGIONS]);
    own.extend([import; N_REGIONS]);
    own.resize(heads, 0);
    own.repeat(N_REGIONS)
}

fn step(one: &mut Single<RiceN>, actions: Vec<i32>) -> (Vec<f32>, bool) {
    let ended = one.step(&[GroupAction::Discrete(actions)]).unwrap();
    (one.reward(0).to_vec(), ended.terminated)
}

/// The utility of all over an episode in which all do the same, and the warmth at its end.
fn episode(choices: [i32; 5]) -> (f32, f32) {
    let mut one = world("");
    let actions = alike(&one, choices);
    (0..N_ACTIVITIES).for_each(|_| {
        step(&mut one, actions.clone());
    });
    (one.statistics()[0], one.statistics()[1])
}

#[test]
fn without_trade_a_region_keeps_what_it_does_not_invest() {
    let mut one = world("");
    let actions = alike(&one, [2, 0, 0, 0, 0]);
    let (reward, _) = step(&mut one, actions);
    // Region 24, by hand from its figures, in f64.
    let figures = &regions::REGIONS[24];
    let people = figures.labor / 1000.0;
    let production = figures.technology * figures.capital.powf(0.3) * people.powf(0.7);
    let output = production / (1.0 + 0.00236 * 0.85 * 0.85);
    let consumption = 0.25 * 0.8 * output;
    let utility = people * ((consumption / people + 1.0).powf(-0.45) - 1.0) / -0.45;
    assert!((f64::from(reward[24]) - utility).abs() < 1e-5, "{} {utility}", reward[24]);
    let capital = 0.9_f64.powi(5) * figures.capital + 5.0 * 0.2 * output;
    one.edit(|state| {
        assert!((f64::from(state.capital[24]) - capital).abs() < 1e-4);
        assert!(state.current_balance.iter().all(|balance| *balance == 0.0));
    });
}

#[test]
fn what_is_imported_is_exported_and_goods_are_shared_fairly() {
    let mut one = world("");
    let actions = alike(&one, [1, 0, 9, 0, 1]);
    step(&mut one, actions);
    one.edit(|state| {
        let sum: f32 = state.current_balance.iter().sum();
        let traded: f32 = state.current_balance.iter().map(|balance| balance.abs()).sum();
        assert!(sum.abs() < 1e-4 * traded && traded > 1.0, "{sum} of {traded}");
        for i in 0..N_REGIONS {
            let least = -5.0 * state.gross_output[i];
            assert!(state.current_balance[i] >= least * 1.000_01, "region {i} imports too much");
        }
    });
}

#[test]
fn debt_ends_imports() {
    let mut one = world("");
    let actions = alike(&one, [1, 0, 9, 0, 9]);
    one.edit(|state| state.current_balance[0] = -state.capital[0]);
    step(&mut one, actions);
    // It imports nothing, and others from it: the debt grows by a tenth and shrinks by exports.
    one.edit(|state| assert!(state.current_balance[0] > -1.1 * 0.239_419_6));
}

#[test]
fn tariffs_act_a_step_later() {
    let run = |tariff: [i32; 2]| {
        let mut one = world("");
        tariff.map(|tariff| {
            let actions = alike(&one, [2, 0, 5, tariff, 3]);
            step(&mut one, actions).0
        })
    };
    let (free, taxed) = (run([0, 0]), run([9, 0]));
    assert_eq!(free[0], taxed[0]);
    // Who is in debt imports nothing, and pays no tariffs.
    assert!((0..N_REGIONS).all(|i| taxed[1][i] <= free[1][i]) && taxed[1] != free[1]);
}

#[test]
fn the_yardstick_is_what_the_documentation_says() {
    let (utility, warmth) = episode([3, 0, 3, 0, 1]);
    assert!((utility - 151.0).abs() < 0.05 && (warmth - 6.5).abs() < 0.05, "{utility} {warmth}");
    // Nobody trades, which is better than to let others buy everything.
    let (utility, warmth) = episode([3, 0, 0, 0, 0]);
    assert!((utility - 166.3).abs() < 0.05, "{utility} {warmth}");
}

#[test]
fn mitigation_cools_and_costs() {
    let (free, warm) = episode([3, 0, 3, 0, 1]);
    let (clean, cool) = episode([3, 9, 3, 0, 1]);
    assert!(warm > cool + 0.5 && free > clean, "{warm} {cool} {free} {clean}");
}

#[test]
fn agreements_bind_the_mask() {
    let mut one = world("negotiation_on = true");
    let heads = one.env().heads().len();
    let mut actions = vec![0; N_REGIONS * heads];
    // Region 1 promises 7 / 10 to region 2 and requests 4 / 10 from it; it promises 9 / 10 to itself.
    for (head, level) in [(57 + 2 * 2, 7), (58 + 2 * 2, 4), (57 + 2, 9)] {
        actions[heads + head] = level;
    }
    let (reward, _) = step(&mut one, actions);
    assert!(reward.iter().all(|reward| *reward == 0.0));
    let mut answers = vec![0; N_REGIONS * heads];
    answers[2 * heads + 57 + 54 + 1] = 1;
    answers[heads + 57 + 54 + 1] = 1;
    step(&mut one, answers);
    let width: usize = one.env().heads().iter().sum();
    let allowed = |one: &Single<RiceN>, region: usize| {
        let mask = &one.action_mask(0)[region * width..(region + 1) * width];
        assert_eq!(
            mask.iter().filter(|m| **m == 0).count(),
            10 - mask[10..20].iter().filter(|m| **m == 1).count()
        );
        mask[10..20].iter().position(|m| *m == 1).unwrap()
    };
    assert_eq!([0, 1, 2].map(|region| allowed(&one, region)), [0, 7, 4]);
    let (reward, _) = step(&mut one, vec![0; N_REGIONS * heads]);
    assert!(reward.iter().all(|reward| *reward > 0.0));
    assert_eq!([0, 1, 2].map(|region| allowed(&one, region)), [0, 7, 4]);
}

#[test]
fn episodes_have_twenty_activities() {
    for (text, steps) in [("", 20), ("negotiation_on = true", 60)] {
        let mut one = world(text);
        let actions = vec![0; N_REGIONS * one.env().heads().len()];
        let ended: Vec<bool> = (0..steps).map(|_| step(&mut one, actions.clone()).1).collect();
        assert_eq!(ended.iter().position(|ended| *ended), Some(steps - 1));
    }
}

#[test]
fn bad_values_are_refused_in_a_sentence() {
    let refused = |text: &str| {
        let config = RiceNConfig::from_table(&text.parse().unwrap());
        config.and_then(|c| RiceN::new(&c)).unwrap_err().to_string()
    };
    let start = "num_discrete_action_levels = 1: ";
    assert!(refused("num_discrete_action_levels = 1").starts_with(start));
    assert!(refused("negotiation_on = 3").contains("negotiation_on"));
}

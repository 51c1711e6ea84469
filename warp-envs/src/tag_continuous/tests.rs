//! Tag on a plane against its rules, and its search for neighbours against a plain one.

use super::*;
use crate::{CpuVecEnv, VecEnv, VecOptions};
use std::f32::consts::{FRAC_PI_2, FRAC_PI_4, TAU};
use warp_core::single::{Ended, GroupAction, Single};
use warp_core::{Config, Purpose};

fn make(text: &str) -> Single<TagContinuous> {
    let config = TagContinuousConfig::from_table(&text.parse().unwrap()).unwrap();
    Single::new(TagContinuous::new(&config).unwrap(), 5).unwrap()
}

/// Moves everyone: (acceleration, turn) per agent; returns all rewards.
fn play(one: &mut Single<TagContinuous>, actions: &[[i32; 2]]) -> (Vec<f32>, Ended) {
    let n_taggers = one.spec().groups[TAGGER].n_agents;
    let (taggers, runners) = actions.split_at(n_taggers);
    let heads = |actions: &[[i32; 2]]| GroupAction::Discrete(actions.as_flattened().to_vec());
    let ended = one.step(&[heads(taggers), heads(runners)]).unwrap();
    ([one.reward(TAGGER), one.reward(RUNNER)].concat(), ended)
}

fn close(seen: &[f32], expected: &[f32]) {
    let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5;
    let same = seen.len() == expected.len() && seen.iter().zip(expected).all(near);
    assert!(same, "{seen:?} {expected:?}");
}

/// Two runners beside each other and a tagger behind the wall of their nearness; headings along x.
const TRIO: &str = "num_taggers = 1\nnum_runners = 2\ngrid_length = 10\nepisode_length = 4\n\
    starting_location_x = [5.0, 5.2, 5.1]\nstarting_location_y = [5.0, 5.0, 5.0]\n\
    starting_directions = [0.0, 0.0, 0.0]\nstep_penalty_for_tagger = -0.25\n\
    step_reward_for_runner = 0.125\nend_of_game_reward_for_runner = 8\ntag_penalty_for_runner = -3\n\
    tag_reward_for_tagger = 2\n";

#[test]
fn motion_follows_the_equations() {
    let mut one = make(&format!(
        "{TRIO}tagging_distance = 0\nmax_speed = 0.5\nskill_level_tagger = 2\n\
         num_acceleration_levels = 3\nnum_turn_levels = 3"
    ));
    // Levels: acceleration 0, -1, 0, 1; turn 0, -pi / 2, 0, pi / 2.
    play(&mut one, &[[3, 3], [3, 1], [1, 0]]);
    one.edit(|state| {
        // The tagger reaches its limit of 1, runner 1 its of 0.5: no acceleration is left.
        close(state.speed, &[1.0, 0.5, 0.0]);
        close(state.acceleration, &[0.0, 0.0, 0.0]);
        close(state.direction, &[FRAC_PI_2, 3.0 * FRAC_PI_2, 0.0]);
        close(state.loc_x, &[5.0, 5.2, 5.1]);
        close(state.loc_y, &[6.0, 4.5, 5.0]);
        state.speed[0] = 0.25;
        state.loc_x[1] = 0.25;
        state.direction[1] = 3.0;
        state.speed[1] = 0.5;
    });
    play(&mut one, &[[2, 0], [0, 0], [0, 0]]);
    one.edit(|state| {
        close(&state.loc_y[..1], &[6.25]);
        close(&state.speed[..1], &[0.25]);
        // Over the left edge, and back onto it; direction and speed stay.
        assert_eq!(state.loc_x[1], 0.0);
        close(&state.direction[1..2], &[3.0]);
        assert_eq!(*state.timestep, 2);
    });
}

#[test]
fn an_edge_costs_once_per_step_and_only_who_crosses_it() {
    let mut one = make("num_taggers = 1\nnum_runners = 1\nedge_hit_penalty = -0.5");
    one.edit(|state| {
        state.loc_x.copy_from_slice(&[10.0, 9.5]);
        state.loc_y.copy_from_slice(&[10.0, 5.0]);
        state.direction.fill(FRAC_PI_4);
        state.speed.copy_from_slice(&[0.5, 0.5]);
    });
    let (rewards, _) = play(&mut one, &[[0, 0], [0, 0]]);
    close(&rewards, &[-0.5, 0.0]);
}

#[test]
fn tags_add_up_and_end_the_game() {
    let mut one = make(&format!("{TRIO}tagging_distance = 0.05"));
    let (rewards, ended) = play(&mut one, &[[0, 0]; 3]);
    close(&rewards, &[-0.25 + 4.0, 0.125 - 3.0, 0.125 - 3.0]);
    assert_eq!(ended, Ended { terminated: true, truncated: false });
    assert_eq!((one.statistics(), one.alive(RUNNER)), (&[2.0][..], &[0, 0][..]));
    assert!(one.alive(TAGGER).is_empty());
    // What a tagged runner sees at last is its last moment in the game.
    let width = 7 * 2 + 1;
    let last = &one.obs(RUNNER)[..width];
    close(&last[10..], &[1.0, 0.0, 1.0, 1.0, 0.25]);
    let (rewards, _) = play(&mut one, &[[0, 0]; 3]);
    close(&rewards, &[-0.25, 0.0, 0.0]);
    let gone = &one.obs(RUNNER)[..width];
    close(&gone[..10], &[0.0; 10]);
    close(&gone[10..], &[1.0, 0.0, 1.0, 0.0, 0.0]);
}

#[test]
fn a_runner_that_stays_is_tagged_again_and_paid_at_the_end() {
    let text = format!("{TRIO}tagging_distance = 0.011\nrunner_exits_game_after_tagged = false");
    let mut one = make(&text);
    for _ in 0..3 {
        let (rewards, ended) = play(&mut one, &[[0, 0]; 3]);
        close(&rewards, &[-0.25 + 2.0, 0.125, 0.125 - 3.0]);
        assert!(!ended.terminated);
    }
    let (rewards, ended) = play(&mut one, &[[0, 0]; 3]);
    close(&rewards, &[-0.25 + 2.0, 0.125 + 8.0, 0.125 - 3.0 + 8.0]);
    assert!(ended.terminated && one.alive(RUNNER).is_empty());
    assert_eq!(one.statistics(), [4.0]);
}

#[test]
fn a_runner_removed_in_the_last_step_gets_no_end_reward() {
    let mut one = make(&format!("{TRIO}tagging_distance = 0.011"));
    one.edit(|state| *state.timestep = 3);
    let (rewards, ended) = play(&mut one, &[[0, 0]; 3]);
    close(&rewards, &[-0.25 + 2.0, 0.125 + 8.0, 0.125 - 3.0]);
    assert!(ended.terminated);
    assert_eq!(one.alive(RUNNER), [1, 0]);
}

#[test]
fn of_two_taggers_the_nearest_and_then_the_first_gets_the_reward() {
    let mut one = make("num_taggers = 3\nnum_runners = 2\ntagging_distance = 0.05");
    one.edit(|state| {
        state.loc_x.copy_from_slice(&[4.0, 4.25, 4.25, 4.5, 4.125]);
        state.loc_y.fill(5.0);
    });
    let (rewards, _) = play(&mut one, &[[0, 0]; 5]);
    close(&rewards, &[1.0, 1.0, 0.0, -1.0, -1.0]);
}

/// What the agent sees, written down as the rules say it.
fn plain_observation(
    env: &TagContinuous,
    state: &TagContinuousState<'_>,
    agent: usize,
    k: Option<usize>,
) -> Vec<f32> {
    let (params, n) = (&env.params, state.loc_x.len());
    let searching = state.was_in_the_game[agent] != 0;
    let mut others: Vec<usize> = (0..n).filter(|other| *other != agent).collect();
    if k.is_some() {
        others.retain(|other| searching && state.was_in_the_game[*other] != 0);
        let distance = |other: &usize| {
            let dx = state.loc_x[*other] - state.loc_x[agent];
            let dy = state.loc_y[*other] - state.loc_y[agent];
            dx * dx + dy * dy
        };
        // A stable sort: of equally distant ones the lowest number stays first.
        others.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
    }
    let shown = k.unwrap_or(n - 1);
    let mut seen = vec![0.0; FEATURES * shown + 1];
    for (slot, other) in others.into_iter().take(shown).enumerate() {
        let relative = [
            (&state.loc_x, params.location_scale),
            (&state.loc_y, params.location_scale),
            (&state.speed, params.speed_scale),
            (&state.acceleration, params.speed_scale),
            (&state.direction, 1.0 / TAU),
        ];
        for (block, (values, scale)) in relative.iter().enumerate() {
            let difference = values[other] - values[agent];
            seen[block * shown + slot] = if searching { difference * scale } else { 0.0 };
        }
        seen[5 * shown + slot] = f32::from(other < params.n_taggers as usize);
        seen[6 * shown + slot] = state.was_in_the_game[other] as f32;
    }
    let time = *state.timestep as f32 / params.episode_length as f32;
    seen[FEATURES * shown] = if searching { time } else { 0.0 };
    seen
}

/// A random state; places on `cells` per side, so that few of them make many equal distances.
fn scatter(state: &mut TagContinuousState<'_>, draw: &mut Draw, cells: u32, out_of: u32) {
    for agent in 0..state.loc_x.len() {
        state.loc_x[agent] = draw.below(cells) as f32 * (10.0 / cells as f32);
        state.loc_y[agent] = draw.below(cells) as f32 * (10.0 / cells as f32);
        state.speed[agent] = draw.uniform();
        state.acceleration[agent] = draw.uniform_in(-1.0, 1.0);
        state.direction[agent] = draw.uniform_in(0.0, TAU);
        state.was_in_the_game[agent] = i32::from(draw.below(out_of) != 0);
    }
    *state.timestep = draw.below(100) as i32;
}

#[test]
fn observations_equal_plain_ones_for_any_number_of_agents_and_neighbours() {
    let mut draw = Draw::new(11, 0, 0, Purpose::Shuffle);
    for n in [2, 3, 5, 16, 17, 33, 105, 128, 129, 300] {
        for k in [None, Some(0), Some(1), Some(3), Some(10), Some(11), Some(25), Some(n)] {
            if k.is_some_and(|k| k > n) {
                continue;
            }
            let n_taggers = 1 + draw.below(n as u32 - 1);
            let mut one = make(&format!(
                "num_taggers = {n_taggers}\nnum_runners = {}\nuse_full_observation = {}\n\
                 num_other_agents_observed = {}",
                n as u32 - n_taggers,
                k.is_none(),
                k.unwrap_or(2),
            ));
            for (cells, out_of) in [(1 << 20, 1 << 20), (1 << 20, 2), (5, 3), (1, 4), (60, 9)] {
                let mut expected = Vec::new();
                let env = one.env().clone();
                one.edit(|state| {
                    scatter(state, &mut draw, cells, out_of);
                    let plain = |agent| plain_observation(&env, state, agent, k);
                    expected = (0..n).flat_map(plain).collect::<Vec<f32>>();
                });
                let seen = [one.obs(TAGGER), one.obs(RUNNER)].concat();
                // `==` and not bits: a difference times 0 may be -0.
                let differs = seen.iter().zip(&expected).position(|(a, b)| a != b);
                assert_eq!((differs, seen.len()), (None, expected.len()), "{n} {k:?} {cells}");
            }
        }
    }
}

#[test]
fn the_executor_and_a_single_replica_agree_bit_for_bit() {
    // The executor compiles the body for this machine's vector units, a single replica for none.
    let text = "num_taggers = 3\nnum_runners = 40\nuse_full_observation = false\n\
        num_other_agents_observed = 14\ntagging_distance = 0.02";
    let mut one = make(text);
    let options = VecOptions { seed: 5, ..Default::default() };
    let mut envs = CpuVecEnv::new(one.env().clone(), options).unwrap();
    let mut draw = Draw::new(2, 0, 0, Purpose::RandomAction);
    for _ in 0..50 {
        let actions: Vec<[i32; 2]> =
            (0..43).map(|_| [(); 2].map(|()| draw.below(11) as i32)).collect();
        play(&mut one, &actions);
        let (taggers, runners) = actions.split_at(3);
        for (name, heads) in [("action.tagger", taggers), ("action.runner", runners)] {
            envs.store_mut().push(name, heads.as_flattened()).unwrap();
        }
        envs.step().unwrap();
        for (group, name) in ["obs.tagger", "obs.runner"].into_iter().enumerate() {
            let bits = |row: &[f32]| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(envs.store().get(name).unwrap()), bits(one.obs(group)));
        }
    }
}

#[test]
fn tables_and_margin_are_those_of_the_original() {
    let env = |text: &str| make(text).env().clone();
    let few = env("num_acceleration_levels = 0\nnum_turn_levels = 1\nmin_turn = -0.5");
    assert_eq!(few.tables.acceleration_actions, [0.0]);
    assert_eq!(few.tables.turn_actions, [0.0, -0.5]);
    let some = env("num_acceleration_levels = 3\nmin_acceleration = -0.5");
    assert_eq!(some.tables.acceleration_actions, [0.0, -0.5, 0.25, 1.0]);
    // NumPy's linspace between two f32, in f64: the sixth of ten levels is not the nearest f32.
    assert_eq!(some.tables.turn_actions[5], -0.174_532_94);
    assert_eq!(some.tables.skill_levels.len(), 11);
    let margin = |distance: f32, length: u32| {
        let text = format!("tagging_distance = {distance}\ngrid_length = {length}");
        env(&text).params.distance_margin_for_reward
    };
    assert_eq!((margin(0.1, 4), margin(0.08, 6), margin(0.06, 5)), (0.4, 0.48, 0.3));
}

#[test]
fn starts_are_drawn_afresh_unless_given() {
    let config = TagContinuousConfig::default();
    let start = |replica| {
        let mut one = Single::replica(TagContinuous::new(&config).unwrap(), 1, replica).unwrap();
        let mut start = Vec::new();
        one.edit(|state| {
            let inside = |place: &f32| (0.0..=10.0).contains(place);
            assert!(state.loc_x.iter().chain(state.loc_y.iter()).all(inside));
            let quarters = state.direction.iter().map(|d| d / FRAC_PI_2);
            assert!(quarters.clone().all(|q| q == q.round() && (0.0..4.0).contains(&q)));
            assert_eq!((*state.num_runners, *state.timestep), (10, 0));
            start = [&*state.loc_x, &*state.loc_y, &*state.direction].concat();
        });
        start
    };
    assert_eq!(start(3), start(3));
    assert_ne!(start(3)[..11], start(4)[..11]);
    let directions: Vec<f32> = (0..40).flat_map(|replica| start(replica)[22..].to_vec()).collect();
    let along_x = directions.iter().filter(|d| **d == 0.0).count();
    assert!((80..140).contains(&along_x), "{along_x} of 440");
    make(TRIO).edit(|state| assert_eq!(state.loc_x, [5.0, 5.2, 5.1]));
}

#[test]
fn bad_values_are_refused_in_a_sentence() {
    let refused = |text: &str| {
        let config = TagContinuousConfig::from_table(&text.parse().unwrap());
        config.and_then(|c| TagContinuous::new(&c)).unwrap_err().to_string()
    };
    for text in [
        "num_taggers = 0",
        "num_runners = 0",
        "num_runners = 200000",
        "episode_length = 0",
        "grid_length = 0",
        "tagging_distance = 1.5",
        "edge_hit_penalty = 1",
        "tag_reward_for_tagger = -1",
        "step_penalty_for_tagger = 0.5",
        "tag_penalty_for_runner = 1",
        "step_reward_for_runner = -1",
        "end_of_game_reward_for_runner = -1",
        "max_speed = -1",
        "max_turn = 1e30",
        "num_other_agents_observed = 12",
    ] {
        let sentence = refused(text);
        let key = text.split(' ').next().unwrap();
        assert!(sentence.starts_with(key) && sentence.contains(": must "), "{sentence}");
    }
    assert!(refused("num_turn_levels = -1").contains("expected a whole number from 0"));
    assert!(refused("starting_location_y = [1.0]").starts_with("starting_location_x = unset"));
    let pair = "num_runners = 1\nstarting_location_x = [1.0, 2.0]\nstarting_location_y = ";
    assert!(refused(&format!("{pair}[1.0]")).contains("2 agents need 2 numbers"));
    assert!(refused(&format!("{pair}[1.0, 11.0]")).starts_with("starting_location_y = 11: "));
    let nan = TagContinuousConfig { max_acceleration: f64::NAN, ..Default::default() };
    assert!(TagContinuous::new(&nan).is_err());
}

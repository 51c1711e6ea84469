//! Tag on a grid against its rules.

use warp_core::single::{Ended, GroupAction, Single};
use warp_core::{Config, Env};
use warp_envs::registry;
use warp_envs::tag_gridworld::*;

/// Numbers of the groups.
const TAGGER: usize = 0;
const RUNNER: usize = 1;

fn make(text: &str) -> Single<TagGridworld> {
    let config = TagGridworldConfig::from_table(&text.parse().unwrap()).unwrap();
    Single::new(TagGridworld::new(&config).unwrap(), 5).unwrap()
}

/// Moves everyone, the runner last; returns all rewards.
fn play(one: &mut Single<TagGridworld>, actions: &[i32]) -> (Vec<f32>, Ended) {
    let (taggers, runner) = actions.split_at(actions.len() - 1);
    let given = [GroupAction::Discrete(taggers.to_vec()), GroupAction::Discrete(runner.to_vec())];
    let ended = one.step(&given).unwrap();
    ([one.reward(TAGGER), one.reward(RUNNER)].concat(), ended)
}

fn places(one: &mut Single<TagGridworld>) -> (Vec<i32>, Vec<i32>) {
    let mut places = Default::default();
    one.edit(|state| places = (state.loc_x.to_vec(), state.loc_y.to_vec()));
    places
}

fn close(seen: &[f32], expected: &[f32]) {
    let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-6;
    let same = seen.len() == expected.len() && seen.iter().zip(expected).all(near);
    assert!(same, "{seen:?} {expected:?}");
}

#[test]
fn keeps_the_contract() {
    for text in [
        "",
        "use_full_observation = false",
        "num_taggers = 1\ngrid_length = 1\nepisode_length = 3",
        "num_taggers = 33\ngrid_length = 30\nplacement = \"original\"",
        "num_taggers = 3\ngrid_length = 2\nplacement = \"original_pool\"",
        "num_taggers = 2\nstarting_location_x = [1, 2, 3]\nstarting_location_y = [9, 9, 0]",
    ] {
        registry().get("tag_gridworld").unwrap().check(&text.parse().unwrap(), 7).unwrap();
    }
}

const UNIT: &str = "num_taggers = 4\ngrid_length = 4\nepisode_length = 10\n";

#[test]
fn a_catch_rewards_the_team_and_walls_cost() {
    let start = "starting_location_x = [0, 0, 0, 0, 1]\nstarting_location_y = [0, 0, 0, 0, 1]";
    let mut one = make(&format!("{UNIT}{start}"));
    let (rewards, ended) = play(&mut one, &[2, 0, 3, 4, 2]);
    // The runner steps onto (0, 1), where the third tagger goes.
    close(&rewards, &[9.9, 10.0, 10.0, 9.9, -2.0]);
    assert_eq!(ended, Ended { terminated: true, truncated: false });
    assert_eq!(one.statistics(), [1.0]);
}

#[test]
fn two_steps_worked_out_by_hand() {
    let start = "starting_location_x = [1, 3, 3, 1, 0]\nstarting_location_y = [1, 1, 3, 3, 1]";
    let mut one = make(&format!("{UNIT}{start}"));
    let (rewards, ended) = play(&mut one, &[1, 3, 2, 4, 1]);
    close(&rewards, &[-0.01, -0.01, -0.01, -0.01, 0.01]);
    assert!(!ended.terminated);
    assert_eq!(places(&mut one), (vec![2, 3, 2, 1, 1], vec![1, 2, 3, 2, 1]));
    let row = &one.obs(TAGGER)[21..42];
    let x_and_y = [0.5, 0.75, 0.5, 0.25, 0.25, 0.25, 0.5, 0.75, 0.5, 0.25];
    close(&row[..10], &x_and_y);
    close(&row[10..], &[0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.1]);
    close(&one.obs(RUNNER)[10..], &[0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.1]);
    let (rewards, ended) = play(&mut one, &[2, 1, 0, 4, 0]);
    close(&rewards, &[10.0, 10.0, 10.0, 10.0, -2.0]);
    assert!(ended.terminated);
}

#[test]
fn every_wall_costs_its_penalty() {
    let start = "starting_location_x = [0, 4, 2, 2, 2]\nstarting_location_y = [2, 2, 4, 0, 2]";
    let mut one = make(&format!("{UNIT}{start}"));
    let (rewards, _) = play(&mut one, &[2, 1, 3, 4, 0]);
    close(&rewards, &[-0.11, -0.11, -0.11, -0.11, 0.01]);
    assert_eq!(places(&mut one), (vec![0, 4, 2, 2, 2], vec![2, 2, 4, 0, 2]));
}

#[test]
fn agents_that_swap_cells_pass_each_other() {
    let start = "starting_location_x = [1, 2]\nstarting_location_y = [1, 1]";
    let mut one = make(&format!("num_taggers = 1\nepisode_length = 2\n{start}"));
    let (rewards, ended) = play(&mut one, &[1, 2]);
    close(&rewards, &[-0.01, 0.01]);
    assert!(!ended.terminated);
    assert_eq!(one.statistics(), [0.0]);
    let (_, ended) = play(&mut one, &[0, 0]);
    // The time is over, which is part of the game.
    assert_eq!(ended, Ended { terminated: true, truncated: false });
}

#[test]
fn a_partial_observation_shows_the_runner_and_the_nearest_tagger() {
    let start = "starting_location_x = [10, 4, 6, 5]\nstarting_location_y = [0, 5, 5, 5]";
    let one = make(&format!("num_taggers = 3\nuse_full_observation = false\n{start}"));
    close(&one.obs(TAGGER)[..6], &[1.0, 0.0, 0.5, 0.5, 0.0, 0.0]);
    // Taggers 1 and 2 are equally near.
    close(one.obs(RUNNER), &[0.5, 0.5, 0.4, 0.5, 1.0, 0.0]);
}

#[test]
fn starts_are_even_and_never_a_catch() {
    let config = "num_taggers = 2\ngrid_length = 2";
    let mut one = make(config);
    let (mut tagger, mut runner) = ([0; 9], [0; 9]);
    for replica in 0..9_000 {
        let env =
            TagGridworld::new(&TagGridworldConfig::from_table(&config.parse().unwrap()).unwrap());
        one = Single::replica(env.unwrap(), 3, replica).unwrap();
        let (x, y) = places(&mut one);
        let cell = |agent: usize| (x[agent] + 3 * y[agent]) as usize;
        assert!(cell(0) != cell(2) && cell(1) != cell(2));
        tagger[cell(0)] += 1;
        runner[cell(2)] += 1;
    }
    let even = |count: &i32| (count - 1000).abs() < 150;
    assert!(tagger.iter().all(even) && runner.iter().all(even), "{tagger:?} {runner:?}");
    assert_eq!(places(&mut one).0.len(), 3);
    let mut original = make("num_taggers = 2\ngrid_length = 5\nplacement = \"original\"");
    assert_eq!(places(&mut original), (vec![2, 2, 0], vec![2, 2, 0]));
}

#[test]
fn a_pools_taggers_start_evenly_off_the_edge_and_the_runner_in_the_corner() {
    let text = "num_taggers = 2\ngrid_length = 4\nplacement = \"original_pool\"";
    let config = TagGridworldConfig::from_table(&text.parse().unwrap()).unwrap();
    let mut counts = [[0; 9]; 2];
    let mut alike = 0;
    for replica in 0..9_000 {
        let env = TagGridworld::new(&config).unwrap();
        let (x, y) = places(&mut Single::replica(env, 3, replica).unwrap());
        assert_eq!((x[2], y[2]), (0, 0));
        for (agent, counts) in counts.iter_mut().enumerate() {
            assert!((1..=3).contains(&x[agent]) && (1..=3).contains(&y[agent]), "{x:?} {y:?}");
            counts[(x[agent] - 1 + 3 * (y[agent] - 1)) as usize] += 1;
        }
        alike += i32::from((x[0], y[0]) == (x[1], y[1]));
    }
    let even = |count: &i32| (count - 1000).abs() < 150;
    assert!(counts.iter().flatten().chain([&alike]).all(even), "{counts:?} {alike}");
    // Places that are given override it.
    let start = "starting_location_x = [1, 0, 3]\nstarting_location_y = [0, 4, 2]";
    let mut given = make(&format!("{text}\n{start}"));
    assert_eq!(places(&mut given), (vec![1, 0, 3], vec![0, 4, 2]));
}

#[test]
fn bad_values_are_refused_in_a_sentence() {
    let refused = |text: &str| {
        let config = TagGridworldConfig::from_table(&text.parse().unwrap());
        config.and_then(|c| TagGridworld::new(&c)).unwrap_err().to_string()
    };
    assert!(refused("num_taggers = 0").starts_with("num_taggers = 0: must lie between 1 and"));
    assert!(refused("grid_length = 0").starts_with("grid_length = 0: "));
    assert!(refused("grid_length = 70000").starts_with("grid_length = 70000: "));
    assert!(refused("episode_length = 0").starts_with("episode_length = 0: "));
    assert!(refused("wall_hit_penalty = -1").starts_with("wall_hit_penalty = -1: "));
    assert!(refused("placement = \"corner\"").contains("one of \"random\", \"original\""));
    let no_inside = refused("grid_length = 1\nplacement = \"original_pool\"");
    assert!(no_inside.starts_with("grid_length = 1: must lie between 2 and"), "{no_inside}");
    let one_axis = refused("num_taggers = 1\nstarting_location_x = [1, 2]");
    assert!(one_axis.starts_with("starting_location_y = unset: is needed"));
    let short = "num_taggers = 2\nstarting_location_x = [1, 2]\nstarting_location_y = [1, 2]";
    assert!(refused(short).contains("2 taggers and a runner need 3 numbers"));
    let outside = "num_taggers = 1\nstarting_location_x = [1, 11]\nstarting_location_y = [1, 2]";
    assert!(refused(outside).starts_with("starting_location_x = 11: "));
}

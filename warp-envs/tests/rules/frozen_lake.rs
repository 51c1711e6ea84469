//! FrozenLake against its rules.

use warp_core::single::{GroupAction, Single};
use warp_core::{Config, Env, Result, TableData};
use warp_envs::frozen_lake::*;
use warp_envs::registry;

fn table(text: &str) -> warp_core::toml::Table {
    text.parse().unwrap()
}

fn lake(text: &str) -> Result<FrozenLake> {
    FrozenLakeConfig::from_table(&table(text)).and_then(|config| FrozenLake::new(&config))
}

#[test]
fn keeps_the_contract() {
    for text in ["", "map_name = \"8x8\"", "map_name = \"random\"\nis_slippery = false"] {
        registry().get("frozen_lake").unwrap().check(&table(text), 7).unwrap();
    }
}

#[test]
fn firm_ice_carries_the_elf_where_it_wants() {
    let mut one = Single::new(lake("is_slippery = false").unwrap(), 0).unwrap();
    let go = |one: &mut Single<FrozenLake>, way: i32| {
        let ended = one.step(&[GroupAction::Discrete(vec![way])]).unwrap();
        let cell = one.obs(0).iter().position(|x| *x == 1.0).unwrap();
        (cell, one.reward(0)[0], ended.terminated)
    };
    // Off the map on the left and above, then around the holes to the present.
    let ways = [0, 3, 1, 1, 2, 1, 2, 2];
    let seen: Vec<_> = ways.map(|way| go(&mut one, way)).to_vec();
    let cells: Vec<usize> = seen.iter().map(|seen| seen.0).collect();
    assert_eq!(cells, [0, 0, 4, 8, 9, 13, 14, 15]);
    assert!(seen[..7].iter().all(|(_, reward, ended)| *reward == 0.0 && !ended));
    assert_eq!(seen[7], (15, 1.0, true));
    one.edit(|state| state.state = 4);
    assert_eq!(go(&mut one, 2), (5, 0.0, true));
}

#[test]
fn slippery_ice_turns_the_elf_as_often_as_it_should() {
    let lake = lake("success_rate = 0.5\nreward_schedule = [5, -2, -0.25]").unwrap();
    let mut one = Single::new(lake, 3).unwrap();
    let mut seen = [0; 16];
    for _ in 0..4_000 {
        one.edit(|state| state.state = 9);
        one.step(&[GroupAction::Discrete(vec![1])]).unwrap();
        seen[one.obs(0).iter().position(|x| *x == 1.0).unwrap()] += 1;
        assert_eq!(one.reward(0)[0], -0.25);
    }
    // Left, down and right of cell 9, within five standard deviations.
    let near = |count: i32, expected: i32| (count - expected).abs() < 160;
    assert!(near(seen[8], 1_000) && near(seen[13], 2_000) && near(seen[10], 1_000), "{seen:?}");
    assert_eq!(seen[8] + seen[13] + seen[10], 4_000);
}

#[test]
fn episodes_start_on_any_start_tile() {
    let lake = lake("desc = [\"SFS\", \"HFG\"]").unwrap();
    let mut one = Single::new(lake, 0).unwrap();
    let mut starts = [0; 6];
    for _ in 0..200 {
        one.reset();
        starts[one.obs(0).iter().position(|x| *x == 1.0).unwrap()] += 1;
        one.step(&[GroupAction::Discrete(vec![0])]).unwrap();
    }
    assert!(starts[0] > 60 && starts[2] > 60 && starts[0] + starts[2] == 200, "{starts:?}");
}

#[test]
fn random_maps_can_be_crossed_and_differ() {
    let tiles = |seed: u32| {
        let lake = lake(&format!("map_name = \"random\"\nmap_seed = {seed}")).unwrap();
        match lake.tables()[0].data {
            TableData::I32(tiles) => tiles.to_vec(),
            TableData::F32(_) => panic!("tiles are integers"),
        }
    };
    assert!((0..20).all(|seed| tiles(seed)[63] == 2 && tiles(seed) == tiles(seed)));
    assert_ne!(tiles(1), tiles(2));
    let holes: i32 =
        (0..20).map(|seed| tiles(seed).iter().filter(|t| **t == 1).count() as i32).sum();
    assert!((150..350).contains(&holes), "{holes}");
}

#[test]
fn bad_values_are_refused_in_a_sentence() {
    let refused = |text: &str| lake(text).unwrap_err().to_string();
    assert!(refused("success_rate = 1.5").starts_with("success_rate = 1.5: "));
    assert!(refused("reward_schedule = [1, 2]").contains("three numbers"));
    assert!(refused("desc = [\"SF\", \"G\"]").contains("same length"));
    assert!(refused("desc = [\"SX\"]").contains("S, F, H and G"));
    assert!(refused("desc = [\"FG\"]").contains("no start tile"));
    assert!(refused("desc = []").contains("rows"));
    assert!(refused("episode_length = 0").starts_with("episode_length = 0: "));
    assert!(refused("map_name = \"9x9\"").contains("one of \"4x4\", \"8x8\", \"random\""));
}

//! Reset pools: rows are drawn whole and evenly, replicas that go on are left alone, observations
//! follow, and nothing depends on threads or on how many replicas there are.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod worlds;

use std::sync::Arc;
use warp_core::{DType, Env};
use warp_func::{CpuVecEnv, PoolSource, VecEnv, VecOptions};
use worlds::crowd::{Crowd, CrowdConfig, HUNTER, PREY};
use worlds::pooled::{carts, crowds, ended, given, options, row, rows_as_bits};
use worlds::scalars::{Cart, Glide, RoadConfig, Slip};
use worlds::{make_with, run};

/// The row of the pool of [`crowds`] that a replica stands at, all of its fields.
fn crowd_row(envs: &dyn VecEnv, replica: usize) -> usize {
    let place = row::<f32>(envs, "place", replica);
    let drawn = place[0];
    assert!(place.iter().all(|p| *p == drawn), "{place:?}");
    let (energy, gone) = (row::<i32>(envs, "energy", replica), row::<i32>(envs, "gone", replica));
    assert!(energy.iter().all(|e| *e == 1 + drawn as i32 % 3), "{drawn} {energy:?}");
    assert_eq!(gone, [-(drawn as i32)]);
    drawn as usize
}

#[test]
fn every_field_comes_from_the_same_row() {
    let mut envs = make_with::<Crowd>(&CrowdConfig::default(), given(40, crowds(23)));
    let mut seen = vec![false; 23];
    (0..40).for_each(|replica| seen[crowd_row(&envs, replica)] = true);
    let mut restarts = 0;
    for _ in 0..60 {
        run(&mut envs, 1);
        for (replica, _) in ended(&envs).iter().enumerate().filter(|(_, ended)| **ended) {
            seen[crowd_row(&envs, replica)] = true;
            restarts += 1;
        }
    }
    assert!(restarts > 100 && seen.iter().all(|seen| *seen), "{restarts} {seen:?}");
}

/// Sum of (observed - expected)^2 / expected over equally likely cells, and the bound that chance
/// stays below (four standard deviations).
fn even(counts: &[u32]) {
    let expected = counts.iter().sum::<u32>() as f64 / counts.len() as f64;
    let chi: f64 = counts.iter().map(|n| (f64::from(*n) - expected).powi(2) / expected).sum();
    let freedom = (counts.len() - 1) as f64;
    assert!(chi < freedom + 4.0 * (2.0 * freedom).sqrt(), "{chi}: {counts:?}");
    assert!(chi > freedom - 4.0 * (2.0 * freedom).sqrt(), "too even to be drawn: {chi}");
}

#[test]
fn rows_are_drawn_evenly_over_replicas_and_over_episodes() {
    const ROWS: usize = 16;
    let mut envs = make_with::<Cart>(&RoadConfig::default(), given(20_000, carts(ROWS)));
    let drawn = |envs: &CpuVecEnv<Cart>| -> Vec<usize> {
        let x = envs.store().get::<f32>("x").unwrap();
        x.iter().map(|x| (x * 100.0).round() as usize).collect()
    };
    let first = drawn(&envs);
    let (mut singles, mut pairs, mut neighbours) = ([0; ROWS], [0; 256], [0; 256]);
    envs.set_run_step(1);
    envs.reset().unwrap();
    let second = drawn(&envs);
    for (a, b) in first.iter().zip(&second) {
        singles[*a] += 1;
        pairs[a * ROWS + b] += 1;
    }
    first.windows(2).for_each(|pair| neighbours[pair[0] * ROWS + pair[1]] += 1);
    even(&singles);
    even(&pairs);
    even(&neighbours);
    // One replica over many episodes.
    let mut one = make_with::<Cart>(&RoadConfig::default(), given(1, carts(ROWS)));
    let mut counts = [0; ROWS];
    for step in 0..8_000 {
        one.set_run_step(step);
        one.reset().unwrap();
        counts[drawn(&one)[0]] += 1;
    }
    even(&counts);
}

#[test]
fn replicas_that_go_on_are_left_alone() {
    let config = RoadConfig { limit: 15 };
    let mut with = make_with::<Cart>(&config, given(150, carts(9)));
    let waiting = VecOptions { auto_reset: false, ..given(150, carts(9)) };
    let mut without = make_with::<Cart>(&config, waiting);
    let (mut under_way, mut untouched) = (vec![true; 150], 0);
    for _ in 0..15 {
        run(&mut with, 1);
        run(&mut without, 1);
        let over = ended(&with);
        under_way.iter_mut().zip(&over).for_each(|(going, over)| *going &= !over);
        let both = rows_as_bits(&with).into_iter().zip(rows_as_bits(&without));
        for (replica, (a, b)) in both.enumerate().filter(|(replica, _)| under_way[*replica]) {
            assert_eq!(a, b, "replica {replica}");
            untouched += usize::from(over.contains(&true));
        }
    }
    assert!(untouched > 100 && !under_way.contains(&true), "{untouched}");
}

#[test]
fn the_observation_is_that_of_the_new_state() {
    let mut envs = make_with::<Cart>(&RoadConfig { limit: 9 }, given(70, carts(9)));
    let mut restarts = 0;
    for _ in 0..30 {
        for replica in 0..70 {
            let state = [row::<f32>(&envs, "x", replica)[0], row::<f32>(&envs, "v", replica)[0]];
            assert_eq!(row::<f32>(&envs, "obs.driver", replica), state);
        }
        run(&mut envs, 1);
        for (replica, _) in ended(&envs).iter().enumerate().filter(|(_, ended)| **ended) {
            let (obs, last) = ("obs.driver", "final_obs.driver");
            assert_ne!(row::<f32>(&envs, obs, replica), row::<f32>(&envs, last, replica));
            restarts += 1;
        }
    }
    assert!(restarts > 200, "{restarts}");
    // Masks and everyone's presence as well.
    let mut envs = make_with::<Crowd>(&CrowdConfig::default(), given(40, crowds(3)));
    run(&mut envs, 12);
    for (replica, _) in ended(&envs).iter().enumerate().filter(|(_, ended)| **ended) {
        let drawn = crowd_row(&envs, replica);
        let hunters = row::<f32>(&envs, "obs.hunter", replica);
        assert_eq!(hunters, [drawn as f32, -(drawn as f32)].repeat(2));
        let mask = [1, u8::from(drawn > 0), 1, 1, 1].repeat(5);
        assert_eq!(row::<u8>(&envs, "action_mask.prey", replica), mask);
        assert_eq!(row::<u8>(&envs, "alive.prey", replica), [1; 5]);
        assert_eq!(row::<f32>(&envs, "global_obs", replica), [-(drawn as f32)]);
    }
    assert!(ended(&envs).contains(&true) && envs.ids().alive[HUNTER].is_none());
    assert!(envs.ids().alive[PREY].is_some());
}

fn any_threads<E: Env>(config: &E::Config, pool: PoolSource) {
    let mut one = make_with::<E>(config, options(150, pool.clone()));
    run(&mut one, 60);
    let totals = one.take_episodes();
    assert!(totals.count > 100);
    for threads in [2, 3] {
        let mut more = make_with::<E>(config, VecOptions { threads, ..options(150, pool.clone()) });
        run(&mut more, 60);
        assert_eq!(rows_as_bits(&one), rows_as_bits(&more), "{} {threads}", E::NAME);
        assert_eq!(totals, more.take_episodes());
    }
    // Some replicas by themselves.
    let part = VecOptions { first_replica: 97, ..options(20, pool) };
    let mut part = make_with::<E>(config, part);
    run(&mut part, 60);
    assert_eq!(rows_as_bits(&one)[97..117], rows_as_bits(&part), "{}", E::NAME);
}

#[test]
fn threads_and_neighbours_change_no_bit() {
    let (road, crowd) = (RoadConfig::default(), CrowdConfig::default());
    any_threads::<Cart>(&road, PoolSource::Generated { rows: 50 });
    any_threads::<Slip>(&road, PoolSource::Generated { rows: 3 });
    any_threads::<Glide>(&road, PoolSource::Generated { rows: 1000 });
    any_threads::<Crowd>(&crowd, PoolSource::Generated { rows: 20 });
    any_threads::<Crowd>(&crowd, PoolSource::Given(Arc::new(crowds(11))));
}

fn goes_on<E: Env>(config: &E::Config, pool: &PoolSource) {
    let mut first = make_with::<E>(config, options(70, pool.clone()));
    run(&mut first, 17);
    let mut second = make_with::<E>(config, options(70, pool.clone()));
    run(&mut second, 5);
    for id in first.ids().persistent().collect::<Vec<_>>() {
        assert!(!first.store().array(id).name().starts_with("pool."), "it is made anew");
        let (from, mut to) = (first.store(), second.store_mut());
        match from.array(id).dtype() {
            DType::F32 => to.slice_mut::<f32>(id).copy_from_slice(from.slice(id)),
            DType::I32 => to.slice_mut::<i32>(id).copy_from_slice(from.slice(id)),
            DType::U32 => to.slice_mut::<u32>(id).copy_from_slice(from.slice(id)),
            DType::U8 => to.slice_mut::<u8>(id).copy_from_slice(from.slice(id)),
        }
    }
    second.set_run_step(first.run_step());
    second.observe().unwrap();
    first.take_episodes();
    second.take_episodes();
    run(&mut first, 40);
    run(&mut second, 40);
    assert_eq!(rows_as_bits(&first), rows_as_bits(&second), "{}", E::NAME);
    let totals = first.take_episodes();
    assert!(totals.count > 50 && totals == second.take_episodes());
}

#[test]
fn a_restored_run_goes_on_with_the_same_rows() {
    goes_on::<Cart>(&RoadConfig::default(), &PoolSource::Generated { rows: 12 });
    goes_on::<Crowd>(&CrowdConfig::default(), &PoolSource::Given(Arc::new(crowds(11))));
}

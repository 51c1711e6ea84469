//! Reset pools: rows are drawn whole and evenly, replicas that go on are left alone, observations
//! follow, and nothing depends on threads or on how many replicas there are.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod worlds;

use std::sync::Arc;
use warp_core::{Bits, DType, Env};
use warp_data::Element;
use warp_func::{CpuVecEnv, PoolSource, ResetPool, Start, VecEnv, VecOptions};
use worlds::crowd::{Crowd, CrowdConfig, HUNTER, PREY};
use worlds::scalars::{Cart, Glide, RoadConfig, Slip};
use worlds::{SEED, make_with, run};

fn options(n_envs: usize, pool: PoolSource) -> VecOptions {
    VecOptions { n_envs, seed: SEED, start: Start::Pool, pool, ..VecOptions::default() }
}

fn generated(n_envs: usize, rows: usize) -> VecOptions {
    options(n_envs, PoolSource::Generated { rows })
}

fn given(n_envs: usize, pool: ResetPool) -> VecOptions {
    options(n_envs, PoolSource::Given(Arc::new(pool)))
}

/// A pool of crowds in which every number tells its row.
fn crowds(rows: usize) -> ResetPool {
    let place: Vec<f32> = (0..rows).flat_map(|row| vec![row as f32; 7]).collect();
    let energy: Vec<i32> = (0..rows as i32).flat_map(|row| vec![1 + row % 3; 5]).collect();
    let gone: Vec<i32> = (0..rows as i32).map(|row| -row).collect();
    let pool = ResetPool::new().with("place", &[rows, 7], &place).unwrap();
    let pool = pool.with("energy", &[rows, 5], &energy).unwrap();
    pool.with("gone", &[rows], &gone).unwrap()
}

/// A pool of carts that stand at 0, 0.01, 0.02...
fn carts(rows: usize) -> ResetPool {
    let x: Vec<f32> = (0..rows).map(|row| row as f32 / 100.0).collect();
    let v: Vec<f32> = x.iter().map(|x| -x).collect();
    ResetPool::new().with("x", &[rows], &x).unwrap().with("v", &[rows], &v).unwrap()
}

fn row<T: Element>(envs: &dyn VecEnv, name: &str, replica: usize) -> Vec<T> {
    let width = envs.store().array(envs.store().id(name).unwrap()).row_len();
    envs.store().get::<T>(name).unwrap()[replica * width..][..width].to_vec()
}

/// All arrays with a row per replica as bits, row by row.
fn rows_as_bits(envs: &dyn VecEnv) -> Vec<Vec<u32>> {
    let n = envs.options().n_envs;
    let mut rows = vec![vec![]; n];
    let (store, pooled) = (envs.store(), |name: &str| name.starts_with("pool."));
    for array in store.arrays().filter(|array| !pooled(array.name())) {
        for (replica, row) in rows.iter_mut().enumerate() {
            let range = replica * array.row_len()..(replica + 1) * array.row_len();
            fn push<T: Element + Bits>(row: &mut Vec<u32>, part: &[T]) {
                row.extend(part.iter().map(|x| x.bits()));
            }
            match array.dtype() {
                DType::F32 => push(row, &store.get::<f32>(array.name()).unwrap()[range]),
                DType::I32 => push(row, &store.get::<i32>(array.name()).unwrap()[range]),
                DType::U32 => push(row, &store.get::<u32>(array.name()).unwrap()[range]),
                DType::U8 => {
                    let part = &store.get::<u8>(array.name()).unwrap()[range];
                    row.extend(part.iter().map(|x| u32::from(*x)));
                }
            }
        }
    }
    rows
}

fn ended(envs: &dyn VecEnv) -> Vec<bool> {
    let (ids, store) = (envs.ids(), envs.store());
    let flags = store.slice::<u8>(ids.terminated).iter().zip(store.slice::<u8>(ids.truncated));
    flags.map(|(a, b)| a | b != 0).collect()
}

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
    envs.reset();
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
        one.reset();
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

#[test]
fn generated_rows_depend_on_the_seed_and_their_number_alone() {
    let rows = |options: VecOptions| {
        let envs = make_with::<Crowd>(&CrowdConfig::default(), options);
        assert_eq!(envs.ids().pool.len(), 3);
        let place = envs.store().get::<f32>("pool.place").unwrap().to_vec();
        let energy = envs.store().get::<i32>("pool.energy").unwrap().to_vec();
        (place, energy)
    };
    let (place, energy) = rows(generated(10, 50));
    assert_eq!((place.len(), energy.len()), (50 * 7, 50 * 5));
    // `Crowd::reset` fills all of a row: every place and one of three energies.
    assert!(place.iter().all(|p| *p != 0.0) && energy.iter().all(|e| (1..=3).contains(e)));
    let few = rows(VecOptions { threads: 3, first_replica: 9, ..generated(300, 7) });
    assert_eq!((&few.0[..], &few.1[..]), (&place[..7 * 7], &energy[..7 * 5]));
    assert_ne!(rows(VecOptions { seed: SEED + 1, ..generated(10, 50) }).0, place);
    // Evaluation draws other rows, but from the same pool.
    let other = VecOptions { seed: 77, start_seed: Some(SEED), ..generated(10, 50) };
    assert_eq!(rows(other.clone()).0, place);
    let picks = |options| rows_as_bits(&make_with::<Crowd>(&CrowdConfig::default(), options));
    assert_ne!(picks(other), picks(generated(10, 50)));
    // Rows are no copies of what replicas would draw afresh.
    let fresh = VecOptions { start: Start::Fresh, ..generated(50, 1) };
    let fresh = make_with::<Crowd>(&CrowdConfig::default(), fresh);
    let drawn = fresh.store().get::<f32>("place").unwrap();
    assert!(drawn.chunks(7).zip(place.chunks(7)).all(|(a, b)| a != b));
    assert!(fresh.ids().pool.is_empty() && fresh.store().id("pool.place").is_err());
}

#[test]
fn the_fixed_start_has_a_seed_of_its_own_too() {
    let start = |seed, start_seed| {
        let options = VecOptions { seed, start_seed, start: Start::Fixed, ..generated(3, 1) };
        row::<f32>(&make_with::<Crowd>(&CrowdConfig::default(), options), "place", 2)
    };
    assert_eq!(start(5, None), start(6, Some(5)));
    assert_ne!(start(5, None), start(6, None));
}

#[test]
fn a_pool_of_one_row_is_one_start() {
    let mut envs = make_with::<Crowd>(&CrowdConfig::default(), generated(30, 1));
    let pool = row::<f32>(&envs, "pool.place", 0);
    let mut restarts = 0;
    (0..30).for_each(|replica| assert_eq!(row::<f32>(&envs, "place", replica), pool));
    for _ in 0..40 {
        run(&mut envs, 1);
        for (replica, _) in ended(&envs).iter().enumerate().filter(|(_, ended)| **ended) {
            assert_eq!(row::<f32>(&envs, "place", replica), pool);
            restarts += 1;
        }
    }
    assert!(restarts > 50, "{restarts}");
}

fn goes_on<E: Env>(config: &E::Config, pool: &PoolSource) {
    let mut first = make_with::<E>(config, options(70, pool.clone()));
    run(&mut first, 17);
    let mut second = make_with::<E>(config, options(70, pool.clone()));
    run(&mut second, 5);
    for id in first.ids().persistent().collect::<Vec<_>>() {
        assert!(!first.store().array(id).name().starts_with("pool."), "it is made anew");
        let (from, to) = (first.store(), second.store_mut());
        match from.array(id).dtype() {
            DType::F32 => to.slice_mut::<f32>(id).copy_from_slice(from.slice(id)),
            DType::I32 => to.slice_mut::<i32>(id).copy_from_slice(from.slice(id)),
            DType::U32 => to.slice_mut::<u32>(id).copy_from_slice(from.slice(id)),
            DType::U8 => to.slice_mut::<u8>(id).copy_from_slice(from.slice(id)),
        }
    }
    second.set_run_step(first.run_step());
    second.observe();
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

fn refused<E: Env + std::fmt::Debug>(config: &E::Config, options: VecOptions) -> String {
    CpuVecEnv::new(E::new(config).unwrap(), options).unwrap_err().to_string()
}

#[test]
fn pools_that_do_not_fit_are_refused_in_a_sentence() {
    let crowd = |pool| refused::<Crowd>(&CrowdConfig::default(), given(5, pool));
    let new = ResetPool::new;
    let fields = "place f32 [rows, 7], energy i32 [rows, 5], gone i32 [rows]";
    let error = crowd(new());
    assert!(error.contains("it holds no arrays") && error.contains(fields), "{error}");
    let place = || new().with("place", &[2, 7], &[0.0_f32; 14]).unwrap();
    assert!(crowd(place()).contains("it lacks \"energy\""));
    let error = crowd(place().with("energy", &[2, 5], &[1.0_f32; 10]).unwrap());
    let expected = "array \"energy\" is f32 [2, 5], but crowd needs i32 [rows, 5]";
    assert!(error.contains(expected), "{error}");
    let error = crowd(place().with("energy", &[2, 4], &[1_i32; 8]).unwrap());
    assert!(error.contains("is i32 [2, 4], but crowd needs i32 [rows, 5]"), "{error}");
    let error = crowd(crowds(2).with("spare", &[2], &[0_i32; 2]).unwrap());
    assert!(error.contains("\"spare\" is no field of the state of crowd"), "{error}");
    let error = crowd(crowds(0));
    assert_eq!(error, "pool_size = 0: a reset pool needs at least one row");
    // Of a crowd with other prey.
    let config = CrowdConfig { prey: 6, ..CrowdConfig::default() };
    let error = refused::<Crowd>(&config, given(5, crowds(2)));
    assert!(error.contains("\"place\" is f32 [2, 7], but crowd needs f32 [rows, 8]"), "{error}");
}

#[test]
fn sizes_out_of_range_are_refused_before_anything_is_allocated() {
    let cart = |rows| refused::<Cart>(&RoadConfig::default(), generated(5, rows));
    assert_eq!(cart(0), "pool_size = 0: a reset pool needs at least one row");
    assert!(cart(usize::MAX).contains("numbered with 32 bits"));
    let config = CrowdConfig { prey: 1_000_000, ..CrowdConfig::default() };
    let error = refused::<Crowd>(&config, generated(1, u32::MAX as usize));
    assert!(error.contains("4294967295 rows") && error.contains("lower pool_size"), "{error}");
    // A pool that is not used is not looked at.
    let unused = VecOptions { start: Start::Fresh, ..generated(5, 0) };
    make_with::<Cart>(&RoadConfig::default(), unused);
}

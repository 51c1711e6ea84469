//! Where the rows of a reset pool come from: the seed, or arrays, which fit or are refused.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod worlds;

use warp_core::Env;
use warp_func::{CpuVecEnv, ResetPool, Start, VecEnv, VecOptions};
use worlds::crowd::{Crowd, CrowdConfig};
use worlds::drone::{Drone, DroneConfig};
use worlds::pooled::{crowds, ended, generated, given, row, rows_as_bits};
use worlds::scalars::{Cart, RoadConfig};
use worlds::{SEED, make_with, run};

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

fn refused<E: Env + std::fmt::Debug>(config: &E::Config, options: VecOptions) -> String {
    CpuVecEnv::new(E::new(config).unwrap(), options).unwrap_err().to_string()
}

#[test]
fn pools_that_do_not_fit_are_refused_in_a_sentence() {
    let crowd = |pool| refused::<Crowd>(&CrowdConfig::default(), given(5, pool));
    let new = ResetPool::new;
    let fields = "place f32 [rows, 7], energy i32 [rows, 5], gone i32 [rows]";
    let error = crowd(new());
    assert!(error.contains("it contains no arrays") && error.contains(fields), "{error}");
    let place = || new().with("place", &[2, 7], &[0.0_f32; 14]).unwrap();
    assert!(crowd(place()).contains("it lacks \"energy\""));
    let error = crowd(place().with("energy", &[2, 5], &[1.0_f32; 10]).unwrap());
    let expected = "array \"energy\" is f32 [2, 5], but crowd needs i32 [rows, 5]";
    assert!(error.contains(expected), "{error}");
    let error = crowd(place().with("energy", &[2, 4], &[1_i32; 8]).unwrap());
    assert!(error.contains("is i32 [2, 4], but crowd needs i32 [rows, 5]"), "{error}");
    let error = crowd(crowds(2).with("spare", &[2], &[0_i32; 2]).unwrap());
    assert!(error.contains("\"spare\" is not a field of the state of crowd"), "{error}");
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

/// Drones at (row, row + 0.1, row + 0.2) hundredths.
fn drones(rows: usize) -> ResetPool {
    let at = |row: usize| (0..3).map(move |axis| (row as f32 + 0.1 * axis as f32) / 100.0);
    let position: Vec<f32> = (0..rows).flat_map(at).collect();
    let pool = ResetPool::new().with("position", &[rows, 3], &position).unwrap();
    let velocity: Vec<f32> = position.iter().map(|x| -x).collect();
    let pool = pool.with("velocity", &[rows, 3], &velocity).unwrap();
    pool.with("gusts", &[rows], &(0..rows as u32).collect::<Vec<_>>()).unwrap()
}

#[test]
fn an_array_of_a_state_is_one_array_of_a_pool() {
    let mut envs = make_with::<Drone>(&DroneConfig::default(), given(70, drones(11)));
    let (mut seen, mut restarts) = ([false; 11], 0);
    let whole_row = |envs: &CpuVecEnv<Drone>, replica: usize| {
        let drawn = row::<u32>(envs, "gusts", replica)[0];
        for axis in 0..3 {
            let x = (drawn as f32 + 0.1 * axis as f32) / 100.0;
            assert_eq!(row::<f32>(envs, &format!("position[{axis}]"), replica), [x]);
            assert_eq!(row::<f32>(envs, &format!("velocity[{axis}]"), replica), [-x]);
        }
        drawn as usize
    };
    (0..70).for_each(|replica| seen[whole_row(&envs, replica)] = true);
    for _ in 0..60 {
        run(&mut envs, 1);
        for (replica, _) in ended(&envs).iter().enumerate().filter(|(_, ended)| **ended) {
            seen[whole_row(&envs, replica)] = true;
            restarts += 1;
        }
    }
    assert!(restarts > 70 && seen.iter().all(|seen| *seen), "{restarts} {seen:?}");
    let refused = |pool: ResetPool| {
        let env = Drone::new(&DroneConfig::default()).unwrap();
        CpuVecEnv::new(env, given(3, pool)).unwrap_err().to_string()
    };
    let wide = ResetPool::new().with("position", &[2, 4], &[0.0_f32; 8]).unwrap();
    let error = refused(wide);
    assert!(error.contains("f32 [2, 4], but drone needs f32 [rows, 3]"), "{error}");
    let error = refused(ResetPool::new());
    assert!(error.contains("position f32 [rows, 3], gusts u32 [rows], velocity"), "{error}");
}

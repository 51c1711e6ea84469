//! Replicas that are stepped side by side in tiles: no body runs on a state that neither reset nor step has made.
#![cfg(feature = "replicas")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod worlds;

use warp_core::Env;
use warp_core::single::GroupAction;
use warp_func::{Orders, ReplicaOptions, Replicas};
use worlds::scalars::{Clock, RoadConfig};

fn clocks(seeds: std::ops::Range<u64>) -> Replicas {
    let env = Clock::new(&RoadConfig { limit: 12 }).unwrap();
    Replicas::new(env, ReplicaOptions::new(seeds.collect())).unwrap()
}

/// Moves these replicas; what each observes, and its reward.
fn moved(replicas: &mut Replicas, ids: &[u32]) -> Vec<(Vec<f32>, f32)> {
    let mut batch = replicas.new_batch(ids.len()).unwrap();
    let actions = vec![GroupAction::Discrete(vec![1; ids.len()])];
    replicas.step(&mut Orders { ids: ids.to_vec(), actions }, &mut batch).unwrap();
    let obs = batch.store().get::<f32>("obs.driver").unwrap().chunks(2).map(<[f32]>::to_vec);
    obs.zip(batch.store().get::<f32>("reward.driver").unwrap().iter().copied()).collect()
}

/// Some have not begun, some run, some have ended; tiles are full, or have few replicas.
#[test]
fn whoever_is_in_a_tile_does_what_it_does_alone() {
    let mut together = clocks(0..70);
    let mut alone: Vec<Replicas> = (0..70).map(|seed| clocks(seed..seed + 1)).collect();
    for round in 0..40 {
        let ids: Vec<u32> = (0..70.min(5 * round + 1)).collect();
        for (id, shown) in ids.iter().zip(moved(&mut together, &ids)) {
            assert_eq!(moved(&mut alone[*id as usize], &[0]), [shown], "replica {id}");
        }
    }
}

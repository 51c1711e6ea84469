//! Memories of several shards: batches take as much of each, and what is learned is as of one batch.

use super::fixture::{Fixture, arm, choices, masked_choices};
use std::collections::BTreeSet;

/// Rows of the memory that the first number of an observation belongs to, by shard of three.
fn shard_of(fixture: &Fixture, first: f64) -> usize {
    let (numbers, _) = fixture.engine.memory.arrays();
    let obs = numbers.iter().find(|array| array.name == "replay.obs").unwrap();
    let at = obs.data.chunks(obs.shape[2]).position(|row| f64::from(row[0]) == first).unwrap();
    at % obs.shape[1] / (obs.shape[1] / 3)
}

#[test]
fn updates_of_shards_follow_the_papers() {
    for (spec, keys) in [
        (arm(), "algorithm = \"sac\"\nprioritised = true"),
        (arm(), "algorithm = \"td3\"\nmax_grad_norm = 0.05"),
        (arm(), "algorithm = \"ddpg\""),
        (choices(), "algorithm = \"dqn\"\ndueling = true"),
        (masked_choices(), "algorithm = \"sac\""),
    ] {
        // Several tiles a shard.
        for batch_size in [18, 201] {
            let keys = format!("{keys}\nbatch_size = {batch_size}");
            Fixture::of_shards(&spec, &keys, 3).follows(3);
        }
    }
}

#[test]
fn a_batch_takes_as_many_samples_of_each_shard() {
    for keys in ["", "prioritised = true"] {
        let keys = format!("algorithm = \"dqn\"\nbatch_size = 60\n{keys}");
        let mut fixture = Fixture::of_shards(&choices(), &keys, 3);
        fixture.follows(2);
        let shards: Vec<usize> =
            fixture.batch().iter().map(|row| shard_of(&fixture, row.obs[0])).collect();
        let wanted: Vec<usize> = (0..60).map(|row| row / 20).collect();
        assert_eq!(shards, wanted, "{keys}");
    }
}

#[test]
fn shards_draw_different_places() {
    let keys = "algorithm = \"dqn\"\nbatch_size = 60";
    let mut fixture = Fixture::of_shards(&choices(), keys, 3);
    fixture.follows(1);
    let (numbers, _) = fixture.engine.memory.arrays();
    let obs = numbers.iter().find(|array| array.name == "replay.obs").unwrap();
    let place = |first: f64| {
        let at = obs.data.chunks(obs.shape[2]).position(|row| f64::from(row[0]) == first);
        at.unwrap() / obs.shape[1]
    };
    let steps: Vec<usize> = fixture.batch().iter().map(|row| place(row.obs[0])).collect();
    let different: BTreeSet<_> = steps.chunks(20).collect();
    assert_eq!(different.len(), 3, "{steps:?}");
}

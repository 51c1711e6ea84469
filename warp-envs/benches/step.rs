//! One step of 1,024 replicas on one thread, observations written, ended episodes restarted.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use warp_envs::{VecOptions, registry};

const REPLICAS: usize = 1024;

/// Environment and the keys that are not its defaults.
const CASES: [(&str, &str); 7] = [
    ("cartpole", ""),
    ("acrobot", ""),
    ("mountain_car", ""),
    ("continuous_mountain_car", ""),
    ("pendulum", ""),
    ("tag_gridworld", "num_taggers = 4"),
    (
        "tag_continuous",
        "num_taggers = 5\nnum_runners = 100\nuse_full_observation = false\n\
         num_other_agents_observed = 10\ngrid_length = 20.0",
    ),
];

fn steps(c: &mut Criterion) {
    let mut group = c.benchmark_group("step");
    group.throughput(Throughput::Elements(REPLICAS as u64)).sample_size(20);
    for (name, keys) in CASES {
        let config = keys.parse().expect("keys are TOML");
        let options = VecOptions { n_envs: REPLICAS, ..VecOptions::default() };
        let entry = registry();
        let mut envs =
            entry.get(name).and_then(|e| e.make(&config, &options)).expect("a known environment");
        group.bench_function(name, |b| {
            b.iter(|| black_box(&mut envs).step().expect("actions are 0"));
        });
    }
    group.finish();
}

criterion_group!(benches, steps);
criterion_main!(benches);

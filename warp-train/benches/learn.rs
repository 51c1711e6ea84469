//! One iteration of PPO and A2C on CartPole: 32 replicas, 128 steps, two networks of 64-64.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use warp_train::native::NativeLearner;
use warp_train::{TrainConfig, Trainer};

fn iterate(c: &mut Criterion) {
    let mut group = c.benchmark_group("iterate");
    group.throughput(Throughput::Elements(32 * 128)).sample_size(10);
    for algorithm in ["ppo", "a2c"] {
        let keys = format!("algorithm = \"{algorithm}\"\nnum_envs = 32\nnum_steps = 128");
        let registry = warp_envs::registry();
        let table = keys.parse().expect("keys are TOML");
        let config = TrainConfig::resolve(&table, &registry).expect("a known environment");
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let learner = NativeLearner::new(&config, threads).expect("a small network");
        let mut trainer = Trainer::new(config, &registry, Box::new(learner), threads)
            .expect("a small environment");
        group.bench_function(algorithm, |b| b.iter(|| trainer.iterate().expect("it learns")));
    }
    group.finish();
}

criterion_group!(benches, iterate);
criterion_main!(benches);

//! Whatever the configuration, a run goes on from a checkpoint as if it had never stopped, with any number of threads.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod runs;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use runs::{Folder, bits, iterate};
use warp_core::toml::Table;
use warp_train::config::drop_foreign_keys;
use warp_train::native;
use warp_train::run::Snapshot;
use warp_train::{Checkpoint, TrainConfig, Trainer, checkpoint};

/// Keys, and values of which a run takes one or none.
const KEYS: &[(&str, &[&str])] = &[
    ("activation", &["'tanh'", "'relu'"]),
    ("layer_norm", &["true"]),
    ("shared_trunk", &["true"]),
    ("optimiser", &["'adam'", "'rmsprop'"]),
    ("weight_decay", &["0.01"]),
    ("max_grad_norm", &["0.0", "0.1"]),
    ("init", &["'orthogonal'", "'xavier'", "'kaiming'"]),
    ("learning_rate", &["0.003", "[['0%', 0.003], ['100%', 0.0]]"]),
    ("critic_learning_rate", &["0.01"]),
    ("gamma", &["0.9", "1.0"]),
    ("gae_lambda", &["0.0", "1.0"]),
    ("norm_obs", &["true", "false"]),
    ("norm_reward", &["true", "false"]),
    ("norm_return", &["true"]),
    ("norm_adv", &["false"]),
    ("clip_vloss", &["true", "false"]),
    ("target_kl", &["0.0001"]),
    ("ent_coef", &["0.0", "0.01"]),
    ("compat_last_step", &["true"]),
    ("action_distribution", &["'gaussian'", "'squashed'"]),
    ("log_std", &["'state_independent'", "'state_dependent'"]),
    ("gradient_steps", &["1", "3"]),
    ("n_step", &["2", "10"]),
    ("prioritised", &["true"]),
    ("tau", &["0.1", "1.0"]),
    ("dueling", &["true"]),
    ("double", &["false"]),
    ("target_interval", &["3"]),
    ("noise", &["'none'", "'gaussian'", "'ou'"]),
    ("policy_delay", &["1", "3"]),
    ("atoms", &["2", "11"]),
    ("alpha", &["0.2"]),
    ("start", &["'fixed'", "'pool'"]),
    ("pool_size", &["3"]),
];

/// Those that a run can't do without here: it is to be small.
const SIZES: &[(&str, &[&str])] = &[
    ("algorithm", &["'ppo'", "'a2c'", "'dqn'", "'sac'", "'ddpg'", "'td3'", "'fast_td3'"]),
    ("num_envs", &["1", "2", "5", "16", "33"]),
    ("num_steps", &["1", "2", "4", "7"]),
    ("hidden", &["[5]", "[8, 8]", "[16, 3, 9]"]),
    ("num_minibatches", &["1", "2", "3"]),
    ("update_epochs", &["1", "2"]),
    ("batch_size", &["1", "7", "64"]),
    ("train_freq", &["1"]),
    ("learning_starts", &["0", "20"]),
    ("buffer_size", &["400"]),
];

/// A line with one of a key's values.
fn line((key, values): (&'static str, &'static [&'static str])) -> impl Strategy<Value = String> {
    prop::sample::select(values).prop_map(move |value| format!("{key} = {value}\n"))
}

/// Lines of all sizes and of some other keys.
fn lines() -> impl Strategy<Value = String> {
    let sizes: Vec<_> = SIZES.iter().map(|key| line(*key)).collect();
    let keys: Vec<_> = KEYS.iter().map(|key| prop::option::weighted(0.3, line(*key))).collect();
    (sizes, keys)
        .prop_map(|(sizes, keys)| sizes.into_iter().chain(keys.into_iter().flatten()).collect())
}

fn environment() -> impl Strategy<Value = &'static str> {
    prop::sample::select(
        warp_envs::registry().entries().map(|entry| entry.name).collect::<Vec<_>>(),
    )
}

/// The configuration of these keys, without those of other algorithms; none if it is refused, as that of an algorithm is
/// that does not take the environment's actions.
fn configured(keys: &str) -> Option<TrainConfig> {
    let registry = warp_envs::registry();
    let mut table: Table = keys.parse().unwrap();
    drop_foreign_keys(&mut table, &registry);
    let config = TrainConfig::resolve(&table, &registry).ok()?;
    native::learner(&config, 1).ok().map(|_| config)
}

fn trainer(config: &TrainConfig, threads: usize) -> Trainer {
    let learner = native::learner(config, threads).unwrap();
    Trainer::new(config.clone(), &warp_envs::registry(), learner, threads).unwrap()
}

fn goes_on(config: &TrainConfig) -> TestCaseResult {
    let folder = Folder::new("random");
    let mut whole = trainer(config, 1);
    iterate(&mut whole, 3);
    let mut first = trainer(config, 2);
    iterate(&mut first, 2);
    let state = first.learner().state();
    let of_first = Snapshot::of(&first.counters(), state, first.envs());
    let middle = Checkpoint::open(&checkpoint::save(folder.path(), &of_first).unwrap()).unwrap();
    let mut second = trainer(config, 3);
    second.restore(&middle).unwrap();
    iterate(&mut second, 1);
    let (one, other) = (bits(&whole.learner().state()), bits(&second.learner().state()));
    let apart = one.iter().zip(&other).find(|(a, b)| a != b).map(|(a, _)| &a.0);
    prop_assert!(one.len() == other.len() && apart.is_none(), "{apart:?}");
    Ok(())
}

#[test]
fn any_run_goes_on_as_if_it_had_never_stopped() {
    let cases = ProptestConfig {
        max_global_rejects: 10_000,
        failure_persistence: None,
        ..ProptestConfig::with_cases(40)
    };
    proptest!(cases, |(env_id in environment(), lines in lines())| {
        let config = configured(&format!("env_id = '{env_id}'\n{lines}"));
        prop_assume!(config.is_some());
        goes_on(&config.unwrap())?;
    });
}

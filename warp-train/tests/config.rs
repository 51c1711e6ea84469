//! Any table is either a configuration or refused in one sentence.

use proptest::prelude::*;
use toml::{Table, Value};
use warp_core::Config;
use warp_train::{PolicyConfig, RunConfig, TrainConfig};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3i64..200).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-1.0f64..2.0).prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
        prop_oneof![Just("ppo"), Just("a2c"), Just("relu"), Just("pool"), Just("tagger")]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::vec(("[a-z_]{0,8}", inner), 0..3)
                .prop_map(|entries| Value::Table(entries.into_iter().collect())),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    let names: Vec<String> = RunConfig::fields()
        .iter()
        .chain(PolicyConfig::fields())
        .map(|field| field.name.to_string())
        .chain(["env".into(), "policy".into()])
        .collect();
    prop_oneof![9 => prop::sample::select(names), 1 => "[a-z._]{0,12}"]
}

fn env_key() -> impl Strategy<Value = String> {
    let names: Vec<String> = warp_envs::registry()
        .entries()
        .flat_map(|entry| entry.fields.iter().map(|field| field.name.to_string()))
        .collect();
    prop_oneof![9 => prop::sample::select(names), 1 => "[a-z._]{0,12}"]
}

fn environment() -> impl Strategy<Value = String> {
    let names: Vec<String> =
        warp_envs::registry().entries().map(|entry| entry.name.to_string()).collect();
    prop::sample::select(names)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_table_is_a_configuration_or_refused_in_one_sentence(
        env_id in environment(),
        keys in prop::collection::vec((key(), value()), 0..4),
        env in prop::collection::vec((env_key(), value()), 0..3),
    ) {
        let mut table: Table = keys.into_iter().collect();
        table.insert("env_id".into(), env_id.into());
        if !env.is_empty() {
            table.insert("env".into(), Value::Table(env.into_iter().collect()));
        }
        let registry = warp_envs::registry();
        match TrainConfig::resolve(&table, &registry) {
            Err(error) => {
                prop_assert!(error.is_users());
                prop_assert!(!error.to_string().is_empty());
            }
            Ok(config) => {
                // What is written down reads back as the same.
                let fields = registry.get(&config.run.env_id).unwrap().fields;
                let text = config.to_toml(fields);
                let again = TrainConfig::resolve(&text.parse().unwrap(), &registry).unwrap();
                prop_assert_eq!(again.to_toml(fields), text);
            }
        }
    }
}

#[test]
fn checkpoints_are_far_enough_apart_for_the_length_of_a_run() {
    let steps = |keys: &str| {
        let keys = format!("env_id = \"cartpole\"\nnum_steps = 100\n{keys}");
        let config = TrainConfig::resolve(&keys.parse().unwrap(), &warp_envs::registry()).unwrap();
        let each = config.steps_per_iteration();
        (1..)
            .map(|n| n * each)
            .filter(|step| config.is_checkpoint_step(*step))
            .take(2)
            .collect::<Vec<_>>()
    };
    // 100,000 steps; 20 iterations; a hundredth of the run; what is given.
    assert_eq!(steps("num_envs = 10\ntotal_steps = 500000"), [100_000, 200_000]);
    assert_eq!(steps("num_envs = 1000\ntotal_steps = 500000"), [2_000_000, 4_000_000]);
    assert_eq!(steps("num_envs = 10\ntotal_steps = 30000000"), [300_000, 600_000]);
    assert_eq!(
        steps("num_envs = 10\ntotal_steps = 30000000\ncheckpoint_steps = 2500"),
        [3_000, 5_000]
    );
}

/// A policy keeps the defaults of its own algorithm, whatever that of the others is.
#[test]
fn policies_of_different_algorithms_are_written_as_they_are() {
    let registry = warp_envs::registry();
    let written_and_read = |text: &str| {
        let config = TrainConfig::resolve(&text.parse().unwrap(), &registry).unwrap();
        let fields = registry.get(&config.run.env_id).unwrap().fields;
        for written in [config.to_toml(fields), config.to_toml_as_given(fields)] {
            let again = TrainConfig::resolve(&written.parse().unwrap(), &registry).unwrap();
            for (one, other) in config.policies.iter().zip(&again.policies) {
                assert_eq!(one.algorithm, other.algorithm, "{text}");
                assert_eq!(one.config, other.config, "{text}: {written}");
            }
        }
    };
    let choices = ["ppo", "a2c", "dqn", "sac"];
    for (all, own) in choices.iter().flat_map(|all| choices.map(|own| (all, own))) {
        written_and_read(&format!(
            "env_id = \"tag_gridworld\"\nalgorithm = \"{all}\"\n[policy.tagger]\n[policy.runner]\n\
             algorithm = \"{own}\""
        ));
    }
    for own in ["ppo", "a2c", "sac", "td3", "ddpg", "fast_td3"] {
        written_and_read(&format!(
            "env_id = \"pendulum\"\n[policy.pendulum]\nalgorithm = \"{own}\""
        ));
    }
}

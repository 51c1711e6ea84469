//! Learning from a selection of replicas and from normalised returns: what it changes, and what it does not.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

use warp_train::learner::LearnerState;
use warp_train::native::NativeLearner;
use warp_train::{Actions, TrainConfig, Trainer};

/// A short run of cartpole with these keys; `length` is when an episode ends by itself, as the original has it.
fn trainer(keys: &str, length: u32) -> Trainer {
    let text = format!(
        "env_id = \"cartpole\"\nalgorithm = \"a2c\"\nnum_envs = 12\nnum_steps = 20\nhidden = [8]\n{keys}\n\
         [env]\npreset = \"warpdrive\"\nepisode_length = {length}"
    );
    let registry = warp_envs::registry();
    let config = TrainConfig::resolve(&text.parse().unwrap(), &registry).unwrap();
    let learner = Box::new(NativeLearner::new(&config, 2).unwrap());
    Trainer::new(config, &registry, learner, 2).unwrap()
}

fn learned(keys: &str, length: u32) -> LearnerState {
    let mut trainer = trainer(keys, length);
    trainer.iterate_times(6).unwrap();
    trainer.learner().state()
}

#[test]
fn without_a_goal_all_replicas_are_learned_from() {
    // No episode falls within 5 steps, so each ends at its limit.
    assert_eq!(learned("", 5), learned("neg_pos_env_ratio = 0.5", 5));
    // There are never enough others.
    assert_eq!(learned("", 30), learned("neg_pos_env_ratio = 1000", 30));
}

#[test]
fn a_selection_and_normalised_returns_change_what_is_learned() {
    let plain = learned("", 30);
    for keys in ["neg_pos_env_ratio = 0.2", "norm_return = true"] {
        let other = learned(keys, 30);
        assert!(other != plain && other.check_finite().is_ok(), "{keys}");
        assert_eq!(other, learned(keys, 30), "{keys}");
    }
    let ppo = ["algorithm = \"ppo\"", "num_minibatches = 3"].join("\n");
    let text = |keys: &str| format!("{ppo}\n{keys}");
    let run = |keys: &str| {
        let text = format!("env_id = \"cartpole\"\nnum_envs = 12\nnum_steps = 20\n{}", text(keys));
        let registry = warp_envs::registry();
        let config = TrainConfig::resolve(&text.parse().unwrap(), &registry).unwrap();
        let learner = Box::new(NativeLearner::new(&config, 1).unwrap());
        let mut trainer = Trainer::new(config, &registry, learner, 1).unwrap();
        trainer.iterate_times(3).unwrap();
        trainer.learner().state()
    };
    assert!(run("") != run("neg_pos_env_ratio = 0.2"));
}

#[test]
fn figures_are_those_of_the_rollout() {
    let mut trainer = trainer("gae_lambda = 0.9", 30);
    let figures = trainer.iterate().unwrap().policy["pole"].clone();
    let rollout = &trainer.rollout().unwrap().policies[0];
    let (rows, steps) = (rollout.n_rows, rollout.rewards.len() / rollout.n_rows);
    let mean =
        |numbers: &[f32]| numbers.iter().map(|x| f64::from(*x)).sum::<f64>() / numbers.len() as f64;
    let near = |name: &str, expected: f64| {
        let found = figures.get(name).unwrap();
        assert!((found - expected).abs() < 1e-6, "{name}: {found}, not {expected}");
    };
    near("mean_value", mean(&rollout.values[..rows * steps]));
    near(
        "mean_value",
        figures.get("mean_return").unwrap() - figures.get("mean_advantage").unwrap(),
    );
    let Actions::Discrete(actions) = &rollout.actions else { panic!("actions of a box") };
    let deviation = |numbers: Vec<i32>| {
        let numbers: Vec<f32> = numbers.into_iter().map(|x| x as f32).collect();
        let squares = numbers.iter().map(|x| (f64::from(*x) - mean(&numbers)).powi(2)).sum::<f64>();
        (squares / (numbers.len() - 1) as f64).sqrt()
    };
    let of_step = |t: usize| deviation(actions[t * rows..(t + 1) * rows].to_vec());
    near("action_std_replicas", (0..steps).map(of_step).sum::<f64>() / steps as f64);
    let of_row = |row: usize| deviation(actions.iter().skip(row).step_by(rows).copied().collect());
    near("action_std_steps", (0..rows).map(of_row).sum::<f64>() / rows as f64);
    near("action_std_agents", 0.0);
}

#[test]
fn ratios_that_are_none_are_refused() {
    for (keys, words) in [
        ("neg_pos_env_ratio = -1", "neg_pos_env_ratio = -1: must lie between 0 and 1e9"),
        ("algorithm = \"dqn\"\nneg_pos_env_ratio = 1", "dqn has no such key"),
        ("algorithm = \"dqn\"\nnorm_return = true", "dqn has no such key"),
    ] {
        let text = format!("env_id = \"cartpole\"\n{keys}");
        let error = TrainConfig::resolve(&text.parse().unwrap(), &warp_envs::registry());
        let error = error.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

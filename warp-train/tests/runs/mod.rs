//! Small runs for the tests: a configuration, a trainer, its state as bits, and a folder that
//! vanishes.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::{Path, PathBuf};
use warp_core::toml::Table;
use warp_train::config::drop_foreign_keys;
use warp_train::learner::LearnerState;
use warp_train::{TrainConfig, Trainer};

/// What the tests learn with where any learner will do: burn's in builds that have it, so that both are held
/// to the same.
#[cfg(feature = "burn")]
pub(crate) type AnyLearner = warp_train::burn::BurnLearner;
#[cfg(not(feature = "burn"))]
pub(crate) type AnyLearner = warp_train::native::NativeLearner;

/// Pole balancing; two minibatches of more than one chunk each.
pub(crate) const CARTPOLE: &str = r#"
env_id = "cartpole"
num_envs = 70
num_steps = 8
num_minibatches = 2
update_epochs = 2
hidden = [8]
learning_rate = 1e-2
"#;

/// Two groups; runners are caught within a few steps and leave.
pub(crate) const TAG: &str = r#"
env_id = "tag_continuous"
num_envs = 24
num_steps = 12
num_minibatches = 2
update_epochs = 2
hidden = [8]
learning_rate = 1e-2
[env]
num_taggers = 2
num_runners = 4
grid_length = 4.0
tagging_distance = 0.2
episode_length = 20
"#;

/// Continuous actions.
pub(crate) const PENDULUM: &str = r#"
env_id = "pendulum"
num_envs = 40
num_steps = 10
num_minibatches = 2
update_epochs = 2
hidden = [8]
learning_rate = 1e-2
"#;

/// The configuration `base` with the top-level `keys` before it; later lines may open tables.
pub(crate) fn config(base: &str, keys: &str, tables: &str) -> TrainConfig {
    let mut table: Table = base.parse().unwrap();
    for (key, value) in format!("{keys}\n{tables}").parse::<Table>().unwrap() {
        table.insert(key, value);
    }
    // Minibatches are PPO's alone.
    drop_foreign_keys(&mut table, &warp_envs::registry());
    TrainConfig::resolve(&table, &warp_envs::registry()).unwrap()
}

pub(crate) fn trainer(config: &TrainConfig, threads: usize) -> Trainer {
    let learner = Box::new(AnyLearner::new(config, threads).unwrap());
    Trainer::new(config.clone(), &warp_envs::registry(), learner, threads).unwrap()
}

pub(crate) fn iterate(trainer: &mut Trainer, n: usize) {
    for _ in 0..n {
        trainer.iterate().unwrap();
    }
}

/// Every number that the learner keeps, bit by bit.
pub(crate) fn bits(state: &LearnerState) -> Vec<(String, Vec<u32>)> {
    let tensors = state.weights.iter().chain(&state.optimizer).chain(&state.numbers);
    let tensors = tensors.map(|t| (t.name.clone(), t.data.iter().map(|x| x.to_bits()).collect()));
    let steps = state.optimizer_steps.iter().map(|(name, n)| (name.clone(), vec![*n as u32]));
    let halves = |x: &f64| [x.to_bits() as u32, (x.to_bits() >> 32) as u32];
    let statistics = state.statistics.iter();
    let statistics = statistics.map(|s| (s.name.clone(), s.data.iter().flat_map(halves).collect()));
    let flags = state.flags.iter();
    let flags = flags.map(|f| (f.name.clone(), f.data.iter().map(|x| u32::from(*x)).collect()));
    tensors.chain(steps).chain(statistics).chain(flags).collect()
}

/// The bits of one policy.
pub(crate) fn bits_of(state: &LearnerState, policy: &str) -> Vec<(String, Vec<u32>)> {
    let mut all = bits(state);
    all.retain(|(name, _)| name.starts_with(policy));
    assert!(!all.is_empty());
    all
}

/// A folder of its own for a test, removed at its end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let path = path.join(format!("train-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

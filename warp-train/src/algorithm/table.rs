//! What is known of each algorithm by its name: the only place that asks which one it is.

use super::{Algorithm, Plan};
use super::{ddpg::Ddpg, dqn::Dqn, sac::Sac, sac_discrete::SacDiscrete, td3::Td3};
use crate::batch::{Samples, TrainablePolicy};
use crate::config::{self, PolicyConfig, PolicyPlan};
use crate::error::Result;
use crate::learner::Progress;
use crate::metrics::PolicyMetrics;
use crate::rollout::PolicyRollout;
use crate::{a2c, ppo};
use warp_core::EnvSpec;

/// What is known of an algorithm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// The keys that it reads, beside [`COMMON`].
    pub(crate) keys: &'static [&'static [&'static str]],
    /// Its defaults where they differ, as TOML.
    pub(crate) defaults: &'static str,
    /// What it learns from.
    pub(crate) learns: Learns,
}

/// What an algorithm learns from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Learns {
    /// Each rollout by itself.
    FromRollouts {
        /// Learns from one.
        update: UpdateOf,
        /// How often each is gone through, and in how many parts.
        #[cfg_attr(
            not(feature = "cuda"),
            expect(dead_code, reason = "only kernels are compiled for it")
        )]
        passes: fn(&PolicyConfig) -> Passes,
    },
    /// Batches of a replay memory.
    FromReplay(PlanOf),
}

/// Learns from a rollout.
pub(crate) type UpdateOf = fn(
    &mut dyn TrainablePolicy,
    &mut PolicyRollout,
    &mut Samples,
    &PolicyConfig,
    Progress,
) -> Result<PolicyMetrics>;

/// Declares an algorithm for a policy.
pub(crate) type PlanOf = fn(&PolicyPlan, &EnvSpec) -> Result<Planned>;

/// A plan, and the algorithm that it is of.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) algorithm: Box<dyn Algorithm>,
}

/// How often a rollout is gone through, and in how many parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Passes {
    pub(crate) epochs: usize,
    pub(crate) minibatches: usize,
}

/// Keys that every algorithm reads.
pub(crate) const COMMON: &[&str] = &[
    "groups",
    "algorithm",
    "to_train",
    "init_from",
    "learning_rate",
    "gamma",
    "max_grad_norm",
    "adam_eps",
    "hidden",
    "activation",
    "precision",
    "init",
];
const ON_POLICY: &[&str] = &[
    "gae_lambda",
    "norm_adv",
    "ent_coef",
    "vf_coef",
    "shared_trunk",
    "action_distribution",
    "log_std",
    "log_std_init",
    "log_std_min",
    "log_std_max",
    "norm_obs",
    "norm_reward",
];
const PPO: &[&str] = &["num_minibatches", "update_epochs", "clip_coef", "clip_vloss"];
const A2C: &[&str] = &["compat_last_step"];
const OFF_POLICY: &[&str] = &[
    "buffer_size",
    "batch_size",
    "learning_starts",
    "train_freq",
    "gradient_steps",
    "n_step",
    "tau",
    "prioritised",
    "priority_alpha",
    "priority_beta",
];
const DQN: &[&str] = &["epsilon", "target_interval", "double", "dueling"];
const CRITICS: &[&str] = &["critic_learning_rate"];
const NOISE: &[&str] = &["noise", "noise_std", "noise_damping"];
const TD3: &[&str] = &["policy_delay", "target_noise", "target_noise_clip"];
const SAC: &[&str] = &["alpha", "alpha_start", "target_entropy", "log_std_min", "log_std_max"];

/// Stable-Baselines3's, but for the choice of the network itself in the target.
const DQN_DEFAULTS: &str = r#"
    learning_rate = 1e-4
    max_grad_norm = 10.0
    adam_eps = 1e-8
    activation = "relu"
    init = "kaiming"
    batch_size = 32
    train_freq = 4
    tau = 1.0
    target_interval = 2500
    epsilon = [["0%", 1.0], ["10%", 0.05]]
"#;
/// Stable-Baselines3's, with its SAC's smaller networks.
const DETERMINISTIC_DEFAULTS: &str = r#"
    learning_rate = 1e-3
    max_grad_norm = 0.0
    adam_eps = 1e-8
    hidden = [256, 256]
    activation = "relu"
    init = "kaiming"
    action_distribution = "squashed"
    log_std_min = -20.0
"#;
/// Stable-Baselines3's.
const SAC_DEFAULTS: &str = r#"
    learning_rate = 3e-4
    max_grad_norm = 0.0
    adam_eps = 1e-8
    hidden = [256, 256]
    activation = "relu"
    init = "kaiming"
    action_distribution = "squashed"
    log_std = "state_dependent"
    log_std_min = -20.0
    noise = "none"
"#;

/// What is known of `algorithm`.
pub(crate) fn entry(algorithm: config::Algorithm) -> Entry {
    match algorithm {
        config::Algorithm::Ppo => Entry {
            keys: &[ON_POLICY, PPO],
            defaults: "",
            learns: Learns::FromRollouts {
                update: ppo::update,
                passes: |keys| Passes {
                    epochs: keys.update_epochs,
                    minibatches: keys.num_minibatches,
                },
            },
        },
        config::Algorithm::A2c => Entry {
            keys: &[ON_POLICY, A2C],
            defaults: "",
            learns: Learns::FromRollouts {
                update: a2c::update,
                passes: |_| Passes { epochs: 1, minibatches: 1 },
            },
        },
        config::Algorithm::Dqn => Entry {
            keys: &[OFF_POLICY, DQN],
            defaults: DQN_DEFAULTS,
            learns: Learns::FromReplay(|policy, spec| boxed(Dqn::plan(policy, spec))),
        },
        config::Algorithm::Ddpg => Entry {
            keys: &[OFF_POLICY, CRITICS, NOISE],
            defaults: DETERMINISTIC_DEFAULTS,
            learns: Learns::FromReplay(|policy, spec| boxed(Ddpg::plan(policy, spec))),
        },
        config::Algorithm::Td3 => Entry {
            keys: &[OFF_POLICY, CRITICS, NOISE, TD3],
            defaults: DETERMINISTIC_DEFAULTS,
            learns: Learns::FromReplay(|policy, spec| boxed(Td3::plan(policy, spec))),
        },
        config::Algorithm::Sac => Entry {
            keys: &[OFF_POLICY, CRITICS, NOISE, SAC],
            defaults: SAC_DEFAULTS,
            learns: Learns::FromReplay(|policy, spec| match policy.layout.head_sizes() {
                [] => boxed(Sac::plan(policy, spec)),
                _ => boxed(SacDiscrete::plan(policy, spec)),
            }),
        },
    }
}

fn boxed<A: Algorithm + 'static>(made: Result<(Plan, A)>) -> Result<Planned> {
    made.map(|(plan, algorithm)| Planned { plan, algorithm: Box::new(algorithm) })
}

impl Entry {
    /// Whether the algorithm reads `key`.
    pub(crate) fn reads(&self, key: &str) -> bool {
        COMMON.contains(&key) || self.keys.iter().any(|keys| keys.contains(&key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warp_core::Config;
    use warp_core::toml::Table;

    const ALL: [config::Algorithm; 6] = [
        config::Algorithm::Ppo,
        config::Algorithm::A2c,
        config::Algorithm::Dqn,
        config::Algorithm::Ddpg,
        config::Algorithm::Td3,
        config::Algorithm::Sac,
    ];

    #[test]
    fn every_default_is_a_keys_value() {
        for algorithm in ALL {
            let defaults: Table = entry(algorithm).defaults.parse().unwrap();
            let config = PolicyConfig::of(algorithm, 100);
            assert_eq!(config.algorithm, algorithm);
            // Shares become steps, all others stay as they are written.
            for (key, value) in defaults.iter().filter(|(_, value)| !value.is_array()) {
                assert_eq!(config.get(key).as_ref(), Some(value), "{algorithm:?} {key}");
            }
            assert_ne!(config.epsilon.at(0), 0.0);
        }
        assert_eq!(PolicyConfig::of(config::Algorithm::Dqn, 100).epsilon.at(10), 0.05);
    }

    #[test]
    fn every_key_is_somebodys() {
        for field in PolicyConfig::fields() {
            let read = ALL.iter().any(|algorithm| entry(*algorithm).reads(field.name));
            assert!(read, "nobody reads {}", field.name);
        }
        let known = |key: &&str| PolicyConfig::fields().iter().any(|field| field.name == *key);
        for algorithm in ALL {
            let mut keys = entry(algorithm).keys.iter().flat_map(|keys| keys.iter());
            assert!(COMMON.iter().all(known) && keys.all(known));
        }
    }
}

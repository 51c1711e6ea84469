//! What is known of each algorithm by its name: the only place that asks which one it is.

use super::entry::{Entry, Learns};
use super::keys::{A2C, CRITICS, DQN, NOISE, OFF_POLICY, ON_POLICY, PPO, SAC, TD3};
use super::on_policy::OnPolicyAlgorithm;
use super::{A2c, Algorithm, Ddpg, Dqn, Plan, Planned, Ppo, Sac, SacDiscrete, Td3};
use crate::algorithm::PolicyPlan;
use crate::error::Result;
use warp_core::EnvSpec;

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
/// FastTD3's, for thousands of replicas on a GPU.
const FAST_TD3_DEFAULTS: &str = r#"
    learning_rate = 3e-4
    max_grad_norm = 0.0
    adam_eps = 1e-8
    hidden = [256, 256]
    activation = "relu"
    init = "kaiming"
    action_distribution = "squashed"
    log_std_min = -20.0
    batch_size = 32_768
    gradient_steps = 2
    tau = 0.1
    noise_std = 0.2
    target_noise = 0.001
    atoms = 101
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

/// The algorithms of this crate, the default first.
pub(crate) const ALGORITHMS: [Entry; 7] = [
    Entry {
        name: "ppo",
        keys: &[ON_POLICY, PPO],
        defaults: "",
        own: None,
        learns: Learns::FromRollouts(|policy, _| on_policy(Ppo::new(&policy.config))),
    },
    Entry {
        name: "a2c",
        keys: &[ON_POLICY, A2C],
        defaults: "",
        own: None,
        learns: Learns::FromRollouts(|policy, _| on_policy(A2c::new(&policy.config))),
    },
    Entry {
        name: "dqn",
        keys: &[OFF_POLICY, DQN],
        defaults: DQN_DEFAULTS,
        own: None,
        learns: Learns::FromReplay(|policy, spec| off_policy(Dqn::plan(policy, spec))),
    },
    Entry {
        name: "ddpg",
        keys: &[OFF_POLICY, CRITICS, NOISE],
        defaults: DETERMINISTIC_DEFAULTS,
        own: None,
        learns: Learns::FromReplay(|policy, spec| off_policy(Ddpg::plan(policy, spec))),
    },
    Entry {
        name: "td3",
        keys: &[OFF_POLICY, CRITICS, NOISE, TD3],
        defaults: DETERMINISTIC_DEFAULTS,
        own: None,
        learns: Learns::FromReplay(|policy, spec| off_policy(Td3::plan(policy, spec))),
    },
    Entry {
        name: "fast_td3",
        keys: &[OFF_POLICY, CRITICS, NOISE, TD3],
        defaults: FAST_TD3_DEFAULTS,
        own: None,
        learns: Learns::FromReplay(|policy, spec| off_policy(Td3::plan(policy, spec))),
    },
    Entry {
        name: "sac",
        keys: &[OFF_POLICY, CRITICS, NOISE, SAC],
        defaults: SAC_DEFAULTS,
        own: None,
        learns: Learns::FromReplay(sac),
    },
];

/// SAC within a box, or of choices.
fn sac(policy: &PolicyPlan, spec: &EnvSpec) -> Result<Planned> {
    match policy.layout.head_sizes() {
        [] => off_policy(Sac::plan(policy, spec)),
        _ => off_policy(SacDiscrete::plan(policy, spec)),
    }
}

fn on_policy<A: OnPolicyAlgorithm + 'static>(algorithm: A) -> Result<Box<dyn OnPolicyAlgorithm>> {
    Ok(Box::new(algorithm))
}

fn off_policy<A: Algorithm + 'static>(made: Result<(Plan, A)>) -> Result<Planned> {
    made.map(|(plan, algorithm)| Planned { plan, algorithm: Box::new(algorithm) })
}

#[cfg(test)]
mod tests {
    use super::super::keys::COMMON;
    use super::*;
    use crate::algorithm::PolicyConfig;
    use warp_core::Config;
    use warp_core::toml::Table;

    #[test]
    fn every_default_is_a_keys_value() {
        for algorithm in ALGORITHMS {
            let defaults: Table = algorithm.defaults.parse().unwrap();
            let config = PolicyConfig::of(&algorithm, 100);
            assert_eq!(config.algorithm, algorithm.name);
            // Shares become steps, all others stay as they are written.
            for (key, value) in defaults.iter().filter(|(_, value)| !value.is_array()) {
                assert_eq!(config.get(key).as_ref(), Some(value), "{algorithm:?} {key}");
            }
            assert_ne!(config.epsilon.at(0), 0.0);
        }
        assert_eq!(PolicyConfig::of(&ALGORITHMS[2], 100).epsilon.at(10), 0.05);
    }

    #[test]
    fn every_key_is_somebodys() {
        for field in PolicyConfig::fields() {
            let read = ALGORITHMS.iter().any(|algorithm| algorithm.reads(field.name));
            assert!(read, "nobody reads {}", field.name);
        }
        let known = |key: &&str| PolicyConfig::fields().iter().any(|field| field.name == *key);
        for algorithm in ALGORITHMS {
            let mut keys = algorithm.keys.iter().flat_map(|keys| keys.iter());
            assert!(COMMON.iter().all(known) && keys.all(known));
        }
    }
}

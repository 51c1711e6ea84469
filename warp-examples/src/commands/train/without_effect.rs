//! Keys of policies that were set and have no effect beside others: nobody should look for what they do.

use warp_core::Space;
use warp_train::algorithm::{Noise, PolicyPlan};
use warp_train::{PolicyConfig, TrainConfig};

/// A sentence for each of them that differs from its default.
pub(super) fn of_policies(config: &TrainConfig) -> Vec<String> {
    let of_policy = |plan: &PolicyPlan| {
        let name = plan.name.clone();
        let say = move |(key, why)| format!("{key} has no effect on policy \"{name}\" {why}");
        keys(plan, config).into_iter().map(say)
    };
    config.policies.iter().flat_map(of_policy).collect()
}

/// The keys, and why each has no effect.
fn keys(plan: &PolicyPlan, config: &TrainConfig) -> Vec<(&'static str, &'static str)> {
    let (own, default) = (&plan.config, PolicyConfig::of(&plan.algorithm, config.run.total_steps));
    let is_discrete = !matches!(plan.group(&config.spec).action, Space::Box { .. });
    let mut found = Vec::new();
    let mut add = |is_idle: bool, why, keys: &[(&'static str, bool)]| {
        let set = keys.iter().filter(|(key, is_set)| *is_set && plan.algorithm.reads(key));
        found.extend(set.filter(|_| is_idle).map(|(key, _)| (*key, why)));
    };
    let priorities = [
        ("priority_alpha", own.priority_alpha != default.priority_alpha),
        ("priority_beta", own.priority_beta != default.priority_beta),
    ];
    add(!own.prioritised, "without prioritised = true", &priorities);
    let damping = [("noise_damping", own.noise_damping != default.noise_damping)];
    add(own.noise != Noise::Ou, "without noise = \"ou\"", &damping);
    let temperature = [
        ("alpha_start", own.alpha_start != default.alpha_start),
        ("target_entropy", own.target_entropy.is_some()),
    ];
    add(own.alpha.is_some(), "whose temperature is alpha and is not learned", &temperature);
    let continuous = [
        ("action_distribution", own.action_distribution != default.action_distribution),
        ("log_std", own.log_std != default.log_std),
        ("log_std_init", own.log_std_init != default.log_std_init),
        ("log_std_min", own.log_std_min != default.log_std_min),
        ("log_std_max", own.log_std_max != default.log_std_max),
    ];
    add(is_discrete, "whose actions are discrete", &continuous);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(target: &str, sets: &[&str]) -> Vec<String> {
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        let registry = warp_envs::registry();
        of_policies(&crate::settings::configure(target, &sets, &registry).unwrap())
    }

    #[test]
    fn defaults_of_no_environment_and_algorithm_have_keys_without_effect() {
        let registry = warp_envs::registry();
        for env in registry.entries().map(|entry| entry.name) {
            for algorithm in ["ppo", "a2c", "dqn", "ddpg", "td3", "fast_td3", "sac"] {
                let sets = [format!("algorithm={algorithm}")];
                let Ok(config) = crate::settings::configure(env, &sets, &registry) else {
                    continue;
                };
                assert_eq!(of_policies(&config), [""; 0], "{env} {sets:?}");
            }
        }
    }

    #[test]
    fn keys_of_what_is_not_there_are_named() {
        let dqn = ["algorithm=dqn", "priority_alpha=0.3", "priority_beta=0.3"];
        let words =
            |key| format!("{key} has no effect on policy \"pole\" without prioritised = true");
        assert_eq!(notes("cartpole", &dqn), ["priority_alpha", "priority_beta"].map(words));
        let prioritised = [&dqn[..], &["prioritised=true"]].concat();
        assert_eq!(notes("cartpole", &prioritised), [""; 0]);
        let words = "log_std_init has no effect on policy \"pole\" whose actions are discrete";
        assert_eq!(notes("cartpole", &["log_std_init=1"]), [words]);
        assert_eq!(notes("pendulum", &["log_std_init=1"]), [""; 0]);
        let td3 = ["algorithm=td3", "noise_damping=0.3"];
        let words = "noise_damping has no effect on policy \"pendulum\" without noise = \"ou\"";
        assert_eq!(notes("pendulum", &td3), [words]);
        assert_eq!(notes("pendulum", &[&td3[..], &["noise=ou"]].concat()), [""; 0]);
        let sac = ["algorithm=sac", "alpha_start=0.3", "alpha=0.2"];
        let words = "alpha_start has no effect on policy \"pendulum\" whose temperature is alpha \
                     and is not learned";
        assert_eq!(notes("pendulum", &sac), [words]);
        assert_eq!(notes("pendulum", &sac[..2]), [""; 0]);
    }
}

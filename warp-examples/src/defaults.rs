//! Default configurations, embedded: what `warp train ENV` does when nothing else is said.

use crate::toml_text;
use anyhow::Context;
use warp_core::toml::{Table, Value};
use warp_func::Entry;

/// By environment and, where it matters, algorithm. The first one of an environment is its default.
const DEFAULTS: [(&str, &str, &str); 29] = [
    ("blackjack", "ppo", include_str!("../configs/blackjack.toml")),
    ("catch", "ppo", include_str!("../configs/catch.toml")),
    ("cliff_walking", "ppo", include_str!("../configs/cliff_walking.toml")),
    ("frozen_lake", "ppo", include_str!("../configs/frozen_lake.toml")),
    ("nchain", "ppo", include_str!("../configs/nchain.toml")),
    ("taxi", "ppo", include_str!("../configs/taxi.toml")),
    ("cartpole", "ppo", include_str!("../configs/cartpole.toml")),
    ("cartpole", "a2c", include_str!("../configs/cartpole-a2c.toml")),
    ("cartpole", "dqn", include_str!("../configs/cartpole-dqn.toml")),
    ("catalysis", "ppo", include_str!("../configs/catalysis.toml")),
    ("catalysis_two_atoms", "ppo", include_str!("../configs/catalysis_two_atoms.toml")),
    ("acrobot", "ppo", include_str!("../configs/acrobot.toml")),
    ("acrobot", "dqn", include_str!("../configs/acrobot-dqn.toml")),
    ("acrobot", "sac", include_str!("../configs/acrobot-sac.toml")),
    ("mountain_car", "ppo", include_str!("../configs/mountain_car.toml")),
    ("continuous_mountain_car", "ppo", include_str!("../configs/continuous_mountain_car.toml")),
    ("continuous_mountain_car", "sac", include_str!("../configs/continuous_mountain_car-sac.toml")),
    ("continuous_mountain_car", "td3", include_str!("../configs/continuous_mountain_car-td3.toml")),
    ("covid19", "ppo", include_str!("../configs/covid19.toml")),
    ("pendulum", "ppo", include_str!("../configs/pendulum.toml")),
    ("pendulum", "sac", include_str!("../configs/pendulum-sac.toml")),
    ("pendulum", "td3", include_str!("../configs/pendulum-td3.toml")),
    ("pendulum", "fast_td3", include_str!("../configs/pendulum-fast_td3.toml")),
    ("pendulum", "ddpg", include_str!("../configs/pendulum-ddpg.toml")),
    ("rice_n", "ppo", include_str!("../configs/rice_n.toml")),
    ("tag_gridworld", "ppo", include_str!("../configs/tag_gridworld.toml")),
    ("tag_gridworld", "a2c", include_str!("../configs/tag_gridworld-a2c.toml")),
    ("tag_continuous", "ppo", include_str!("../configs/tag_continuous.toml")),
    ("tag_continuous", "a2c", include_str!("../configs/tag_continuous-a2c.toml")),
];

/// The default configuration of the environment `entry`, for `algorithm` if one is named: what the
/// registry has for it, else what is embedded here.
///
/// An environment without one gets its name and the trainer's defaults.
///
/// # Errors
/// A text that is not TOML; a test rules it out for those that are embedded.
pub fn default_table(entry: &Entry, algorithm: Option<&str>) -> anyhow::Result<Table> {
    for text in &entry.training {
        let table = toml_text::parse(text)
            .with_context(|| format!("the default configuration of {}", entry.name))?;
        if algorithm.is_none_or(|algorithm| algorithm == algorithm_of(&table)) {
            return Ok(table);
        }
    }
    let fits = |known: &&(&str, &str, &str)| {
        known.0 == entry.name && algorithm.is_none_or(|algorithm| algorithm == known.1)
    };
    match DEFAULTS.iter().find(fits) {
        Some((_, _, text)) => Ok(text.parse()?),
        None => Ok([("env_id".to_string(), entry.name.into())].into_iter().collect()),
    }
}

/// The algorithms for which there is a default configuration of `entry`, its default first.
pub fn algorithms(entry: &Entry) -> Vec<String> {
    let own = entry.training.iter().filter_map(|text| Some(algorithm_of(&text.parse().ok()?)));
    let embedded = DEFAULTS.iter().filter(|known| known.0 == entry.name);
    let mut all: Vec<String> = own.chain(embedded.map(|known| known.1.into())).collect();
    let mut known = std::collections::HashSet::new();
    all.retain(|algorithm| known.insert(algorithm.clone()));
    all
}

/// The algorithm of a configuration.
fn algorithm_of(table: &Table) -> String {
    table.get("algorithm").and_then(Value::as_str).unwrap_or("ppo").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings;

    #[test]
    fn every_default_is_a_complete_configuration() {
        let registry = warp_envs::registry();
        for (env, algorithm, _) in DEFAULTS {
            let entry = registry.get(env).unwrap();
            let table = default_table(entry, Some(algorithm)).unwrap();
            let config = warp_train::TrainConfig::resolve(&table, &registry).unwrap();
            assert_eq!((config.run.env_id.as_str(), config.algorithm().as_str()), (env, algorithm));
            // What is written down reads back as the same.
            let text = config.to_toml(registry.get(env).unwrap().fields);
            let again =
                warp_train::TrainConfig::resolve(&text.parse().unwrap(), &registry).unwrap();
            assert_eq!(again.to_toml(registry.get(env).unwrap().fields), text);
        }
    }

    /// Checks the points of `key` of the policies whose names begin with `policy`.
    fn check(target: (&str, &str), sets: &[&str], policy: &str, key: &str, points: &[(u64, f64)]) {
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        let sets = [&sets[..], &[format!("algorithm={}", target.1)]].concat();
        let config = settings::configure(target.0, &sets, &warp_envs::registry()).unwrap();
        let wanted = warp_train::Schedule::points(points.to_vec()).unwrap();
        let mut found =
            config.policies.iter().filter(|plan| plan.name.starts_with(policy)).peekable();
        assert!(found.peek().is_some());
        for plan in found {
            let schedules = plan.config.schedules();
            assert!(schedules.contains(&(key, &wanted)), "{target:?} {key}: {schedules:?}");
        }
    }

    #[test]
    fn shares_come_to_the_steps_that_the_documented_results_had() {
        let rate = "learning_rate";
        for (env, algorithm, first, end, last) in [
            ("cartpole", "ppo", 2.5e-3, 500_000, 0.0),
            ("cartpole", "a2c", 3e-3, 500_000, 0.0),
            ("acrobot", "ppo", 1e-3, 500_000, 0.0),
            ("mountain_car", "ppo", 1e-3, 1_000_000, 0.0),
            ("continuous_mountain_car", "ppo", 1e-3, 500_000, 0.0),
            ("pendulum", "ppo", 1e-3, 300_000, 0.0),
            ("catalysis", "ppo", 2e-3, 2_000_000, 0.0),
            ("catalysis_two_atoms", "ppo", 2e-3, 2_000_000, 0.0),
            ("covid19", "ppo", 2e-3, 162_000, 2e-4),
            ("tag_gridworld", "ppo", 3e-3, 640_000, 3e-4),
            ("tag_gridworld", "a2c", 2e-3, 1_280_000, 1e-4),
        ] {
            check((env, algorithm), &[], "", rate, &[(0, first), (end, last)]);
        }
        check(("catalysis", "ppo"), &[], "", "ent_coef", &[(0, 1.0), (1_600_000, 0.0)]);
        for algorithm in ["ppo", "a2c"] {
            let tag = ("tag_continuous", algorithm);
            let late = [(0, 0.0), (240_000, 0.0), (240_001, 3e-3), (400_000, 3e-4)];
            check(tag, &[], "tagger", rate, &late);
            check(tag, &[], "runner", rate, &[(0, 3e-3), (240_000, 3e-4), (240_001, 0.0)]);
            let short = [(0, 3e-3), (36_000, 3e-4), (36_001, 0.0)];
            check(tag, &["total_steps=60000"], "runner", rate, &short);
        }
    }
}

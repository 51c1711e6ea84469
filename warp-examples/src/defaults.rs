//! Default configurations, embedded: what `warp train ENV` does when nothing else is said.

use crate::settings;
use anyhow::Context;
use warp_core::toml::{Table, Value};
use warp_func::Entry;

/// By environment and, where it matters, algorithm. The first one of an environment is its default.
const DEFAULTS: [(&str, &str, &str); 13] = [
    ("cartpole", "ppo", include_str!("../configs/cartpole.toml")),
    ("cartpole", "a2c", include_str!("../configs/cartpole-a2c.toml")),
    ("catalysis", "ppo", include_str!("../configs/catalysis.toml")),
    ("catalysis_two_atoms", "ppo", include_str!("../configs/catalysis_two_atoms.toml")),
    ("acrobot", "ppo", include_str!("../configs/acrobot.toml")),
    ("mountain_car", "ppo", include_str!("../configs/mountain_car.toml")),
    ("continuous_mountain_car", "ppo", include_str!("../configs/continuous_mountain_car.toml")),
    ("covid19", "ppo", include_str!("../configs/covid19.toml")),
    ("pendulum", "ppo", include_str!("../configs/pendulum.toml")),
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
        let table = settings::parse(text)
            .with_context(|| format!("the default configuration of {}", entry.name))?;
        let own = table.get("algorithm").and_then(Value::as_str).unwrap_or("ppo");
        if algorithm.is_none_or(|algorithm| algorithm == own) {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}

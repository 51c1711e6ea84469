//! Which runs are seeds of one another, and what tells the others apart: their configurations without
//! seed and length.

use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use warp_core::toml::{Table, Value};
use warp_func::Registry;
use warp_train::TrainConfig;

/// Keys that change nothing of what a run does until it ends.
const OTHER: [&str; 5] =
    ["seed", "total_steps", "checkpoint_steps", "keep_checkpoints", "algorithm"];
/// Keys in a label, at most.
const SHOWN: usize = 6;

/// What all seeds of a run have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The environment's name.
    pub env: String,
    /// The algorithm in capitals.
    pub algorithm: String,
    /// The other keys with their values, as TOML; inner ones joined by dots.
    keys: BTreeMap<String, String>,
}

impl Setting {
    /// That of a resolved configuration.
    ///
    /// # Errors
    /// An environment that is not known.
    pub fn new(config: &TrainConfig, registry: &Registry) -> Result<Self> {
        let table: Table = config.to_toml(registry.get(&config.run.env_id)?.fields).parse()?;
        let mut keys = BTreeMap::new();
        flatten("", &table, &mut keys);
        keys.retain(|key, _| !OTHER.contains(&key.as_str()));
        let algorithm = config.algorithm().to_uppercase();
        Ok(Self { env: config.run.env_id.clone(), algorithm, keys })
    }

    /// What it is called beside `others`: the algorithm, and the keys in which those with the same
    /// environment and algorithm differ.
    #[must_use]
    pub fn label<'a>(&self, others: impl IntoIterator<Item = &'a Setting>) -> String {
        let mut differ = BTreeSet::new();
        let same =
            |other: &&Setting| (&other.env, &other.algorithm) == (&self.env, &self.algorithm);
        for other in others.into_iter().filter(same) {
            let all = self.keys.keys().chain(other.keys.keys());
            differ.extend(all.filter(|key| self.keys.get(*key) != other.keys.get(*key)).cloned());
        }
        let mut label = self.algorithm.clone();
        for key in differ.iter().take(SHOWN) {
            let value = self.keys.get(key).map_or("-", String::as_str);
            label += &format!(", {key} = {value}");
        }
        if differ.len() > SHOWN {
            label += &format!(", {} more", differ.len() - SHOWN);
        }
        label
    }
}

fn flatten(before: &str, table: &Table, keys: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        let key = if before.is_empty() { key.clone() } else { format!("{before}.{key}") };
        match value {
            Value::Table(inner) => flatten(&key, inner, keys),
            other => drop(keys.insert(key, other.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(sets: &[&str]) -> Setting {
        let registry = warp_envs::registry();
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        let config = crate::settings::configure("cartpole", &sets, &registry).unwrap();
        Setting::new(&config, &registry).unwrap()
    }

    #[test]
    fn seeds_and_lengths_are_one_setting() {
        let plain = setting(&["learning_rate=1e-3"]);
        let other = ["learning_rate=0.001", "seed=7", "total_steps=5", "checkpoint_steps=0"];
        assert_eq!(plain, setting(&other));
        assert_ne!(plain, setting(&["learning_rate=1e-4"]));
        assert_ne!(plain, setting(&["learning_rate=1e-3", "env.episode_length=400"]));
    }

    #[test]
    fn a_label_says_what_differs() {
        let settings = [
            setting(&["learning_rate=1e-3"]),
            setting(&["learning_rate=1e-4", "hidden=[8]"]),
            setting(&["algorithm=a2c"]),
        ];
        let labels: Vec<String> = settings.iter().map(|one| one.label(&settings)).collect();
        assert_eq!(labels[0], "PPO, hidden = [64, 64], learning_rate = 0.001");
        assert_eq!(labels[1], "PPO, hidden = [8], learning_rate = 0.0001");
        assert_eq!(labels[2], "A2C");
        assert_eq!(settings[0].label(&settings[..1]), "PPO");
    }
}

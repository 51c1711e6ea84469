//! Which runs are seeds of one configuration, and in which keys the others differ: their
//! configurations without seed and length, and those that they had before they were resumed with others.

use crate::run_config::read_config_of;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use warp_core::toml::{Table, Value};
use warp_func::Registry;
use warp_train::config::{FOLDER_KEYS, RECORD_KEYS};
use warp_train::{PolicyConfig, Run, TrainConfig};

/// What a setting says apart, or what makes a run one of its seeds.
const APART: [&str; 3] = ["seed", "total_steps", "algorithm"];
/// Keys in a label, at most.
const SHOWN: usize = 6;

/// What all seeds of a run have in common.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The environment's name.
    pub env: String,
    /// The algorithm in capitals.
    pub algorithm: String,
    total_steps: u64,
    /// The other keys with their values; inner ones joined by dots.
    keys: BTreeMap<String, Value>,
    /// Steps at which a resumed run got other keys, with those that it had until then.
    changes: Vec<(u64, BTreeMap<String, Value>)>,
}

impl Setting {
    /// The setting of a resolved configuration.
    ///
    /// # Errors
    /// An environment that is not known.
    pub fn new(config: &TrainConfig, registry: &Registry) -> Result<Self> {
        let table: Table = config.to_toml(registry.get(&config.run.env_id)?.fields).parse()?;
        let mut keys = BTreeMap::new();
        flatten("", &table, &mut keys);
        let left_out = || APART.into_iter().chain(RECORD_KEYS).chain(FOLDER_KEYS);
        keys.retain(|key, _| left_out().all(|other| other != key.as_str()));
        let algorithm = config.algorithm().to_uppercase();
        let (env, total_steps) = (config.run.env_id.clone(), config.run.total_steps);
        Ok(Self { env, algorithm, total_steps, keys, changes: Vec::new() })
    }

    /// The setting of the run in `folder`, whose configuration is `config`, as far as its first `until` steps.
    ///
    /// # Errors
    /// An earlier configuration that can't be read.
    pub fn of_run(
        folder: &Path,
        config: &TrainConfig,
        until: u64,
        registry: &Registry,
    ) -> Result<Self> {
        let mut parts = Vec::new();
        for (step, text) in Run::earlier_configs(folder)? {
            parts.push((step, Self::new(&read_config_of(folder, &text, registry)?, registry)?));
        }
        parts.push((u64::MAX, Self::new(config, registry)?));
        // The first part that reaches so far is the last one that matters.
        let n_before = parts.iter().filter(|(end, _)| *end < until).count();
        parts.truncate(n_before + 1);
        let changes: Vec<_> = parts
            .windows(2)
            .filter(|pair| !pair[0].1.is_same(&pair[1].1))
            .map(|pair| (pair[0].0, pair[0].1.keys.clone()))
            .collect();
        let last = parts.pop().map_or_else(|| Self::new(config, registry), |(_, last)| Ok(last))?;
        Ok(Self { changes, ..last })
    }

    /// Whether runs of both are seeds of one configuration.
    #[must_use]
    pub fn is_same(&self, other: &Setting) -> bool {
        self.is_comparable(other)
            && self.changes == other.changes
            && self.differing(other).next().is_none()
    }

    fn is_comparable(&self, other: &Setting) -> bool {
        (&self.env, &self.algorithm) == (&other.env, &other.algorithm)
    }

    /// The keys in which both differ.
    fn differing<'a>(&'a self, other: &'a Setting) -> impl Iterator<Item = &'a String> {
        let all: BTreeSet<&String> = self.keys.keys().chain(other.keys.keys()).collect();
        all.into_iter().filter(|key| {
            let values = (self.keys.get(*key), other.keys.get(*key));
            let is_schedule = PolicyConfig::is_schedule(key.rsplit('.').next().unwrap_or_default());
            let at_shares = |(a, b)| is_schedule && self.has_points_at_shares(a, other, b);
            values.0 != values.1 && !matches!(values, (Some(a), Some(b)) if at_shares((a, b)))
        })
    }

    /// Whether `a` and `b` of `other` are schedules with the same values at the same shares of their
    /// runs, up to the rounding to whole steps.
    fn has_points_at_shares(&self, a: &Value, other: &Setting, b: &Value) -> bool {
        let number = |value: &Value| value.as_float().or(value.as_integer().map(|n| n as f64));
        let points = |value: &Value| -> Option<Vec<(f64, f64)>> {
            let point = |point: &Value| match point.as_array()?.as_slice() {
                [step, value] => Some((number(step)?, number(value)?)),
                _ => None,
            };
            value.as_array()?.iter().map(point).collect()
        };
        let (Some(a), Some(b)) = (points(a), points(b)) else { return false };
        let (own, others) = (self.total_steps.max(1) as f64, other.total_steps.max(1) as f64);
        let step = 1.5 / own.min(others);
        let near = |(a, b): (&(f64, f64), &(f64, f64))| {
            a.1 == b.1 && (a.0 / own - b.0 / others).abs() <= step
        };
        a.len() == b.len() && a.iter().zip(&b).all(near)
    }

    /// What it is called beside `others`: the algorithm, the keys in which those with the same
    /// environment and algorithm differ, and where it got other keys.
    #[must_use]
    pub fn label<'a>(&self, others: impl IntoIterator<Item = &'a Setting>) -> String {
        let mut differ = BTreeSet::new();
        for other in others.into_iter().filter(|other| self.is_comparable(other)) {
            differ.extend(self.differing(other));
        }
        let mut label = self.algorithm.clone();
        for key in differ.iter().take(SHOWN) {
            let value = self.keys.get(*key).map_or("-".into(), Value::to_string);
            label += &format!(", {key} = {value}");
        }
        if differ.len() > SHOWN {
            label += &format!(", {} more", differ.len() - SHOWN);
        }
        for (step, _) in &self.changes {
            label += &format!(", changed at step {step}");
        }
        label
    }
}

fn flatten(before: &str, table: &Table, keys: &mut BTreeMap<String, Value>) {
    for (key, value) in table {
        let key = if before.is_empty() { key.clone() } else { format!("{before}.{key}") };
        match value {
            Value::Table(inner) => flatten(&key, inner, keys),
            other => drop(keys.insert(key, other.clone())),
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
        assert!(plain.is_same(&setting(&other)));
        assert!(!plain.is_same(&setting(&["learning_rate=1e-4"])));
        assert!(!plain.is_same(&setting(&["learning_rate=1e-3", "env.episode_length=400"])));
    }

    #[test]
    fn schedules_are_the_same_by_steps_or_by_shares() {
        let runs = |rate: &str| {
            let rate = format!("learning_rate={rate}");
            ["total_steps=1000", "total_steps=3001"].map(|steps| setting(&[&rate, steps]))
        };
        let jump = r#"[["0%", 1e-3], ["60%", 1e-4], ["60%", 0.0]]"#;
        for same in [r#"[["0%", 1e-3], ["100%", 0.0]]"#, jump, "[[0, 1e-3], [500, 0.0]]"] {
            let [short, long] = runs(same);
            assert!(short.is_same(&long), "{same}");
        }
        let other = runs("[[0, 1e-3], [400, 0.0]]");
        assert!(runs("[[0, 1e-3], [500, 0.0]]").iter().all(|one| !one.is_same(&other[0])));
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

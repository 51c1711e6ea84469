//! The algorithms that configurations may name, and how programs add their own.

use super::entry::Entry;
use super::policy_config::PolicyConfig;
use super::table::ALGORITHMS;
use crate::error::{Error, Result};
use warp_core::Config;
use warp_core::toml::Table;
use warp_func::Registry;

/// A user's own algorithms in a registry.
pub trait WithAlgorithm {
    /// Adds an algorithm; one of the same name is replaced.
    #[must_use]
    fn with_algorithm(self, algorithm: Entry) -> Self;
}

impl WithAlgorithm for Registry {
    fn with_algorithm(self, algorithm: Entry) -> Self {
        self.with_extension(algorithm)
    }
}

/// The algorithms that a configuration may name.
#[derive(Debug, Clone, PartialEq)]
pub struct Algorithms(Vec<Entry>);

impl Algorithms {
    /// This crate's, and those that `registry` adds.
    #[must_use]
    pub fn of(registry: &Registry) -> Self {
        let mut all = ALGORITHMS.to_vec();
        for own in registry.extensions::<Entry>() {
            all.retain(|entry| entry.name != own.name);
            all.push(*own);
        }
        Self(all)
    }

    /// The one called `name`.
    ///
    /// # Errors
    /// No such algorithm, with those that there are.
    pub fn get(&self, name: &str) -> Result<&Entry> {
        self.0.iter().find(|entry| entry.name == name).ok_or_else(|| {
            let names: Vec<_> = self.0.iter().map(|entry| format!("\"{}\"", entry.name)).collect();
            Error::Config(warp_core::Error::WrongType {
                key: "algorithm".into(),
                value: format!("\"{name}\""),
                expected: format!("one of {}", names.join(", ")),
            })
        })
    }

    /// The one that `keys` name, if they name one.
    ///
    /// # Errors
    /// As [`Algorithms::get`].
    pub(crate) fn named(&self, keys: &Table) -> Result<Option<&Entry>> {
        let Some(value) = keys.get("algorithm") else { return Ok(None) };
        let mut config = PolicyConfig::default();
        config.set("algorithm", value)?;
        self.get(&config.algorithm).map(Some)
    }

    /// The keys that algorithms declare for themselves.
    pub(crate) fn own_keys(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().flat_map(|entry| entry.own_fields().iter().map(|field| field.name))
    }

    /// Whether `key` is one that an algorithm declares for itself.
    pub(crate) fn is_own(&self, key: &str) -> bool {
        self.own_keys().any(|own| own == key)
    }
}

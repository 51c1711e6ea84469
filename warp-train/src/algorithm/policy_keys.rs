//! A policy's keys as a configuration gives them, of which its algorithm reads some.

use super::algorithms::Algorithms;
use super::entry::Entry;
use super::policy_config::PolicyConfig;
use crate::error::{Error, Result};
use warp_core::Config;
use warp_core::toml::{Table, Value};
use warp_func::Registry;

/// A policy's algorithm and keys.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PolicyKeys {
    pub(crate) algorithm: Entry,
    pub(crate) config: PolicyConfig,
    /// Those that the algorithm alone declares.
    pub(crate) own: Table,
}

impl PolicyKeys {
    /// The value of `key`, if it is set.
    pub(crate) fn get(&self, key: &str) -> Option<Value> {
        self.config.get(key).or_else(|| self.own.get(key).cloned())
    }

    /// The defaults of the algorithm that `own` or `given` names, then the keys `given` for all policies
    /// that it reads, then its `own`, which messages put under `prefix`.
    ///
    /// # Errors
    /// An algorithm or key that there is not, or a value that does not fit.
    pub(crate) fn new(
        algorithms: &Algorithms,
        given: &Table,
        prefix: &str,
        own: &Table,
        total_steps: u64,
    ) -> Result<Self> {
        let named = match algorithms.named(own)? {
            Some(entry) => Some(entry),
            None => algorithms.named(given)?,
        };
        let default = || algorithms.get(&PolicyConfig::default().algorithm);
        let algorithm = *named.map_or_else(default, Ok)?;
        if let Some((key, value)) = own.iter().find(|(key, _)| is_key(key) && !algorithm.reads(key))
        {
            return Err(foreign_key(&algorithm, key, value, prefix));
        }
        let mut given = given.clone();
        given.retain(|key, _| algorithm.reads(key));
        let split = |keys: &Table| -> (Table, Table) {
            keys.clone().into_iter().partition(|(key, _)| algorithm.is_own(key))
        };
        let ((mut declared, given), (own_declared, own)) = (split(&given), split(own));
        declared.extend(own_declared);
        let config = PolicyConfig::of(&algorithm, total_steps).with(&given, total_steps)?;
        let config = config.with(&own, total_steps).map_err(|e| e.under(prefix))?;
        Ok(Self { own: algorithm.own_keys(&declared)?, algorithm, config })
    }
}

/// Takes from a configuration the keys that no algorithm of its policies reads: earlier versions wrote all keys, and
/// defaults may be of another algorithm.
pub fn drop_foreign_keys(table: &mut Table, registry: &Registry) {
    let algorithms = Algorithms::of(registry);
    // A name that nobody knows is refused later.
    let named = |keys: &Table| algorithms.named(keys).ok().flatten().copied();
    let default = algorithms.get(&PolicyConfig::default().algorithm).ok().copied();
    let Some(shared) = named(table).or(default) else { return };
    let mut used = Vec::new();
    if let Some(Value::Table(policies)) = table.get_mut("policy") {
        for (_, keys) in policies.iter_mut() {
            let Value::Table(keys) = keys else { continue };
            let own = named(keys).unwrap_or(shared);
            keys.retain(|key, _| !is_key(key) || own.reads(key));
            used.push(own);
        }
    }
    // Without any table, all policies have the algorithm of the top level.
    if used.is_empty() {
        used.push(shared);
    }
    table.retain(|key, _| !is_key(key) || used.iter().any(|algorithm| algorithm.reads(key)));
}

fn is_key(key: &str) -> bool {
    PolicyConfig::fields().iter().any(|field| field.name == key)
}

/// The error for a key that `algorithm` does not read, under `prefix`, with the nearest that it does.
pub(crate) fn foreign_key(algorithm: &Entry, key: &str, value: &Value, prefix: &str) -> Error {
    let fields = PolicyConfig::fields().iter().chain(algorithm.own_fields());
    let own = fields.map(|field| field.name).filter(|key| algorithm.reads(key));
    let nearest = warp_core::config::nearest(key, own);
    let hint = nearest.map_or_else(String::new, |key| format!("; did you mean {key}?"));
    Error::Invalid(format!("{prefix}{key} = {value}: {} has no such key{hint}", algorithm.name))
}

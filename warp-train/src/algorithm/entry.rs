//! What is known of an algorithm by its name.

use super::keys::COMMON;
use super::on_policy::OnPolicyAlgorithm;
use super::{Algorithm, Plan};
#[cfg(doc)]
use crate::algorithm::PolicyConfig;
use crate::algorithm::PolicyPlan;
use crate::error::Result;
use warp_core::toml::{Table, Value};
use warp_core::{Config, ConfigField, EnvSpec};

/// What is known of an algorithm.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// What configurations call it.
    pub name: &'static str,
    /// The keys of [`PolicyConfig`] that it reads, beside [`COMMON`].
    pub keys: &'static [&'static [&'static str]],
    /// Its defaults where they differ, as TOML.
    pub defaults: &'static str,
    /// Keys of its own.
    pub own: Option<OwnKeys>,
    /// What it learns from.
    pub learns: Learns,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// What an algorithm learns from.
#[derive(Debug, Clone, Copy)]
pub enum Learns {
    /// Each rollout by itself.
    FromRollouts(OnPolicyOf),
    /// Batches of a replay memory.
    FromReplay(PlanOf),
}

/// Makes an algorithm for a policy.
pub type OnPolicyOf = fn(&PolicyPlan, &EnvSpec) -> Result<Box<dyn OnPolicyAlgorithm>>;

/// Declares an algorithm for a policy.
pub type PlanOf = fn(&PolicyPlan, &EnvSpec) -> Result<Planned>;

/// What a function of type [`PlanOf`] returns.
#[derive(Debug)]
pub struct Planned {
    /// The columns, models, passes and so on that the algorithm declares.
    pub plan: Plan,
    /// The schedule over them.
    pub algorithm: Box<dyn Algorithm>,
}

/// Keys that an algorithm outside this crate declares with [`warp_core::config!`].
#[derive(Debug, Clone, Copy)]
pub struct OwnKeys {
    fields: fn() -> &'static [ConfigField],
    complete: fn(&Table) -> warp_core::Result<Table>,
}

impl OwnKeys {
    /// The keys of `K`; an algorithm gets them by [`PolicyPlan::own_keys`].
    #[must_use]
    pub const fn of<K: Config>() -> Self {
        Self { fields: K::fields, complete: |given| Ok(K::from_table(given)?.to_table()) }
    }

    /// All of them, in the order of declaration.
    pub(crate) fn fields(&self) -> &'static [ConfigField] {
        (self.fields)()
    }
}

impl Entry {
    /// Whether the algorithm reads `key`.
    #[must_use]
    pub fn reads(&self, key: &str) -> bool {
        COMMON.contains(&key)
            || self.keys.iter().any(|keys| keys.contains(&key))
            || self.is_own(key)
    }

    /// Whether `key` is one that this algorithm alone declares.
    pub(crate) fn is_own(&self, key: &str) -> bool {
        self.own_fields().iter().any(|field| field.name == key)
    }

    /// The keys that this algorithm alone declares.
    pub(crate) fn own_fields(&self) -> &'static [ConfigField] {
        self.own.map_or(&[], |own| own.fields())
    }

    /// Its own keys with what `given` says of them, complete.
    pub(crate) fn own_keys(&self, given: &Table) -> warp_core::Result<Table> {
        let Some(own) = self.own else { return Ok(Table::new()) };
        let is_own = |(key, _): &(&String, &Value)| self.is_own(key);
        let given = given.iter().filter(is_own).map(|(key, value)| (key.clone(), value.clone()));
        (own.complete)(&given.collect())
    }

    /// Whether it learns from a replay memory.
    pub(crate) fn is_off_policy(&self) -> bool {
        matches!(self.learns, Learns::FromReplay(_))
    }
}

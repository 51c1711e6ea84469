//! Networks that a configuration may name: how programs add their own.

use crate::algorithm::PolicyPlan;
use crate::error::{Error, Result};
use crate::network::Policy;
use std::fmt::{Debug, Formatter};
use std::sync::Arc;
use warp_core::EnvSpec;
use warp_func::Registry;

/// What a user's own network starts from.
#[derive(Debug, Clone, Copy)]
pub struct NetworkStart<'a> {
    /// The policy that it is for.
    pub plan: &'a PolicyPlan,
    /// The environment.
    pub spec: &'a EnvSpec,
    /// The seed of its initial weights: derived from the run's, and different for each policy of a
    /// run.
    pub seed: u64,
    /// Threads that it may use; its results must not depend on them.
    pub threads: usize,
}

type Make = dyn Fn(&NetworkStart<'_>) -> Result<Box<dyn Policy>> + Send + Sync;

/// A user's own network, under a name; equal to another of the same name.
#[derive(Clone)]
pub struct OwnNetwork {
    name: &'static str,
    make: Arc<Make>,
}

impl OwnNetwork {
    /// The network that configurations call `name`; burn modules have
    /// `warp_train::burn::own_network`.
    pub fn new<P: Policy + 'static>(
        name: &'static str,
        make: impl Fn(&NetworkStart<'_>) -> Result<P> + Send + Sync + 'static,
    ) -> Self {
        let boxed = move |start: &NetworkStart<'_>| -> Result<Box<dyn Policy>> {
            Ok(Box::new(make(start)?))
        };
        Self { name, make: Arc::new(boxed) }
    }
}

impl Debug for OwnNetwork {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OwnNetwork").field(&self.name).finish()
    }
}

impl PartialEq for OwnNetwork {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// A user's own networks in a registry.
pub trait WithNetwork {
    /// Adds a network, which `network = "NAME"` then stands for; one of the same name is replaced.
    #[must_use]
    fn with_network(self, network: OwnNetwork) -> Self;
}

impl WithNetwork for Registry {
    fn with_network(self, network: OwnNetwork) -> Self {
        self.with_extension(network)
    }
}

/// The networks that a configuration may name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OwnNetworks(Vec<OwnNetwork>);

impl OwnNetworks {
    /// The networks that `registry` adds.
    pub(crate) fn of(registry: &Registry) -> Self {
        Self(registry.extensions::<OwnNetwork>().cloned().collect())
    }

    /// The one that `plan` names, if it names one.
    ///
    /// # Errors
    /// No such network, with those that there are.
    pub(crate) fn of_policy(&self, plan: &PolicyPlan) -> Result<Option<&OwnNetwork>> {
        let Some(name) = &plan.config.network else { return Ok(None) };
        // The last of a name has replaced those before it.
        let found = self.0.iter().rev().find(|network| network.name == name);
        found.map(Some).ok_or_else(|| {
            let known: Vec<_> = self.0.iter().map(|network| network.name).collect();
            let known = match &known[..] {
                [] => "this program has none of its own".into(),
                _ => format!("this program has {}", known.join(", ")),
            };
            let own = &plan.name;
            Error::Invalid(format!("policy \"{own}\": network = \"{name}\", but {known}"))
        })
    }
}

impl OwnNetwork {
    /// A policy of this network.
    pub(crate) fn make(&self, start: &NetworkStart<'_>) -> Result<Box<dyn Policy>> {
        (self.make)(start)
    }
}

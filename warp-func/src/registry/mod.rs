//! Environments by name.
//!
//! A [`Registry`] is a value, not a global: the program that builds one decides what is in it, and a
//! user's own program has every command for its own environments. An [`Entry`] describes one environment;
//! `body` creates those that are written as an `Env`, `maker` simulators of any other kind, and `kind` says what both
//! can do.

mod body;
mod entry;
mod extensions;
mod kind;
mod maker;

pub use entry::Entry;
pub use maker::Maker;

use crate::drawing::Drawing;
use crate::error::{Error, Result};
use extensions::Extensions;
use std::any::Any;
use std::fmt::Debug;
use warp_core::Env;

/// Environments by name.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    entries: Vec<Entry>,
    extensions: Extensions,
}

impl Registry {
    /// No environments.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an environment; one of the same name is replaced.
    #[must_use]
    pub fn with<E: Env>(mut self) -> Self {
        self.entries.retain(|other| other.name != E::NAME);
        self.entries.push(Entry::of::<E>());
        self
    }

    /// Adds a simulator that is no [`Env`], under a name of its own; one of the same name is replaced.
    /// It is trained in, evaluated and measured as all others are. What needs a body (parity, a GPU,
    /// reset pools, the conformance check) ends with [`Error::Foreign`].
    #[must_use]
    pub fn with_maker(mut self, name: &'static str, maker: impl Maker) -> Self {
        self.entries.retain(|other| other.name != name);
        self.entries.push(Entry::made(name, maker));
        self
    }

    /// Sets the drawing of an environment, for all commands that show one; adds the environment if it is
    /// missing.
    #[must_use]
    pub fn with_drawing<E: Env>(self, drawing: Drawing) -> Self {
        self.changed::<E>(|entry| entry.drawing = Some(drawing))
    }

    /// Gives an environment a default training configuration, as the text of a TOML file; one for each
    /// algorithm may be given, the default first. Adds the environment if it is missing.
    #[must_use]
    pub fn with_defaults<E: Env>(self, toml: &'static str) -> Self {
        self.changed::<E>(|entry| entry.training.push(toml))
    }

    fn changed<E: Env>(mut self, change: impl FnOnce(&mut Entry)) -> Self {
        match self.entries.iter_mut().find(|entry| entry.name == E::NAME) {
            Some(entry) => change(entry),
            None => {
                let mut entry = Entry::of::<E>();
                change(&mut entry);
                self.entries.push(entry);
            }
        }
        self
    }

    /// This registry's environments, each of which [`Entry::make`] creates on the GPU of these kernels, so that
    /// callers that create them by name need not know about devices.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn on_gpu(&self, kernels: &crate::cuda::Kernels, build: crate::cuda::Build) -> Self {
        Self {
            entries: self.entries.iter().map(|entry| entry.on_gpu(kernels, build)).collect(),
            extensions: self.extensions.clone(),
        }
    }

    /// Adds something that a crate above offers by name, such as an algorithm; that crate knows `T` and
    /// finds it with [`Registry::extensions`].
    #[must_use]
    pub fn with_extension<T: Any + Debug + Send + Sync>(mut self, extension: T) -> Self {
        self.extensions.push(extension);
        self
    }

    /// What was added of this type, in that order.
    pub fn extensions<T: Any>(&self) -> impl Iterator<Item = &T> {
        self.extensions.of::<T>()
    }

    /// All environments, in the order they were added.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// The environment called `name`, or else the one with that alias.
    ///
    /// # Errors
    /// No such environment; the message lists those that exist.
    pub fn get(&self, name: &str) -> Result<&Entry> {
        let names = || self.entries.iter().map(|entry| entry.name);
        let aliases = || self.entries.iter().flat_map(|entry| entry.aliases.iter().copied());
        let called = self.entries.iter().find(|entry| entry.name == name);
        let known = || self.entries.iter().find(|entry| entry.aliases.contains(&name));
        called.or_else(known).ok_or_else(|| Error::UnknownEnv {
            name: name.into(),
            known: names().collect::<Vec<_>>().join(", "),
            nearest: warp_core::config::nearest(name, names().chain(aliases())),
        })
    }
}

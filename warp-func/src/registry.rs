//! Environments by name.
//!
//! A [`Registry`] is a value, not a global: whoever builds one decides what is in it, and a user's
//! own program has every command for its own environments.

use crate::blueprint::Blueprint;
use crate::drawing::Drawing;
use crate::error::{Error, Result};
use crate::executor::CpuVecEnv;
use crate::pool::StateField;
use crate::vec_env::{VecEnv, VecOptions};
use std::marker::PhantomData;
use std::sync::Arc;
use warp_core::toml::Table;
use warp_core::{Config, ConfigField, Env, EnvSpec, Kernel};

/// What is known of an environment without building it.
#[derive(Clone)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// Other names that it answers to.
    pub aliases: &'static [&'static str],
    /// The keys of its configuration.
    pub fields: &'static [ConfigField],
    /// The default configuration.
    pub defaults: Table,
    /// What whoever trains in it should know first, in a line.
    pub notice: Option<&'static str>,
    /// How it is drawn, if somebody has said so.
    pub drawing: Option<Drawing>,
    /// Its default training configurations in TOML; the first one is the default where no algorithm is
    /// named.
    pub training: Vec<&'static str>,
    /// Its CUDA body, if it has one.
    pub kernel: Option<Kernel>,
    kind: Arc<dyn Kind>,
    /// Where [`Entry::make`] builds it, if not on the host.
    #[cfg(feature = "cuda")]
    gpu: Option<(crate::cuda::Kernels, crate::cuda::Build)>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Entry {
    fn of<E: Env>() -> Self {
        Self {
            name: E::NAME,
            aliases: E::ALIASES,
            fields: E::Config::fields(),
            defaults: E::Config::default().to_table(),
            notice: E::NOTICE,
            drawing: None,
            training: Vec::new(),
            kernel: E::kernel(),
            kind: Arc::new(Of::<E>(PhantomData)),
            #[cfg(feature = "cuda")]
            gpu: None,
        }
    }

    /// Builds the environment with `config` over its defaults: on the host, or on the GPU of
    /// `Registry::on_gpu`.
    ///
    /// # Errors
    /// An unknown key, a value out of range, or too little memory.
    pub fn make(&self, config: &Table, options: &VecOptions) -> Result<Box<dyn VecEnv>> {
        #[cfg(feature = "cuda")]
        if let Some((kernels, build)) = &self.gpu {
            return self.make_cuda(config, options, (kernels, *build));
        }
        self.kind.make(config, options)
    }

    /// As [`Entry::make`], on the GPU whose kernels these are.
    ///
    /// # Errors
    /// As [`Entry::make`]; or no CUDA body, or one that does not compile.
    #[cfg(feature = "cuda")]
    pub fn make_cuda(
        &self,
        config: &Table,
        options: &VecOptions,
        (kernels, build): (&crate::cuda::Kernels, crate::cuda::Build),
    ) -> Result<Box<dyn VecEnv>> {
        self.kind.make_cuda(config, options, (kernels, build))
    }

    /// The same environment, made on the host.
    #[must_use]
    pub(crate) fn on_host(&self) -> Self {
        Self {
            #[cfg(feature = "cuda")]
            gpu: None,
            ..self.clone()
        }
    }

    /// The complete configuration that `config` leads to, and what the environment looks like then.
    ///
    /// # Errors
    /// An unknown key or a value out of range.
    pub fn describe(&self, config: &Table) -> Result<(Table, EnvSpec)> {
        self.kind.describe(config)
    }

    /// Bytes of all arrays of one replica.
    ///
    /// # Errors
    /// As [`Entry::describe`].
    pub fn bytes_per_replica(&self, config: &Table) -> Result<u128> {
        self.kind.bytes_per_replica(config)
    }

    /// Bytes of one row of a reset pool, that is, of one replica's state.
    ///
    /// # Errors
    /// As [`Entry::describe`].
    pub fn bytes_per_pool_row(&self, config: &Table) -> Result<u128> {
        self.kind.bytes_per_pool_row(config)
    }

    /// What another machine needs to run the environment.
    ///
    /// # Errors
    /// As [`Entry::describe`], or a CUDA body that breaks the contract.
    pub fn blueprint(&self, config: &Table) -> Result<Blueprint> {
        self.kind.blueprint(config)
    }

    /// Checks the environment against the contract, alone and in an executor.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, config: &Table, seed: u64) -> Result<()> {
        self.kind.check(config, seed)
    }
}

/// What an entry can do, whatever the type of its environment.
trait Kind: Send + Sync {
    fn make(&self, config: &Table, options: &VecOptions) -> Result<Box<dyn VecEnv>>;
    #[cfg(feature = "cuda")]
    fn make_cuda(
        &self,
        config: &Table,
        options: &VecOptions,
        on: (&crate::cuda::Kernels, crate::cuda::Build),
    ) -> Result<Box<dyn VecEnv>>;
    fn describe(&self, config: &Table) -> Result<(Table, EnvSpec)>;
    fn bytes_per_replica(&self, config: &Table) -> Result<u128>;
    fn bytes_per_pool_row(&self, config: &Table) -> Result<u128>;
    fn blueprint(&self, config: &Table) -> Result<Blueprint>;
    fn check(&self, config: &Table, seed: u64) -> Result<()>;
}

struct Of<E>(PhantomData<fn() -> E>);

impl<E: Env> Of<E> {
    fn config(table: &Table) -> Result<E::Config> {
        Ok(E::Config::from_table(table).map_err(|e| e.under("env."))?)
    }

    fn build(config: &E::Config) -> Result<E> {
        Ok(E::new(config).map_err(|e| e.under("env."))?)
    }
}

impl<E: Env> Kind for Of<E> {
    fn make(&self, config: &Table, options: &VecOptions) -> Result<Box<dyn VecEnv>> {
        let env = Self::build(&Self::config(config)?)?;
        Ok(Box::new(CpuVecEnv::new(env, options.clone())?))
    }

    #[cfg(feature = "cuda")]
    fn make_cuda(
        &self,
        config: &Table,
        options: &VecOptions,
        (kernels, build): (&crate::cuda::Kernels, crate::cuda::Build),
    ) -> Result<Box<dyn VecEnv>> {
        use crate::executor::{plan, starts};
        let env = Self::build(&Self::config(config)?)?;
        let blueprint = Blueprint::new(&env)?;
        let pool_rows = starts::pool_rows(&env, options)?;
        let (plan, ids) = plan::plan(&env, &blueprint.spec, options.n_envs, pool_rows)?;
        let mut host = plan.allocate()?;
        starts::fill_pool(&env, options, host.edit(), &ids);
        let made = (&plan, host, ids);
        Ok(Box::new(crate::cuda::CudaVecEnv::new(
            kernels,
            build,
            &blueprint,
            options.clone(),
            made,
        )?))
    }

    fn describe(&self, config: &Table) -> Result<(Table, EnvSpec)> {
        let config = Self::config(config)?;
        Ok((config.to_table(), Self::build(&config)?.spec()))
    }

    fn bytes_per_replica(&self, config: &Table) -> Result<u128> {
        let env = Self::build(&Self::config(config)?)?;
        Ok(crate::executor::plan::plan(&env, &env.spec(), 1, 0)?.0.bytes())
    }

    fn bytes_per_pool_row(&self, config: &Table) -> Result<u128> {
        let env = Self::build(&Self::config(config)?)?;
        Ok(crate::executor::starts::fields(&env)?.iter().map(StateField::bytes).sum())
    }

    fn blueprint(&self, config: &Table) -> Result<Blueprint> {
        Blueprint::new(&Self::build(&Self::config(config)?)?)
    }

    fn check(&self, config: &Table, seed: u64) -> Result<()> {
        let config = Self::config(config)?;
        warp_core::check_env::<E>(&config, seed)?;
        crate::check_vec_env::<E>(&config, seed)
    }
}

/// Environments by name.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    entries: Vec<Entry>,
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

    /// Has an environment drawn in this way, by all commands that show one; adds it, if it is not there.
    #[must_use]
    pub fn with_drawing<E: Env>(self, drawing: Drawing) -> Self {
        self.changed::<E>(|entry| entry.drawing = Some(drawing))
    }

    /// Gives an environment a default training configuration, the text of a TOML file; one for each
    /// algorithm may be given, the default first. Adds the environment, if it is not there.
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

    /// The same environments, each of which [`Entry::make`] builds on the GPU whose kernels these
    /// are: so that whoever builds by name needs to know nothing of devices.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn on_gpu(&self, kernels: &crate::cuda::Kernels, build: crate::cuda::Build) -> Self {
        let on = |entry: &Entry| Entry { gpu: Some((kernels.clone(), build)), ..entry.clone() };
        Self { entries: self.entries.iter().map(on).collect() }
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

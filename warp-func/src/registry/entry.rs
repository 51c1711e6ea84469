//! One environment of a registry: what is known of it, and how it is made.

use super::body::Body;
use super::kind::Kind;
use super::maker::{Made, Maker};
use crate::blueprint::Blueprint;
use crate::drawing::Drawing;
use crate::error::Result;
#[cfg(feature = "replicas")]
use crate::replicas::{ReplicaOptions, Replicas};
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
    /// A notice for users who train in it, in one line.
    pub notice: Option<&'static str>,
    /// Its drawing, if there is one.
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
    /// An environment that is written as `E`.
    pub(super) fn of<E: Env>() -> Self {
        Self {
            name: E::NAME,
            aliases: E::ALIASES,
            fields: E::Config::fields(),
            defaults: E::Config::default().to_table(),
            notice: E::NOTICE,
            drawing: None,
            training: Vec::new(),
            kernel: E::kernel(),
            kind: Arc::new(Body::<E>(PhantomData)),
            #[cfg(feature = "cuda")]
            gpu: None,
        }
    }

    /// A simulator that `maker` makes.
    pub(super) fn made<M: Maker>(name: &'static str, maker: M) -> Self {
        Self {
            name,
            aliases: &[],
            fields: M::Config::fields(),
            defaults: M::Config::default().to_table(),
            notice: maker.notice(),
            drawing: maker.drawing(),
            training: maker.training(),
            kernel: None,
            kind: Arc::new(Made { name, maker }),
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
            return self.make_cuda(config, options, kernels, *build);
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
        kernels: &crate::cuda::Kernels,
        build: crate::cuda::Build,
    ) -> Result<Box<dyn VecEnv>> {
        self.kind.make_cuda(config, options, kernels, build)
    }

    /// This environment, made on the GPU whose kernels these are.
    #[cfg(feature = "cuda")]
    pub(super) fn on_gpu(&self, kernels: &crate::cuda::Kernels, build: crate::cuda::Build) -> Self {
        Self { gpu: Some((kernels.clone(), build)), ..self.clone() }
    }

    /// The kernels of the GPU on which [`Entry::make`] creates it, if that is one.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn kernels(&self) -> Option<&crate::cuda::Kernels> {
        self.gpu.as_ref().map(|(kernels, _)| kernels)
    }

    /// This environment, made on the host.
    #[must_use]
    pub fn on_host(&self) -> Self {
        Self {
            #[cfg(feature = "cuda")]
            gpu: None,
            ..self.clone()
        }
    }

    /// Builds replicas that each go their own way, on the host.
    ///
    /// # Errors
    /// As [`Entry::make`]; [`Error::Foreign`](crate::Error::Foreign) without a body.
    #[cfg(feature = "replicas")]
    pub fn make_replicas(&self, config: &Table, options: &ReplicaOptions) -> Result<Replicas> {
        self.kind.make_replicas(config, options)
    }

    /// As [`Entry::make_replicas`], on the GPU whose kernels these are, with the same bits.
    ///
    /// # Errors
    /// As [`Entry::make_replicas`]; or no CUDA body, or one that does not compile.
    #[cfg(all(feature = "cuda", feature = "replicas"))]
    pub fn make_cuda_replicas(
        &self,
        config: &Table,
        options: &ReplicaOptions,
        numbers: crate::cuda::Numbers,
        kernels: &crate::cuda::Kernels,
    ) -> Result<crate::cuda::CudaReplicas> {
        // The host has none to move.
        let options = ReplicaOptions { threads: 1, ..options.clone() };
        let (host, blueprint) = (self.make_replicas(config, &options)?, self.blueprint(config)?);
        crate::cuda::CudaReplicas::new(host, &blueprint, numbers, kernels)
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
    /// As [`Entry::describe`]; [`Error::Foreign`](crate::Error::Foreign) without a body.
    pub fn bytes_per_pool_row(&self, config: &Table) -> Result<u128> {
        self.kind.bytes_per_pool_row(config)
    }

    /// What another machine needs to run the environment.
    ///
    /// # Errors
    /// As [`Entry::bytes_per_pool_row`], or a CUDA body that breaks the contract.
    pub fn blueprint(&self, config: &Table) -> Result<Blueprint> {
        self.kind.blueprint(config)
    }

    /// Checks the environment against the contract, on its own and in an executor.
    ///
    /// # Errors
    /// As [`Entry::bytes_per_pool_row`], or the first thing that is wrong.
    pub fn check(&self, config: &Table, seed: u64) -> Result<()> {
        self.kind.check(config, seed)
    }
}

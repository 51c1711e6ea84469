//! An environment that is written as an [`Env`]: its body is stepped by the executors, copied to other
//! machines and compared.

use super::kind::Kind;
use crate::blueprint::Blueprint;
use crate::error::Result;
use crate::executor::CpuVecEnv;
use crate::pool::StateField;
#[cfg(feature = "replicas")]
use crate::replicas::{ReplicaOptions, Replicas};
use crate::vec_env::{VecEnv, VecOptions};
use std::marker::PhantomData;
use warp_core::toml::Table;
use warp_core::{Config, Env, EnvSpec};

/// Makes replicas of `E`.
pub(super) struct Body<E>(pub(super) PhantomData<fn() -> E>);

impl<E: Env> Body<E> {
    fn config(table: &Table) -> Result<E::Config> {
        Ok(E::Config::from_table(table).map_err(|e| e.under("env."))?)
    }

    fn build(config: &E::Config) -> Result<E> {
        Ok(E::new(config).map_err(|e| e.under("env."))?)
    }
}

impl<E: Env> Kind for Body<E> {
    fn make(&self, config: &Table, options: &VecOptions) -> Result<Box<dyn VecEnv>> {
        let env = Self::build(&Self::config(config)?)?;
        Ok(Box::new(CpuVecEnv::new(env, options.clone())?))
    }

    #[cfg(feature = "replicas")]
    fn make_replicas(&self, config: &Table, options: &ReplicaOptions) -> Result<Replicas> {
        Replicas::new(Self::build(&Self::config(config)?)?, options.clone())
    }

    #[cfg(feature = "cuda")]
    fn make_cuda(
        &self,
        config: &Table,
        options: &VecOptions,
        kernels: &crate::cuda::Kernels,
        build: crate::cuda::Build,
    ) -> Result<Box<dyn VecEnv>> {
        use crate::executor::{plan, starts};
        let env = Self::build(&Self::config(config)?)?;
        let blueprint = Blueprint::new(&env)?;
        let (plan, ids) = plan::plan(&env, &blueprint.spec, options)?;
        let mut host = plan.allocate()?;
        starts::fill_pool(&env, options, host.edit(), &ids);
        Ok(Box::new(crate::cuda::CudaVecEnv::new(
            kernels,
            build,
            &blueprint,
            options.clone(),
            &plan,
            host,
            ids,
        )?))
    }

    fn describe(&self, config: &Table) -> Result<(Table, EnvSpec)> {
        let config = Self::config(config)?;
        Ok((config.to_table(), EnvSpec::of(&Self::build(&config)?)?))
    }

    fn bytes_per_replica(&self, config: &Table) -> Result<u128> {
        let env = Self::build(&Self::config(config)?)?;
        let spec = EnvSpec::of(&env)?;
        Ok(crate::executor::plan::plan(&env, &spec, &VecOptions::default())?.0.bytes())
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

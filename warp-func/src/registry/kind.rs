//! What an environment can do, whatever its type.

use crate::blueprint::Blueprint;
use crate::error::Result;
#[cfg(feature = "replicas")]
use crate::replicas::{ReplicaOptions, Replicas};
use crate::vec_env::{VecEnv, VecOptions};
use warp_core::EnvSpec;
use warp_core::toml::Table;

/// What stands behind an [`Entry`](super::Entry), whose methods are called the same.
pub(super) trait Kind: Send + Sync {
    fn make(&self, config: &Table, options: &VecOptions) -> Result<Box<dyn VecEnv>>;
    #[cfg(feature = "replicas")]
    fn make_replicas(&self, config: &Table, options: &ReplicaOptions) -> Result<Replicas>;
    #[cfg(feature = "cuda")]
    fn make_cuda(
        &self,
        config: &Table,
        options: &VecOptions,
        kernels: &crate::cuda::Kernels,
        build: crate::cuda::Build,
    ) -> Result<Box<dyn VecEnv>>;
    fn describe(&self, config: &Table) -> Result<(Table, EnvSpec)>;
    fn bytes_per_replica(&self, config: &Table) -> Result<u128>;
    fn bytes_per_pool_row(&self, config: &Table) -> Result<u128>;
    fn blueprint(&self, config: &Table) -> Result<Blueprint>;
    fn check(&self, config: &Table, seed: u64) -> Result<()>;
}

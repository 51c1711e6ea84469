//! The weights that policies start from.

use super::TrainConfig;
use crate::error::{Result, of_policy};
use crate::model::NamedTensor;

/// The weights that policy number `index` of `config` starts from, drawn from the run's seed.
///
/// # Errors
/// A network that can't be built, or not into memory.
pub(crate) fn initial_weights(config: &TrainConfig, index: usize) -> Result<Vec<NamedTensor>> {
    let plan = &config.policies[index];
    let network = plan.network(&config.spec);
    let what = format!("the network of policy \"{}\"", plan.name);
    warp_data::memory::check(&what, network.bytes(), "hidden")?;
    network.initial(policy_seed(config.run.seed, index)).map_err(of_policy(&plan.name))
}

/// The seed of the initial weights of policy number `index` in a run with `seed`: the policies of a run start from
/// different weights.
pub(crate) fn policy_seed(seed: u64, index: usize) -> u64 {
    seed.wrapping_add((index as u64) << 32)
}

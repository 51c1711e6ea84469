//! The native learner on the CPU.

use super::{Learner, PolicyLearner};
use crate::algorithm::PolicyPlan;
use crate::config::TrainConfig;
use crate::engine::LockstepLearner;
use crate::engine::policies::{native, no_own_networks, policy};
use crate::error::Result;
use crate::network::native::NamedPolicy;

/// Perceptrons on the CPU, without a tensor library.
pub type NativeLearner = PolicyLearner<NamedPolicy>;

impl PolicyLearner<NamedPolicy> {
    /// Multilayer perceptrons as `config` describes them, initialised from its seed. Results do not
    /// depend on `threads`.
    ///
    /// # Errors
    /// A network that can't be built.
    pub fn new(config: &TrainConfig, threads: usize) -> Result<Self> {
        no_own_networks(config, "native")?;
        let make = |index| native(config, index, threads);
        let policies = (0..config.policies.len()).map(make).collect::<Result<Vec<_>>>()?;
        Self::from_policies(config, policies)
    }
}

/// Policies of any algorithms on the CPU, without a tensor library; results do not depend on `threads`.
///
/// # Errors
/// A network that can't be built, actions that an algorithm does not take, or too little memory.
pub fn learner(config: &TrainConfig, threads: usize) -> Result<Box<dyn Learner>> {
    if config.policies.iter().any(PolicyPlan::is_off_policy) {
        return Ok(Box::new(LockstepLearner::new(config, threads)?));
    }
    if config.policies.iter().all(|plan| plan.config.network.is_none()) {
        return Ok(Box::new(NativeLearner::new(config, threads)?));
    }
    let make = |index| policy(config, index, threads);
    let policies = (0..config.policies.len()).map(make).collect::<Result<Vec<_>>>()?;
    Ok(Box::new(PolicyLearner::from_policies(config, policies)?))
}

//! The learner over burn: one [`BurnPolicy`] per policy of the run.

use super::PolicyLearner;
use crate::algorithm::PolicyPlan;
use crate::config::TrainConfig;
use crate::config::weights::initial_weights;
use crate::engine::policies::no_own_networks;
use crate::error::{Result, of_policy};
use crate::network::burn::{ActorCritic, BurnPolicy, NamedPolicy, PolicyNetwork};
use ::burn::tensor::Device;

/// Policies on burn tensors; networks of the user's own through [`BurnLearner::of_networks`].
pub type BurnLearner<N = ActorCritic> = PolicyLearner<NamedPolicy<N>>;

impl PolicyLearner<NamedPolicy<ActorCritic>> {
    /// Multilayer perceptrons as `config` describes them, initialised from its seed. Results do not
    /// depend on `threads`.
    ///
    /// # Errors
    /// A network that can't be built.
    pub fn new(config: &TrainConfig, threads: usize) -> Result<Self> {
        no_own_networks(config, "burn's perceptrons")?;
        let policies = (0..config.policies.len()).map(|index| perceptron(config, index));
        Self::of_networks(config, policies.collect::<Result<Vec<_>>>()?, threads)
    }
}

impl<N: PolicyNetwork> PolicyLearner<NamedPolicy<N>> {
    /// Ready-made policies, one per policy of `config`, in its order.
    ///
    /// # Errors
    /// An algorithm that learns from a replay memory.
    pub fn of_networks(
        config: &TrainConfig,
        policies: Vec<BurnPolicy<N>>,
        threads: usize,
    ) -> Result<Self> {
        let named = |(plan, policy): (&PolicyPlan, BurnPolicy<N>)| {
            NamedPolicy::new(&plan.name, policy, threads)
        };
        Self::from_policies(config, config.policies.iter().zip(policies).map(named).collect())
    }
}

/// The freshly initialised perceptron of policy `index`.
fn perceptron(config: &TrainConfig, index: usize) -> Result<BurnPolicy> {
    let (plan, device) = (&config.policies[index], Device::flex());
    let weights = initial_weights(config, index)?;
    let width = plan.group(&config.spec).observation_width();
    ActorCritic::from_tensors(&weights, plan.config.activation, &device)
        .and_then(|network| {
            BurnPolicy::from_network(
                network,
                width,
                plan.layout.clone(),
                plan.optimiser_config(),
                &device,
            )
        })
        .map_err(of_policy(&plan.name))
}

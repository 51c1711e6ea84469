//! The native learner on the CPU: multilayer perceptrons without a tensor library.
//!
//! `gemm` multiplies, `perceptron` goes forward and back through layers, `network` knows which layers
//! there are, `policy` trains them. Burn's learner, where it is built in, starts
//! from the same weights, and both read each other's checkpoints.

#[cfg(feature = "cuda")]
pub mod cuda;
mod gemm;
mod network;
pub(crate) mod perceptron;
mod policy;
pub(crate) mod wide;

use crate::batch::TrainablePolicy;
use crate::begin::{initial_weights, policy_seed};
use crate::config::{PolicyPlan, TrainConfig};
use crate::engine::LockstepLearner;
use crate::error::{Error, Result, of_policy};
use crate::learner::Learner;
use crate::loss::{Loss, LossMetrics, Minibatch};
use crate::model::PolicyTensors;
use crate::optimiser::limit;
use crate::own_network::NetworkStart;
use crate::policies::{Policy, PolicyLearner};
use network::Wanted;
use policy::NativePolicy;
use warp_func::Crew;

/// Perceptrons on the CPU, without a tensor library.
pub type NativeLearner = PolicyLearner<NamedPolicy>;

/// A native policy, its name and its threads.
#[derive(Debug)]
pub struct NamedPolicy {
    name: String,
    policy: NativePolicy,
    crew: Crew,
}

impl PolicyLearner<NamedPolicy> {
    /// Multilayer perceptrons as `config` describes them, initialised from its seed. Results do not
    /// depend on `threads`.
    ///
    /// # Errors
    /// A network that can't be built.
    pub fn new(config: &TrainConfig, threads: usize) -> Result<Self> {
        no_own_networks(config, "native")?;
        let make = |index| NamedPolicy::new(config, index, threads);
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

/// Policy number `index` of `config`, initialised from its seed: a network of the program's own, or a
/// perceptron.
pub(crate) fn policy(
    config: &TrainConfig,
    index: usize,
    threads: usize,
) -> Result<Box<dyn Policy>> {
    let plan = &config.policies[index];
    match config.networks.of_policy(plan)? {
        Some(network) => {
            let seed = policy_seed(config, index);
            network.make(&NetworkStart { plan, spec: &config.spec, seed, threads })
        }
        None => Ok(Box::new(NamedPolicy::new(config, index, threads)?)),
    }
}

/// Refuses networks of the program's own, which `backend` does not run.
pub(crate) fn no_own_networks(config: &TrainConfig, backend: &str) -> Result<()> {
    let own = |plan: &&PolicyPlan| plan.config.network.is_some();
    let Some(PolicyPlan { name, config, .. }) = config.policies.iter().find(own) else {
        return Ok(());
    };
    let network = config.network.as_deref().unwrap_or_default();
    Err(Error::Invalid(format!(
        "policy \"{name}\": network = \"{network}\" is the program's own, which runs on the CPU \
         (--device cpu --backend auto) and not on {backend}"
    )))
}

impl NamedPolicy {
    /// Policy number `index` of `config`, initialised from its seed.
    pub(crate) fn new(config: &TrainConfig, index: usize, threads: usize) -> Result<Self> {
        let plan = &config.policies[index];
        let weights = initial_weights(config, index)?;
        let (activation, layout) = (plan.config.activation, plan.layout.clone());
        let policy = NativePolicy::new(weights, activation, layout, plan.adam(), threads);
        Ok(Self {
            name: plan.name.clone(),
            policy: policy.map_err(of_policy(&plan.name))?,
            crew: Crew::new(threads),
        })
    }

    fn work(&mut self, obs: &[f32], wanted: Wanted<'_>) -> Result<()> {
        let Self { name, policy, crew } = self;
        policy.forward(obs, crew, wanted).map_err(of_policy(name))
    }
}

impl TrainablePolicy for NamedPolicy {
    fn values(&mut self, obs: &[f32], values: &mut [f32]) -> Result<()> {
        self.work(obs, Wanted { outputs: None, values: Some(values) })
    }

    fn gradients(&mut self, minibatch: &Minibatch<'_>, loss: &Loss) -> Result<LossMetrics> {
        let Self { name, policy, crew, .. } = self;
        policy.gradients(minibatch, loss, crew).map_err(of_policy(name))
    }

    fn step(&mut self, learning_rate: f64, max_grad_norm: f64) -> Result<f64> {
        let Self { name, policy, crew } = self;
        policy.step(learning_rate, limit(max_grad_norm), crew).map_err(of_policy(name))
    }
}

impl Policy for NamedPolicy {
    fn backend(&self) -> &'static str {
        "native"
    }

    fn forward(&mut self, obs: &[f32], outputs: &mut [f32], values: &mut [f32]) -> Result<()> {
        self.work(obs, Wanted { outputs: Some(outputs), values: Some(values) })
    }

    fn outputs(&mut self, obs: &[f32], outputs: &mut [f32]) -> Result<bool> {
        if self.policy.has_values_apart() {
            self.work(obs, Wanted { outputs: Some(outputs), values: None })?;
        }
        Ok(self.policy.has_values_apart())
    }

    fn tensors(&self) -> PolicyTensors {
        self.policy.tensors()
    }

    fn load(&mut self, tensors: &PolicyTensors) -> Result<()> {
        self.policy.load(tensors).map_err(of_policy(&self.name))
    }
}

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
use crate::begin::initial_weights;
use crate::config::{PolicyPlan, TrainConfig};
use crate::engine::LockstepLearner;
use crate::error::{Result, of_policy};
use crate::learner::Learner;
use crate::loss::{Loss, LossMetrics, Minibatch};
use crate::model::PolicyTensors;
use crate::optimiser::limit;
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
    Ok(match config.policies.iter().any(PolicyPlan::is_off_policy) {
        true => Box::new(LockstepLearner::new(config, threads)?),
        false => Box::new(NativeLearner::new(config, threads)?),
    })
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
    const BACKEND: &'static str = "native";

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

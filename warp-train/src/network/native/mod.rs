//! The native learner on the CPU: multilayer perceptrons without a tensor library.
//!
//! `gemm` multiplies, `perceptron` goes forward and back through layers, `network` knows which layers
//! there are, `policy` trains them. Burn's learner, where it is built in, starts
//! from the same weights, and both read each other's checkpoints.

mod gemm;
mod network;
pub(crate) mod norm;
pub(crate) mod perceptron;
mod policy;
mod products;
pub(crate) mod wide;

use crate::algorithm::PolicyPlan;
use crate::error::{Result, of_policy};
use crate::loss::{Gathered, Loss, LossMetrics, Minibatch, Picked};
use crate::model::{NamedTensor, PolicyTensors};
use crate::network::{Policy, StepSizes, TrainablePolicy};
use network::Wanted;
use policy::NativePolicy;
use warp_func::ThreadPool;

pub use products::{Linear, Product};

/// A native policy, its name and its threads.
#[derive(Debug)]
pub struct NamedPolicy {
    name: String,
    policy: NativePolicy,
    thread_pool: ThreadPool,
}

impl NamedPolicy {
    /// The perceptron of `plan` with these weights.
    ///
    /// # Errors
    /// Weights that make up no network.
    pub(crate) fn new(
        plan: &PolicyPlan,
        weights: Vec<NamedTensor>,
        threads: usize,
    ) -> Result<Self> {
        let (activation, layout) = (plan.config.activation, plan.layout.clone());
        let policy =
            NativePolicy::new(weights, activation, layout, plan.optimiser_config(), threads);
        Ok(Self {
            name: plan.name.clone(),
            policy: policy.map_err(of_policy(&plan.name))?,
            thread_pool: ThreadPool::new(threads),
        })
    }

    fn work(&mut self, obs: &[f32], wanted: Wanted<'_>) -> Result<()> {
        let Self { name, policy, thread_pool } = self;
        policy.forward(obs, thread_pool, wanted).map_err(of_policy(name))
    }
}

impl TrainablePolicy for NamedPolicy {
    fn values(&mut self, obs: &[f32], values: &mut [f32]) -> Result<()> {
        self.work(obs, Wanted { outputs: None, values: Some(values) })
    }

    fn gradients(&mut self, minibatch: &Minibatch<'_>, loss: &Loss) -> Result<LossMetrics> {
        let Self { name, policy, thread_pool, .. } = self;
        policy.gradients(minibatch, loss, thread_pool).map_err(of_policy(name))
    }

    fn gradients_of(
        &mut self,
        picked: &Picked<'_>,
        _room: &mut Gathered,
        loss: &Loss,
    ) -> Result<LossMetrics> {
        let Self { name, policy, thread_pool, .. } = self;
        policy.gradients_of(picked, loss, thread_pool).map_err(of_policy(name))
    }

    fn step(&mut self, sizes: &StepSizes) -> Result<f64> {
        let Self { name, policy, thread_pool } = self;
        policy.step(sizes, thread_pool).map_err(of_policy(name))
    }

    fn gradient(&self) -> Option<&[f32]> {
        Some(self.policy.gradient())
    }

    fn set_gradient(&mut self, sum: &[f32]) {
        self.policy.set_gradient(sum);
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

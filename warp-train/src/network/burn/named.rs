//! A burn policy with its name and thread count, as a [`Policy`].

use super::{ActorCritic, BurnPolicy, PolicyNetwork};
use crate::error::{Result, of_policy};
use crate::loss::{Loss, LossMetrics, Minibatch};
use crate::model::PolicyTensors;
use crate::network::{Policy, StepSizes, TrainablePolicy};

/// A burn policy, its name and the threads it may use.
#[derive(Debug)]
pub struct NamedPolicy<N: PolicyNetwork = ActorCritic> {
    name: String,
    policy: BurnPolicy<N>,
    threads: usize,
    outputs: Vec<f32>,
}

impl<N: PolicyNetwork> NamedPolicy<N> {
    /// `policy` under its name, on so many threads.
    pub(crate) fn new(name: &str, policy: BurnPolicy<N>, threads: usize) -> Self {
        Self { name: name.into(), policy, threads, outputs: Vec::new() }
    }
}

impl<N: PolicyNetwork> TrainablePolicy for NamedPolicy<N> {
    fn values(&mut self, obs: &[f32], values: &mut [f32]) -> Result<()> {
        let width = self.policy.layout().output_width();
        let mut outputs = std::mem::take(&mut self.outputs);
        outputs.resize(values.len() * width, 0.0);
        let result = self.forward(obs, &mut outputs, values);
        self.outputs = outputs;
        result
    }

    fn gradients(&mut self, minibatch: &Minibatch<'_>, loss: &Loss) -> Result<LossMetrics> {
        self.policy.gradients(minibatch, loss, self.threads).map_err(of_policy(&self.name))
    }

    fn step(&mut self, sizes: &StepSizes) -> Result<f64> {
        self.policy.step(sizes).map_err(of_policy(&self.name))
    }

    fn gradient(&self) -> Option<&[f32]> {
        Some(self.policy.gradient_buffer())
    }

    fn set_gradient(&mut self, sum: &[f32]) {
        self.policy.gradient_buffer_mut().copy_from_slice(sum);
    }
}

impl<N: PolicyNetwork> Policy for NamedPolicy<N> {
    fn backend(&self) -> &'static str {
        "burn"
    }

    fn forward(&mut self, obs: &[f32], outputs: &mut [f32], values: &mut [f32]) -> Result<()> {
        let Self { name, policy, threads, .. } = self;
        policy.forward(obs, values.len(), *threads, outputs, values).map_err(of_policy(name))
    }

    fn tensors(&self) -> PolicyTensors {
        self.policy.tensors()
    }

    fn load(&mut self, tensors: &PolicyTensors) -> Result<()> {
        self.policy.load_tensors(tensors).map_err(of_policy(&self.name))
    }
}

//! The learner over burn: one [`BurnPolicy`] per policy of the run.

use super::{ActorCritic, BurnPolicy, PolicyNetwork};
use crate::batch::TrainablePolicy;
use crate::begin::initial_weights;
use crate::config::{PolicyPlan, TrainConfig};
use crate::error::{Result, of_policy};
use crate::loss::{Loss, LossMetrics, Minibatch};
use crate::model::PolicyTensors;
use crate::native::no_own_networks;
use crate::optimiser::limit;
use crate::policies::{Policy, PolicyLearner};
use burn::tensor::Device;

/// Policies on burn tensors; networks of the user's own through [`BurnLearner::of_networks`].
pub type BurnLearner<N = ActorCritic> = PolicyLearner<NamedPolicy<N>>;

/// A burn policy, its name and the threads it may use.
#[derive(Debug)]
pub struct NamedPolicy<N: PolicyNetwork = ActorCritic> {
    name: String,
    policy: BurnPolicy<N>,
    threads: usize,
    outputs: Vec<f32>,
}

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

impl<N: PolicyNetwork> NamedPolicy<N> {
    /// `policy` under its name, on so many threads.
    pub(super) fn new(name: &str, policy: BurnPolicy<N>, threads: usize) -> Self {
        Self { name: name.into(), policy, threads, outputs: Vec::new() }
    }
}

/// The freshly initialised perceptron of policy `index`.
fn perceptron(config: &TrainConfig, index: usize) -> Result<BurnPolicy> {
    let (plan, device) = (&config.policies[index], Device::flex());
    let weights = initial_weights(config, index)?;
    let width = config.spec.groups[plan.groups[0]].observation_width();
    ActorCritic::from_tensors(&weights, plan.config.activation, &device)
        .and_then(|network| {
            BurnPolicy::from_network(network, width, plan.layout.clone(), plan.adam(), &device)
        })
        .map_err(of_policy(&plan.name))
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

    fn step(&mut self, learning_rate: f64, max_grad_norm: f64) -> Result<f64> {
        self.policy.step(learning_rate, limit(max_grad_norm)).map_err(of_policy(&self.name))
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

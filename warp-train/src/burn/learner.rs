//! The learner over burn: one [`BurnPolicy`] per policy of the run.

use super::{ActorCritic, BurnPolicy, NamedTensor, NetworkConfig, PolicyNetwork, PolicyTensors};
use crate::adam::AdamConfig;
use crate::batch::{Samples, TrainablePolicy};
use crate::config::{Algorithm, PolicyPlan, TrainConfig};
use crate::error::{Error, Result};
use crate::learner::{Learner, LearnerState, Progress};
use crate::loss::{LossConfig, LossMetrics, Minibatch};
use crate::metrics::PolicyMetrics;
use crate::policy_error::PolicyError;
use crate::rollout::Rollout;
use crate::{a2c, ppo};

/// Policies on burn tensors; networks of the user's own through [`BurnLearner::from_policies`].
#[derive(Debug)]
pub struct BurnLearner<N: PolicyNetwork = ActorCritic> {
    policies: Vec<OnePolicy<N>>,
}

#[derive(Debug)]
struct OnePolicy<N: PolicyNetwork> {
    plan: PolicyPlan,
    network: Threaded<N>,
    samples: Samples,
}

/// A policy and the threads it may use.
#[derive(Debug)]
struct Threaded<N: PolicyNetwork> {
    name: String,
    policy: BurnPolicy<N>,
    threads: usize,
    logits: Vec<f32>,
}

impl BurnLearner<ActorCritic> {
    /// Multilayer perceptrons as `config` describes them, initialised from its seed. Results do not
    /// depend on `threads`.
    ///
    /// # Errors
    /// A network that can't be built.
    pub fn new(config: &TrainConfig, threads: usize) -> Result<Self> {
        let make = |(index, plan): (usize, &PolicyPlan)| {
            let group = &config.spec.groups[plan.groups[0]];
            let network = NetworkConfig {
                observation_width: group.observation_width(),
                head_sizes: group.action.head_sizes(),
                hidden: plan.config.hidden.clone(),
                activation: plan.config.activation,
                shared_trunk: plan.config.shared_trunk,
            };
            let what = format!("the network of policy \"{}\"", plan.name);
            warp_data::memory::check(&what, network.bytes(), "hidden")?;
            // Policies of one run start from different weights.
            let seed = config.run.seed.wrapping_add((index as u64) << 32);
            BurnPolicy::new(&network, adam(plan), seed).map_err(of_policy(&plan.name))
        };
        let policies = config.policies.iter().enumerate().map(make).collect::<Result<Vec<_>>>()?;
        Ok(Self::from_policies(config, policies, threads))
    }
}

impl<N: PolicyNetwork> BurnLearner<N> {
    /// Ready-made policies, one per policy of `config`, in its order.
    #[must_use]
    pub fn from_policies(
        config: &TrainConfig,
        policies: Vec<BurnPolicy<N>>,
        threads: usize,
    ) -> Self {
        let one = |(plan, policy): (&PolicyPlan, BurnPolicy<N>)| OnePolicy {
            plan: plan.clone(),
            network: Threaded { name: plan.name.clone(), policy, threads, logits: Vec::new() },
            samples: Samples::default(),
        };
        Self { policies: config.policies.iter().zip(policies).map(one).collect() }
    }
}

/// Adam as a policy's keys describe it.
#[must_use]
pub fn adam(plan: &PolicyPlan) -> AdamConfig {
    AdamConfig { epsilon: plan.config.adam_eps, ..AdamConfig::default() }
}

fn of_policy(name: &str) -> impl FnOnce(PolicyError) -> Error {
    move |source| Error::Policy { policy: name.into(), source }
}

impl<N: PolicyNetwork> TrainablePolicy for Threaded<N> {
    fn values(&mut self, obs: &[f32], values: &mut [f32]) -> Result<()> {
        let width: usize = self.policy.head_sizes().iter().sum();
        self.logits.resize(values.len() * width, 0.0);
        let Self { name, policy, threads, logits } = self;
        policy.forward(obs, values.len(), *threads, logits, values).map_err(of_policy(name))
    }

    fn gradients(&mut self, minibatch: &Minibatch<'_>, loss: &LossConfig) -> Result<LossMetrics> {
        self.policy.gradients(minibatch, loss, self.threads).map_err(of_policy(&self.name))
    }

    fn step(&mut self, learning_rate: f64, max_grad_norm: f64) -> Result<f64> {
        let limit = if max_grad_norm > 0.0 { max_grad_norm } else { f64::INFINITY };
        self.policy.step(learning_rate, limit).map_err(of_policy(&self.name))
    }
}

impl<N: PolicyNetwork> Learner for BurnLearner<N> {
    fn backend(&self) -> &'static str {
        "burn"
    }

    fn forward(
        &mut self,
        policy: usize,
        obs: &[f32],
        n_rows: usize,
        logits: &mut [f32],
        values: &mut [f32],
    ) -> Result<()> {
        let Threaded { name, policy, threads, .. } = &self.policies[policy].network;
        policy.forward(obs, n_rows, *threads, logits, values).map_err(of_policy(name))
    }

    fn update(&mut self, rollout: &mut Rollout, progress: Progress) -> Result<Vec<PolicyMetrics>> {
        let update = |(one, rollout): (&mut OnePolicy<N>, _)| {
            let OnePolicy { plan, network, samples } = one;
            match plan.config.algorithm {
                _ if !plan.config.to_train => Ok(PolicyMetrics::default()),
                Algorithm::Ppo => ppo::update(network, rollout, samples, &plan.config, progress),
                Algorithm::A2c => a2c::update(network, rollout, samples, &plan.config, progress),
            }
        };
        self.policies.iter_mut().zip(&mut rollout.policies).map(update).collect()
    }

    fn state(&self) -> LearnerState {
        let mut state = LearnerState::default();
        for Threaded { name, policy, .. } in self.policies.iter().map(|one| &one.network) {
            let PolicyTensors { weights, optimizer, n_steps } = policy.tensors();
            state.add_policy(name, weights, optimizer, n_steps);
        }
        state
    }

    fn load_state(&mut self, state: &LearnerState) -> Result<()> {
        let belongs = |tensor: &NamedTensor| {
            self.policies.iter().any(|one| {
                let rest = tensor.name.strip_prefix(&one.network.name);
                rest.is_some_and(|rest| rest.starts_with('.'))
            })
        };
        if let Some(tensor) =
            state.weights.iter().chain(&state.optimizer).find(|tensor| !belongs(tensor))
        {
            let name = &tensor.name;
            return Err(Error::Invalid(format!(
                "tensor \"{name}\" is given, but the run has no policy that it belongs to"
            )));
        }
        for one in &mut self.policies {
            let Threaded { name, policy, .. } = &mut one.network;
            let (weights, optimizer, n_steps) = state.of_policy(name);
            let tensors = PolicyTensors { weights, optimizer, n_steps };
            policy.load_tensors(&tensors).map_err(of_policy(name))?;
        }
        Ok(())
    }
}

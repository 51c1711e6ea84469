//! The policies of a run on the CPU: made as the configuration names their networks, saved, and loaded.

use super::rollout::normalise::Normaliser;
use crate::algorithm::PolicyPlan;
use crate::config::TrainConfig;
use crate::config::weights::{initial_weights, policy_seed};
use crate::error::{Error, Result};
use crate::model::{LearnerState, PolicyTensors};
use crate::network::Policy;
use crate::network::native::NamedPolicy;
use crate::network::own_network::NetworkStart;

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
            let seed = policy_seed(config.run.seed, index);
            network.make(&NetworkStart { plan, spec: &config.spec, seed, threads })
        }
        None => Ok(Box::new(native(config, index, threads)?)),
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
        "policy \"{name}\": network = \"{network}\" was added by the program and runs on the CPU \
         (--device cpu --backend auto), not on {backend}"
    )))
}

/// The perceptron of policy number `index` of `config`, initialised from its seed.
///
/// # Errors
/// A network that can't be built.
pub(crate) fn native(config: &TrainConfig, index: usize, threads: usize) -> Result<NamedPolicy> {
    NamedPolicy::new(&config.policies[index], initial_weights(config, index)?, threads)
}

/// Checks that whatever `state` holds belongs to one of the policies.
///
/// # Errors
/// The first tensor that does not.
pub(crate) fn check_owners<'a>(
    policies: impl Iterator<Item = &'a PolicyPlan> + Clone,
    state: &LearnerState,
) -> Result<()> {
    let belongs = |name: &str| {
        policies.clone().any(|plan| {
            let rest = name.strip_prefix(&plan.name);
            rest.is_some_and(|rest| rest.starts_with('.'))
        })
    };
    let tensors = state.weights.iter().chain(&state.optimizer).chain(&state.numbers);
    let names = tensors.map(|tensor| &tensor.name);
    let statistics = state.statistics.iter().map(|statistic| &statistic.name);
    let flags = state.flags.iter().map(|flags| &flags.name);
    match names.chain(statistics).chain(flags).find(|name| !belongs(name)) {
        Some(name) => Err(Error::Invalid(format!(
            "tensor \"{name}\" is given, but the run has no policy that it belongs to"
        ))),
        None => Ok(()),
    }
}

/// Adds a policy and what it normalises by to a learner's state, under its name.
pub(crate) fn save_policy<P: Policy>(
    name: &str,
    policy: &P,
    normaliser: &Normaliser,
    state: &mut LearnerState,
) {
    let PolicyTensors { weights, optimizer, n_steps } = policy.tensors();
    state.add_policy(name, weights, optimizer, n_steps);
    state.add_statistics(name, normaliser.state());
}

/// The reverse of [`save_policy`].
///
/// # Errors
/// A tensor that is missing, unknown, or of another shape.
pub(crate) fn load_policy<P: Policy>(
    name: &str,
    policy: &mut P,
    normaliser: &mut Normaliser,
    state: &LearnerState,
) -> Result<()> {
    let (weights, optimizer, n_steps) = state.of_policy(name);
    policy.load(&PolicyTensors { weights, optimizer, n_steps })?;
    normaliser.load_state(name, &state.statistics_of_policy(name))
}

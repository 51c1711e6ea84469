//! The cost of a run's step by its declared networks: two operations for each multiply-add with a weight, once for
//! acting and three times for each pass over a sample for learning. And how long learning would take on the processor
//! if it were only products.

use std::collections::HashMap;
use warp_train::learner::LearnerState;
use warp_train::model::NamedTensor;
use warp_train::native::Linear;
use warp_train::{TrainConfig, config::PolicyPlan};

/// Floating-point operations of an environment step, over all agents.
pub(super) fn per_step(config: &TrainConfig, state: &LearnerState) -> f64 {
    let of_policy = |plan: &PolicyPlan| {
        let agents = plan.n_agents() as f64;
        let [acting, learning] = multiplications(&plan.name, state, plan.is_off_policy());
        2.0 * agents * acting + 6.0 * passes(config, plan) * learning
    };
    config.policies.iter().map(of_policy).sum()
}

/// Seconds that the products of learning take, an environment step: those of rollouts alone, by the rates of plain
/// products of the same widths on so many threads, each measured for so many `seconds` now.
pub(super) fn of_products(
    config: &TrainConfig,
    state: &LearnerState,
    threads: usize,
    seconds: f64,
) -> f64 {
    let mut known: HashMap<(usize, usize), [f64; 3]> = HashMap::new();
    let mut of_layer = |layer: Linear| -> f64 {
        let rates = known.entry((layer.inputs, layer.outputs)).or_insert_with(|| {
            let all = Linear { goes_back: true, ..layer };
            let mut rates = [1.0; 3];
            for (rate, product) in rates.iter_mut().zip(all.products()) {
                *rate = layer.rate(*product, threads, seconds);
            }
            rates
        });
        let n = layer.products().len();
        rates[..n].iter().map(|rate| layer.operations() / rate).sum()
    };
    let mut of_policy = |plan: &PolicyPlan| {
        let layers = linear_layers(&plan.name, state);
        passes(config, plan) * layers.into_iter().map(&mut of_layer).sum::<f64>()
    };
    config.policies.iter().map(&mut of_policy).sum()
}

/// The linear layers of a policy that learns from rollouts.
fn linear_layers(policy: &str, state: &LearnerState) -> Vec<Linear> {
    let layer = |tensor: &NamedTensor| {
        let name = tensor.name.strip_prefix(policy)?.strip_prefix('.')?;
        let name = name.strip_suffix(".weight.exp_avg")?;
        let [outputs, inputs] = tensor.shape[..] else { return None };
        Some(Linear { inputs, outputs, goes_back: !name.ends_with(".0") })
    };
    state.optimizer.iter().filter_map(layer).collect()
}

/// Samples that a policy learns from, an environment step.
fn passes(config: &TrainConfig, plan: &PolicyPlan) -> f64 {
    let keys = &plan.config;
    if plan.is_off_policy() {
        let updates = keys.gradient_steps as f64 / keys.train_freq as f64;
        return updates * keys.batch_size as f64 / config.run.num_envs as f64;
    }
    let epochs = if plan.algorithm.reads("update_epochs") { keys.update_epochs } else { 1 };
    epochs as f64 * plan.n_agents() as f64
}

/// Weights of a policy's networks: of those that act, and of those that learn. With a replay memory critics do
/// not act; targets are no networks of their own.
fn multiplications(policy: &str, state: &LearnerState, off_policy: bool) -> [f64; 2] {
    let learned = state.optimizer.iter().filter_map(|tensor| {
        let name = tensor.name.strip_prefix(policy)?.strip_prefix('.')?;
        name.ends_with(".weight.exp_avg").then_some((name, tensor.data.len() as f64))
    });
    let [mut acting, mut learning] = [0.0; 2];
    for (name, n) in learned {
        learning += n;
        acting += if off_policy && name.starts_with("critic") { 0.0 } else { n };
    }
    [acting, learning]
}

#[cfg(test)]
mod tests {
    use super::*;
    use warp_core::toml::Table;
    use warp_train::native;

    fn cost(keys: &str) -> f64 {
        let config = TrainConfig::resolve(&keys.parse::<Table>().unwrap(), &warp_envs::registry());
        let config = config.unwrap();
        per_step(&config, &native::learner(&config, 1).unwrap().state())
    }

    #[test]
    fn networks_count_once_to_act_and_three_times_a_pass() {
        // Actor 4-64-64-2, critic 4-64-64-1.
        let weights = f64::from(2 * (4 * 64 + 64 * 64) + 64 * 3);
        let ppo = cost("env_id = \"cartpole\"\nnum_minibatches = 4\nupdate_epochs = 3");
        assert_eq!(ppo, weights * (2.0 + 6.0 * 3.0));
        // One of 32, for two groups of four and one.
        let tag = cost(
            "env_id = \"tag_gridworld\"\nalgorithm = \"a2c\"\nhidden = [32]\nshared_trunk = true\n\
             [env]\nnum_taggers = 4\n[policy.all]\ngroups = [\"tagger\", \"runner\"]",
        );
        assert_eq!(tag, 5.0 * 8.0 * f64::from(21 * 32 + 32 * 6));
    }

    #[test]
    fn learning_is_at_least_its_products() {
        let keys = "env_id = \"cartpole\"\nupdate_epochs = 3";
        let config = TrainConfig::resolve(&keys.parse::<Table>().unwrap(), &warp_envs::registry());
        let config = config.unwrap();
        let state = native::learner(&config, 1).unwrap().state();
        let layers = linear_layers(&config.policies[0].name, &state);
        assert_eq!(layers.iter().filter(|layer| layer.goes_back).count(), 4);
        assert_eq!(layers.iter().map(|layer| layer.inputs).sum::<usize>(), 2 * (4 + 64 + 64));
        assert!(of_products(&config, &state, 1, 0.001) > 0.0);
    }

    #[test]
    fn critics_of_a_replay_memory_do_not_act() {
        let keys = "env_id = \"pendulum\"\nalgorithm = \"sac\"\nhidden = [8]\nnum_envs = 4\nbatch_size = 32";
        let (actor, critic) = (f64::from(3 * 8 + 8 * 2), f64::from(4 * 8 + 8));
        assert_eq!(cost(keys), 2.0 * actor + 6.0 * 8.0 * (actor + 2.0 * critic));
    }
}

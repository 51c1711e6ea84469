//! What a step of a run costs by its declared networks: two operations for each multiplication with a weight and its
//! addition, once to act and three times for each pass over a sample to learn.

use warp_train::learner::LearnerState;
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
    fn critics_of_a_replay_memory_do_not_act() {
        let keys = "env_id = \"pendulum\"\nalgorithm = \"sac\"\nhidden = [8]\nnum_envs = 4\nbatch_size = 32";
        let (actor, critic) = (f64::from(3 * 8 + 8 * 2), f64::from(4 * 8 + 8));
        assert_eq!(cost(keys), 2.0 * actor + 6.0 * 8.0 * (actor + 2.0 * critic));
    }
}

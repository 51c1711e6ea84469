//! The state in which a run begins: initial weights or those of another run, and, where observations are normalised,
//! moments of the first ones.
//!
//! Every learner is created with initial weights; everything else is loaded into it through its
//! [`LearnerState`]. So all backends and devices begin alike. A resumed run takes its own checkpoint
//! instead.

use crate::algorithm::PolicyPlan;
#[cfg(feature = "cuda")]
use crate::config::weights::initial_weights;
use crate::config::{Shards, Sharing, TrainConfig};
#[cfg(feature = "cuda")]
use crate::engine::rollout::normalise::Normaliser;
use crate::engine::rollout::normalise::RunningMoments;
use crate::error::{Error, Result};
use crate::model::LearnerState;
use crate::run::checkpoint::snapshot;
use crate::run::learner::Learner;
#[cfg(feature = "cuda")]
use crate::run::learner::native;
#[cfg(feature = "cuda")]
use warp_func::Registry;
use warp_func::VecEnv;

/// Puts into `state`, a learner's new one, what `config.begun` holds.
///
/// # Errors
/// A network of another size.
pub fn take_over(config: &TrainConfig, state: &mut LearnerState) -> Result<()> {
    let Some(begun) = &config.begun else { return Ok(()) };
    for (policy, _) in &begun.optimizer_steps {
        let is_own = |name: &str| name.strip_prefix(policy).is_some_and(|n| n.starts_with('.'));
        let given = || begun.weights.iter().filter(|tensor| is_own(&tensor.name));
        for own in state.weights.iter_mut().filter(|tensor| is_own(&tensor.name)) {
            let found = given().find(|tensor| tensor.name == own.name);
            let found = found.filter(|tensor| tensor.shape == own.shape);
            *own = found.ok_or_else(|| other_network(config, policy, &own.name))?.clone();
        }
        if let Some(extra) = given().find(|t| !state.weights.iter().any(|own| own.name == t.name)) {
            return Err(other_network(config, policy, &extra.name));
        }
        for own in state.statistics.iter_mut().filter(|statistic| is_own(&statistic.name)) {
            if let Some(found) = begun.statistics.iter().find(|given| given.name == own.name) {
                own.data.clone_from(&found.data);
            }
        }
    }
    Ok(())
}

/// Lets `learner`, a new one, begin in `envs`, which have just been reset and are up to date on the host.
///
/// # Errors
/// As [`take_over`].
pub(crate) fn begin(
    config: &TrainConfig,
    envs: &dyn VecEnv,
    learner: &mut dyn Learner,
) -> Result<()> {
    if config.begun.is_none() && !normalises_any(config) {
        return Ok(());
    }
    let mut state = snapshot::learner(&config.world, learner.state())?;
    if !config.world.is_alone() {
        // Of the rows here alone, and empty.
        (state.numbers, state.flags) = (Vec::new(), Vec::new());
    }
    take_over(config, &mut state)?;
    look(config, envs, &mut state)?;
    learner.load_state(&state)
}

/// What [`begin`] gives the learner of a run, for those that train many runs in environments of their own, whose
/// first states are those on the host.
///
/// # Errors
/// As [`begin`], or environments that can't be made.
#[cfg(feature = "cuda")]
pub(crate) fn state(config: &TrainConfig, registry: &Registry) -> Result<LearnerState> {
    begun(native::learner(config, 1)?.state(), config, registry)
}

/// What [`state`] gives, without the optimisers' moments, which are zeros.
///
/// # Errors
/// As [`state`].
#[cfg(feature = "cuda")]
pub(crate) fn without_moments(config: &TrainConfig, registry: &Registry) -> Result<LearnerState> {
    let mut state = LearnerState::default();
    for (index, plan) in config.policies.iter().enumerate() {
        let n_rows = config.n_envs() * plan.n_agents();
        let width = plan.group(&config.spec).observation_width();
        let normaliser = Normaliser::new(plan, width, n_rows, config.sharing());
        state.add_policy(&plan.name, initial_weights(config, index)?, Vec::new(), 0);
        state.add_statistics(&plan.name, normaliser.state());
    }
    begun(state, config, registry)
}

/// A run's `state`, with what it takes over.
#[cfg(feature = "cuda")]
fn begun(
    mut state: LearnerState,
    config: &TrainConfig,
    registry: &Registry,
) -> Result<LearnerState> {
    take_over(config, &mut state)?;
    if normalises_any(config) {
        let entry = registry.get(&config.run.env_id)?.on_host();
        let envs = entry.make(&config.env, &config.vec_options())?;
        look(config, &*envs, &mut state)?;
    }
    Ok(state)
}

fn normalises(plan: &&PolicyPlan) -> bool {
    plan.config.norm_obs && plan.config.to_train
}

/// Whether some policy's first rollout is normalised by the first observations.
fn normalises_any(config: &TrainConfig) -> bool {
    config.policies.iter().any(|plan| normalises(&plan))
}

fn look(config: &TrainConfig, envs: &dyn VecEnv, state: &mut LearnerState) -> Result<()> {
    let mut plans = config.policies.iter().filter(normalises);
    plans.try_for_each(|plan| look_with(plan, envs, &config.sharing(), state))
}

/// Lets the observations of `plan`'s agents be what its first rollout is normalised by, unless more is
/// known already.
fn look_with(
    plan: &PolicyPlan,
    envs: &dyn VecEnv,
    sharing: &Sharing,
    state: &mut LearnerState,
) -> Result<()> {
    let prefix = format!("{}.obs", plan.name);
    let count = state.statistics.iter().find(|s| s.name == format!("{prefix}_count"));
    if count.is_none_or(|count| count.data != [0.0]) {
        return Ok(());
    }
    let mut begun = Vec::new();
    moments_of_all(plan, envs, sharing)?.as_beginning().save(&prefix, &mut begun);
    for own in &mut state.statistics {
        if let Some(found) = begun.iter().find(|given| given.name == own.name) {
            own.data.clone_from(&found.data);
        }
    }
    Ok(())
}

/// Moments of what the agents of `plan` see now in a shard; those that have left do not count.
pub(crate) fn moments(
    plan: &PolicyPlan,
    envs: &dyn VecEnv,
    shards: Shards,
    shard: usize,
) -> RunningMoments {
    let (store, ids) = (envs.store(), envs.ids());
    let width = plan.group(envs.spec()).observation_width();
    let mut moments = RunningMoments::new(width);
    for range in &plan.agents {
        let obs = store.slice(ids.obs[range.group]);
        let rows = shards.rows(obs.len() / width, shard);
        let alive = ids.alive[range.group].map(|id| store.slice::<u8>(id));
        let of_group = envs.spec().groups[range.group].n_agents;
        let weight = |row: usize| {
            let counts = alive.is_none_or(|alive| alive[row] != 0);
            f32::from(u8::from(counts && range.agents().contains(&(row % of_group))))
        };
        let weights: Vec<f32> = rows.clone().map(weight).collect();
        moments.add(&obs[rows.start * width..rows.end * width], &weights);
    }
    moments
}

/// Moments of what `plan`'s agents observe in all shards on all ranks.
fn moments_of_all(
    plan: &PolicyPlan,
    envs: &dyn VecEnv,
    sharing: &Sharing,
) -> Result<RunningMoments> {
    let Sharing { world, shards } = sharing;
    let width = plan.group(envs.spec()).observation_width();
    let mut here = Vec::new();
    for shard in 0..shards.here {
        here.extend(moments(plan, envs, *shards, shard).numbers());
    }
    let mut all = RunningMoments::new(width);
    for numbers in world.all_gather_f64("moments of observations", &here)?.chunks(1 + 2 * width) {
        all.merge(&RunningMoments::of_numbers(numbers, width));
    }
    Ok(all)
}

/// The policy's weights are not those of its network here.
fn other_network(config: &TrainConfig, policy: &str, tensor: &str) -> Error {
    let place = config.policies.iter().find(|plan| plan.name == policy);
    let place = place.and_then(|plan| plan.config.init_from.as_deref()).unwrap_or_default();
    Error::Invalid(format!(
        "policy \"{policy}\" can't start from \"{place}\": \"{tensor}\" is not the same there; hidden, \
         layer_norm, shared_trunk, log_std and the environment's spaces must agree"
    ))
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use super::*;
    use crate::run::trainer::Trainer;

    #[test]
    fn a_run_begins_alike_in_a_trainer_and_without() {
        let registry = warp_envs::registry();
        for keys in ["env_id = \"acrobot\"\nnum_envs = 3\nnorm_obs = true", "env_id = \"cartpole\""]
        {
            let config = TrainConfig::resolve(&keys.parse().unwrap(), &registry).unwrap();
            let learner = native::learner(&config, 1).unwrap();
            let plain = learner.state();
            let trainer = Trainer::new(config.clone(), &registry, learner, 1).unwrap();
            let begun = state(&config, &registry).unwrap();
            assert_eq!(begun, trainer.learner().state());
            assert_eq!(begun == plain, !normalises_any(&config));
            // In another order.
            let by_name = |mut state: LearnerState| {
                state.weights.sort_by(|a, b| a.name.cmp(&b.name));
                state
            };
            let bare = LearnerState { optimizer: Vec::new(), ..begun };
            assert!(by_name(without_moments(&config, &registry).unwrap()) == by_name(bare));
        }
    }
}

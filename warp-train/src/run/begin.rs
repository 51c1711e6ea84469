//! The state in which a run begins: initial weights or those of another run, and, where observations are normalised,
//! moments of the first ones.
//!
//! Every learner is created with initial weights; everything else is loaded into it through its
//! [`LearnerState`]. So all backends and devices begin alike. A resumed run takes its own checkpoint
//! instead.

use crate::algorithm::{PolicyConfig, PolicyPlan};
#[cfg(feature = "cuda")]
use crate::config::weights::initial_weights;
use crate::config::{Shards, Sharing, TrainConfig};
#[cfg(feature = "cuda")]
use crate::engine::rollout::normalise::Normaliser;
use crate::engine::rollout::normalise::RunningMoments;
use crate::engine::{REPLAY_HEAD, UPDATES};
use crate::error::{Error, Result};
use crate::model::LearnerState;
use crate::run::checkpoint::Checkpoint;
use crate::run::checkpoint::snapshot;
use crate::run::fleet::Fleet;
use crate::run::learner::Learner;
#[cfg(feature = "cuda")]
use crate::run::learner::native;
use crate::run::{Place, Run};
use std::path::Path;
use std::sync::Arc;
use warp_core::Config;
use warp_core::toml::{Table, Value};
#[cfg(feature = "cuda")]
use warp_func::Registry;
use warp_func::VecEnv;

/// Keys that say what a network's weights and outputs mean, though not how many there are.
const MEANING: [&str; 2] = ["activation", "action_distribution"];
/// Statistics of the run that they come from: returns on the way belong to its replicas, counters to its
/// replay memory.
const OF_THE_RUN: [&str; 3] = ["discounted_return", UPDATES, REPLAY_HEAD];

/// Reads what `init_from` names, for all policies of `config`, into `config.begun`.
///
/// # Errors
/// A run or checkpoint that can't be opened, a policy that it does not have, or one that is another
/// function of the same weights.
pub fn read(config: &mut TrainConfig) -> Result<()> {
    let mut begun = LearnerState::default();
    for plan in &config.policies {
        if let Some(place) = &plan.config.init_from {
            Source::open(place, plan, config)?.add_to(&mut begun)?;
        }
    }
    config.begun = (begun != LearnerState::default()).then(|| Arc::new(begun));
    Ok(())
}

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

/// The same of all shards on all ranks.
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

/// A policy of another run.
struct Source<'a> {
    place: &'a str,
    plan: &'a PolicyPlan,
    config: &'a TrainConfig,
    checkpoint: Checkpoint,
    /// What it is called there.
    policy: String,
    /// The configuration of its run; a checkpoint that lies by itself has none.
    table: Option<Table>,
}

impl<'a> Source<'a> {
    fn open(place: &'a str, plan: &'a PolicyPlan, config: &'a TrainConfig) -> Result<Self> {
        let checkpoint = checkpoint(place, plan)?;
        // An optimiser's name follows its policy's, which has no dot, where there are several.
        let policy = |name: &String| name.split('.').next().unwrap_or(name).to_string();
        let mut policies: Vec<_> = checkpoint.manifest.optimizer_steps.keys().map(policy).collect();
        policies.dedup();
        let policy = match &policies[..] {
            [only] => only.clone(),
            _ if policies.contains(&plan.name) => plan.name.clone(),
            _ => {
                let known = policies.join(", ");
                let reason = format!("it has the policies {known} and none called {}", plan.name);
                return Err(refused(plan, place, &reason));
            }
        };
        let folder = checkpoint.path.parent().and_then(Path::parent);
        let text = folder.and_then(|folder| Run::config(folder).ok());
        let table = text.and_then(|text| text.parse::<Table>().ok());
        let source = Self { place, plan, config, checkpoint, policy, table };
        source.check_meaning()?;
        Ok(source)
    }

    /// What its run's configuration says of a key, of the policy or of all of them.
    fn given(&self, key: &str) -> Option<&Value> {
        let table = self.table.as_ref()?;
        let own = table.get("policy").and_then(|policies| policies.get(&self.policy));
        own.and_then(|own| own.get(key)).or_else(|| table.get(key))
    }

    /// The algorithm that its run names, or that of runs that name none.
    fn algorithm(&self) -> String {
        let named = self.given("algorithm").and_then(Value::as_str);
        named.map_or_else(|| PolicyConfig::default().algorithm, ToString::to_string)
    }

    /// Weights do not say what they are for; the run's configuration does.
    fn check_meaning(&self) -> Result<()> {
        if self.table.is_none() {
            return Ok(());
        }
        // What an algorithm does not read is not written down, or is another policy's.
        let algorithm = self.config.algorithms.get(&self.algorithm())?;
        let defaults = PolicyConfig::of(algorithm, 0);
        for key in MEANING {
            let there = self.given(key).filter(|_| algorithm.reads(key)).cloned();
            let there = there.or_else(|| defaults.get(key));
            let there = there.as_ref().and_then(Value::as_str).unwrap_or_default();
            let here = self.plan.config.get(key);
            if here.as_ref().and_then(Value::as_str) != Some(there) {
                let here = here.map_or_else(String::new, |here| here.to_string());
                let reason = format!("its {key} is \"{there}\", but here it is {here}");
                return Err(self.refused(&reason));
            }
        }
        Ok(())
    }

    /// An error, which begins with what matters most: another environment, or another algorithm.
    fn refused(&self, reason: &str) -> Error {
        let here = [&self.config.run.env_id[..], self.plan.algorithm.name];
        let algorithm = self.algorithm();
        let env = self.given("env_id").and_then(Value::as_str).unwrap_or(here[0]);
        let there = [env, &algorithm];
        let other = match self.table.is_some() && there != here {
            true => format!(
                "it comes from {} with {}, but this is {} with {}; ",
                there[0], there[1], here[0], here[1]
            ),
            false => String::new(),
        };
        refused(self.plan, self.place, &format!("{other}{reason}"))
    }

    /// Adds weights and statistics under the name that the policy has here.
    fn add_to(&self, begun: &mut LearnerState) -> Result<()> {
        let (name, learner) = (&self.plan.name, &self.checkpoint.learner);
        let (weights, _, _) = learner.of_policy(&self.policy);
        let mut statistics = learner.statistics_of_policy(&self.policy);
        statistics.retain(|statistic| !OF_THE_RUN.contains(&&statistic.name[..]));
        let normalises = statistics.iter().any(|statistic| statistic.name == "obs_count");
        if normalises != self.plan.config.norm_obs {
            let reason = match normalises {
                true => {
                    "it was trained with norm_obs = true, so this run needs norm_obs = true, too"
                }
                false => {
                    "it was trained with norm_obs = false, so this run needs norm_obs = false, too"
                }
            };
            return Err(self.refused(reason));
        }
        begun.add_policy(name, weights, Vec::new(), 0);
        begun.add_statistics(name, statistics);
        Ok(())
    }
}

/// The checkpoint that `place` names: one by itself, or one of a run.
fn checkpoint(place: &str, plan: &PolicyPlan) -> Result<Checkpoint> {
    let folder = Path::new(place);
    if folder.join("manifest.json").exists() {
        return Checkpoint::open(folder);
    }
    let place_of_run = Place::parse(folder);
    if !place_of_run.folder.is_dir() {
        let reason = format!("there is no folder \"{}\"", place_of_run.folder.display());
        return Err(refused(plan, place, &reason));
    }
    if Fleet::is_in(&place_of_run.folder) {
        let reason = "it is a fleet, whose runs have no checkpoints; train one of them by itself";
        return Err(refused(plan, place, reason));
    }
    place_of_run.checkpoint()
}

fn refused(plan: &PolicyPlan, place: &str, reason: &str) -> Error {
    Error::Invalid(format!("policy \"{}\" can't start from \"{place}\": {reason}", plan.name))
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

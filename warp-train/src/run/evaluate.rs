//! Evaluation: whole episodes from fresh starts, one per replica, the terminal reward included.
//!
//! Replicas are run side by side, but only the first episode of each counts: taking whichever
//! episodes end first would favour short ones. An episode that does not end is left after `eval_max_steps` steps.

use crate::algorithm::PolicyPlan;
use crate::config::TrainConfig;
use crate::engine::rollout::{PolicyRollout, Rollout};
use crate::error::{Error, Result};
pub use crate::run::evaluation::Evaluation;
use crate::run::evaluation::{Episode, Scores, summary};
use crate::run::learner::{Learner, PolicyInput, PolicyOutput};
use crate::run::memory_check::check_memory;
use crate::world::World;
use warp_func::{Registry, VecEnv, VecOptions};
use warp_sample::Mode;

/// Evaluation draws other starts than training with the same seed.
pub(super) const EVALUATION: u64 = 0x6576_616c;

/// The key of environments that can start anywhere, to learn sooner; evaluation sets it to 0.
const EXPLORING_STARTS: &str = "exploring_starts";

/// How to evaluate.
#[derive(Debug, Clone)]
pub struct EvalOptions {
    /// Episodes, at least 1.
    pub episodes: usize,
    /// Greedy or sampled actions.
    pub mode: Mode,
    /// Policies that act at random instead.
    pub random: Vec<String>,
    /// Threads that step the environments.
    pub threads: usize,
}

/// Runs `learner` for some episodes.
///
/// # Errors
/// Options that do not fit the run, or a policy that diverged.
pub fn evaluate(
    learner: &mut dyn Learner,
    config: &TrainConfig,
    registry: &Registry,
    options: &EvalOptions,
) -> Result<Evaluation> {
    Ok(summary(config, &play(learner, config, registry, options)?))
}

/// What came of each episode of an evaluation.
///
/// # Errors
/// As [`evaluate`].
pub(super) fn play(
    learner: &mut dyn Learner,
    config: &TrainConfig,
    registry: &Registry,
    options: &EvalOptions,
) -> Result<Vec<Episode>> {
    check(config, options)?;
    let mut config = from_true_starts(config);
    config.run.num_envs = options.episodes;
    config.run.num_steps = 1;
    check_memory(&config, registry, "the number of episodes")?;
    let entry = registry.get(&config.run.env_id)?;
    let vec_options = VecOptions {
        n_envs: options.episodes,
        seed: config.run.seed ^ EVALUATION,
        threads: options.threads,
        ..config.vec_options()
    };
    let mut envs = entry.make(&config.env, &vec_options)?;
    envs.sync()?;
    let mut rollout = Rollout::new(&config);
    let mut scores = Scores::new(&config, options.episodes);
    let random = random_policies(&config, &options.random);
    while !scores.is_done() {
        choose_actions(learner, &mut rollout, &mut *envs, options.mode, &random)?;
        envs.step()?;
        scores.add_step(&*envs);
    }
    Ok(scores.episodes)
}

/// The configuration without what only training is to see.
pub(super) fn from_true_starts(config: &TrainConfig) -> TrainConfig {
    let mut config = config.clone();
    // Whoever evaluates does it alone.
    (config.world, config.run.shards) = (World::default(), None);
    if let Some(share) = config.env.get_mut(EXPLORING_STARTS) {
        *share = 0.0.into();
    }
    config
}

/// Which policies act at random.
pub(super) fn random_policies(config: &TrainConfig, names: &[String]) -> Vec<bool> {
    config.policies.iter().map(|plan| names.contains(&plan.name)).collect()
}

/// Every policy observes `envs` and chooses its actions for the next step, greedily or not, or at random where
/// its flag in `random` is set. `rollout` has room for one step. Returns the outputs of each policy's network,
/// f32 `[n_rows, output_width]`; nothing for those that act at random.
///
/// # Errors
/// A policy that diverged, or whatever goes wrong on a device.
pub fn choose_actions(
    learner: &mut dyn Learner,
    rollout: &mut Rollout,
    envs: &mut dyn VecEnv,
    mode: Mode,
    random: &[bool],
) -> Result<Vec<Vec<f32>>> {
    let mut outputs = Vec::with_capacity(random.len());
    for (index, policy) in rollout.policies.iter_mut().enumerate() {
        policy.store_inputs(0, envs);
        outputs.push(choose(learner, index, policy, (!random[index]).then_some(mode), envs)?);
        policy.send_actions(0, envs)?;
    }
    Ok(outputs)
}

fn check(config: &TrainConfig, options: &EvalOptions) -> Result<()> {
    if options.episodes == 0 {
        return Err(Error::Invalid("episodes = 0: at least one is needed".into()));
    }
    check_choice(config, options.mode, &options.random)
}

/// Whether all policies can choose their actions in this way: at random those called so, others by `mode`.
pub(super) fn check_choice(config: &TrainConfig, mode: Mode, random: &[String]) -> Result<()> {
    let known = || config.policies.iter().map(|plan| plan.name.as_str());
    if let Some(name) = random.iter().find(|name| known().all(|k| k != name.as_str())) {
        let known = known().collect::<Vec<_>>().join(", ");
        return Err(Error::Invalid(format!("there is no policy \"{name}\"; there are {known}")));
    }
    let by_mode = config.policies.iter().filter(|plan| !random.contains(&plan.name));
    match by_mode.filter(|_| mode == Mode::Sample).find(|plan| plan.has_action_values()) {
        Some(PolicyPlan { name, algorithm, .. }) => Err(Error::Invalid(format!(
            "policy \"{name}\": {} has values of actions and no distribution to sample from: it can only act greedily",
            algorithm.name
        ))),
        None => Ok(()),
    }
}

/// Lets one policy choose the actions of step 0, at random or (`Some` of a mode) by what it learned.
fn choose(
    learner: &mut dyn Learner,
    index: usize,
    policy: &mut PolicyRollout,
    mode: Option<Mode>,
    envs: &dyn VecEnv,
) -> Result<Vec<f32>> {
    let (n, rows) = (policy.n_rows, policy.names(envs));
    let PolicyRollout { layout, width, action_mask, actions, bounded, .. } = policy;
    let action_mask = (!action_mask.is_empty()).then(|| &action_mask[..n * layout.mask_width()]);
    let actions = actions.rows_mut(0..n, layout.action_width(), bounded);
    let Some(mode) = mode else {
        layout.random_actions(action_mask, &rows, actions)?;
        return Ok(Vec::new());
    };
    let obs = &policy.obs[..n * *width];
    let input = PolicyInput { obs, action_mask, layout, rows, mode };
    let mut outputs = vec![0.0; n * layout.output_width()];
    let mut out = PolicyOutput {
        outputs: &mut outputs,
        values: &mut policy.values[..n],
        actions,
        log_probs: &mut policy.log_probs,
        entropies: &mut vec![0.0; n],
    };
    learner.act(index, &input, &mut out)?;
    Ok(outputs)
}

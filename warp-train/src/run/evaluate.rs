//! Evaluation: whole episodes from fresh starts, one per replica, the terminal reward included.
//!
//! Replicas are run side by side, but only the first episode of each counts: taking whichever
//! episodes end first would favour short ones.

use crate::algorithm::{AgentRange, PolicyPlan};
use crate::config::{TrainConfig, trained_groups};
use crate::engine::rollout::{PolicyRollout, Rollout};
use crate::error::{Error, Result};
use crate::run::confidence_interval::{Estimate, INTERVAL};
use crate::run::learner::{Learner, PolicyInput, PolicyOutput};
use crate::run::memory_check::check_memory;
use crate::world::World;
use serde::Serialize;
use std::collections::BTreeMap;
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

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    /// Episodes.
    pub episodes: usize,
    /// Mean return: rewards of all agents of trained policies, summed over an episode.
    pub mean_episode_return: f64,
    /// Standard deviation of the return over episodes (n - 1); `None` for a single one.
    pub std: Option<f64>,
    /// Half the width of the interval of the mean return over episodes; `None` for a single one.
    pub confidence: Option<f64>,
    /// What that interval is.
    pub interval: &'static str,
    /// Smallest return.
    pub min: f64,
    /// Largest return.
    pub max: f64,
    /// Mean length in steps.
    pub mean_episode_length: f64,
    /// Mean return by group of agents.
    pub group_return: BTreeMap<String, f64>,
    /// Mean return of the agents of each policy, where policies act for agents of one group.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub policy_return: BTreeMap<String, f64>,
    /// Mean of each of the environment's statistics.
    pub statistics: BTreeMap<String, f64>,
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

/// What came of one episode.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Episode {
    /// Return of each group of agents, in the order of the spec.
    group_returns: Vec<f64>,
    /// Return of each policy's agents, range after range.
    policy_returns: Vec<Vec<f64>>,
    /// Steps.
    length: u32,
    /// The environment's statistics at its end.
    pub(super) statistics: Vec<f64>,
}

impl Episode {
    /// Return of the agents of policy number `policy`.
    pub(super) fn policy_return(&self, policy: usize) -> f64 {
        self.policy_returns[policy].iter().sum()
    }
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

/// The first episode of each replica.
struct Scores {
    /// The agents of each policy.
    ranges: Vec<Vec<AgentRange>>,
    episodes: Vec<Episode>,
    done: Vec<bool>,
}

impl Scores {
    fn new(config: &TrainConfig, n: usize) -> Self {
        let spec = &config.spec;
        let ranges: Vec<_> = config.policies.iter().map(|plan| plan.agents.clone()).collect();
        let episode = Episode {
            group_returns: vec![0.0; spec.groups.len()],
            policy_returns: ranges.iter().map(|ranges| vec![0.0; ranges.len()]).collect(),
            length: 0,
            statistics: vec![0.0; spec.statistics.len()],
        };
        Self { ranges, episodes: vec![episode; n], done: vec![false; n] }
    }

    fn is_done(&self) -> bool {
        !self.done.contains(&false)
    }

    fn add_step(&mut self, envs: &dyn VecEnv) {
        let (ids, store) = (envs.ids(), envs.store());
        let flags = store.slice::<u8>(ids.terminated).iter().zip(store.slice::<u8>(ids.truncated));
        for (replica, (terminated, truncated)) in flags.enumerate() {
            if self.done[replica] {
                continue;
            }
            let episode = &mut self.episodes[replica];
            episode.length += 1;
            let reward = |range: &AgentRange| {
                let of_group = envs.spec().groups[range.group].n_agents;
                let rewards = &store.slice::<f32>(ids.reward[range.group])[replica * of_group..];
                rewards[range.agents()].iter().map(|r| f64::from(*r)).sum::<f64>()
            };
            for (g, sum) in episode.group_returns.iter_mut().enumerate() {
                *sum += reward(&AgentRange::whole(envs.spec(), g));
            }
            let of_policies = self.ranges.iter().zip(&mut episode.policy_returns);
            for (range, sum) in of_policies.flat_map(|(ranges, sums)| ranges.iter().zip(sums)) {
                *sum += reward(range);
            }
            self.done[replica] = terminated | truncated != 0;
            if let (true, Some(id)) = (self.done[replica], ids.final_statistic) {
                let k = episode.statistics.len();
                let last = &store.slice::<f32>(id)[replica * k..][..k];
                episode.statistics.iter_mut().zip(last).for_each(|(to, x)| *to = f64::from(*x));
            }
        }
    }
}

/// What episodes come to, of which there is at least one.
fn summary(config: &TrainConfig, episodes: &[Episode]) -> Evaluation {
    let n = episodes.len() as f64;
    let trained = trained_groups(config);
    let of_trained = |episode: &Episode| -> f64 {
        episode.group_returns.iter().zip(&trained).filter(|(_, t)| **t).map(|(sum, _)| sum).sum()
    };
    let returns: Vec<f64> = episodes.iter().map(of_trained).collect();
    let found = Estimate::of(&returns);
    let group = |g: usize| episodes.iter().map(|episode| episode.group_returns[g]).sum::<f64>() / n;
    let policy = |p: usize| episodes.iter().map(|e| e.policy_return(p)).sum::<f64>() / n;
    let apart = config.policies.iter().any(|plan| plan.shares_a_group(&config.spec));
    let policies = config.policies.iter().enumerate().filter(|_| apart);
    // Summed up as they ended.
    let mut ended: Vec<&Episode> = episodes.iter().collect();
    ended.sort_by_key(|episode| episode.length);
    let statistic = |k: usize| ended.iter().map(|episode| episode.statistics[k]).sum::<f64>() / n;
    let spec = &config.spec;
    let groups = spec.groups.iter().enumerate();
    let statistics = spec.statistics.iter().enumerate();
    Evaluation {
        episodes: episodes.len(),
        mean_episode_return: found.map_or(f64::NAN, |found| found.mean),
        std: found.and_then(|found| found.std),
        confidence: found.and_then(|found| found.confidence),
        interval: INTERVAL,
        min: returns.iter().copied().fold(f64::INFINITY, f64::min),
        max: returns.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        mean_episode_length: episodes.iter().map(|e| f64::from(e.length)).sum::<f64>() / n,
        group_return: groups.map(|(g, of)| (of.name.clone(), group(g))).collect(),
        policy_return: policies.map(|(p, plan)| (plan.name.clone(), policy(p))).collect(),
        statistics: statistics.map(|(k, name)| (name.clone(), statistic(k))).collect(),
    }
}

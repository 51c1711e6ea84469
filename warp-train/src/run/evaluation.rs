//! What an evaluation's episodes come to: the first of each replica, summed up step by step.

use crate::algorithm::AgentRange;
use crate::config::{TrainConfig, trained_groups};
use crate::run::confidence_interval::{Estimate, INTERVAL};
use serde::Serialize;
use std::collections::BTreeMap;
use warp_core::TimeLimit;
use warp_func::VecEnv;

/// Steps of an episode at most, unless the configuration or the environment says otherwise.
const MOST_STEPS: u32 = 100_000;

/// What came of an evaluation.
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
    /// Episodes that had not ended after `eval_max_steps` steps and count as they were then; left out of files if 0.
    #[serde(skip_serializing_if = "is_none_of_them")]
    pub unfinished: usize,
    /// Mean return by group of agents.
    pub group_return: BTreeMap<String, f64>,
    /// Mean return of the agents of each policy, where policies act for agents of one group.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub policy_return: BTreeMap<String, f64>,
    /// Mean of each of the environment's statistics.
    pub statistics: BTreeMap<String, f64>,
}

impl Evaluation {
    /// In words, that some of its episodes did not end, if that is so; of the run of `config`.
    #[must_use]
    pub fn unfinished_words(&self, config: &TrainConfig) -> Option<String> {
        let Self { unfinished, episodes, .. } = self;
        (*unfinished > 0).then(|| {
            format!(
                "{unfinished} of {episodes} episodes had not ended after {} steps and count as they were then \
                 (eval_max_steps)",
                most_steps(config)
            )
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none_of_them(unfinished: &usize) -> bool {
    *unfinished == 0
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
    /// Whether it ended, or was left as it was after too many steps.
    pub(super) is_finished: bool,
    /// The environment's statistics at its end, or as it was left.
    pub(super) statistics: Vec<f64>,
}

impl Episode {
    /// Return of the agents of policy number `policy`.
    pub(super) fn policy_return(&self, policy: usize) -> f64 {
        self.policy_returns[policy].iter().sum()
    }
}

/// The first episode of each replica.
pub(super) struct Scores {
    /// The agents of each policy.
    ranges: Vec<Vec<AgentRange>>,
    pub(super) episodes: Vec<Episode>,
    done: Vec<bool>,
    /// Steps of an episode at most.
    most_steps: u32,
}

impl Scores {
    pub(super) fn new(config: &TrainConfig, n: usize) -> Self {
        let spec = &config.spec;
        let ranges: Vec<_> = config.policies.iter().map(|plan| plan.agents.clone()).collect();
        let episode = Episode {
            group_returns: vec![0.0; spec.groups.len()],
            policy_returns: ranges.iter().map(|ranges| vec![0.0; ranges.len()]).collect(),
            length: 0,
            is_finished: false,
            statistics: vec![0.0; spec.statistics.len()],
        };
        let most_steps = most_steps(config);
        Self { ranges, episodes: vec![episode; n], done: vec![false; n], most_steps }
    }

    pub(super) fn is_done(&self) -> bool {
        !self.done.contains(&false)
    }

    pub(super) fn add_step(&mut self, envs: &dyn VecEnv) {
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
            episode.is_finished = terminated | truncated != 0;
            self.done[replica] = episode.is_finished || episode.length >= self.most_steps;
            // Replicas begin their next episode in the step that ends one.
            let last = if episode.is_finished { ids.final_statistic } else { ids.statistic };
            if let (true, Some(id)) = (self.done[replica], last) {
                let k = episode.statistics.len();
                let last = &store.slice::<f32>(id)[replica * k..][..k];
                episode.statistics.iter_mut().zip(last).for_each(|(to, x)| *to = f64::from(*x));
            }
        }
    }
}

/// Steps of an episode in an evaluation of `config` at most. In steps, not in time, so that every machine has the same.
pub(super) fn most_steps(config: &TrainConfig) -> u32 {
    let limit = config.spec.time_limit;
    let limit = if limit == TimeLimit::UNLIMITED { 0 } else { limit.steps };
    config.run.eval_max_steps.unwrap_or(limit.max(MOST_STEPS))
}

/// What episodes come to, of which there is at least one.
pub(super) fn summary(config: &TrainConfig, episodes: &[Episode]) -> Evaluation {
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
        unfinished: episodes.iter().filter(|episode| !episode.is_finished).count(),
        group_return: groups.map(|(g, of)| (of.name.clone(), group(g))).collect(),
        policy_return: policies.map(|(p, plan)| (plan.name.clone(), policy(p))).collect(),
        statistics: statistics.map(|(k, name)| (name.clone(), statistic(k))).collect(),
    }
}

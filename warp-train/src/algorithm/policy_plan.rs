//! A policy with its algorithm and the agents that it acts for.

use crate::algorithm::PolicyConfig;
use crate::algorithm::{
    Advantages, AgentRange, Entry, Learns, MinibatchSchedule, OnPolicyAlgorithm,
};
use crate::error::{Error, Result, of_policy};
use crate::loss::{Objective, Part};
use crate::model::NetworkConfig;
use crate::optimiser::{OptimiserConfig, UpdateRule};
use warp_core::toml::{Table, Value};
use warp_core::{Config, EnvSpec, GroupSpec};
use warp_sample::ActionLayout;

/// A policy and the agents that it acts for.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyPlan {
    /// Its name.
    pub name: String,
    /// How it learns.
    pub algorithm: Entry,
    /// Its keys, complete.
    pub config: PolicyConfig,
    /// The keys that only its algorithm declares, complete.
    pub own: Table,
    /// The agents that it acts for, in the order of the spec.
    pub agents: Vec<AgentRange>,
    /// What its outputs mean and what its actions are.
    pub layout: ActionLayout,
    /// What its algorithm makes of rollouts, if it learns from them.
    pub(crate) rollouts: Option<Rollouts>,
}

impl PolicyPlan {
    /// The policy's agents in one replica.
    #[must_use]
    pub fn n_agents(&self) -> usize {
        self.agents.iter().map(|range| range.n_agents).sum()
    }

    /// The first group of which it acts for agents; what they see and do is alike in all of them.
    #[must_use]
    pub fn group<'a>(&self, spec: &'a EnvSpec) -> &'a GroupSpec {
        &spec.groups[self.agents[0].group]
    }

    /// The groups of which it acts for agents, by number, in the order of the spec.
    pub fn groups(&self) -> impl Iterator<Item = usize> {
        let first =
            |(i, range): &(usize, &AgentRange)| *i == 0 || self.agents[i - 1].group != range.group;
        self.agents.iter().enumerate().filter(first).map(|(_, range)| range.group)
    }

    /// Whether another policy acts for agents of one of its groups, too.
    #[must_use]
    pub fn shares_a_group(&self, spec: &EnvSpec) -> bool {
        let own = |group| {
            let ranges = self.agents.iter().filter(move |range| range.group == group);
            ranges.map(|range| range.n_agents).sum::<usize>()
        };
        self.groups().any(|group| own(group) < spec.groups[group].n_agents)
    }

    /// Whether agents can leave before their episode ends.
    #[must_use]
    pub fn is_mortal(&self, spec: &EnvSpec) -> bool {
        self.groups().any(|group| spec.groups[group].mortal)
    }

    /// The network that the keys declare, for an environment of this `spec`.
    #[must_use]
    pub fn network(&self, spec: &EnvSpec) -> NetworkConfig {
        NetworkConfig {
            observation_width: self.group(spec).observation_width(),
            layout: self.layout.clone(),
            hidden: self.config.hidden.clone(),
            activation: self.config.activation,
            layer_norm: self.config.layer_norm,
            shared_trunk: self.config.shared_trunk,
            init: self.config.init,
            log_std: self.config.log_std,
            log_std_init: self.config.log_std_init as f32,
        }
    }

    /// The keys that its algorithm declares with [`crate::algorithm::OwnKeys::of`].
    ///
    /// # Errors
    /// Keys of another algorithm.
    pub fn own_keys<K: Config>(&self) -> Result<K> {
        Ok(K::from_table(&self.own)?)
    }

    /// The algorithm that it learns by from rollouts.
    ///
    /// # Errors
    /// One that learns from a replay memory, or keys that it does not take.
    pub fn on_policy(&self, spec: &EnvSpec) -> Result<Box<dyn OnPolicyAlgorithm>> {
        match self.algorithm.learns {
            Learns::FromRollouts(make) => make(self, spec),
            Learns::FromReplay(_) => Err(Error::Invalid(format!(
                "policy \"{}\": {} learns from a replay memory, not from rollouts",
                self.name, self.algorithm.name
            ))),
        }
    }

    /// How often kernels go through each rollout, and in how many parts.
    #[cfg(feature = "cuda")]
    pub(crate) fn passes(&self) -> MinibatchSchedule {
        let passes = self.rollouts.as_ref().and_then(|rollouts| rollouts.passes);
        passes.unwrap_or(MinibatchSchedule::ONE)
    }

    /// Steps of the optimiser in an iteration, as far as that is known before; 0 where the policy does not learn, or
    /// learns from a replay memory.
    #[must_use]
    pub fn minibatches_per_iteration(&self) -> usize {
        let passes = self.rollouts.as_ref().and_then(|rollouts| rollouts.passes);
        let learns = self.config.to_train;
        passes.filter(|_| learns).map_or(0, |passes| passes.epochs * passes.minibatches)
    }

    /// The learning rates that its algorithm reads, at `env_steps`, by their keys; the critic's if it has its own.
    pub(crate) fn learning_rates(
        &self,
        env_steps: u64,
    ) -> impl Iterator<Item = (&'static str, f64)> {
        let critic = self.config.critic_learning_rate.as_ref();
        let critic = critic.filter(|_| self.algorithm.reads("critic_learning_rate"));
        let critic = critic.map(|rate| ("critic_learning_rate", rate.at(env_steps)));
        std::iter::once(("learning_rate", self.config.learning_rate.at(env_steps))).chain(critic)
    }

    /// The coefficients that change over the run, at `env_steps`, by their keys; except for learning rates, which
    /// algorithms report themselves.
    pub fn changing(&self, env_steps: u64) -> impl Iterator<Item = (&'static str, f64)> {
        let learns = self.config.to_train;
        let schedules = self.config.schedules().into_iter();
        let wanted = schedules.filter(move |(key, schedule)| {
            learns
                && schedule.changes()
                && self.algorithm.reads(key)
                && !key.ends_with("learning_rate")
        });
        wanted.map(move |(key, schedule)| (key, schedule.at(env_steps)))
    }

    /// Checks that kernels which iterate by themselves know the algorithm's schedule.
    ///
    /// # Errors
    /// Another schedule.
    #[cfg(feature = "cuda")]
    pub(crate) fn check_passes(&self) -> Result<()> {
        let Some(Rollouts { objective, passes, .. }) = &self.rollouts else { return Ok(()) };
        let parts = [&objective.policy, &objective.value];
        parts.iter().try_for_each(|part| part.function.check_text())?;
        if passes.is_some() {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "policy \"{}\": GPU kernels estimate advantages once and then make a fixed number of \
             passes over all samples, each in the same number of minibatches, but {} has another \
             schedule, or one with more than a million requests; it can be trained with --device \
             cpu",
            self.name, self.algorithm.name
        )))
    }

    /// Whether its network's outputs are values of choices, of which it takes the largest (and, while it trains,
    /// any with probability `epsilon`), and no distribution.
    #[must_use]
    pub fn has_action_values(&self) -> bool {
        self.algorithm.reads("epsilon")
    }

    /// Whether the policy learns from a replay memory.
    #[must_use]
    pub fn is_off_policy(&self) -> bool {
        self.algorithm.is_off_policy()
    }

    /// The value of `key`, if it is set.
    pub(crate) fn get(&self, key: &str) -> Option<Value> {
        self.config.get(key).or_else(|| self.own.get(key).cloned())
    }

    /// The optimiser as the keys describe it.
    #[must_use]
    pub fn optimiser_config(&self) -> OptimiserConfig {
        let PolicyConfig { adam_eps: epsilon, optimiser: rule, weight_decay, .. } = self.config;
        let default = OptimiserConfig::default();
        let beta_2 = if rule == UpdateRule::RmsProp { 0.99 } else { default.beta_2 };
        OptimiserConfig { rule, beta_2, epsilon, weight_decay, ..default }
    }
}

/// What an algorithm makes of rollouts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rollouts {
    pub(crate) objective: Objective,
    pub(crate) advantages: Advantages,
    /// Its schedule, if it is of the kind that kernels know.
    pub(crate) passes: Option<MinibatchSchedule>,
}

impl Rollouts {
    pub(crate) fn of(plan: &PolicyPlan, spec: &EnvSpec) -> Result<Option<Self>> {
        if plan.is_off_policy() {
            return Ok(None);
        }
        let algorithm = plan.on_policy(spec)?;
        let (objective, advantages) = (algorithm.objective(0), algorithm.advantages());
        objective.check().map_err(of_policy(&plan.name))?;
        Ok(Some(Self { objective, advantages, passes: MinibatchSchedule::of(&*algorithm)? }))
    }
}

impl Rollouts {
    /// What is made of rollouts without the values of cells, in which the runs of one launch may differ.
    pub(crate) fn without_numbers(&self) -> Self {
        let Objective { policy, value } = &self.objective;
        let [policy, value] =
            [policy, value].map(|part| Part { function: part.function, cells: Vec::new() });
        Self { objective: Objective { policy, value }, ..self.clone() }
    }
}

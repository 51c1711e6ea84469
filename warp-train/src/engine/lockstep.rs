//! Policies that act in lockstep in environments on the host, each learning in its own way.

use super::episodes;
use super::member::Member;
use super::off_policy::OffPolicy;
use super::on_policy::OnPolicy;
use crate::algorithm::PolicyPlan;
use crate::config::TrainConfig;
use crate::engine::rollout::Rollout;
use crate::engine::{Iterated, Progress};
use crate::error::{Error, Result};
use warp_func::VecEnv;

/// Policies of any algorithms, on the host.
#[derive(Debug)]
pub struct LockstepLearner {
    pub(crate) config: TrainConfig,
    pub(crate) members: Vec<Box<dyn Member>>,
}

impl LockstepLearner {
    /// The policies of `config`, initialised from its seed. Results do not depend on `threads`.
    ///
    /// # Errors
    /// A network that can't be built, actions that an algorithm does not take, or too little memory.
    pub fn new(config: &TrainConfig, threads: usize) -> Result<Self> {
        check_rollouts(config)?;
        let mut first_agent = 0;
        let mut members: Vec<Box<dyn Member>> = Vec::new();
        for (index, plan) in config.policies.iter().enumerate() {
            members.push(if plan.is_off_policy() {
                Box::new(OffPolicy::new(config, index, first_agent, threads)?)
            } else {
                Box::new(OnPolicy::new(config, index, first_agent, threads)?)
            });
            first_agent += plan.n_agents() as u32;
        }
        Ok(Self { config: config.clone(), members })
    }

    pub(crate) fn iterate_once(
        &mut self,
        envs: &mut dyn VecEnv,
        progress: Progress,
    ) -> Result<Iterated> {
        self.members.iter_mut().for_each(|member| member.begin(progress));
        for t in 0..self.config.run.num_steps {
            for (member, plan) in self.members.iter_mut().zip(&self.config.policies) {
                member.act(t, envs).map_err(of(&plan.name))?;
            }
            envs.step()?;
            for (member, plan) in self.members.iter_mut().zip(&self.config.policies) {
                member.store(t, envs).map_err(of(&plan.name))?;
            }
        }
        let finish = |(member, plan): (&mut Box<dyn Member>, &PolicyPlan)| {
            member.finish(envs, progress).map_err(of(&plan.name))
        };
        let policies = self.members.iter_mut().zip(&self.config.policies).map(finish);
        let policies = policies.collect::<Result<_>>()?;
        let episodes = episodes::take(envs, &self.config.sharing())?;
        Ok(Iterated { episodes, policies, phases: None })
    }
}

/// Checks that what is collected can be numbered and fits into memory: a step for those that learn from a replay memory,
/// which is checked by itself, and whole rollouts if there are others.
fn check_rollouts(config: &TrainConfig) -> Result<()> {
    let mut collected = config.clone();
    if config.policies.iter().all(PolicyPlan::is_off_policy) {
        collected.run.num_steps = 1;
    }
    let run = &collected.run;
    let n_envs = collected.n_envs();
    let what = format!("rollouts of {n_envs} replicas with {} steps", run.num_steps);
    let lower = "num_envs or num_steps";
    warp_data::memory::check(&what, Rollout::bytes(&collected), lower)?;
    config.check_samples()
}

/// An engine's error, which knows its optimiser, as that of a policy.
fn of(policy: &str) -> impl Fn(Error) -> Error {
    move |error| match error {
        Error::Policy { reason, .. } => Error::Policy { policy: policy.into(), reason },
        other => other,
    }
}

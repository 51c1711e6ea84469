//! A learner made of independent policies, whatever they compute with.
//!
//! A backend brings a [`Policy`]; everything around it (normalisers, algorithms, checkpoints) is the
//! same for all.

use crate::algorithm::OnPolicyAlgorithm;
use crate::algorithm::PolicyPlan;
use crate::algorithm::{PolicyFigures, PolicyMetrics};
use crate::config::TrainConfig;
use crate::engine::PhaseSeconds;
use crate::engine::RolloutEngine;
use crate::engine::episodes;
use crate::engine::policies::{check_owners, load_policy, save_policy};
use crate::engine::rollout::batch::Samples;
use crate::engine::rollout::normalise::Normaliser;
use crate::engine::rollout::{PolicyRollout, Rollout};
use crate::engine::{Iterated, Progress};
use crate::error::{Error, Result};
use crate::model::LearnerState;
pub use crate::network::Policy;
use crate::run::learner::Learner;
use std::fmt::Debug;
use std::time::Instant;
use warp_func::VecEnv;

/// The policies of a run, which learn from rollouts on the host.
#[derive(Debug)]
pub struct PolicyLearner<P: Policy> {
    config: TrainConfig,
    policies: Vec<OnePolicy<P>>,
    normalisers: Vec<Normaliser>,
    /// Made with the first iteration: who evaluates needs none.
    rollout: Option<Rollout>,
}

#[derive(Debug)]
struct OnePolicy<P: Policy> {
    plan: PolicyPlan,
    policy: P,
    algorithm: Box<dyn OnPolicyAlgorithm>,
    samples: Samples,
}

impl<P: Policy> PolicyLearner<P> {
    /// Ready-made policies, one per policy of `config`, in its order.
    ///
    /// # Errors
    /// An algorithm that learns from a replay memory, or keys that one does not take.
    pub fn from_policies(config: &TrainConfig, policies: Vec<P>) -> Result<Self> {
        let one = |(plan, policy): (&PolicyPlan, P)| {
            Ok(OnePolicy {
                algorithm: plan.on_policy(&config.spec)?,
                plan: plan.clone(),
                policy,
                samples: Samples::default(),
            })
        };
        let normaliser = |plan: &PolicyPlan| {
            let width = plan.group(&config.spec).observation_width();
            let n_rows = config.n_envs() * plan.n_agents();
            Normaliser::new(plan, width, n_rows, config.sharing())
        };
        Ok(Self {
            policies: config.policies.iter().zip(policies).map(one).collect::<Result<_>>()?,
            normalisers: config.policies.iter().map(normaliser).collect(),
            config: config.clone(),
            rollout: None,
        })
    }

    /// Policy number `index`, in the order of the configuration.
    ///
    /// # Errors
    /// There are fewer.
    pub fn policy_mut(&mut self, index: usize) -> Result<&mut P> {
        let n = self.policies.len();
        let policy = self.policies.get_mut(index).map(|one| &mut one.policy);
        policy.ok_or_else(|| Error::Invalid(format!("there are {n} policies, not {}", index + 1)))
    }

    fn iterate_once(
        &mut self,
        envs: &mut dyn VecEnv,
        rollout: &mut Rollout,
        progress: Progress,
    ) -> Result<Iterated> {
        let mut phases = self.collect(envs, rollout)?;
        let learning = Instant::now();
        let policies = self.update(rollout, progress)?;
        phases.learn = learning.elapsed().as_secs_f64();
        let episodes = episodes::take(envs, &self.config.sharing())?;
        Ok(Iterated { episodes, policies, phases: Some(phases) })
    }

    /// Fills only `outputs` and returns true, if they can be computed without the values; otherwise does
    /// nothing.
    ///
    /// # Errors
    /// As [`Learner::forward`].
    pub fn outputs(&mut self, policy: usize, obs: &[f32], outputs: &mut [f32]) -> Result<bool> {
        self.policies[policy].policy.outputs(obs, outputs)
    }

    /// Fills `values` f32 `[n_rows]` of observations f32 `[n_rows, width]`.
    ///
    /// # Errors
    /// As [`Learner::forward`].
    pub fn values(&mut self, policy: usize, obs: &[f32], values: &mut [f32]) -> Result<()> {
        self.policies[policy].policy.values(obs, values)
    }

    /// Fills `rollout` with the next steps of `envs`: look, act, step, store. Returns where the time went.
    ///
    /// # Errors
    /// As [`Learner::forward`]; or logits that are not finite, that is, a policy that diverged.
    pub fn collect(
        &mut self,
        envs: &mut dyn VecEnv,
        rollout: &mut Rollout,
    ) -> Result<PhaseSeconds> {
        let mut phases = PhaseSeconds::default();
        let mut clock = Instant::now();
        let mut lap = |phase: &mut f64| {
            *phase += std::mem::replace(&mut clock, Instant::now()).elapsed().as_secs_f64()
        };
        let sized = |p: &PolicyRollout| {
            (vec![0.0; p.n_rows * p.layout.output_width()], vec![0.0; p.n_rows], false)
        };
        let mut scratch: Vec<_> = rollout.policies.iter().map(sized).collect();
        for policy in &mut rollout.policies {
            policy.truncated.clear();
        }
        for t in 0..=rollout.n_steps {
            let last = t == rollout.n_steps;
            for (index, policy) in rollout.policies.iter_mut().enumerate() {
                policy.store_inputs(t, envs);
                if let Some(normaliser) = self.normalisers.get_mut(index) {
                    let (obs, weights) = policy.inputs_mut(t);
                    // What follows the last step is the next rollout's first.
                    if last { normaliser.apply(obs) } else { normaliser.observe(obs, weights) }
                }
                let (outputs, entropies, apart) = &mut scratch[index];
                lap(&mut phases.step);
                let (n_rows, width, rows) = (policy.n_rows, policy.width, policy.rows(t));
                let obs = &policy.obs[t * n_rows * width..][..n_rows * width];
                if !last {
                    *apart = self.outputs(index, obs, outputs)?;
                }
                if !*apart {
                    self.forward(index, obs, n_rows, outputs, &mut policy.values[rows])?;
                }
                lap(&mut phases.policy);
                if last {
                    // Only the values of what follows the last step are needed.
                    if *apart {
                        self.values(index, &policy.obs, &mut policy.values)?;
                        lap(&mut phases.policy);
                    }
                    continue;
                }
                let names = policy.names(envs);
                policy.draw(t, outputs, &names, entropies)?;
                policy.send_actions(t, envs)?;
                lap(&mut phases.sample);
            }
            if !last {
                envs.step()?;
                rollout.policies.iter_mut().for_each(|policy| policy.store_outcome(t, envs));
                lap(&mut phases.step);
            }
        }
        for (normaliser, policy) in self.normalisers.iter().zip(&mut rollout.policies) {
            normaliser.apply(&mut policy.truncated.obs);
        }
        Ok(phases)
    }

    /// Learns from a full rollout; one entry per policy.
    ///
    /// # Errors
    /// A loss that diverged.
    pub fn update(
        &mut self,
        rollout: &mut Rollout,
        progress: Progress,
    ) -> Result<Vec<PolicyFigures>> {
        let sharing = &self.config.sharing();
        let update = |((one, normaliser), rollout): ((&mut OnePolicy<P>, &mut Normaliser), _)| {
            let rollout: &mut PolicyRollout = rollout;
            normaliser.rewards(rollout, progress.env_steps)?;
            normaliser.finish_rollout()?;
            let OnePolicy { plan, policy, algorithm, samples } = one;
            if !plan.config.to_train {
                return Ok(PolicyMetrics::default().into());
            }
            let engine = RolloutEngine { policy, rollout, samples, plan, progress, sharing };
            engine.learn(&**algorithm)
        };
        let policies = self.policies.iter_mut().zip(&mut self.normalisers);
        policies.zip(&mut rollout.policies).map(update).collect()
    }
}

impl<P: Policy> Learner for PolicyLearner<P> {
    fn backend(&self) -> &'static str {
        self.policies.first().map_or("none", |one| one.policy.backend())
    }

    fn forward(
        &mut self,
        policy: usize,
        obs: &[f32],
        _n_rows: usize,
        outputs: &mut [f32],
        values: &mut [f32],
    ) -> Result<()> {
        self.policies[policy].policy.forward(obs, outputs, values)
    }

    fn normaliser(&mut self, policy: usize) -> Result<Option<&Normaliser>> {
        Ok(self.normalisers.get(policy))
    }

    fn most_iterations(&self) -> u64 {
        1
    }

    fn iterate(
        &mut self,
        envs: &mut dyn VecEnv,
        progress: Progress,
        n: u64,
    ) -> Result<Vec<Iterated>> {
        let mut rollout = self.rollout.take().unwrap_or_else(|| Rollout::new(&self.config));
        let steps = self.config.steps_per_iteration();
        let done = (0..n).map(|i| self.iterate_once(envs, &mut rollout, progress.after(i, steps)));
        let done = done.collect();
        self.rollout = Some(rollout);
        done
    }

    fn rollout(&self) -> Option<&Rollout> {
        self.rollout.as_ref()
    }

    fn rollout_bytes(&self) -> u128 {
        Rollout::bytes(&self.config)
    }

    fn state(&self) -> LearnerState {
        let mut state = LearnerState::default();
        for (one, normaliser) in self.policies.iter().zip(&self.normalisers) {
            save_policy(&one.plan.name, &one.policy, normaliser, &mut state);
        }
        state
    }

    fn load_state(&mut self, state: &LearnerState) -> Result<()> {
        check_owners(self.policies.iter().map(|one| &one.plan), state)?;
        for (one, normaliser) in self.policies.iter_mut().zip(&mut self.normalisers) {
            load_policy(&one.plan.name, &mut one.policy, normaliser, state)?;
        }
        Ok(())
    }
}

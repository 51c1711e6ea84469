//! A policy that learns from each rollout by itself, beside others that do not.

use super::member::Member;
use super::rollout::RolloutEngine;
use crate::algorithm::OnPolicyAlgorithm;
use crate::algorithm::PolicyPlan;
use crate::algorithm::{PolicyFigures, PolicyMetrics};
use crate::config::{Sharing, TrainConfig};
use crate::engine::Progress;
use crate::engine::policies::{load_policy, save_policy};
use crate::engine::rollout::PolicyRollout;
use crate::engine::rollout::batch::Samples;
use crate::engine::rollout::normalise::Normaliser;
use crate::error::Result;
use crate::model::LearnerState;
use crate::network::Policy;
use crate::network::TrainablePolicy;
use warp_func::VecEnv;

/// A policy, its rollout, and what it normalises by.
#[derive(Debug)]
pub(super) struct OnPolicy {
    plan: PolicyPlan,
    policy: Box<dyn Policy>,
    algorithm: Box<dyn OnPolicyAlgorithm>,
    normaliser: Normaliser,
    rollout: PolicyRollout,
    samples: Samples,
    n_steps: usize,
    sharing: Sharing,
    outputs: Vec<f32>,
    entropies: Vec<f32>,
}

impl OnPolicy {
    /// Policy number `index` of `config`, whose agents are numbered from `first_agent`.
    ///
    /// # Errors
    /// A network that can't be built.
    pub(super) fn new(
        config: &TrainConfig,
        index: usize,
        first_agent: u32,
        threads: usize,
    ) -> Result<Self> {
        let plan = config.policies[index].clone();
        let rollout = PolicyRollout::new(&plan, config, first_agent);
        Ok(Self {
            policy: crate::engine::policies::policy(config, index, threads)?,
            algorithm: plan.on_policy(&config.spec)?,
            normaliser: Normaliser::new(&plan, rollout.width, rollout.n_rows, config.sharing()),
            outputs: vec![0.0; rollout.n_rows * plan.layout.output_width()],
            entropies: vec![0.0; rollout.n_rows],
            samples: Samples::default(),
            n_steps: config.run.num_steps,
            sharing: config.sharing(),
            rollout,
            plan,
        })
    }
}

impl Member for OnPolicy {
    fn begin(&mut self, _: Progress) {
        self.rollout.truncated.clear();
    }

    fn act(&mut self, t: usize, envs: &mut dyn VecEnv) -> Result<()> {
        let Self { policy, normaliser, rollout, outputs, entropies, .. } = self;
        rollout.store_inputs(t, envs);
        let (obs, weights) = rollout.inputs_mut(t);
        normaliser.observe(obs, weights);
        let rows = rollout.rows(t);
        let obs = &rollout.obs[rows.start * rollout.width..rows.end * rollout.width];
        policy.forward(obs, outputs, &mut rollout.values[rows])?;
        let names = rollout.names(envs);
        rollout.draw(t, outputs, &names, entropies)?;
        rollout.send_actions(t, envs)?;
        Ok(())
    }

    fn store(&mut self, t: usize, envs: &dyn VecEnv) -> Result<()> {
        self.rollout.store_outcome(t, envs);
        Ok(())
    }

    fn finish(&mut self, envs: &dyn VecEnv, progress: Progress) -> Result<PolicyFigures> {
        let Self { plan, policy, algorithm, normaliser, rollout, samples, .. } = self;
        let (n_steps, sharing) = (&self.n_steps, &self.sharing);
        rollout.store_inputs(*n_steps, envs);
        // What follows the last step is the next rollout's first.
        let (obs, _) = rollout.inputs_mut(*n_steps);
        normaliser.apply(obs);
        let rows = rollout.rows(*n_steps);
        let obs = &rollout.obs[rows.start * rollout.width..];
        policy.values(obs, &mut rollout.values[rows])?;
        normaliser.apply(&mut rollout.truncated.obs);
        normaliser.rewards(rollout, progress.env_steps)?;
        normaliser.finish_rollout()?;
        if !plan.config.to_train {
            return Ok(PolicyMetrics::default().into());
        }
        let engine = RolloutEngine { policy, rollout, samples, plan, progress, sharing };
        engine.learn(&**algorithm)
    }

    fn forward(&mut self, obs: &[f32], outputs: &mut [f32], values: &mut [f32]) -> Result<()> {
        self.policy.forward(obs, outputs, values)
    }

    fn normaliser(&self) -> Option<&Normaliser> {
        Some(&self.normaliser)
    }

    fn save(&self, state: &mut LearnerState) {
        save_policy(&self.plan.name, &self.policy, &self.normaliser, state);
    }

    fn load(&mut self, state: &LearnerState) -> Result<()> {
        load_policy(&self.plan.name, &mut self.policy, &mut self.normaliser, state)
    }
}

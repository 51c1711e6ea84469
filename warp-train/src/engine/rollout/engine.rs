//! A policy that learns from a rollout on the host, step by step as its algorithm says.

use crate::algorithm::PolicyMetrics;
use crate::algorithm::{Advantages, OnPolicyAlgorithm, OnPolicyEngine};
use crate::algorithm::{PolicyPlan, Rollouts};
use crate::engine::Progress;
use crate::engine::rollout::PolicyRollout;
use crate::engine::rollout::batch::Samples;
use crate::error::{Error, Result};
use crate::loss::Loss;
use crate::loss::gae::{gae, warpdrive_returns};
use crate::network::TrainablePolicy;
use std::ops::Range;
use warp_core::{Draw, Purpose};

/// A policy, and the rollout that it learns from.
#[expect(missing_debug_implementations, reason = "policies of tests need not have it")]
pub struct RolloutEngine<'a> {
    /// What learns.
    pub policy: &'a mut dyn TrainablePolicy,
    /// What its agents did and saw.
    pub rollout: &'a mut PolicyRollout,
    /// Room for minibatches.
    pub samples: &'a mut Samples,
    /// Its keys.
    pub plan: &'a PolicyPlan,
    /// Where the run stands.
    pub progress: Progress,
}

/// An update on its way.
struct Update<'a> {
    on: RolloutEngine<'a>,
    advantages: Advantages,
    loss: Loss,
    minibatches: usize,
    /// The samples of the minibatch.
    range: Range<usize>,
    n_steps: usize,
    metrics: PolicyMetrics,
}

impl RolloutEngine<'_> {
    /// Learns from the rollout by `algorithm`.
    ///
    /// # Errors
    /// A loss or gradient that is not finite.
    pub fn learn(self, algorithm: &dyn OnPolicyAlgorithm) -> Result<PolicyMetrics> {
        // Coefficients of this moment in the run.
        let (keys, step) = (&self.plan.config, self.progress.env_steps);
        let Some(Rollouts { objective, advantages, .. }) = &self.plan.rollouts else {
            let PolicyPlan { name, algorithm, .. } = self.plan;
            return Err(Error::Invalid(format!(
                "policy \"{name}\": {} does not learn from rollouts",
                algorithm.name
            )));
        };
        let loss = Loss {
            objective: objective.clone(),
            vf_coef: keys.vf_coef.at(step) as f32,
            ent_coef: keys.ent_coef.at(step) as f32,
        };
        let learning_rate = keys.learning_rate.at(step);
        let mut update = Update {
            advantages: *advantages,
            on: self,
            loss,
            minibatches: 1,
            range: 0..0,
            n_steps: 0,
            metrics: PolicyMetrics { learning_rate, ..PolicyMetrics::default() },
        };
        algorithm.update(&mut update)?;
        update.metrics.divide(update.n_steps);
        Ok(update.metrics)
    }
}

impl OnPolicyEngine for Update<'_> {
    fn estimate(&mut self) -> Result<()> {
        let RolloutEngine { policy, rollout, samples, plan, .. } = &mut self.on;
        let (gamma, lambda) = (plan.config.gamma as f32, plan.config.gae_lambda as f32);
        let how = self.advantages;
        samples.fill(*policy, rollout, |trajectory, advantages, returns| match how {
            Advantages::Gae => gae(trajectory, gamma, lambda, advantages, returns),
            Advantages::WarpDrive => warpdrive_returns(trajectory, gamma, advantages, returns),
        })?;
        self.metrics.explained_variance = samples.explained_variance();
        Ok(())
    }

    fn shuffle(&mut self, epoch: usize) -> Result<()> {
        let Progress { iteration, seed, .. } = self.on.progress;
        let first_agent = self.on.rollout.first_agent;
        let draw = Draw::new(seed, first_agent, iteration as u32, Purpose::Shuffle);
        self.on.samples.shuffle(draw.agent(epoch as u32));
        Ok(())
    }

    fn cut(&mut self, n: usize) -> Range<usize> {
        self.minibatches = n.min(self.on.samples.len());
        0..self.minibatches
    }

    fn gather(&mut self, minibatch: usize) -> Result<()> {
        let (n, parts) = (self.on.samples.len(), self.minibatches);
        if minibatch >= parts {
            let reason = format!("minibatch {minibatch} is asked for, but there are {parts}");
            return Err(Error::Invalid(reason));
        }
        self.range = n * minibatch / parts..n * (minibatch + 1) / parts;
        Ok(())
    }

    fn gradient(&mut self) -> Result<()> {
        let RolloutEngine { policy, rollout, samples, plan, .. } = &mut self.on;
        let minibatch = samples.gather(rollout, self.range.clone(), plan.config.norm_adv);
        self.metrics.add(&policy.gradients(&minibatch, &self.loss)?);
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        let (rate, limit) = (self.metrics.learning_rate, self.on.plan.config.max_grad_norm);
        self.metrics.grad_norm += self.on.policy.step(rate, limit)?;
        self.n_steps += 1;
        Ok(())
    }
}

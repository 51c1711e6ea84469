//! A policy that learns from a rollout on the host, step by step as its algorithm requests.

use crate::algorithm::{Advantages, OnPolicyAlgorithm, OnPolicyEngine};
use crate::algorithm::{PolicyFigures, PolicyMetrics};
use crate::algorithm::{PolicyPlan, Rollouts};
use crate::config::{Shards, Sharing};
use crate::engine::Progress;
use crate::engine::rollout::PolicyRollout;
use crate::engine::rollout::batch::{Moments, Samples};
use crate::engine::rollout::rewards::Rewards;
use crate::engine::rollout::spread::Spread;
use crate::error::{Error, Result};
use crate::loss::gae::{gae, warpdrive_returns};
use crate::loss::{Loss, LossMetrics};
use crate::network::{StepSizes, TrainablePolicy};
use std::ops::Range;
use warp_core::{Draw, Purpose};

/// Bits of a number that say which epoch an order is of; those above say of which shard.
const EPOCH_BITS: u32 = 16;

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
    /// The progress of the run.
    pub progress: Progress,
    /// The other ranks that learn the same policies.
    pub sharing: &'a Sharing,
}

/// How much an update had done at some moment.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    n_steps: usize,
    approx_kl: f64,
}

/// An update on its way.
struct Update<'a> {
    on: RolloutEngine<'a>,
    advantages: Advantages,
    loss: Loss,
    /// Samples of every shard of all ranks.
    counts: Vec<usize>,
    minibatches: usize,
    /// Number of the minibatch at hand, and moments of its advantages if they are to be normalised.
    minibatch: usize,
    moments: Option<Moments>,
    n_steps: usize,
    /// Steps, and their divergences together, when it was last asked whether to go on.
    seen: Seen,
    metrics: PolicyMetrics,
    /// Figures of the whole rollout.
    of_rollout: Vec<(&'static str, f64)>,
}

impl RolloutEngine<'_> {
    /// Learns from the rollout by `algorithm`.
    ///
    /// # Errors
    /// A loss or gradient that is not finite.
    pub fn learn(self, algorithm: &dyn OnPolicyAlgorithm) -> Result<PolicyFigures> {
        // Coefficients of this moment in the run.
        let (keys, step) = (&self.plan.config, self.progress.env_steps);
        let Some(Rollouts { advantages, .. }) = &self.plan.rollouts else {
            let PolicyPlan { name, algorithm, .. } = self.plan;
            return Err(Error::Invalid(format!(
                "policy \"{name}\": {} does not learn from rollouts",
                algorithm.name
            )));
        };
        let loss = Loss {
            objective: algorithm.objective(step),
            vf_coef: keys.vf_coef.at(step) as f32,
            ent_coef: keys.ent_coef.at(step) as f32,
        };
        let learning_rate = keys.learning_rate.at(step);
        let mut update = Update {
            advantages: *advantages,
            on: self,
            loss,
            counts: Vec::new(),
            minibatches: 1,
            minibatch: 0,
            moments: None,
            n_steps: 0,
            seen: Seen::default(),
            metrics: PolicyMetrics { learning_rate, ..PolicyMetrics::default() },
            of_rollout: Vec::new(),
        };
        algorithm.update(&mut update)?;
        update.metrics.divide(update.n_steps);
        if let Some(rate) = &keys.critic_learning_rate {
            update.of_rollout.push(("critic_learning_rate", rate.at(step)));
        }
        if keys.target_kl.is_some() {
            update.of_rollout.push(("optimiser_steps", update.n_steps as f64));
        }
        let figures = PolicyFigures::from(update.metrics);
        Ok(figures.iter().chain(update.of_rollout).collect())
    }
}

/// Has the next step of `policy` follow the sum of the gradients of all shards, in their order, of which those here are
/// `gradients`, one after the other.
pub(crate) fn share_gradients(
    policy: &mut dyn TrainablePolicy,
    gradients: &[f32],
    sharing: &Sharing,
) -> Result<()> {
    let all = sharing.world.all_gather_f32("gradients", gradients)?;
    let mut parts = all.chunks_exact(gradients.len() / sharing.shards.here);
    let mut sum = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        sum.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
    }
    policy.set_gradient(&sum);
    Ok(())
}

impl Update<'_> {
    /// The samples of the minibatch at hand in a shard of so many.
    fn range(&self, n: usize) -> Range<usize> {
        let (u, parts) = (self.minibatch, self.minibatches);
        n * u / parts..n * (u + 1) / parts
    }

    /// The pieces of the minibatch here: a shard's number and its samples.
    fn pieces(&self) -> Vec<(usize, Range<usize>)> {
        self.on.samples.counts().map(|n| self.range(n)).enumerate().collect()
    }

    /// Rewards of all shards.
    fn rewards(&self) -> Result<Rewards> {
        let RolloutEngine { rollout, sharing, .. } = &self.on;
        let of = |shard| Rewards::of(rollout, sharing.shards.rows(rollout.n_rows, shard)).numbers();
        let here: Vec<f64> = (0..sharing.shards.here).flat_map(of).collect();
        let all = sharing.world.all_gather_f64("rewards", &here)?;
        Ok(Rewards::together(all.as_chunks().0))
    }

    /// Notes how many replicas reached a goal, and how many others are learned from, by the counts of the shards here.
    fn count_replicas(&mut self, here: &[f64]) -> Result<()> {
        if self.on.plan.config.neg_pos_env_ratio.is_none() {
            return Ok(());
        }
        let all = self.on.sharing.world.all_gather_f64("counts of replicas", here)?;
        let sum = |i: usize| all.iter().skip(i).step_by(2).sum::<f64>();
        let counts = [("positive_replicas", sum(0)), ("negative_replicas", sum(1))];
        self.of_rollout.extend(counts);
        Ok(())
    }

    /// Moments of numbers of all shards, from those of the shards here.
    fn merged(&self, what: &'static str, here: &[Moments]) -> Result<Moments> {
        let numbers: Vec<f64> = here.iter().flat_map(|m| [m.n, m.mean, m.squares]).collect();
        let all = self.on.sharing.world.all_gather_f64(what, &numbers)?;
        let moments = all.chunks_exact(3).map(|m| Moments { n: m[0], mean: m[1], squares: m[2] });
        Ok(moments.fold(Moments::default(), Moments::with))
    }

    /// How far the rollout's actions differ, in the mean over shards.
    fn spread(&self) -> Result<Spread> {
        let Sharing { world, shards } = self.on.sharing;
        let rollout = &*self.on.rollout;
        let of = |shard| Spread::of(rollout, shards.rows(rollout.n_rows, shard)).numbers();
        let here: Vec<f64> = (0..shards.here).flat_map(of).collect();
        let all = world.all_gather_f64("spread of actions", &here)?;
        Ok(Spread::mean(all.as_chunks().0))
    }

    /// Gradient and figures of a piece of the minibatch.
    fn gradient_of(
        &mut self,
        shard: usize,
        range: Range<usize>,
        whole: Option<f64>,
    ) -> Result<LossMetrics> {
        let RolloutEngine { policy, rollout, samples, .. } = &mut self.on;
        let (mut picked, room) = samples.picked(rollout, shard, range, self.moments);
        picked.all.whole = whole;
        policy.gradients_of(&picked, room, &self.loss)
    }

    /// Sums gradient and figures over the shards of all ranks, in their order.
    fn gradient_of_all(&mut self) -> Result<()> {
        let whole = self.counts.iter().map(|n| self.range(*n).len()).sum::<usize>() as f64;
        let (mut gradients, mut figures) = (Vec::new(), Vec::new());
        for (shard, range) in self.pieces() {
            let n = range.len();
            let seen = match n {
                0 => LossMetrics::default(),
                _ => self.gradient_of(shard, range, Some(whole))?,
            };
            figures.extend(seen.numbers());
            let Some(gradient) = self.on.policy.gradient() else {
                return Err(Error::Invalid(format!(
                    "policy \"{}\": its network does not expose its gradient, which shards need; \
                     leave out the key shards",
                    self.on.plan.name
                )));
            };
            match n {
                0 => gradients.extend(gradient.iter().map(|_| 0.0)),
                _ => gradients.extend_from_slice(gradient),
            }
        }
        share_gradients(self.on.policy, &gradients, self.on.sharing)?;
        let figures = self.on.sharing.world.all_gather_f64("figures of a loss", &figures)?;
        for seen in figures.as_chunks().0 {
            self.metrics.add(&LossMetrics::of_numbers(*seen));
        }
        Ok(())
    }
}

impl OnPolicyEngine for Update<'_> {
    fn compute_advantages(&mut self) -> Result<()> {
        let Progress { iteration, seed, env_steps } = self.on.progress;
        let RolloutEngine { policy, rollout, samples, plan, sharing, .. } = &mut self.on;
        let [gamma, lambda] =
            [&plan.config.gamma, &plan.config.gae_lambda].map(|key| key.at(env_steps) as f32);
        let (how, shards) = (self.advantages, sharing.shards);
        samples.fill(*policy, rollout, shards, |trajectory, advantages, returns| match how {
            Advantages::Gae => gae(trajectory, gamma, lambda, advantages, returns),
            Advantages::WarpDrive => warpdrive_returns(trajectory, gamma, advantages, returns),
        })?;
        let draw = Draw::new(seed, rollout.first_agent, iteration as u32, Purpose::Learn);
        let mut selections = Vec::new();
        for shard in 0..shards.here {
            let rows = shards.rows(rollout.n_rows, shard);
            let draw = draw.agent((shards.first + shard) as u32);
            if let Some(selected) = rollout.selected(&rows, plan.config.neg_pos_env_ratio, draw) {
                samples.select(shard, rollout, rows.start, &selected.replicas);
                selections.extend(selected.counts());
            }
            if plan.config.norm_return {
                samples.normalise_returns(shard, rollout);
            }
        }
        let explained = (0..shards.here).map(|shard| samples.explained(&rollout.values, shard));
        let (returns, missed): (Vec<_>, Vec<_>) = explained.map(|[a, b]| (a, b)).unzip();
        let counts: Vec<f64> = samples.counts().map(|n| n as f64).collect();
        let spread = self.spread()?;
        let returns = self.merged("moments of returns", &returns)?;
        let missed = self.merged("moments of residuals", &missed)?;
        let (total, residual) = (returns.variance(), missed.variance());
        self.metrics.explained_variance = if total > 0.0 { 1.0 - residual / total } else { 0.0 };
        // What the values miss of the returns is the advantages.
        self.of_rollout = vec![
            ("mean_value", returns.mean - missed.mean),
            ("mean_return", returns.mean),
            ("mean_advantage", missed.mean),
        ];
        self.of_rollout.extend(spread.figures());
        self.of_rollout.extend(self.rewards()?.figures());
        self.count_replicas(&selections)?;
        let counts = self.on.sharing.world.all_gather_f64("counts of samples", &counts)?;
        self.counts = counts.into_iter().map(|n| n as usize).collect();
        Ok(())
    }

    fn shuffle(&mut self, epoch: usize) -> Result<()> {
        let Progress { iteration, seed, .. } = self.on.progress;
        let first_agent = self.on.rollout.first_agent;
        let draw = Draw::new(seed, first_agent, iteration as u32, Purpose::Shuffle);
        let Shards { first, here, .. } = self.on.sharing.shards;
        for shard in 0..here {
            let number = ((first + shard) as u32) << EPOCH_BITS | epoch as u32;
            self.on.samples.shuffle(shard, draw.agent(number));
        }
        Ok(())
    }

    fn split_into_minibatches(&mut self, n: usize) -> Range<usize> {
        self.minibatches = n.min(self.counts.iter().copied().max().unwrap_or(0));
        0..self.minibatches
    }

    fn load_minibatch(&mut self, minibatch: usize) -> Result<()> {
        let parts = self.minibatches;
        if minibatch >= parts {
            let reason = format!("minibatch {minibatch} is asked for, but there are {parts}");
            return Err(Error::Invalid(reason));
        }
        self.minibatch = minibatch;
        self.moments = None;
        if self.on.plan.config.norm_adv {
            let pieces = self.pieces().into_iter();
            let of = |(shard, range)| self.on.samples.moments(shard, range);
            let here: Vec<Moments> = pieces.map(of).collect();
            self.moments = Some(self.merged("moments of advantages", &here)?);
        }
        Ok(())
    }

    fn compute_gradient(&mut self) -> Result<()> {
        if !self.on.sharing.shards.is_one() {
            return self.gradient_of_all();
        }
        let range = self.range(self.counts[0]);
        let seen = self.gradient_of(0, range, None)?;
        self.metrics.add(&seen);
        Ok(())
    }

    fn optimiser_step(&mut self) -> Result<()> {
        let (keys, step) = (&self.on.plan.config, self.on.progress.env_steps);
        let learning_rate = self.metrics.learning_rate;
        let critic = keys.critic_learning_rate.as_ref();
        let critic_learning_rate = critic.map_or(learning_rate, |rate| rate.at(step));
        let max_grad_norm = keys.max_grad_norm.at(step);
        let sizes = StepSizes { learning_rate, critic_learning_rate, max_grad_norm };
        self.metrics.grad_norm += self.on.policy.step(&sizes)?;
        self.n_steps += 1;
        Ok(())
    }

    fn within_target_kl(&mut self) -> Result<bool> {
        let now = Seen { n_steps: self.n_steps, approx_kl: self.metrics.approx_kl };
        let before = std::mem::replace(&mut self.seen, now);
        let Some(target) = self.on.plan.config.target_kl else { return Ok(true) };
        let n = (now.n_steps - before.n_steps).max(1) as f64;
        Ok((now.approx_kl - before.approx_kl) / n <= target)
    }
}

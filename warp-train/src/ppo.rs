//! Proximal policy optimisation (Schulman et al., 2017), as CleanRL writes it: advantages, then
//! epochs of shuffled minibatches, the loss of one sample at a time.

use crate::batch::{Samples, TrainablePolicy};
use crate::config::PolicyConfig;
use crate::error::Result;
use crate::gae::gae;
use crate::learner::Progress;
use crate::loss::{LossConfig, Row, RowLoss};
use crate::metrics::PolicyMetrics;
use crate::rollout::PolicyRollout;
use warp_core::{Draw, Purpose};

/// PPO's coefficients, by CleanRL's names.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PpoConfig {
    /// The ratio of new to old probability counts within `1 - clip_coef ..= 1 + clip_coef`. 0.2.
    pub clip_coef: f32,
    /// Whether the value estimate, too, is kept within `clip_coef` of the old one. True.
    pub clip_vloss: bool,
    /// Weight of the value loss, which is half the mean squared error. 0.5.
    pub vf_coef: f32,
    /// Weight of the entropy bonus. 0.01.
    pub ent_coef: f32,
}

impl Default for PpoConfig {
    fn default() -> Self {
        Self { clip_coef: 0.2, clip_vloss: true, vf_coef: 0.5, ent_coef: 0.01 }
    }
}

impl PpoConfig {
    pub(crate) fn row(&self, row: &Row) -> RowLoss {
        let log_ratio = row.log_prob - row.old_log_prob;
        let ratio = log_ratio.exp();
        let unclipped = -row.advantage * ratio;
        let nearest = ratio.max(1.0 - self.clip_coef).min(1.0 + self.clip_coef);
        let clipped = -row.advantage * nearest;
        let (value_loss, d_value) = self.value(row.value, row.old_value, row.target);
        RowLoss {
            policy_loss: unclipped.max(clipped),
            // d ratio / d log_prob = ratio; the clipped branch is constant where it is the larger.
            // A NaN is never the smaller: it stays in the gradient and stops the optimiser.
            d_log_prob: if unclipped < clipped { 0.0 } else { unclipped },
            value_loss,
            d_value,
            approx_kl: (ratio - 1.0) - log_ratio,
            clipped: f32::from(u8::from((ratio - 1.0).abs() > self.clip_coef)),
        }
    }

    /// Value loss of a row and its derivative by the value.
    pub(crate) fn value(&self, value: f32, old_value: f32, target: f32) -> (f32, f32) {
        let error = value - target;
        let plain = error * error;
        let step = value - old_value;
        // Where the step is not clipped the two losses are the same.
        if !self.clip_vloss || step.abs() <= self.clip_coef {
            return (0.5 * plain, error);
        }
        let step = step.max(-self.clip_coef).min(self.clip_coef);
        let error_clipped = old_value + step - target;
        let clipped = error_clipped * error_clipped;
        if clipped > plain { (0.5 * clipped, 0.0) } else { (0.5 * plain, error) }
    }
}

/// Learns from one rollout.
///
/// # Errors
/// A loss or gradient that is not finite.
pub fn update(
    policy: &mut dyn TrainablePolicy,
    rollout: &mut PolicyRollout,
    samples: &mut Samples,
    config: &PolicyConfig,
    progress: Progress,
) -> Result<PolicyMetrics> {
    // Coefficients of this moment in the run.
    let learning_rate = config.learning_rate.at(progress.env_steps);
    let loss = LossConfig::Ppo(PpoConfig {
        clip_coef: config.clip_coef as f32,
        clip_vloss: config.clip_vloss,
        vf_coef: config.vf_coef.at(progress.env_steps) as f32,
        ent_coef: config.ent_coef.at(progress.env_steps) as f32,
    });

    // Advantages and returns of every sample whose agent was in the game.
    samples.fill(policy, rollout, |trajectory, advantages, returns| {
        gae(trajectory, config.gamma as f32, config.gae_lambda as f32, advantages, returns);
    })?;
    let mut metrics = PolicyMetrics {
        learning_rate,
        explained_variance: samples.explained_variance(),
        ..PolicyMetrics::default()
    };

    let n = samples.len();
    let n_minibatches = config.num_minibatches.min(n);
    for epoch in 0..config.update_epochs {
        let (policy_number, epoch) = (rollout.first_agent, epoch as u32);
        let step = progress.iteration as u32;
        let draw = Draw::new(progress.seed, policy_number, step, Purpose::Shuffle).agent(epoch);
        samples.shuffle(draw);
        for part in 0..n_minibatches {
            let range = n * part / n_minibatches..n * (part + 1) / n_minibatches;
            let minibatch = samples.gather(rollout, range, config.norm_adv);
            let seen = policy.gradients(&minibatch, &loss)?;
            let grad_norm = policy.step(learning_rate, config.max_grad_norm)?;
            metrics.add(&seen, grad_norm);
        }
    }
    metrics.divide(n_minibatches * config.update_epochs);
    Ok(metrics)
}

//! Advantage actor-critic (Mnih et al., 2016), synchronous: one step of gradient descent on the
//! whole rollout, as WarpDrive does it.

use crate::batch::{Samples, TrainablePolicy};
use crate::config::PolicyConfig;
use crate::error::Result;
use crate::gae::{gae, warpdrive_returns};
use crate::learner::Progress;
use crate::loss::{LossConfig, Row, RowLoss};
use crate::metrics::PolicyMetrics;
use crate::rollout::PolicyRollout;

/// A2C's coefficients, by CleanRL's names.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct A2cConfig {
    /// Weight of the value loss, the mean squared error. 0.5.
    pub vf_coef: f32,
    /// Weight of the entropy bonus. 0.01.
    pub ent_coef: f32,
}

impl Default for A2cConfig {
    fn default() -> Self {
        Self { vf_coef: 0.5, ent_coef: 0.01 }
    }
}

impl A2cConfig {
    pub(crate) fn row(&self, row: &Row) -> RowLoss {
        let (value_loss, d_value) = Self::value(row.value, row.target);
        RowLoss {
            policy_loss: -row.log_prob * row.advantage,
            d_log_prob: -row.advantage,
            value_loss,
            d_value,
            ..RowLoss::default()
        }
    }

    /// Value loss of a row and its derivative by the value.
    pub(crate) fn value(value: f32, target: f32) -> (f32, f32) {
        let error = value - target;
        (error * error, 2.0 * error)
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
    let learning_rate = config.learning_rate.at(progress.env_steps);
    let loss = LossConfig::A2c(A2cConfig {
        vf_coef: config.vf_coef.at(progress.env_steps) as f32,
        ent_coef: config.ent_coef.at(progress.env_steps) as f32,
    });
    let (gamma, lambda) = (config.gamma as f32, config.gae_lambda as f32);
    samples.fill(policy, rollout, |trajectory, advantages, returns| {
        if config.compat_last_step {
            warpdrive_returns(trajectory, gamma, advantages, returns);
        } else {
            gae(trajectory, gamma, lambda, advantages, returns);
        }
    })?;
    let mut metrics = PolicyMetrics {
        learning_rate,
        explained_variance: samples.explained_variance(),
        ..PolicyMetrics::default()
    };
    let minibatch = samples.gather(rollout, 0..samples.len(), config.norm_adv);
    let seen = policy.gradients(&minibatch, &loss)?;
    let grad_norm = policy.step(learning_rate, config.max_grad_norm)?;
    metrics.add(&seen, grad_norm);
    Ok(metrics)
}

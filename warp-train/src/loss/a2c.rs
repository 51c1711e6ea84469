//! Row functions of A2C: the policy's gradient and the value's squared error.
//!
//! Mnih et al., "Asynchronous Methods for Deep Reinforcement Learning", 2016. Derivatives by hand.

use super::objective::{Loss, Objective, Part};
use super::row::row_functions;

/// The policy's gradient, as a loss.
pub fn policy_loss(log_prob: &[f32], advantage: &[f32], loss: &mut [f32], d_log_prob: &mut [f32]) {
    loss[0] = -log_prob[0] * advantage[0];
    d_log_prob[0] = -advantage[0];
}

/// The squared error of the value.
pub fn value_loss(value: &[f32], target: &[f32], loss: &mut [f32], d_value: &mut [f32]) {
    let error = value[0] - target[0];
    loss[0] = error * error;
    d_value[0] = 2.0 * error;
}

row_functions! { "a2c.cu";
    POLICY_LOSS = policy_loss(; log_prob, advantage; loss, d_log_prob);
    VALUE_LOSS = value_loss(; value, target; loss, d_value);
}

/// Coefficients of A2C's loss; the names are those of the configuration keys.
#[derive(Debug, Clone, Copy, PartialEq)]
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

/// What is descended, but for the weights of its parts.
#[must_use]
pub fn objective() -> Objective {
    Objective {
        policy: Part { function: &POLICY_LOSS, cells: Vec::new() },
        value: Part { function: &VALUE_LOSS, cells: Vec::new() },
    }
}

impl From<A2cConfig> for Loss {
    fn from(keys: A2cConfig) -> Self {
        let A2cConfig { vf_coef, ent_coef } = keys;
        Self { objective: objective(), vf_coef, ent_coef }
    }
}

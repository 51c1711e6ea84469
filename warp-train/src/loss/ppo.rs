//! Row functions of PPO: the clipped surrogate and the clipped value loss.
//!
//! Schulman et al., "Proximal Policy Optimization Algorithms", 2017; the value's clipping as in OpenAI's
//! Baselines and CleanRL. Derivatives by hand.

use super::objective::{Loss, Objective, Part};
use super::row::row_functions;
use warp_core::math;

/// The larger of a ratio's loss and that of the ratio within `1 - clip_coef ..= 1 + clip_coef`.
#[expect(clippy::too_many_arguments, reason = "a parameter is a column, by its name")]
pub fn policy_loss(
    clip_coef: f32,
    log_prob: &[f32],
    old_log_prob: &[f32],
    advantage: &[f32],
    loss: &mut [f32],
    d_log_prob: &mut [f32],
    approx_kl: &mut [f32],
    clip_fraction: &mut [f32],
) {
    let log_ratio = log_prob[0] - old_log_prob[0];
    let ratio = math::platform_exp(log_ratio);
    let unclipped = -advantage[0] * ratio;
    let nearest = math::min(math::max(ratio, 1.0 - clip_coef), 1.0 + clip_coef);
    let clipped = -advantage[0] * nearest;
    loss[0] = math::max(unclipped, clipped);
    // d ratio / d log_prob = ratio; the clipped branch is constant where it is the larger.
    // A NaN is never the smaller: it stays in the gradient and stops the optimiser.
    d_log_prob[0] = if unclipped < clipped { 0.0 } else { unclipped };
    approx_kl[0] = (ratio - 1.0) - log_ratio;
    clip_fraction[0] = if (ratio - 1.0).abs() > clip_coef { 1.0 } else { 0.0 };
}

/// `0.5 * (value - target)^2`; with `clip_vloss` the larger of this and the same for
/// `old_value + clamp(value - old_value, -clip_coef, clip_coef)`, as in CleanRL.
pub fn value_loss(
    clip_coef: f32,
    clip_vloss: f32,
    value: &[f32],
    old_value: &[f32],
    target: &[f32],
    loss: &mut [f32],
    d_value: &mut [f32],
) {
    let error = value[0] - target[0];
    let plain = error * error;
    let step = value[0] - old_value[0];
    loss[0] = 0.5 * plain;
    d_value[0] = error;
    // Where the step is not clipped the two losses are the same.
    if clip_vloss > 0.0 && step.abs() > clip_coef {
        let step = math::min(math::max(step, -clip_coef), clip_coef);
        let error_clipped = old_value[0] + step - target[0];
        let clipped = error_clipped * error_clipped;
        if clipped > plain {
            loss[0] = 0.5 * clipped;
            d_value[0] = 0.0;
        }
    }
}

row_functions! { "ppo.cu";
    POLICY_LOSS = policy_loss(
        clip_coef; log_prob, old_log_prob, advantage; loss, d_log_prob, approx_kl, clip_fraction
    );
    VALUE_LOSS = value_loss(clip_coef, clip_vloss; value, old_value, target; loss, d_value);
}

/// PPO's coefficients, by CleanRL's names.
#[derive(Debug, Clone, Copy, PartialEq)]
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
    /// What is descended, but for the weights of its parts.
    #[must_use]
    pub fn objective(&self) -> Objective {
        let clip_vloss = if self.clip_vloss { 1.0 } else { 0.0 };
        Objective {
            policy: Part { function: &POLICY_LOSS, cells: vec![self.clip_coef] },
            value: Part { function: &VALUE_LOSS, cells: vec![self.clip_coef, clip_vloss] },
        }
    }
}

impl From<PpoConfig> for Loss {
    fn from(keys: PpoConfig) -> Self {
        let PpoConfig { vf_coef, ent_coef, .. } = keys;
        Self { objective: keys.objective(), vf_coef, ent_coef }
    }
}

//! Whether gradients are right: every backend against finite differences, and against each other.
//!
//! `scene` makes a minibatch of real observations and actions at which the losses are smooth,
//! `reference` computes the same network and `formulas` the same losses in f64, plainly, one parameter
//! moved at a time. A backend takes part through [`GradientSource`], which every learner made of
//! policies has.

mod formulas;
mod reference;
mod scene;
#[cfg(test)]
mod tests;

pub use scene::{Scene, SceneOptions};

use crate::a2c::A2cConfig;
use crate::burn::{NamedTensor, PolicyTensors};
use crate::config::{PolicyPlan, TrainConfig};
use crate::error::{Error, Result};
use crate::loss::{LossConfig, LossMetrics, Minibatch};
use crate::policies::{Policy, PolicyLearner};
use crate::ppo::PpoConfig;
use reference::Reference;
use serde::Serialize;

/// Largest difference between an element of a gradient and the finite difference, relative to the
/// largest element of its tensor: f32 sums against f64 ones.
pub const BOUND: f64 = 2e-4;
/// A tensor whose gradient is smaller than this part of the largest one is measured against that:
/// what is left of it is rounding.
const FLOOR: f64 = 1e-3;

/// A learner whose gradients can be looked at.
pub trait GradientSource {
    /// What it is called.
    fn backend(&self) -> &'static str;

    /// The loss over `minibatch` with weights `weights` in policy number `policy`, and its gradient
    /// with the names, shapes and order of the weights. Optimiser state is lost.
    ///
    /// # Errors
    /// Weights or arrays that do not fit, or a gradient that is not finite.
    fn gradient(
        &mut self,
        policy: usize,
        weights: &[NamedTensor],
        minibatch: &Minibatch<'_>,
        loss: &LossConfig,
    ) -> Result<(LossMetrics, Vec<NamedTensor>)>;
}

impl<P: Policy> GradientSource for PolicyLearner<P> {
    fn backend(&self) -> &'static str {
        P::BACKEND
    }

    fn gradient(
        &mut self,
        policy: usize,
        weights: &[NamedTensor],
        minibatch: &Minibatch<'_>,
        loss: &LossConfig,
    ) -> Result<(LossMetrics, Vec<NamedTensor>)> {
        let policy = self.policy_mut(policy)?;
        let PolicyTensors { mut optimizer, .. } = policy.tensors();
        optimizer.iter_mut().for_each(|moment| moment.data.fill(0.0));
        policy.load(&PolicyTensors { weights: weights.to_vec(), optimizer, n_steps: 0 })?;
        let metrics = policy.gradients(minibatch, loss)?;
        // From moments of zero, one step leaves a tenth of the gradient in the first one.
        policy.step(0.0, 0.0)?;
        let moments = policy.tensors().optimizer;
        let of = |weight: &NamedTensor| {
            let name = format!("{}.exp_avg", weight.name);
            let moment = moments.iter().find(|moment| moment.name == name).ok_or_else(|| {
                Error::Invalid(format!("tensor \"{name}\" is missing in the optimiser's state"))
            })?;
            let data = moment.data.iter().map(|tenth| tenth * 10.0).collect();
            Ok(NamedTensor { data, ..weight.clone() })
        };
        Ok((metrics, weights.iter().map(of).collect::<Result<_>>()?))
    }
}

/// One backend's gradient of one tensor against another's, or against finite differences.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The policy.
    pub policy: String,
    /// "ppo" or "a2c".
    pub loss: &'static str,
    /// The tensor; `loss` itself for the loss's value.
    pub tensor: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// The backend.
    pub backend: &'static str,
    /// What it is compared with: another backend or "differences".
    pub against: &'static str,
    /// Largest difference, relative to the largest element of the tensor (see [`BOUND`]).
    pub error: f64,
}

impl Comparison {
    /// Whether the gradients agree; false for an error that is not a number.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.error <= BOUND
    }
}

/// Compares the gradients of `sources` with finite differences and with each other: every parameter
/// of every policy of `config`, for PPO's loss and A2C's.
///
/// # Errors
/// A policy that can't be evaluated.
pub fn compare(
    config: &TrainConfig,
    scenes: &[Scene],
    sources: &mut [&mut dyn GradientSource],
) -> Result<Vec<Comparison>> {
    let mut found = Vec::new();
    for (index, (plan, scene)) in config.policies.iter().zip(scenes).enumerate() {
        for (name, loss) in losses(plan) {
            let truth = Reference::new(plan, scene, &loss)?;
            let minibatch = truth.minibatch();
            let mut gradients = Vec::new();
            for source in &mut *sources {
                let (metrics, gradient) =
                    source.gradient(index, &scene.weights, &minibatch, &loss)?;
                gradients.push((source.backend(), metrics.loss, gradient));
            }
            gradients.push(("differences", truth.loss(), truth.gradient()));
            let mut add = |a: &Gradients, b: &Gradients| {
                let row = |tensor: &str, shape: &[usize], error: f64| Comparison {
                    policy: plan.name.clone(),
                    loss: name,
                    tensor: tensor.into(),
                    shape: shape.to_vec(),
                    backend: a.0,
                    against: b.0,
                    error,
                };
                found.push(row("loss", &[], (a.1 - b.1).abs() / (1.0 + b.1.abs())));
                let errors = relative_errors(&a.2, &b.2);
                let rows = a.2.iter().zip(errors);
                found.extend(rows.map(|(tensor, error)| row(&tensor.name, &tensor.shape, error)));
            };
            for (i, one) in gradients.iter().enumerate() {
                gradients[i + 1..].iter().rev().for_each(|other| add(one, other));
            }
        }
    }
    Ok(found)
}

/// A backend's name, loss and gradient.
type Gradients = (&'static str, f64, Vec<NamedTensor>);

/// The losses that are checked, with the policy's own coefficients.
fn losses(plan: &PolicyPlan) -> [(&'static str, LossConfig); 2] {
    let config = &plan.config;
    let (vf_coef, ent_coef) = (config.vf_coef.at(0) as f32, config.ent_coef.at(0) as f32);
    let (clip_coef, clip_vloss) = (config.clip_coef as f32, config.clip_vloss);
    [
        ("ppo", LossConfig::Ppo(PpoConfig { clip_coef, clip_vloss, vf_coef, ent_coef })),
        ("a2c", LossConfig::A2c(A2cConfig { vf_coef, ent_coef })),
    ]
}

/// Largest difference of each tensor relative to its largest element, or to [`FLOOR`] of the largest
/// of all.
fn relative_errors(a: &[NamedTensor], b: &[NamedTensor]) -> Vec<f64> {
    let largest = |tensor: &NamedTensor| {
        tensor.data.iter().fold(0.0f64, |largest, x| largest.max(f64::from(x.abs())))
    };
    let floor = b.iter().map(largest).fold(f64::MIN_POSITIVE, f64::max) * FLOOR;
    let error = |(a, b): (&NamedTensor, &NamedTensor)| {
        let pairs = a.data.iter().zip(&b.data);
        // Not f64::max, which would lose a NaN.
        let worse = |worst: f64, d: f64| if d > worst || d.is_nan() { d } else { worst };
        let differences = pairs.map(|(a, b)| f64::from((a - b).abs()));
        differences.fold(0.0, worse) / largest(b).max(floor)
    };
    a.iter().zip(b).map(error).collect()
}

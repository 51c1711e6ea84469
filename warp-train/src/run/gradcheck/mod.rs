//! Whether gradients are right: every backend against finite differences, and against each other.
//!
//! `batch` makes a minibatch of real observations and actions, `tower` computes the same network and `formulas`
//! the same losses in f64, plainly, and `reference` moves one parameter at a time. Rows at which the losses are
//! not smooth are left out; `kinks` says which those are where operands are rounded. A backend takes part through [`GradientSource`], which every learner made of
//! policies has, and which `fused/gradients.rs` has for the kernels of a GPU; `split` has it for several ranks
//! together. `replay/` is the same for algorithms that learn from a replay memory.

mod batch;
#[cfg(feature = "cuda")]
mod cuda;
mod formulas;
mod kinks;
mod reference;
pub(crate) mod replay;
mod split;
#[cfg(test)]
mod tests;
mod tower;

pub use batch::{CheckBatch, CheckOptions};
pub use formulas::Formula;
pub use reference::Rows;
pub use replay::compare_replay;
#[cfg(feature = "cuda")]
pub use replay::compare_replay_on;
pub use split::SplitGradients;

use crate::algorithm::PolicyPlan;
use crate::config::TrainConfig;
use crate::error::{Error, Result};
use crate::loss::a2c::A2cConfig;
use crate::loss::ppo::PpoConfig;
use crate::loss::{LossMetrics, Minibatch};
use crate::model::{Half, NamedTensor, PolicyTensors, from_moments};
use crate::network::{Policy, StepSizes};
use crate::run::learner::Learner;
use crate::run::learner::PolicyLearner;
use kinks::{HALF_NEAR, NEAR};
use reference::{Margin, Reference};
use serde::Serialize;

/// Largest difference between an element of a gradient and the finite difference, relative to the
/// largest element of its tensor: f32 sums against f64 ones.
pub const BOUND: f64 = 2e-4;
/// [`BOUND`] where products have half-precision operands, of which each is rounded by up to 2^-11: some
/// ten times that, relative to the largest element that the tensor would have if the gradients of all
/// rows had one sign. Where they cancel, their rounding does not.
pub const HALF_BOUND: f64 = 5e-3;
/// [`BOUND`] where what goes back is bf16, of which each number is rounded by up to 2^-9.
pub const BFLOAT_BOUND: f64 = 4.0 * HALF_BOUND;
/// How much coarser bf16 is than fp16: it has 8 bits of a number, fp16 has 11.
const COARSER: f64 = 8.0;
/// [`BOUND`] where all operands are bf16 (`precision = "bf16"`).
pub const BF16_BOUND: f64 = COARSER * HALF_BOUND;
/// A tensor whose gradient is smaller than this part of the largest one is measured against that:
/// what is left of it is rounding.
const FLOOR: f64 = 1e-3;

/// A learner whose gradients can be looked at.
pub trait GradientSource {
    /// What it is called.
    fn backend(&self) -> &'static str;

    /// Whether its products have half-precision operands: then [`HALF_BOUND`] holds for it.
    fn is_half(&self) -> bool {
        false
    }

    /// Whether these operands are bf16: then [`BF16_BOUND`] does.
    fn is_bf16(&self) -> bool {
        false
    }

    /// What its gradients may be off by.
    fn bound(&self) -> f64 {
        match (self.is_half(), self.is_bf16()) {
            (false, _) => BOUND,
            (true, false) => HALF_BOUND,
            (true, true) => BF16_BOUND,
        }
    }

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
        loss: &Formula,
    ) -> Result<(LossMetrics, Vec<NamedTensor>)>;
}

impl<P: Policy> GradientSource for PolicyLearner<P> {
    fn backend(&self) -> &'static str {
        Learner::backend(self)
    }

    fn gradient(
        &mut self,
        policy: usize,
        weights: &[NamedTensor],
        minibatch: &Minibatch<'_>,
        loss: &Formula,
    ) -> Result<(LossMetrics, Vec<NamedTensor>)> {
        let policy = self.policy_mut(policy)?;
        load_without_moments(policy, weights)?;
        let metrics = policy.gradients(minibatch, &loss.into())?;
        Ok((metrics, step_and_read(policy, weights)?))
    }
}

/// Loads weights and moments of zero.
fn load_without_moments<P: Policy>(policy: &mut P, weights: &[NamedTensor]) -> Result<()> {
    let PolicyTensors { mut optimizer, .. } = policy.tensors();
    optimizer.iter_mut().for_each(|moment| moment.data.fill(0.0));
    policy.load(&PolicyTensors { weights: weights.to_vec(), optimizer, n_steps: 0 })
}

/// The gradient that a step follows: from moments of zero, it leaves a tenth of it in the first one.
fn step_and_read<P: Policy>(policy: &mut P, weights: &[NamedTensor]) -> Result<Vec<NamedTensor>> {
    policy.step(&StepSizes::new(0.0, 0.0))?;
    from_moments(weights, &policy.tensors().optimizer)
}

/// One backend's gradient of one tensor against another's, or against finite differences.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The policy.
    pub policy: String,
    /// "ppo" or "a2c", or the optimiser that minimises the loss, such as "critics".
    pub loss: &'static str,
    /// The tensor; `loss` itself for the loss's value.
    pub tensor: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// The backend.
    pub backend: &'static str,
    /// What it is compared with: another backend or "differences".
    pub against: &'static str,
    /// Largest difference, relative as defined for [`BOUND`], [`HALF_BOUND`], [`BFLOAT_BOUND`] or
    /// [`BF16_BOUND`].
    pub error: f64,
    /// What it may be at most: the larger bound of the two.
    pub bound: f64,
    /// The rows that it was taken over.
    #[serde(flatten)]
    pub rows: Rows,
}

impl Comparison {
    /// Whether the gradients agree; false for an error that is not a number.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.error <= self.bound
    }
}

/// Compares the gradients of `sources` with finite differences and with the first of them: every
/// parameter of every policy of `config`, for PPO's loss and A2C's.
///
/// # Errors
/// A policy that can't be evaluated, or a batch all of whose rows are close to a point without a
/// derivative, or have none but zeros.
pub fn compare(
    config: &TrainConfig,
    batches: &[CheckBatch],
    sources: &mut [&mut dyn GradientSource],
) -> Result<Vec<Comparison>> {
    let margin = margin(sources);
    compare_beyond(margin, config, batches, sources)
}

/// As [`compare`], on the rows that are further than `margin` from kinks.
fn compare_beyond(
    margin: Margin,
    config: &TrainConfig,
    batches: &[CheckBatch],
    sources: &mut [&mut dyn GradientSource],
) -> Result<Vec<Comparison>> {
    let mut found = Vec::new();
    for (index, (plan, batch)) in config.policies.iter().zip(batches).enumerate() {
        for (name, loss) in losses(plan) {
            let truth = Reference::new(plan, batch, &loss, margin)?;
            let minibatch = truth.minibatch();
            let mut gradients = Vec::new();
            for source in &mut *sources {
                let (metrics, tensors) =
                    source.gradient(index, &batch.weights, &minibatch, &loss)?;
                let (backend, bound) = (source.backend(), source.bound());
                gradients.push(Gradient { backend, bound, loss: Some(metrics.loss), tensors });
            }
            let (tensors, sizes) = truth.gradient();
            let (rows, backend, loss) = (truth.rows(), "differences", Some(truth.loss()));
            // Clipped rows have none; nothing would be compared with nothing.
            if sizes.iter().all(|size| *size == 0.0) {
                return Err(Error::Invalid(format!(
                    "policy \"{}\": {name}'s gradient over {} rows is 0; use more rows",
                    plan.name, rows.compared
                )));
            }
            let differences = Gradient { backend, bound: BOUND, loss, tensors };
            let labels = Labels { policy: &plan.name, loss: name, rows };
            pairs(gradients, differences, &labels, &sizes, &mut found);
        }
    }
    Ok(found)
}

/// How far rows must be from kinks for all of `sources` to be on the same side of them.
fn margin(sources: &[&mut dyn GradientSource]) -> Margin {
    let is_half = sources.iter().any(|source| source.is_half());
    let is_bf16 = sources.iter().any(|source| source.is_half() && source.is_bf16());
    let half = if is_bf16 { Half::Bf16 } else { Half::Fp16 };
    Margin {
        // The same for fp16 and bf16: a wider one leaves fewer rows to compare.
        of_loss: if is_half { HALF_NEAR } else { NEAR },
        of_relu: NEAR,
        rounding: is_half.then_some(half),
    }
}

/// Compares each of `gradients` with `differences` and the first with all others.
fn pairs(
    mut gradients: Vec<Gradient>,
    differences: Gradient,
    labels: &Labels<'_>,
    sizes: &[f64],
    found: &mut Vec<Comparison>,
) {
    gradients.push(differences);
    let last = gradients.len() - 1;
    for (i, one) in gradients[..last].iter().enumerate() {
        let others = if i == 0 { &gradients[1..] } else { &gradients[last..] };
        for other in others.iter().rev() {
            one.against(other, labels, sizes, found);
        }
    }
}

/// Whose gradient it is, and of what.
struct Labels<'a> {
    policy: &'a str,
    loss: &'static str,
    rows: Rows,
}

/// What a backend, or finite differences, say of a loss.
struct Gradient {
    backend: &'static str,
    bound: f64,
    /// The loss's value, if it is known.
    loss: Option<f64>,
    tensors: Vec<NamedTensor>,
}

impl Gradient {
    /// Adds a comparison of the loss, and one per tensor; `sizes` are those of its elements if nothing
    /// cancelled.
    fn against(
        &self,
        other: &Self,
        labels: &Labels<'_>,
        sizes: &[f64],
        found: &mut Vec<Comparison>,
    ) {
        let bound = self.bound.max(other.bound);
        let row = |tensor: &str, shape: &[usize], error: f64| Comparison {
            policy: labels.policy.into(),
            loss: labels.loss,
            tensor: tensor.into(),
            shape: shape.to_vec(),
            backend: self.backend,
            against: other.backend,
            error,
            bound,
            rows: labels.rows,
        };
        if let (Some(own), Some(loss)) = (self.loss, other.loss) {
            found.push(row("loss", &[], (own - loss).abs() / (1.0 + loss.abs())));
        }
        let sizes = if bound > BOUND { sizes.to_vec() } else { largest_elements(&other.tensors) };
        let errors = relative_errors(&self.tensors, &other.tensors, &sizes);
        // A temperature is a bias without weights.
        let rows = self.tensors.iter().zip(errors).filter(|(tensor, _)| !tensor.data.is_empty());
        found.extend(rows.map(|(tensor, error)| row(&tensor.name, &tensor.shape, error)));
    }
}

/// Whether a policy's own loss is among those whose formulas gradients are compared with: an algorithm that learns
/// from rollouts and is not one of this crate's has networks to check, but no formula.
#[must_use]
pub fn knows_loss(plan: &PolicyPlan) -> bool {
    losses(plan).iter().any(|(algorithm, _)| *algorithm == plan.algorithm.name)
}

/// The losses that are checked, by the names of their algorithms, with the policy's own coefficients.
fn losses(plan: &PolicyPlan) -> [(&'static str, Formula); 2] {
    let config = &plan.config;
    let (vf_coef, ent_coef) = (config.vf_coef.at(0) as f32, config.ent_coef.at(0) as f32);
    let (clip_coef, clip_vloss) = (config.clip_coef.at(0) as f32, config.clip_vloss);
    [
        ("ppo", Formula::Ppo(PpoConfig { clip_coef, clip_vloss, vf_coef, ent_coef })),
        ("a2c", Formula::A2c(A2cConfig { vf_coef, ent_coef })),
    ]
}

fn largest_elements(tensors: &[NamedTensor]) -> Vec<f64> {
    let largest = |tensor: &NamedTensor| {
        tensor.data.iter().fold(0.0f64, |largest, x| largest.max(f64::from(x.abs())))
    };
    tensors.iter().map(largest).collect()
}

/// Largest difference of each tensor relative to its size, or to [`FLOOR`] of the largest of all.
fn relative_errors(a: &[NamedTensor], b: &[NamedTensor], sizes: &[f64]) -> Vec<f64> {
    let floor = sizes.iter().fold(f64::MIN_POSITIVE, |most, size| most.max(*size)) * FLOOR;
    let error = |((a, b), size): ((&NamedTensor, &NamedTensor), &f64)| {
        let pairs = a.data.iter().zip(&b.data);
        // Not f64::max, which would lose a NaN.
        let worse = |worst: f64, d: f64| if d > worst || d.is_nan() { d } else { worst };
        let differences = pairs.map(|(a, b)| f64::from((a - b).abs()));
        differences.fold(0.0, worse) / size.max(floor)
    };
    a.iter().zip(b).zip(sizes).map(error).collect()
}

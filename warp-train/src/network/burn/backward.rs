//! One chunk's way through the network and back, on one thread.
//!
//! The loss is computed outside burn, from the outputs' values; burn's backward pass starts from
//! `sum(outputs * their gradients)`, whose derivative by the outputs is the gradient wanted.

use burn::tensor::Device;

use super::PolicyNetwork;
use super::parameters::{self, floats, matrix};
use crate::error::PolicyError;
use crate::loss::{Loss, LossSums, Minibatch, OutputGradients, Outputs, chunk_loss};
use warp_sample::ActionLayout;

/// What every chunk of a minibatch shares.
pub(super) struct Work<'a, N> {
    pub(super) network: &'a N,
    pub(super) device: &'a Device,
    pub(super) observation_width: usize,
    pub(super) layout: &'a ActionLayout,
    pub(super) loss: &'a Loss,
    pub(super) total_weight: f64,
}

impl<N: PolicyNetwork> Work<'_, N> {
    /// Forward, loss and backward of one chunk, on this thread alone.
    pub(super) fn chunk(
        &self,
        rows: &Minibatch<'_>,
        gradients: &mut [f32],
    ) -> Result<LossSums, PolicyError> {
        // Fresh leaves over the same memory: a graph of its own, which no other thread locks.
        let network = self.network.clone().train();
        let input = matrix(rows.observations, self.observation_width, self.device);
        let (policy, values) = network.forward(input.autodiff());
        let width = self.layout.output_width();
        check_shapes(&policy.dims(), &values.dims(), rows.n_rows(), width)?;
        let policy_values = floats(policy.clone().without_autodiff(), "policy outputs")?;
        let value_values = floats(values.clone().without_autodiff(), "values")?;
        // A network may forbid a choice by a logit of minus infinity.
        let discrete = matches!(self.layout, ActionLayout::Discrete(_));
        let fits = |x: f32| x.is_finite() || (discrete && x == f32::NEG_INFINITY);
        check_numbers("policy outputs", &policy_values, fits)?;
        check_numbers("values", &value_values, f32::is_finite)?;
        let mut d_policy = vec![0.0; policy_values.len()];
        let mut d_values = vec![0.0; value_values.len()];
        let sums = chunk_loss(
            self.loss,
            self.layout,
            self.total_weight,
            rows,
            Outputs { policy: &policy_values, values: &value_values },
            &mut OutputGradients { policy: &mut d_policy, values: &mut d_values },
        );
        // A scalar whose gradient with respect to the outputs is the one wanted.
        let d_policy = matrix(&d_policy, width, self.device);
        let d_values = matrix(&d_values, 1, self.device);
        let surrogate = (policy * d_policy).sum() + (values * d_values).sum();
        parameters::read_gradients(&network, &surrogate.backward(), gradients)?;
        Ok(sums)
    }
}

/// An error unless policy outputs are `[n_rows, output_width]` and values `[n_rows, 1]`.
pub(super) fn check_shapes(
    policy: &[usize],
    values: &[usize],
    n_rows: usize,
    output_width: usize,
) -> Result<(), PolicyError> {
    for (output, found, columns) in
        [("policy outputs", policy, output_width), ("values", values, 1)]
    {
        if found != [n_rows, columns] {
            let (found, expected) = (found.to_vec(), vec![n_rows, columns]);
            return Err(PolicyError::WrongOutput { output, found, expected });
        }
    }
    Ok(())
}

fn check_numbers(
    output: &'static str,
    values: &[f32],
    fits: impl Fn(f32) -> bool,
) -> Result<(), PolicyError> {
    match values.iter().position(|&value| !fits(value)) {
        Some(index) => Err(PolicyError::NonFiniteOutput { output, index, value: values[index] }),
        None => Ok(()),
    }
}

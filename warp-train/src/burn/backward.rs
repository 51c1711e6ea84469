//! One chunk's way through the network and back, on one thread.
//!
//! The loss is computed outside burn, from the outputs' values; burn's backward pass starts from
//! `sum(outputs * their gradients)`, whose derivative by the outputs is the gradient wanted.

use burn::tensor::Device;

use super::PolicyNetwork;
use super::parameters::{self, floats, matrix};
use crate::loss::{LossConfig, LossSums, Minibatch, OutputGradients, Outputs, chunk_loss};
use crate::policy_error::PolicyError;

/// What every chunk of a minibatch shares.
pub(super) struct Work<'a, N> {
    pub(super) network: &'a N,
    pub(super) device: &'a Device,
    pub(super) observation_width: usize,
    pub(super) head_sizes: &'a [usize],
    pub(super) loss: &'a LossConfig,
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
        let (logits, values) = network.forward(input.autodiff());
        let width = self.head_sizes.iter().sum();
        check_shapes(&logits.dims(), &values.dims(), rows.n_rows(), width)?;
        let logit_values = floats(logits.clone().without_autodiff(), "logits")?;
        let value_values = floats(values.clone().without_autodiff(), "values")?;
        // A network may forbid an action by a logit of minus infinity.
        check_numbers("logits", &logit_values, |x| x < f32::INFINITY)?;
        check_numbers("values", &value_values, f32::is_finite)?;
        let mut d_logits = vec![0.0; logit_values.len()];
        let mut d_values = vec![0.0; value_values.len()];
        let sums = chunk_loss(
            self.loss,
            self.head_sizes,
            self.total_weight,
            rows,
            Outputs { logits: &logit_values, values: &value_values },
            &mut OutputGradients { logits: &mut d_logits, values: &mut d_values },
        );
        // A scalar whose gradient with respect to the outputs is the one wanted.
        let d_logits = matrix(&d_logits, width, self.device);
        let d_values = matrix(&d_values, 1, self.device);
        let surrogate = (logits * d_logits).sum() + (values * d_values).sum();
        parameters::read_gradients(&network, &surrogate.backward(), gradients)?;
        Ok(sums)
    }
}

/// An error unless logits are `[n_rows, logits_width]` and values `[n_rows, 1]`.
pub(super) fn check_shapes(
    logits: &[usize],
    values: &[usize],
    n_rows: usize,
    logits_width: usize,
) -> Result<(), PolicyError> {
    for (output, found, columns) in [("logits", logits, logits_width), ("values", values, 1)] {
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

//! What runs a model forward and back: our own networks on the CPU, a burn module, or a network that a
//! program adds under a name.

#[cfg(feature = "burn")]
pub(crate) mod burn;
#[cfg(feature = "cuda")]
pub(crate) mod foreign;
pub(crate) mod native;
pub mod own_network;

use crate::error::Result;
use crate::loss::{Gathered, Loss, LossMetrics, Minibatch, Picked};
use crate::model::PolicyTensors;
use std::fmt::Debug;

/// How far a step of the optimiser goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepSizes {
    /// Step size.
    pub learning_rate: f64,
    /// That of the value's network, where it has one of its own.
    pub critic_learning_rate: f64,
    /// What the norm of the whole gradient is clipped to; 0: not clipped.
    pub max_grad_norm: f64,
}

impl StepSizes {
    /// One size for all parameters.
    #[must_use]
    pub fn new(learning_rate: f64, max_grad_norm: f64) -> Self {
        Self { learning_rate, critic_learning_rate: learning_rate, max_grad_norm }
    }
}

/// A policy that an algorithm can improve.
pub trait TrainablePolicy {
    /// Value estimates of `values.len()` observations, f32 `[n, width]`.
    ///
    /// # Errors
    /// A network that gives something else than its configuration says.
    fn values(&mut self, obs: &[f32], values: &mut [f32]) -> Result<()>;

    /// Computes the gradient of `loss` over `minibatch`.
    ///
    /// # Errors
    /// Arrays that do not fit, or a network as above.
    fn gradients(&mut self, minibatch: &Minibatch<'_>, loss: &Loss) -> Result<LossMetrics>;

    /// As [`TrainablePolicy::gradients`], for rows that are still to be gathered; `room` is for those who need them in
    /// one piece.
    ///
    /// # Errors
    /// As [`TrainablePolicy::gradients`].
    fn gradients_of(
        &mut self,
        picked: &Picked<'_>,
        room: &mut Gathered,
        loss: &Loss,
    ) -> Result<LossMetrics> {
        self.gradients(&picked.minibatch(room), loss)
    }

    /// One step of the optimiser along the last gradient. Returns the norm before clipping.
    ///
    /// # Errors
    /// A gradient that is not finite; nothing has changed then.
    fn step(&mut self, sizes: &StepSizes) -> Result<f64>;

    /// The last gradient, f32 `[n_parameters]` in an order of the network's own: what is summed over shards
    /// and ranks. `None`: the network does not show it, and learns by itself alone.
    fn gradient(&self) -> Option<&[f32]> {
        None
    }

    /// Has the next step follow `sum` instead, f32 `[n_parameters]` as [`TrainablePolicy::gradient`] gave it.
    fn set_gradient(&mut self, _sum: &[f32]) {}
}

/// What a backend brings: a policy that acts, learns, and can be written down.
pub trait Policy: TrainablePolicy + Send + Debug {
    /// What the backend is called in summaries.
    fn backend(&self) -> &'static str;

    /// Runs the network on `values.len()` observations; fills `outputs` f32 `[n, output_width]` and
    /// `values` f32 `[n]`.
    ///
    /// # Errors
    /// A network that gives something else than its configuration says.
    fn forward(&mut self, obs: &[f32], outputs: &mut [f32], values: &mut [f32]) -> Result<()>;

    /// Fills only `outputs` and returns true, if they can be computed without the values; otherwise does
    /// nothing.
    ///
    /// # Errors
    /// As [`Policy::forward`].
    fn outputs(&mut self, _obs: &[f32], _outputs: &mut [f32]) -> Result<bool> {
        Ok(false)
    }

    /// Weights, optimiser state and step count.
    fn tensors(&self) -> PolicyTensors;

    /// Takes over all that [`Policy::tensors`] gives, bit by bit.
    ///
    /// # Errors
    /// A tensor that is missing, unknown, or of another shape.
    fn load(&mut self, tensors: &PolicyTensors) -> Result<()>;
}

impl<P: Policy + ?Sized> TrainablePolicy for Box<P> {
    fn values(&mut self, obs: &[f32], values: &mut [f32]) -> Result<()> {
        (**self).values(obs, values)
    }

    fn gradients(&mut self, minibatch: &Minibatch<'_>, loss: &Loss) -> Result<LossMetrics> {
        (**self).gradients(minibatch, loss)
    }

    fn gradients_of(
        &mut self,
        picked: &Picked<'_>,
        room: &mut Gathered,
        loss: &Loss,
    ) -> Result<LossMetrics> {
        (**self).gradients_of(picked, room, loss)
    }

    fn step(&mut self, sizes: &StepSizes) -> Result<f64> {
        (**self).step(sizes)
    }

    fn gradient(&self) -> Option<&[f32]> {
        (**self).gradient()
    }

    fn set_gradient(&mut self, sum: &[f32]) {
        (**self).set_gradient(sum);
    }
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    fn backend(&self) -> &'static str {
        (**self).backend()
    }

    fn forward(&mut self, obs: &[f32], outputs: &mut [f32], values: &mut [f32]) -> Result<()> {
        (**self).forward(obs, outputs, values)
    }

    fn outputs(&mut self, obs: &[f32], outputs: &mut [f32]) -> Result<bool> {
        (**self).outputs(obs, outputs)
    }

    fn tensors(&self) -> PolicyTensors {
        (**self).tensors()
    }

    fn load(&mut self, tensors: &PolicyTensors) -> Result<()> {
        (**self).load(tensors)
    }
}

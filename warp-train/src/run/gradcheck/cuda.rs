//! Gradients of the kernels on a GPU, as the check asks for them.

use super::{Formula, GradientSource};
use crate::error::Result;
use crate::fused::CudaGradients;
use crate::loss::{LossMetrics, Minibatch};
use crate::model::NamedTensor;

impl GradientSource for CudaGradients {
    fn backend(&self) -> &'static str {
        CudaGradients::backend(self)
    }

    fn is_half(&self) -> bool {
        CudaGradients::is_half(self)
    }

    fn is_bf16(&self) -> bool {
        CudaGradients::is_bf16(self)
    }

    fn gradient(
        &mut self,
        policy: usize,
        weights: &[NamedTensor],
        minibatch: &Minibatch<'_>,
        loss: &Formula,
    ) -> Result<(LossMetrics, Vec<NamedTensor>)> {
        self.of_minibatch(policy, weights, minibatch, loss.into())
    }
}

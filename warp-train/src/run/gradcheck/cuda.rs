//! Gradients of the kernels on a GPU, or on several, as the check asks for them.

use super::split::same_on_all;
use super::{Formula, GradientSource};
use crate::error::Result;
use crate::fused::{CudaGradients, CudaSplitGradients};
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

impl GradientSource for CudaSplitGradients {
    fn backend(&self) -> &'static str {
        self.first().backend()
    }

    fn is_half(&self) -> bool {
        self.first().is_half()
    }

    fn is_bf16(&self) -> bool {
        self.first().is_bf16()
    }

    fn gradient(
        &mut self,
        policy: usize,
        weights: &[NamedTensor],
        minibatch: &Minibatch<'_>,
        loss: &Formula,
    ) -> Result<(LossMetrics, Vec<NamedTensor>)> {
        same_on_all(self.of_minibatch(policy, weights, minibatch, &loss.into())?)
    }
}

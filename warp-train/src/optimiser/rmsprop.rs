//! One step of RMSprop (Tieleman & Hinton, 2012), with torch's formulas: no momentum, not centred.

use super::moved::Moved;
use crate::vectors::Work;

/// The constants of one step.
#[derive(Debug, Clone, Copy)]
pub(super) struct RmsProp {
    pub(super) scale: f32,
    /// The decay of the mean of squares, and 1 - beta_2.
    pub(super) beta_2: f32,
    pub(super) one_minus_beta_2: f32,
    pub(super) step_size: f32,
    pub(super) epsilon: f32,
    /// What is left of each parameter: 1 without weight decay.
    pub(super) weight_decay_factor: f32,
}

/// The step over some parameters; first moments are not touched.
pub(super) struct Apply<'a> {
    pub(super) step: RmsProp,
    pub(super) on: Moved<'a>,
}

impl Work for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let RmsProp { scale, beta_2, one_minus_beta_2, step_size, epsilon, weight_decay_factor } =
            self.step;
        let Moved { parameters, gradients, exp_avg_sq, .. } = self.on;
        for ((p, g), v) in parameters.iter_mut().zip(gradients).zip(exp_avg_sq) {
            let g = g * scale;
            *v = *v * beta_2 + g * g * one_minus_beta_2;
            *p = *p * weight_decay_factor - step_size * (g / (v.sqrt() + epsilon));
        }
    }
}

//! One step of RMSprop (Tieleman & Hinton, 2012), with torch's formulas: no momentum, not centred.

use super::descent::Moved;
use crate::vectors::Work;

/// The constants of one step.
#[derive(Debug, Clone, Copy)]
pub(super) struct RmsProp {
    pub(super) scale: f32,
    /// The decay of the mean of squares, and 1 less it.
    pub(super) keep_2: f32,
    pub(super) blend_2: f32,
    pub(super) step_size: f32,
    pub(super) epsilon: f32,
    /// What is left of each parameter: 1 without weight decay.
    pub(super) keep: f32,
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
        let RmsProp { scale, keep_2, blend_2, step_size, epsilon, keep } = self.step;
        let Moved { parameters, gradients, exp_avg_sq, .. } = self.on;
        for ((p, g), v) in parameters.iter_mut().zip(gradients).zip(exp_avg_sq) {
            let g = g * scale;
            *v = *v * keep_2 + g * g * blend_2;
            *p = *p * keep - step_size * (g / (v.sqrt() + epsilon));
        }
    }
}

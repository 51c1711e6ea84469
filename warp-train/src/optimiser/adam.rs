//! One step of Adam (Kingma & Ba, "Adam: A Method for Stochastic Optimization", 2015), with torch's formulas.

use super::descent::Moved;
use crate::vectors::Work;

/// The constants of one step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Adam {
    pub(super) scale: f32,
    /// 1 less the decay of each moment.
    pub(super) blend: [f32; 2],
    /// The decay of the second moment.
    pub(super) keep_2: f32,
    pub(super) step_size: f32,
    pub(super) root_correction: f32,
    pub(super) epsilon: f32,
    /// What is left of each parameter: 1 without weight decay.
    pub(super) keep: f32,
}

/// The step over some parameters.
pub(super) struct Apply<'a> {
    pub(super) step: Adam,
    pub(super) on: Moved<'a>,
}

impl Work for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Adam { scale, blend, keep_2, step_size, root_correction, epsilon, keep } = self.step;
        let Moved { parameters, gradients, exp_avg, exp_avg_sq } = self.on;
        let moments = exp_avg.iter_mut().zip(exp_avg_sq);
        for ((p, g), (m, v)) in parameters.iter_mut().zip(gradients).zip(moments) {
            let g = g * scale;
            *m += (g - *m) * blend[0];
            *v = *v * keep_2 + g * g * blend[1];
            *p = *p * keep - step_size * (*m / (v.sqrt() / root_correction + epsilon));
        }
    }
}

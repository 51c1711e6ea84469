//! One step of Adam (Kingma & Ba, "Adam: A Method for Stochastic Optimization", 2015), with torch's formulas.

use super::moved::Moved;
use crate::vectors::Work;

/// The constants of one step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Adam {
    pub(super) scale: f32,
    /// 1 - beta of each moment.
    pub(super) one_minus_beta: [f32; 2],
    /// The decay of the second moment.
    pub(super) beta_2: f32,
    pub(super) step_size: f32,
    /// The square root of the second moment's bias correction, 1 - beta_2^t.
    pub(super) bias_correction_2_sqrt: f32,
    pub(super) epsilon: f32,
    /// What is left of each parameter: 1 without weight decay.
    pub(super) weight_decay_factor: f32,
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
        let Adam {
            scale,
            one_minus_beta,
            beta_2,
            step_size,
            bias_correction_2_sqrt,
            epsilon,
            weight_decay_factor,
        } = self.step;
        let Moved { parameters, gradients, exp_avg, exp_avg_sq } = self.on;
        let moments = exp_avg.iter_mut().zip(exp_avg_sq);
        for ((p, g), (m, v)) in parameters.iter_mut().zip(gradients).zip(moments) {
            let g = g * scale;
            *m += (g - *m) * one_minus_beta[0];
            *v = *v * beta_2 + g * g * one_minus_beta[1];
            *p = *p * weight_decay_factor
                - step_size * (*m / (v.sqrt() / bias_correction_2_sqrt + epsilon));
        }
    }
}

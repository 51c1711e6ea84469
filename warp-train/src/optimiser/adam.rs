//! Adam over one flat vector of parameters, with torch's formulas.
//!
//! Kingma & Ba, "Adam: A Method for Stochastic Optimization", 2015.

use super::clipping::{scale, squares};
use crate::error::{PolicyError, check_length};
use crate::vectors::{self, Work};

/// Adam's constants.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdamConfig {
    /// Decay of the first moment, in `[0, 1)`. 0.9.
    pub beta_1: f64,
    /// Decay of the second moment, in `[0, 1)`. 0.999.
    pub beta_2: f64,
    /// Added to the root of the second moment. 1e-5 (CleanRL's; torch's own default is 1e-8).
    pub epsilon: f64,
}

impl Default for AdamConfig {
    fn default() -> Self {
        Self { beta_1: 0.9, beta_2: 0.999, epsilon: 1e-5 }
    }
}

/// Adam's state for `n` parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Adam {
    config: AdamConfig,
    pub(crate) n_steps: u64,
    pub(crate) exp_avg: Vec<f32>,
    pub(crate) exp_avg_sq: Vec<f32>,
}

impl Adam {
    /// A fresh state, all moments zero.
    ///
    /// # Errors
    /// [`PolicyError::InvalidConfig`] if a constant is outside its range.
    pub fn new(config: AdamConfig, n_parameters: usize) -> Result<Self, PolicyError> {
        let decay = |beta: f64| (0.0..1.0).contains(&beta);
        let epsilon_fits = config.epsilon.is_finite() && config.epsilon >= 0.0;
        if !decay(config.beta_1) || !decay(config.beta_2) || !epsilon_fits {
            return Err(PolicyError::InvalidConfig(format!(
                "Adam needs betas in [0, 1) and epsilon not negative, but has betas {} and {}, \
                 epsilon {}",
                config.beta_1, config.beta_2, config.epsilon
            )));
        }
        let zeros = vec![0.0; n_parameters];
        Ok(Self { config, n_steps: 0, exp_avg: zeros.clone(), exp_avg_sq: zeros })
    }

    /// How many steps have been made.
    #[must_use]
    pub fn n_steps(&self) -> u64 {
        self.n_steps
    }

    /// Changes `parameters` by one step along `gradients`, which is first scaled down to
    /// `max_grad_norm` if its L2 norm is larger; both f32 `[n]`. `max_grad_norm` may be infinite.
    /// Returns the norm before clipping.
    ///
    /// # Errors
    /// [`PolicyError::WrongLength`], or [`PolicyError::NonFiniteGradient`] with nothing changed.
    pub fn step(
        &mut self,
        parameters: &mut [f32],
        gradients: &[f32],
        learning_rate: f64,
        max_grad_norm: f64,
    ) -> Result<f64, PolicyError> {
        let n = self.exp_avg.len();
        check_length("parameters", parameters.len(), n, 1)?;
        check_length("gradients", gradients.len(), n, 1)?;
        let norm = squares(gradients).sqrt();
        let step = self.begin(norm, learning_rate, max_grad_norm)?;
        step.apply(parameters, gradients, &mut self.exp_avg, &mut self.exp_avg_sq);
        Ok(norm)
    }

    /// Counts a step along gradients of L2 norm `norm` and says how it is to be made; the moments of
    /// all parameters must then be taken through [`Step::apply`], in pieces if need be.
    pub(crate) fn begin(
        &mut self,
        norm: f64,
        learning_rate: f64,
        max_grad_norm: f64,
    ) -> Result<Step, PolicyError> {
        if !norm.is_finite() {
            return Err(PolicyError::NonFiniteGradient { norm });
        }
        self.n_steps += 1;
        let AdamConfig { beta_1, beta_2, epsilon } = self.config;
        let t = self.n_steps as f64;
        let step_size = (learning_rate / (1.0 - beta_1.powf(t))) as f32;
        let root_correction = (1.0 - beta_2.powf(t)).sqrt() as f32;
        Ok(Step {
            scale: scale(norm, max_grad_norm),
            blend: [(1.0 - beta_1) as f32, (1.0 - beta_2) as f32],
            keep_2: beta_2 as f32,
            step_size,
            root_correction,
            epsilon: epsilon as f32,
        })
    }
}

/// The constants of one step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    scale: f32,
    /// 1 less the decay of each moment.
    blend: [f32; 2],
    /// The decay of the second moment.
    keep_2: f32,
    step_size: f32,
    root_correction: f32,
    epsilon: f32,
}

impl Step {
    /// Makes the step for some parameters, with their gradients and their first and second moments; all
    /// f32 `[n]`.
    pub(crate) fn apply(
        self,
        parameters: &mut [f32],
        gradients: &[f32],
        exp_avg: &mut [f32],
        exp_avg_sq: &mut [f32],
    ) {
        vectors::run(Apply { step: self, parameters, gradients, exp_avg, exp_avg_sq });
    }
}

/// A step over some parameters.
struct Apply<'a> {
    step: Step,
    parameters: &'a mut [f32],
    gradients: &'a [f32],
    exp_avg: &'a mut [f32],
    exp_avg_sq: &'a mut [f32],
}

impl Work for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Step { scale, blend, keep_2, step_size, root_correction, epsilon } = self.step;
        let moments = self.exp_avg.iter_mut().zip(self.exp_avg_sq);
        for ((p, g), (m, v)) in self.parameters.iter_mut().zip(self.gradients).zip(moments) {
            let g = g * scale;
            *m += (g - *m) * blend[0];
            *v = *v * keep_2 + g * g * blend[1];
            *p -= step_size * (*m / (v.sqrt() / root_correction + epsilon));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_steps_by_hand() {
        let config = AdamConfig { epsilon: 1e-5, ..AdamConfig::default() };
        let mut adam = Adam::new(config, 2).unwrap();
        let mut p = [1.0, -2.0];
        // The first step moves by learning_rate * g / (|g| + epsilon).
        let norm = adam.step(&mut p, &[0.3, -0.4], 0.1, f64::INFINITY).unwrap();
        assert!((norm - 0.5).abs() < 1e-7);
        assert!((p[0] - (1.0 - 0.1 * 0.3 / 0.300_01)).abs() < 1e-6);
        assert!((p[1] - (-2.0 + 0.1 * 0.4 / 0.400_01)).abs() < 1e-6);
        // Second step, first element: m = 0.9 * 0.03 + 0.1 * 0.1 = 0.037, corrected by 0.19;
        // v = 0.999 * 9e-5 + 0.001 * 0.01 = 9.991e-5, corrected by 0.001999.
        let before = p[0];
        adam.step(&mut p, &[0.1, 0.0], 0.1, f64::INFINITY).unwrap();
        let (m, v) = (0.037_f64 / 0.19, 9.991e-5_f64 / 0.001_999);
        let expected = f64::from(before) - 0.1 * m / (v.sqrt() + 1e-5);
        assert!((f64::from(p[0]) - expected).abs() < 1e-6, "{} {expected}", p[0]);
        assert_eq!(adam.n_steps(), 2);
    }

    #[test]
    fn the_global_norm_is_clipped() {
        let mut adam = Adam::new(AdamConfig::default(), 2).unwrap();
        let norm = adam.step(&mut [0.0, 0.0], &[3.0, 4.0], 1e-3, 0.5).unwrap();
        assert!((norm - 5.0).abs() < 1e-9);
        assert!((adam.exp_avg[0] - 0.03).abs() < 1e-7);
        assert!((adam.exp_avg[1] - 0.04).abs() < 1e-7);
    }

    #[test]
    fn a_gradient_that_is_not_finite_changes_nothing() {
        let mut adam = Adam::new(AdamConfig::default(), 1).unwrap();
        let (before, mut p) = (adam.clone(), [1.0]);
        assert!(adam.step(&mut p, &[f32::NAN], 1e-3, 0.5).is_err());
        assert_eq!((adam, p), (before, [1.0]));
    }
}

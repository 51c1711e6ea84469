//! An optimiser over one flat vector of parameters: clipping by the global norm, Adam or RMSprop, and decoupled weight
//! decay.

use super::adam::{self, Adam};
use super::clipping::{scale, squared_norm};
use super::moved::Moved;
use super::rmsprop::{self, RmsProp};
use crate::error::{PolicyError, check_length};
use crate::vectors;

warp_core::choices! {
    /// The rule by which parameters follow a gradient.
    pub enum UpdateRule {
        /// Adam.
        Adam = "adam",
        /// RMSprop, without momentum.
        RmsProp = "rmsprop",
    }
}

/// An optimiser's constants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OptimiserConfig {
    /// The rule.
    pub rule: UpdateRule,
    /// Decay of the first moment, in `[0, 1)`; RMSprop has none. 0.9.
    pub beta_1: f64,
    /// Decay of the second moment, in `[0, 1)`. 0.999.
    pub beta_2: f64,
    /// Added to the root of the second moment. 1e-5 (CleanRL's; torch's own default is 1e-8).
    pub epsilon: f64,
    /// Decoupled weight decay: the fraction of each parameter that a step removes, times the learning rate, as in
    /// AdamW (Loshchilov & Hutter, 2019). 0.
    pub weight_decay: f64,
}

impl Default for OptimiserConfig {
    fn default() -> Self {
        let rule = UpdateRule::Adam;
        Self { rule, beta_1: 0.9, beta_2: 0.999, epsilon: 1e-5, weight_decay: 0.0 }
    }
}

/// An optimiser's state for `n` parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimiser {
    config: OptimiserConfig,
    pub(crate) n_steps: u64,
    pub(crate) exp_avg: Vec<f32>,
    pub(crate) exp_avg_sq: Vec<f32>,
}

impl Optimiser {
    /// A fresh state, all moments zero.
    ///
    /// # Errors
    /// [`PolicyError::InvalidConfig`] if a constant is outside its range.
    pub fn new(config: OptimiserConfig, n_parameters: usize) -> Result<Self, PolicyError> {
        let decay = |beta: f64| (0.0..1.0).contains(&beta);
        let fits = |x: f64| x.is_finite() && x >= 0.0;
        let OptimiserConfig { beta_1, beta_2, epsilon, weight_decay, .. } = config;
        if !decay(beta_1) || !decay(beta_2) || !fits(epsilon) || !fits(weight_decay) {
            return Err(PolicyError::InvalidConfig(format!(
                "an optimiser needs betas in [0, 1), epsilon and weight decay not negative, but has betas {beta_1} \
                 and {beta_2}, epsilon {epsilon}, weight decay {weight_decay}"
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
        let norm = squared_norm(gradients).sqrt();
        let step = self.begin(norm, max_grad_norm)?.of(learning_rate);
        let (exp_avg, exp_avg_sq) = (&mut self.exp_avg[..], &mut self.exp_avg_sq[..]);
        step.apply(Moved { parameters, gradients, exp_avg, exp_avg_sq });
        Ok(norm)
    }

    /// Counts a step along gradients of L2 norm `norm` and says how it is to be made; all parameters must then be
    /// taken through [`Step::apply`], in pieces if need be.
    pub(crate) fn begin(
        &mut self,
        norm: f64,
        max_grad_norm: f64,
    ) -> Result<PreparedStep, PolicyError> {
        if !norm.is_finite() {
            return Err(PolicyError::NonFiniteGradient { norm });
        }
        self.n_steps += 1;
        let scale = scale(norm, max_grad_norm);
        Ok(PreparedStep { config: self.config, n_steps: self.n_steps, scale })
    }
}

/// A step that is counted and clipped, but for its learning rate: networks of one optimiser may have rates of their own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PreparedStep {
    config: OptimiserConfig,
    n_steps: u64,
    scale: f32,
}

impl PreparedStep {
    /// The step at this learning rate.
    pub(crate) fn of(self, learning_rate: f64) -> Step {
        let OptimiserConfig { rule, beta_1, beta_2, epsilon, weight_decay } = self.config;
        let (scale, t) = (self.scale, self.n_steps as f64);
        let (weight_decay_factor, epsilon) =
            ((1.0 - learning_rate * weight_decay) as f32, epsilon as f32);
        let one_minus_beta_2 = (1.0 - beta_2) as f32;
        Step(match rule {
            UpdateRule::Adam => Rule::Adam(Adam {
                scale,
                one_minus_beta: [(1.0 - beta_1) as f32, one_minus_beta_2],
                beta_2: beta_2 as f32,
                step_size: (learning_rate / (1.0 - beta_1.powf(t))) as f32,
                bias_correction_2_sqrt: (1.0 - beta_2.powf(t)).sqrt() as f32,
                epsilon,
                weight_decay_factor,
            }),
            UpdateRule::RmsProp => {
                let step_size = learning_rate as f32;
                Rule::RmsProp(RmsProp {
                    scale,
                    beta_2: beta_2 as f32,
                    one_minus_beta_2,
                    step_size,
                    epsilon,
                    weight_decay_factor,
                })
            }
        })
    }
}

/// The constants of one step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step(Rule);

#[derive(Debug, Clone, Copy)]
enum Rule {
    Adam(Adam),
    RmsProp(RmsProp),
}

impl Step {
    /// Makes the step for some parameters.
    pub(crate) fn apply(self, on: Moved<'_>) {
        match self.0 {
            Rule::Adam(step) => vectors::run(adam::Apply { step, on }),
            Rule::RmsProp(step) => vectors::run(rmsprop::Apply { step, on }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_steps_by_hand() {
        let config = OptimiserConfig { epsilon: 1e-5, ..OptimiserConfig::default() };
        let mut adam = Optimiser::new(config, 2).unwrap();
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
        let mut adam = Optimiser::new(OptimiserConfig::default(), 2).unwrap();
        let norm = adam.step(&mut [0.0, 0.0], &[3.0, 4.0], 1e-3, 0.5).unwrap();
        assert!((norm - 5.0).abs() < 1e-9);
        assert!((adam.exp_avg[0] - 0.03).abs() < 1e-7);
        assert!((adam.exp_avg[1] - 0.04).abs() < 1e-7);
    }

    #[test]
    fn a_gradient_that_is_not_finite_changes_nothing() {
        let mut adam = Optimiser::new(OptimiserConfig::default(), 1).unwrap();
        let (before, mut p) = (adam.clone(), [1.0]);
        assert!(adam.step(&mut p, &[f32::NAN], 1e-3, 0.5).is_err());
        assert_eq!((adam, p), (before, [1.0]));
    }

    #[test]
    fn rmsprop_divides_by_the_root_of_the_mean_of_squares() {
        let config = OptimiserConfig {
            rule: UpdateRule::RmsProp,
            beta_2: 0.99,
            epsilon: 1e-3,
            ..OptimiserConfig::default()
        };
        let mut optimiser = Optimiser::new(config, 1).unwrap();
        let (mut p, mut v, mut expected) = ([1.0_f32], 0.0_f64, 1.0_f64);
        for g in [0.5_f64, -0.25, 2.0] {
            optimiser.step(&mut p, &[g as f32], 0.01, f64::INFINITY).unwrap();
            v = 0.99 * v + 0.01 * g * g;
            expected -= 0.01 * g / (v.sqrt() + 1e-3);
            assert!((f64::from(p[0]) - expected).abs() < 1e-6, "{} {expected}", p[0]);
        }
        assert_eq!(optimiser.exp_avg, [0.0]);
    }

    #[test]
    fn weight_decay_is_apart_from_the_gradient() {
        for rule in [UpdateRule::Adam, UpdateRule::RmsProp] {
            let one = |weight_decay: f64| {
                let config = OptimiserConfig { rule, weight_decay, ..OptimiserConfig::default() };
                let mut p = [2.0, -1.0];
                let mut optimiser = Optimiser::new(config, 2).unwrap();
                optimiser.step(&mut p, &[0.3, 0.0], 0.1, 0.5).unwrap();
                p
            };
            let (plain, decayed) = (one(0.0), one(0.5));
            // 0.1 times 0.5 of each parameter, whatever its gradient.
            assert!((plain[0] - decayed[0] - 0.05 * 2.0).abs() < 1e-6, "{plain:?} {decayed:?}");
            assert!((decayed[1] - -0.95).abs() < 1e-6, "{decayed:?}");
        }
        let config = OptimiserConfig { weight_decay: -0.1, ..OptimiserConfig::default() };
        assert!(Optimiser::new(config, 1).is_err());
    }

    #[test]
    fn a_step_has_the_size_that_each_part_says() {
        let mut optimiser = Optimiser::new(OptimiserConfig::default(), 2).unwrap();
        let prepared = optimiser.begin(1.0, f64::INFINITY).unwrap();
        let mut p = [0.0_f32; 2];
        let Optimiser { exp_avg, exp_avg_sq, .. } = &mut optimiser;
        for (i, rate) in [0.1, 0.2].into_iter().enumerate() {
            let part = i..i + 1;
            prepared.of(rate).apply(Moved {
                parameters: &mut p[part.clone()],
                gradients: &[1.0],
                exp_avg: &mut exp_avg[part.clone()],
                exp_avg_sq: &mut exp_avg_sq[part],
            });
        }
        assert!((p[1] / p[0] - 2.0).abs() < 1e-5, "{p:?}");
        assert_eq!(optimiser.n_steps(), 1);
    }
}

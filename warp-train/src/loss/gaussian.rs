//! Gaussian distributions over the elements of a box, clipped or squashed, and their derivatives.
//!
//! Log-probabilities are recomputed from raw samples, so that squashing needs no inverse; its Jacobian
//! depends only on the raw sample and has no gradient. The entropy of a squashed policy is the
//! Gaussian's plus the mean of the log-Jacobian by quadrature
//! ([`warp_sample::density::mean_log_slope`]): a function of the outputs with exact derivatives. The
//! usual estimate, -log_prob of old samples, has no gradient on average and so no effect.

use super::distribution::{BLOCK, RowDistribution};
use warp_sample::GaussianLayout;
use warp_sample::density::normal;

/// One element's derivatives.
#[derive(Debug, Clone, Copy, Default)]
struct Element {
    log_prob_by_mean: f32,
    log_prob_by_log_std: f32,
    entropy_by_mean: f32,
    entropy_by_log_std: f32,
    /// 1 where the log standard deviation lies above its range, -1 below, 0 within.
    outside: f32,
}

/// Derivatives of up to [`BLOCK`] rows.
#[derive(Debug)]
pub(super) struct Gaussian<'a> {
    layout: &'a GaussianLayout,
    elements: Vec<Element>,
}

impl<'a> Gaussian<'a> {
    pub(super) fn new(layout: &'a GaussianLayout) -> Self {
        Self { layout, elements: vec![Element::default(); BLOCK * layout.dim()] }
    }

    /// Computes row number `row`'s distribution from `outputs` `[2 dim]` and `raw` samples `[dim]`, and
    /// keeps what [`Self::gradient`] needs.
    pub(super) fn evaluate(&mut self, row: usize, outputs: &[f32], raw: &[f32]) -> RowDistribution {
        let mut found = RowDistribution { log_prob: 0.0, entropy: 0.0 };
        let (means, log_stds) = outputs.split_at(self.layout.dim());
        let inputs = raw.iter().zip(means).zip(log_stds);
        let elements = &mut self.elements[row * self.layout.dim()..];
        for (i, (((&raw, &mean), &given), element)) in inputs.zip(elements).enumerate() {
            let log_std = self.layout.clamp_log_std(given);
            let density = normal(raw, mean, log_std);
            let [entropy, entropy_by_mean, entropy_by_log_std] =
                self.layout.entropy(i, mean, log_std);
            found.log_prob += density.log_density - self.layout.log_jacobian(i, raw);
            found.entropy += entropy;
            *element = Element {
                log_prob_by_mean: density.z * density.inverse_std,
                log_prob_by_log_std: density.z * density.z - 1.0,
                entropy_by_mean,
                entropy_by_log_std,
                outside: if given == log_std { 0.0 } else { (given - log_std).signum() },
            };
        }
        found
    }

    /// Writes `d_log_prob * d log_prob / d outputs + d_entropy * d entropy / d outputs` of row
    /// number `row` into `gradient` `[2 dim]`.
    ///
    /// A log standard deviation outside its range gets a gradient only where descent leads back inside.
    pub(super) fn gradient(
        &self,
        row: usize,
        d_log_prob: f32,
        d_entropy: f32,
        gradient: &mut [f32],
    ) {
        let (by_mean, by_log_std) = gradient.split_at_mut(self.layout.dim());
        let elements = &self.elements[row * self.layout.dim()..];
        for ((by_mean, by_log_std), e) in by_mean.iter_mut().zip(by_log_std).zip(elements) {
            *by_mean = d_log_prob * e.log_prob_by_mean + d_entropy * e.entropy_by_mean;
            let by = d_log_prob * e.log_prob_by_log_std + d_entropy * e.entropy_by_log_std;
            *by_log_std = if by * e.outside < 0.0 { 0.0 } else { by };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warp_sample::Bounding;

    #[test]
    fn a_log_deviation_outside_its_range_is_only_led_back() {
        let layout = GaussianLayout::new(&[-1.0], &[1.0], Bounding::Clip).unwrap();
        let mut gaussian = Gaussian::new(&layout);
        let by_log_std = |gaussian: &Gaussian<'_>, d_entropy: f32| {
            let mut gradient = [9.0; 2];
            gaussian.gradient(0, 0.0, d_entropy, &mut gradient);
            gradient[1]
        };
        let row = gaussian.evaluate(0, &[0.0, 3.0], &[0.5]);
        assert_eq!(row, gaussian.evaluate(0, &[0.0, 2.0], &[0.5]));
        gaussian.evaluate(0, &[0.0, 3.0], &[0.5]);
        assert_eq!((by_log_std(&gaussian, 1.0), by_log_std(&gaussian, -1.0)), (1.0, 0.0));
        gaussian.evaluate(0, &[0.0, -6.0], &[0.5]);
        assert_eq!((by_log_std(&gaussian, 1.0), by_log_std(&gaussian, -1.0)), (0.0, -1.0));
        gaussian.evaluate(0, &[0.0, 1.0], &[0.5]);
        assert_eq!((by_log_std(&gaussian, 1.0), by_log_std(&gaussian, -1.0)), (1.0, -1.0));
    }
}

//! The formulas of one element of a Gaussian action, in f32, used by the sampler and by losses.
//!
//! A raw sample is `u = mean + std * z`. A squashed action is `a = centre + half_range * tanh(u)`;
//! its log-density is that of `u` less `ln half_range + ln(1 - tanh(u)^2)` (the Jacobian).

use std::f32::consts::LN_2;
use warp_core::math::{exp, ln, tanh};

/// ln(2 pi) / 2.
const HALF_LN_TAU: f32 = 0.918_938_5;
/// Entropy of a standard normal distribution, in nats: ln(2 pi e) / 2.
pub const UNIT_ENTROPY: f32 = 1.418_938_5;
/// Gauss-Hermite nodes beside 0 (each stands for its negative, too) and their weights.
const NODES: [(f32, f32); 3] =
    [(1.154_405_4, 0.240_123_18), (2.366_759_4, 0.030_757_124), (3.750_439_7, 5.482_688_6e-4)];
/// Weight of the node 0.
const CENTRE_WEIGHT: f32 = 0.457_142_86;

/// The density of a raw sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Normal {
    /// Standardised sample: `(raw - mean) / std`.
    pub z: f32,
    /// 1 / std.
    pub inverse_std: f32,
    /// Natural logarithm of the density.
    pub log_density: f32,
}

/// The density of `raw` under a normal distribution. Its derivative by the mean is `z *
/// inverse_std`, by the log standard deviation `z * z - 1`.
#[inline(always)]
pub fn normal(raw: f32, mean: f32, log_std: f32) -> Normal {
    let inverse_std = exp(-log_std);
    let z = (raw - mean) * inverse_std;
    Normal { z, inverse_std, log_density: (-0.5 * (z * z) - log_std) - HALF_LN_TAU }
}

/// `ln(1 - tanh(u)^2)`, the logarithm of tanh's slope, as `2 (ln 2 - |u| - ln(1 + exp(-2 |u|)))`,
/// which neither overflows nor cancels. At most 0, about -2 |u| far out; its derivative is
/// `-2 tanh(u)`.
#[inline(always)]
pub fn log_slope(u: f32) -> f32 {
    let a = u.abs();
    2.0 * ((LN_2 - a) - ln(1.0 + exp(-2.0 * a)))
}

/// A mean of [`log_slope`] over `u` and its derivatives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanLogSlope {
    /// The mean.
    pub value: f32,
    /// Its derivative by the mean of `u`.
    pub d_mean: f32,
    /// Its derivative by the log standard deviation of `u`.
    pub d_log_std: f32,
}

/// The mean of [`log_slope`] over a normal `u`, by Gauss-Hermite quadrature with seven nodes: what
/// squashing takes from the entropy.
///
/// No closed form is known. The error is below 1e-3 for deviations up to 0.5, 0.02 up to 1 and 7 %
/// beyond; the derivatives are exactly those of the value returned.
#[inline(always)]
pub fn mean_log_slope(mean: f32, std: f32) -> MeanLogSlope {
    // The centre, then the nodes above and below it, all of which vector units compute side by side.
    let mut points = [mean; 8];
    for (i, (node, _)) in NODES.into_iter().enumerate() {
        points[1 + i] = mean + std * node;
        points[4 + i] = mean - std * node;
    }
    let (mut slopes, mut tanhs) = ([0.0; 8], [0.0; 8]);
    for i in 0..8 {
        slopes[i] = log_slope(points[i]);
        tanhs[i] = tanh(points[i]);
    }
    let mut value = CENTRE_WEIGHT * slopes[0];
    let mut mean_tanh = CENTRE_WEIGHT * tanhs[0];
    let mut mean_tanh_node = 0.0;
    for (i, (node, weight)) in NODES.into_iter().enumerate() {
        value += weight * (slopes[1 + i] + slopes[4 + i]);
        mean_tanh += weight * (tanhs[1 + i] + tanhs[4 + i]);
        mean_tanh_node += weight * node * (tanhs[1 + i] - tanhs[4 + i]);
    }
    MeanLogSlope { value, d_mean: -2.0 * mean_tanh, d_log_std: -2.0 * std * mean_tanh_node }
}

/// [`mean_log_slope`] of several normals with the same bits, one after the other at each node, so that vector units
/// compute them side by side: values, derivatives by means and derivatives by log standard deviations.
#[inline(always)]
pub fn mean_log_slopes<const N: usize>(means: &[f32; N], stds: &[f32; N]) -> [[f32; N]; 3] {
    let (mut values, mut tanhs, mut tanhs_node) = ([0.0; N], [0.0; N], [0.0; N]);
    for i in 0..N {
        values[i] = CENTRE_WEIGHT * log_slope(means[i]);
        tanhs[i] = CENTRE_WEIGHT * tanh(means[i]);
    }
    for (node, weight) in NODES {
        for i in 0..N {
            let (above, below) = (means[i] + stds[i] * node, means[i] - stds[i] * node);
            values[i] += weight * (log_slope(above) + log_slope(below));
            let (above, below) = (tanh(above), tanh(below));
            tanhs[i] += weight * (above + below);
            tanhs_node[i] += weight * node * (above - below);
        }
    }
    for i in 0..N {
        tanhs[i] *= -2.0;
        tanhs_node[i] *= -2.0 * stds[i];
    }
    [values, tanhs, tanhs_node]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_mean_log_slopes_are_those_of_each() {
        let means: [f32; 40] = std::array::from_fn(|i| i as f32 * 0.3 - 6.0);
        let stds: [f32; 40] = std::array::from_fn(|i| exp((i * 7 % 11) as f32 * 0.5 - 3.0));
        let [values, d_means, d_log_stds] = mean_log_slopes(&means, &stds);
        for i in 0..40 {
            let MeanLogSlope { value, d_mean, d_log_std } = mean_log_slope(means[i], stds[i]);
            let found = [values[i], d_means[i], d_log_stds[i]].map(f32::to_bits);
            assert_eq!(found, [value, d_mean, d_log_std].map(f32::to_bits));
        }
    }

    #[test]
    fn the_log_slope_is_right_near_and_far() {
        for i in -4000..=4000 {
            let u = i as f32 * 0.01;
            let u64 = f64::from(u).abs();
            let truth = 2.0 * (2f64.ln() - u64 - (-2.0 * u64).exp().ln_1p());
            let error = (f64::from(log_slope(u)) - truth).abs();
            assert!(error < 3e-7 + 1e-7 * truth.abs(), "{u}: {error}");
            if u64 < 5.0 {
                let naive = (1.0 - u64.tanh().powi(2)).ln();
                assert!((truth - naive).abs() < 1e-7, "{u}: {truth} {naive}");
            }
        }
        assert_eq!(log_slope(1e30), -2e30);
    }

    /// By the trapezoidal rule over 12 deviations in f64.
    fn integrated(mean: f64, std: f64) -> f64 {
        let n = 24_000;
        let slope = |u: f64| 2.0 * (2f64.ln() - u.abs() - (-2.0 * u.abs()).exp().ln_1p());
        let cell = |i: i32| {
            let z = f64::from(i) * 24.0 / f64::from(n) - 12.0;
            slope(mean + std * z) * (-0.5 * z * z).exp()
        };
        (0..=n).map(cell).sum::<f64>() * 24.0 / f64::from(n) / std::f64::consts::TAU.sqrt()
    }

    #[test]
    fn the_mean_log_slope_is_near_the_integral() {
        for std in [0.01, 0.1, 0.3, 0.5, 0.7, 1.0, 2.0, 5.0] {
            for i in -12..=12 {
                let mean = f64::from(i) * 0.25;
                let truth = integrated(mean, std);
                let bound = if std <= 0.5 { 1e-3 } else { f64::max(0.02, -0.07 * truth) };
                let found = mean_log_slope(mean as f32, std as f32);
                let error = (f64::from(found.value) - truth).abs();
                assert!(error < bound, "{mean} {std}: {} {truth}", found.value);
            }
        }
    }

    #[test]
    fn its_derivatives_are_those_of_the_value() {
        for (mean, log_std) in [(0.3f32, -0.5f32), (-1.2, 0.4), (0.0, 1.0), (2.5, -2.0)] {
            let at = |mean: f32, log_std: f32| mean_log_slope(mean, exp(log_std));
            let h = 1e-2;
            let by_mean = (at(mean + h, log_std).value - at(mean - h, log_std).value) / (2.0 * h);
            let by_std = (at(mean, log_std + h).value - at(mean, log_std - h).value) / (2.0 * h);
            let found = at(mean, log_std);
            assert!((found.d_mean - by_mean).abs() < 2e-4, "{found:?} {by_mean}");
            assert!((found.d_log_std - by_std).abs() < 2e-4, "{found:?} {by_std}");
        }
    }
}

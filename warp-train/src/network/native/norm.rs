//! Layer norm (Ba, Kiros and Hinton, 2016): what a layer gives for a row is brought to mean 0 and standard deviation
//! 1 over the layer's numbers, then each gets a gain and a shift that are learned.

use crate::model::LAYER_NORM_EPSILON;
use crate::vectors::{self, Work};
use std::ops::Range;

/// A normalisation's place in the parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Norm {
    pub(crate) name: String,
    /// Gains, called `weight` in checkpoints.
    pub(crate) gain: Range<usize>,
    /// What is added, called `bias`; behind the gains.
    pub(crate) shift: Range<usize>,
}

/// What a normalisation computed for some rows.
#[derive(Debug, Default)]
pub(crate) struct Normed {
    /// Mean 0 and deviation 1, f32 `[rows, width]`.
    unit: Vec<f32>,
    /// One over the deviation, f32 `[rows]`.
    inverse: Vec<f32>,
}

impl Norm {
    /// Normalises rows in place.
    pub(crate) fn forward(&self, parameters: &[f32], y: &mut [f32], kept: &mut Normed) {
        let (gain, shift) = (&parameters[self.gain.clone()], &parameters[self.shift.clone()]);
        kept.unit.resize(y.len(), 0.0);
        kept.inverse.resize(y.len() / gain.len(), 0.0);
        vectors::run(Forward { gain, shift, y, kept });
    }

    /// Transposes the gradient of what was given into that of what was normalised.
    pub(crate) fn backward_input(&self, parameters: &[f32], kept: &Normed, dy: &mut [f32]) {
        vectors::run(BackwardInput { gain: &parameters[self.gain.clone()], kept, dy });
    }

    /// Adds the gradient of gains and shifts, for the gradient `dy` of what was given.
    pub(crate) fn backward_parameters(&self, kept: &Normed, dy: &[f32], gradients: &mut [f32]) {
        let (gains, shifts) = gradients.split_at_mut(self.shift.start);
        let (gains, shifts) = (&mut gains[self.gain.clone()], &mut shifts[..self.shift.len()]);
        vectors::run(BackwardParameters { kept, dy, gains, shifts });
    }
}

/// Sums of a row run in so many lanes, whose sums are then added in halves: the order of `fused/wide/layers/norm.cu`.
const LANES: usize = 32;

/// The sum of `term` over two rows.
#[inline(always)]
fn sum(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = (a.remainder(), b.remainder());
    for (a, b) in a.zip(b).chain([rest]) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += term(*a, *b);
        }
    }
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// [`Norm::forward`].
struct Forward<'a> {
    gain: &'a [f32],
    shift: &'a [f32],
    y: &'a mut [f32],
    kept: &'a mut Normed,
}

impl Work for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { gain, shift, y, kept } = self;
        let width = gain.len();
        let rows = y.chunks_exact_mut(width).zip(kept.unit.chunks_exact_mut(width));
        for ((row, units), inverse) in rows.zip(&mut kept.inverse) {
            let n = width as f32;
            let mean = sum(row, row, |x, _| x) / n;
            let variance = sum(row, row, |x, _| (x - mean) * (x - mean)) / n;
            *inverse = 1.0 / (variance + LAYER_NORM_EPSILON).sqrt();
            let places = row.iter_mut().zip(units).zip(gain).zip(shift);
            for (((x, unit), gain), shift) in places {
                *unit = (*x - mean) * *inverse;
                *x = *unit * gain + shift;
            }
        }
    }
}

/// [`Norm::backward_input`].
struct BackwardInput<'a> {
    gain: &'a [f32],
    kept: &'a Normed,
    dy: &'a mut [f32],
}

impl Work for BackwardInput<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { gain, kept, dy } = self;
        let width = gain.len();
        let rows = dy.chunks_exact_mut(width).zip(kept.unit.chunks_exact(width));
        for ((d, unit), inverse) in rows.zip(&kept.inverse) {
            d.iter_mut().zip(gain).for_each(|(d, gain)| *d *= gain);
            let n = width as f32;
            let mean = sum(d, d, |d, _| d) / n;
            let along = sum(d, unit, |d, unit| d * unit) / n;
            for (d, unit) in d.iter_mut().zip(unit) {
                *d = inverse * (*d - mean - unit * along);
            }
        }
    }
}

/// [`Norm::backward_parameters`].
struct BackwardParameters<'a> {
    kept: &'a Normed,
    dy: &'a [f32],
    gains: &'a mut [f32],
    shifts: &'a mut [f32],
}

impl Work for BackwardParameters<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { kept, dy, gains, shifts } = self;
        let width = gains.len();
        for (d, unit) in dy.chunks_exact(width).zip(kept.unit.chunks_exact(width)) {
            gains.iter_mut().zip(d).zip(unit).for_each(|((sum, d), unit)| *sum += d * unit);
            shifts.iter_mut().zip(d).for_each(|(sum, d)| *sum += d);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // More than one round of lanes.
    const WIDTH: usize = 37;
    const ROWS: usize = 3;

    /// Numbers without a pattern, about -1 to 1.
    fn numbers(n: usize, seed: usize) -> Vec<f32> {
        (0..n).map(|i| (((i + 1) * (seed + 7) * 7919) % 1013) as f32 / 500.0 - 1.0).collect()
    }

    /// The normalisation in f64, plainly: the outputs weighted by `weights` and summed.
    fn loss(y: &[f64], parameters: &[f64], weights: &[f32]) -> f64 {
        let mut sum = 0.0;
        for (row, weights) in y.chunks(WIDTH).zip(weights.chunks(WIDTH)) {
            let mean = row.iter().sum::<f64>() / WIDTH as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / WIDTH as f64;
            let deviation = (variance + f64::from(LAYER_NORM_EPSILON)).sqrt();
            for (i, (x, weight)) in row.iter().zip(weights).enumerate() {
                let given = (x - mean) / deviation * parameters[i] + parameters[WIDTH + i];
                sum += f64::from(*weight) * given;
            }
        }
        sum
    }

    #[test]
    fn gradients_are_finite_differences_at_any_gain_and_shift() {
        let norm = Norm { name: String::new(), gain: 0..WIDTH, shift: WIDTH..2 * WIDTH };
        let (y, parameters) = (numbers(ROWS * WIDTH, 1), numbers(2 * WIDTH, 2));
        let weights = numbers(ROWS * WIDTH, 3);
        let (mut given, mut kept) = (y.clone(), Normed::default());
        norm.forward(&parameters, &mut given, &mut kept);
        let wide = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>();
        let (y, wide_parameters) = (wide(&y), wide(&parameters));
        let total: f64 = given.iter().zip(&weights).map(|(x, w)| f64::from(x * w)).sum();
        assert!((total - loss(&y, &wide_parameters, &weights)).abs() < 1e-5);
        let mut gradients = vec![0.0; 2 * WIDTH];
        norm.backward_parameters(&kept, &weights, &mut gradients);
        let mut dy = weights.clone();
        norm.backward_input(&parameters, &kept, &mut dy);
        let slope = |at: usize, of_parameter: bool| {
            let moved = |step: f64| {
                let (mut y, mut parameters) = (y.clone(), wide_parameters.clone());
                if of_parameter {
                    parameters[at] += step
                } else {
                    y[at] += step
                }
                loss(&y, &parameters, &weights)
            };
            (moved(1e-5) - moved(-1e-5)) / 2e-5
        };
        for (at, found) in gradients.iter().enumerate() {
            assert!((f64::from(*found) - slope(at, true)).abs() < 1e-5, "parameter {at}");
        }
        for (at, found) in dy.iter().enumerate() {
            assert!((f64::from(*found) - slope(at, false)).abs() < 1e-5, "input {at}");
        }
    }
}

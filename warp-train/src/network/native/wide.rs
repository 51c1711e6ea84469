//! What a network does to each number by itself, sums of rows, and transposed matrices, in vectors of any width.

use crate::model::Activation;
use crate::vectors::{self, Matrix, Work, run};
use warp_core::math;

/// The activation of each element.
pub(crate) fn activate(activation: Activation, values: &mut [f32]) {
    match activation {
        Activation::Tanh => run(Tanh(values)),
        Activation::Relu => run(Relu(values)),
    }
}

struct Tanh<'a>(&'a mut [f32]);

impl Work for Tanh<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.0.iter_mut().for_each(|x| *x = math::tanh(*x));
    }
}

struct Relu<'a>(&'a mut [f32]);

impl Work for Relu<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.0.iter_mut().for_each(|x| *x = x.max(0.0));
    }
}

/// Multiplies a gradient by the slope of the activation, which is a function of its output.
pub(crate) fn slope(activation: Activation, outputs: &[f32], gradient: &mut [f32]) {
    match activation {
        Activation::Tanh => run(TanhSlope(outputs, gradient)),
        Activation::Relu => run(ReluSlope(outputs, gradient)),
    }
}

struct TanhSlope<'a>(&'a [f32], &'a mut [f32]);

impl Work for TanhSlope<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.1.iter_mut().zip(self.0).for_each(|(d, h)| *d *= 1.0 - h * h);
    }
}

struct ReluSlope<'a>(&'a [f32], &'a mut [f32]);

impl Work for ReluSlope<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let pairs = self.1.iter_mut().zip(self.0);
        pairs.for_each(|(d, h)| *d *= if *h > 0.0 { 1.0 } else { 0.0 });
    }
}

/// Adds each row of `rows`, f32 `[n, sums.len()]`, to `sums`, in order.
pub(crate) fn add_rows(sums: &mut [f32], rows: &[f32]) {
    run(AddRows(sums, rows));
}

struct AddRows<'a>(&'a mut [f32], &'a [f32]);

/// Columns whose sums stay in registers.
const COLUMNS: usize = 64;

impl Work for AddRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(sums, rows) = self;
        let width = sums.len();
        let mut blocks = sums.chunks_exact_mut(COLUMNS);
        let mut first = 0;
        for block in &mut blocks {
            let mut sums = [0.0f32; COLUMNS];
            sums.copy_from_slice(block);
            for row in rows.chunks_exact(width) {
                let row = &row[first..first + COLUMNS];
                sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
            }
            block.copy_from_slice(&sums);
            first += COLUMNS;
        }
        let rest = blocks.into_remainder();
        for row in rows.chunks_exact(width) {
            rest.iter_mut().zip(&row[first..]).for_each(|(sum, x)| *sum += x);
        }
    }
}

/// `[rows, columns]` to `[columns, rows]`.
pub(crate) fn transpose(values: &[f32], columns: usize, transposed: &mut [f32]) {
    let rows = values.len() / columns;
    vectors::transpose(Matrix { values, rows, columns, stride: columns }, transposed, rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize) -> Vec<f32> {
        (0..n as u32).map(|i| (i * 7919 % 1009) as f32 / 100.0 - 5.0).collect()
    }

    #[test]
    fn rows_are_added_in_their_order() {
        for width in [1, 3, 64, 71, 130] {
            let rows = numbers(9 * width);
            let mut sums = numbers(width);
            let mut expected = sums.clone();
            for row in rows.chunks(width) {
                expected.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
            }
            add_rows(&mut sums, &rows);
            assert_eq!(sums, expected);
        }
    }

    #[test]
    fn vectors_give_the_bits_of_single_numbers() {
        let values = numbers(77);
        for activation in [Activation::Tanh, Activation::Relu] {
            let one = |x: f32| match activation {
                Activation::Tanh => math::tanh(x),
                Activation::Relu => x.max(0.0),
            };
            let mut outputs = values.clone();
            activate(activation, &mut outputs);
            assert!(outputs.iter().zip(&values).all(|(y, x)| *y == one(*x)));
            let mut gradient = vec![2.0; 77];
            slope(activation, &outputs, &mut gradient);
            let by_hand = |h: f32| match activation {
                Activation::Tanh => 2.0 * (1.0 - h * h),
                Activation::Relu => f32::from(u8::from(h > 0.0)) * 2.0,
            };
            assert!(gradient.iter().zip(&outputs).all(|(d, h)| *d == by_hand(*h)));
        }
    }
}

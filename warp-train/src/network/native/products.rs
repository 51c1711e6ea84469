//! Just the products of linear layers, as a lower bound for the time of learning.

use super::perceptron::Dense;
use crate::network::native::gemm::Onto;
use std::time::{Duration, Instant};

/// Rows of a product.
const ROWS: usize = 256;

/// A linear layer's width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linear {
    /// Inputs.
    pub inputs: usize,
    /// Outputs.
    pub outputs: usize,
    /// Whether derivatives go on to its inputs: all but first layers.
    pub goes_back: bool,
}

/// What one product is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// Outputs of inputs and weights.
    Forward,
    /// Derivatives by weights of inputs and of derivatives by outputs.
    ToWeights,
    /// Derivatives by inputs of derivatives by outputs and of weights.
    ToInputs,
}

impl Linear {
    /// The products that learning from a sample takes.
    #[must_use]
    pub fn products(self) -> &'static [Product] {
        let all = &[Product::Forward, Product::ToWeights, Product::ToInputs];
        if self.goes_back { all } else { &all[..2] }
    }

    /// Operations of each product and row: two for a multiplication and its addition.
    #[must_use]
    pub fn operations(self) -> f64 {
        2.0 * (self.inputs * self.outputs) as f64
    }

    /// How fast `threads` threads compute a product of 256 rows, each with its own numbers and repeatedly for
    /// `seconds`: operations per second in total.
    #[must_use]
    pub fn rate(self, product: Product, threads: usize, seconds: f64) -> f64 {
        let time = Duration::from_secs_f64(seconds);
        let rates = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads.max(1))
                .map(|_| scope.spawn(move || self.alone(product, time)))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or(0.0)).collect::<Vec<_>>()
        });
        rates.iter().sum()
    }

    fn alone(self, product: Product, time: Duration) -> f64 {
        let Self { inputs, outputs, .. } = self;
        let layer = Dense::of_widths(inputs, outputs);
        let numbers = |n: usize| (0..n).map(|i| (i % 17) as f32 / 17.0 - 0.5).collect::<Vec<f32>>();
        let parameters = numbers(layer.bias.end);
        let (mut x, mut y) = (numbers(ROWS * inputs), numbers(ROWS * outputs));
        let mut gradients = vec![0.0; parameters.len()];
        let (begun, mut n) = (Instant::now(), 0_u32);
        while begun.elapsed() < time || n == 0 {
            match product {
                Product::Forward => layer.forward(&parameters, &x, &mut y),
                Product::ToWeights => layer.backward_parameters(&x, &y, &mut gradients),
                Product::ToInputs => {
                    let by_output = &parameters[layer.weight.clone()];
                    layer.backward_input(by_output, &y, &mut x, Onto::Zero);
                }
            }
            std::hint::black_box((&mut x, &mut y, &mut gradients));
            n += 1;
        }
        f64::from(n) * ROWS as f64 * self.operations() / begun.elapsed().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_have_rates() {
        let layer = Linear { inputs: 5, outputs: 40, goes_back: false };
        assert_eq!((layer.products().len(), layer.operations()), (2, 400.0));
        for product in [Product::Forward, Product::ToWeights, Product::ToInputs] {
            assert!(layer.rate(product, 2, 0.001) > 0.0);
        }
        assert_eq!(Linear { goes_back: true, ..layer }.products().len(), 3);
    }
}

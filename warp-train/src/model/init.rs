//! How weights and biases start, in torch's terms, from a seeded generator.
//!
//! Orthogonal: Saxe, McClelland & Ganguli, "Exact solutions to the nonlinear dynamics of learning in deep linear
//! neural networks", 2014. Columns of a normal matrix are made orthonormal by Gram-Schmidt in f64,
//! which gives the Q of the QR decomposition whose R has a positive diagonal.

use super::tensors::transpose;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, StandardNormal, StandardUniform};
use std::sync::Arc;
use std::thread::JoinHandle;

warp_core::choices! {
    /// How weights start, in the terms of `torch.nn.init`.
    pub enum Init {
        /// `orthogonal_`; biases 0.
        Orthogonal = "orthogonal",
        /// `xavier_uniform_` with gain 1; biases 0.
        Xavier = "xavier",
        /// `kaiming_uniform_` with a = sqrt 5, and biases as `torch.nn.Linear` draws them.
        Kaiming = "kaiming",
    }
}

/// Orthogonal weights from so many numbers on are made in a thread of their own: they take up to seconds, and no
/// layer needs those of another.
const LARGE: usize = 1 << 16;

/// Weights `[outputs, inputs]` of a linear layer.
pub(super) enum Weights {
    /// They are there.
    Ready(Vec<f32>),
    /// A thread makes them.
    InThread(JoinHandle<Vec<f32>>),
}

impl Weights {
    /// The weights, waiting for the thread if there is one.
    pub(super) fn wait(self) -> Vec<f32> {
        match self {
            Self::Ready(weights) => weights,
            Self::InThread(thread) => {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }
        }
    }
}

/// Weights `[outputs, inputs]` and biases `[outputs]` of a linear layer. Only orthogonal weights have
/// the `gain`. They are drawn input by input.
pub(super) fn layer(
    init: Init,
    inputs: usize,
    outputs: usize,
    gain: f64,
    rng: &mut StdRng,
) -> (Weights, Vec<f32>) {
    let (n, fan_in) = (inputs * outputs, inputs as f64);
    let (weight, bias) = match init {
        Init::Orthogonal if n >= LARGE => {
            let drawn: Arc<[f64]> = (0..n).map(|_| normal(rng)).collect();
            let make = move || {
                // Vectors that are drawn again (never seen) are not among them.
                let mut again = StdRng::seed_from_u64(drawn[0].to_bits());
                let mut drawn = drawn.iter();
                let draw = || drawn.next().copied().unwrap_or_else(|| normal(&mut again));
                transpose(&orthogonal(inputs, outputs, gain, draw), inputs, outputs)
            };
            let weights = match std::thread::Builder::new().spawn(make.clone()) {
                Ok(thread) => Weights::InThread(thread),
                // There are as many threads as may be.
                Err(_) => Weights::Ready(make()),
            };
            return (weights, vec![0.0; outputs]);
        }
        Init::Orthogonal => (orthogonal(inputs, outputs, gain, || normal(rng)), vec![0.0; outputs]),
        Init::Xavier => {
            let bound = (6.0 / (fan_in + outputs as f64)).sqrt();
            (uniform(n, bound, rng), vec![0.0; outputs])
        }
        // torch: gain sqrt(2 / (1 + a^2)) with a = sqrt 5, times sqrt(3 / inputs), is 1 / sqrt(inputs).
        Init::Kaiming => {
            let bound = 1.0 / fan_in.sqrt();
            (uniform(n, bound, rng), uniform(outputs, bound, rng))
        }
    };
    (Weights::Ready(transpose(&weight, inputs, outputs)), bias)
}

fn normal(rng: &mut StdRng) -> f64 {
    StandardNormal.sample(rng)
}

/// `n` numbers within `-bound..=bound`.
fn uniform(n: usize, bound: f64, rng: &mut StdRng) -> Vec<f32> {
    let mut draw = || {
        let unit: f64 = StandardUniform.sample(rng);
        (bound * (2.0 * unit - 1.0)) as f32
    };
    (0..n).map(|_| draw()).collect()
}

/// A `[inputs, outputs]` matrix (row-major f32) that is orthogonal times `gain`: its
/// shorter side's vectors have length `gain` and are perpendicular to each other.
fn orthogonal(inputs: usize, outputs: usize, gain: f64, mut draw: impl FnMut() -> f64) -> Vec<f32> {
    let (length, count) = (inputs.max(outputs), inputs.min(outputs));
    let mut basis: Vec<Direction> = Vec::with_capacity(count);
    while basis.len() < count {
        let mut drawn: [Vec<f64>; TOGETHER] = std::array::from_fn(|_| Vec::new());
        let drawn = &mut drawn[..TOGETHER.min(count - basis.len())];
        for vector in drawn.iter_mut() {
            *vector = (0..length).map(|_| draw()).collect();
        }
        let before = basis.len();
        if let Ok(all) = <&mut [Vec<f64>; TOGETHER]>::try_from(&mut *drawn) {
            remove_from_all(all, &basis);
        } else {
            drawn.iter_mut().for_each(|vector| remove(vector, &basis));
        }
        for vector in drawn {
            remove(vector, &basis[before..]);
            // Twice is enough: the second pass removes what rounding left of the first.
            remove(vector, &basis);
            let norm = dot(vector, vector).sqrt();
            // A draw inside the span of the others (never seen) is drawn again.
            if norm <= 1e-9 {
                continue;
            }
            vector.iter_mut().for_each(|x| *x *= gain / norm);
            let vector = if gain == 0.0 { vec![0.0; length] } else { std::mem::take(vector) };
            let length_squared = dot(&vector, &vector);
            basis.push(Direction { vector, length_squared });
        }
    }
    let element = |row: usize, column: usize| {
        let [i, j] = if inputs <= outputs { [row, column] } else { [column, row] };
        basis[i].vector[j]
    };
    (0..inputs)
        .flat_map(|row| (0..outputs).map(move |column| (row, column)))
        .map(|(row, column)| element(row, column) as f32)
        .collect()
}

/// Vectors whose parts along finished ones are removed together: their sums wait for each other's additions
/// instead of their own.
const TOGETHER: usize = 8;

/// A finished vector, which is 0 if the gain is.
struct Direction {
    vector: Vec<f64>,
    length_squared: f64,
}

/// Takes from `vector` its parts along `others`, one after the other.
fn remove(vector: &mut [f64], others: &[Direction]) {
    for other in others.iter().filter(|other| other.length_squared != 0.0) {
        let factor = dot(vector, &other.vector) / other.length_squared;
        vector.iter_mut().zip(&other.vector).for_each(|(x, y)| *x -= factor * y);
    }
}

/// Takes from several vectors their parts along `others`, number by number as [`remove`] does for each.
fn remove_from_all(vectors: &mut [Vec<f64>; TOGETHER], others: &[Direction]) {
    let row = |i: usize| std::array::from_fn(|v| vectors[v][i]);
    let mut rows: Vec<[f64; TOGETHER]> = (0..vectors[0].len()).map(row).collect();
    for other in others.iter().filter(|other| other.length_squared != 0.0) {
        let mut sums = [0.0; TOGETHER];
        for (row, y) in rows.iter().zip(&other.vector) {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x * y);
        }
        let factors = sums.map(|sum| sum / other.length_squared);
        for (row, y) in rows.iter_mut().zip(&other.vector) {
            row.iter_mut().zip(factors).for_each(|(x, factor)| *x -= factor * y);
        }
    }
    for (v, vector) in vectors.iter_mut().enumerate() {
        vector.iter_mut().zip(&rows).for_each(|(x, row)| *x = row[v]);
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(inputs: usize, outputs: usize, gain: f64) {
        let mut rng = StdRng::seed_from_u64(7);
        let matrix = orthogonal(inputs, outputs, gain, || normal(&mut rng));
        let at = |row: usize, column: usize| f64::from(matrix[row * outputs + column]);
        let wide = inputs <= outputs;
        let (count, length) = if wide { (inputs, outputs) } else { (outputs, inputs) };
        for i in 0..count {
            for j in 0..count {
                let product: f64 = (0..length)
                    .map(|k| if wide { at(i, k) * at(j, k) } else { at(k, i) * at(k, j) })
                    .sum();
                let expected = if i == j { gain * gain } else { 0.0 };
                assert!((product - expected).abs() < 1e-6, "{i} . {j} = {product}");
            }
        }
    }

    /// One vector after the other, as runs of old started.
    #[test]
    fn vectors_that_are_made_together_are_those_made_one_by_one() {
        let (inputs, outputs, gain) = (37, 21, 2f64.sqrt());
        let mut rng = StdRng::seed_from_u64(7);
        let mut basis: Vec<Vec<f64>> = Vec::new();
        for _ in 0..outputs {
            let mut vector: Vec<f64> =
                (0..inputs).map(|_| StandardNormal.sample(&mut rng)).collect();
            for other in basis.iter().chain(&basis) {
                let factor = dot(&vector, other) / dot(other, other);
                vector.iter_mut().zip(other).for_each(|(x, y)| *x -= factor * y);
            }
            let norm = dot(&vector, &vector).sqrt();
            vector.iter_mut().for_each(|x| *x *= gain / norm);
            basis.push(vector);
        }
        let mut rng = StdRng::seed_from_u64(7);
        let matrix = orthogonal(inputs, outputs, gain, || normal(&mut rng));
        for (i, x) in matrix.iter().enumerate() {
            let expected = basis[i % outputs][i / outputs] as f32;
            assert_eq!(x.to_bits(), expected.to_bits(), "number {i}");
        }
    }

    #[test]
    fn the_shorter_side_is_orthogonal_with_the_gain() {
        check(4, 64, 2f64.sqrt());
        check(64, 64, 2f64.sqrt());
        check(64, 5, 0.01);
        check(64, 1, 1.0);
        check(1, 1, 1.0);
    }

    #[test]
    fn threads_draw_what_one_would_draw() {
        let rng = || StdRng::seed_from_u64(3);
        for (inputs, outputs) in [(256, 256), (300, 220)] {
            let (mut alone, mut threads) = (rng(), rng());
            let expected = orthogonal(inputs, outputs, 1.0, || normal(&mut alone));
            let (weights, _) = layer(Init::Orthogonal, inputs, outputs, 1.0, &mut threads);
            assert!(matches!(weights, Weights::InThread(_)));
            assert_eq!(weights.wait(), transpose(&expected, inputs, outputs));
            assert_eq!(threads, alone);
        }
    }

    #[test]
    fn uniform_weights_have_torchs_bounds() {
        let (inputs, outputs) = (40, 60);
        let bounds = [(Init::Xavier, 0.06f64.sqrt()), (Init::Kaiming, 40f64.sqrt().recip())];
        for (init, bound) in bounds {
            let (weight, bias) = layer(init, inputs, outputs, 9.0, &mut StdRng::seed_from_u64(3));
            let weight = weight.wait();
            let largest = weight.iter().fold(0.0, |max: f32, x| max.max(x.abs()));
            assert!((0.99..=1.0).contains(&(f64::from(largest) / bound)), "{init:?} {largest}");
            let square = weight.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / 2400.0;
            assert!((square / (bound * bound / 3.0) - 1.0).abs() < 0.1, "{init:?} {square}");
            assert_eq!(bias.len(), outputs);
            assert_eq!(bias.iter().any(|x| *x != 0.0), init == Init::Kaiming);
            assert!(bias.iter().all(|x| f64::from(x.abs()) <= bound));
        }
    }

    #[test]
    fn the_seed_decides() {
        let draw = |seed| {
            let mut rng = StdRng::seed_from_u64(seed);
            orthogonal(8, 8, 1.0, || normal(&mut rng))
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}

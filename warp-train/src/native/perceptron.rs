//! Actor-critic multilayer perceptrons over one flat vector of parameters: forward and backward.
//!
//! Names, shapes and order of the parameters are those of the burn network, so checkpoints are the
//! same. Wide layers keep their weights `[inputs, outputs]`, narrow ones (the output layers)
//! `[outputs, inputs]`: each the way its products run fastest.

use super::gemm::{Left, Shape, dot_add, multiply_add};
use crate::burn::Activation;
use std::ops::Range;
use warp_core::math;

/// Layers with fewer outputs are computed by scalar products.
const NARROW: usize = 8;

/// One linear layer's place in the parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dense {
    pub(super) name: String,
    pub(super) n_in: usize,
    pub(super) n_out: usize,
    pub(super) weight: Range<usize>,
    pub(super) bias: Range<usize>,
}

impl Dense {
    /// Whether the weights lie `[outputs, inputs]`.
    pub(super) fn is_narrow(&self) -> bool {
        self.n_out < NARROW
    }

    /// `y = x W + b` for rows of `x`.
    fn forward(&self, parameters: &[f32], x: &[f32], y: &mut [f32]) {
        let (weight, bias) = (&parameters[self.weight.clone()], &parameters[self.bias.clone()]);
        y.chunks_exact_mut(self.n_out).for_each(|row| row.copy_from_slice(bias));
        let shape = Shape { m: y.len() / self.n_out, k: self.n_in, n: self.n_out };
        if self.is_narrow() {
            dot_add(shape, x, weight, y);
        } else {
            multiply_add(shape, Left::rows(x, self.n_in), weight, y);
        }
    }

    /// Adds the gradient of weights and biases for inputs `x` and output gradients `dy`.
    fn backward_parameters(&self, x: &[f32], dy: &[f32], gradients: &mut [f32]) {
        let rows = dy.len() / self.n_out;
        for row in dy.chunks_exact(self.n_out) {
            let bias = &mut gradients[self.bias.clone()];
            bias.iter_mut().zip(row).for_each(|(sum, d)| *sum += d);
        }
        let weight = &mut gradients[self.weight.clone()];
        if self.is_narrow() {
            let shape = Shape { m: self.n_out, k: rows, n: self.n_in };
            multiply_add(shape, Left::transposed(dy, self.n_out), x, weight);
        } else {
            let shape = Shape { m: self.n_in, k: rows, n: self.n_out };
            multiply_add(shape, Left::transposed(x, self.n_in), dy, weight);
        }
    }

    /// `dx += dy Wt`; `by_output` holds the weights `[outputs, inputs]`.
    fn backward_input(&self, by_output: &[f32], dy: &[f32], dx: &mut [f32]) {
        let shape = Shape { m: dy.len() / self.n_out, k: self.n_out, n: self.n_in };
        multiply_add(shape, Left::rows(dy, self.n_out), by_output, dx);
    }
}

/// Hidden layers and the output layers that read the last of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tower {
    pub(super) hidden: Vec<Dense>,
    pub(super) heads: Vec<Dense>,
}

/// What a tower computed for some rows; memory that is used again and again.
#[derive(Debug, Default)]
pub(super) struct Activations {
    /// Output of each hidden layer.
    hidden: Vec<Vec<f32>>,
    /// Its gradient, for the layer at work and the one below.
    d_hidden: [Vec<f32>; 2],
}

impl Tower {
    /// Fills the outputs of the heads, one slice each, for rows of `x`.
    pub(super) fn forward(
        &self,
        (parameters, activation): (&[f32], Activation),
        x: &[f32],
        rows: usize,
        kept: &mut Activations,
        outputs: &mut [&mut [f32]],
    ) {
        kept.hidden.resize_with(self.hidden.len(), Vec::new);
        for (l, layer) in self.hidden.iter().enumerate() {
            let (below, rest) = kept.hidden.split_at_mut(l);
            let y = &mut rest[0];
            y.resize(rows * layer.n_out, 0.0);
            layer.forward(parameters, below.last().map_or(x, |h| h), y);
            activate(activation, y);
        }
        let top = kept.hidden.last().map_or(x, |h| h);
        for (head, output) in self.heads.iter().zip(outputs) {
            head.forward(parameters, top, output);
        }
    }

    /// Adds the gradient of all parameters for the rows of the last [`Tower::forward`].
    pub(super) fn backward(
        &self,
        weights: &Weights<'_>,
        x: &[f32],
        kept: &mut Activations,
        d_outputs: &[&[f32]],
        gradients: &mut [f32],
    ) {
        let Activations { hidden, d_hidden: [d_above, d_below] } = kept;
        let top = hidden.last().map_or(x, |h| h);
        if let Some(last) = self.hidden.last() {
            let rows = top.len() / last.n_out;
            d_above.clear();
            d_above.resize(rows * last.n_out, 0.0);
        }
        for (head, dy) in self.heads.iter().zip(d_outputs) {
            head.backward_parameters(top, dy, gradients);
            if !self.hidden.is_empty() {
                head.backward_input(weights.by_output(head), dy, d_above);
            }
        }
        for l in (0..self.hidden.len()).rev() {
            let layer = &self.hidden[l];
            slope(weights.activation, &hidden[l], d_above);
            let below = if l == 0 { x } else { &hidden[l - 1] };
            layer.backward_parameters(below, d_above, gradients);
            if l > 0 {
                d_below.clear();
                d_below.resize(below.len(), 0.0);
                layer.backward_input(weights.by_output(layer), d_above, d_below);
                std::mem::swap(d_above, d_below);
            }
        }
    }
}

/// Parameters with the weights of wide layers turned to `[outputs, inputs]` as well.
#[derive(Debug)]
pub(super) struct Weights<'a> {
    pub(super) activation: Activation,
    pub(super) parameters: &'a [f32],
    /// As long as the parameters; only wide layers' weights are filled.
    pub(super) turned: &'a [f32],
}

impl Weights<'_> {
    fn by_output(&self, layer: &Dense) -> &[f32] {
        let from = if layer.is_narrow() { self.parameters } else { self.turned };
        &from[layer.weight.clone()]
    }
}

/// `[rows, columns]` to `[columns, rows]`.
pub(super) fn turn(values: &[f32], columns: usize, turned: &mut [f32]) {
    let rows = values.len() / columns;
    for (row, values) in values.chunks_exact(columns).enumerate() {
        for (value, turned) in values.iter().zip(turned[row..].iter_mut().step_by(rows)) {
            *turned = *value;
        }
    }
}

fn activate(activation: Activation, values: &mut [f32]) {
    match activation {
        Activation::Tanh => super::wide::tanh(values),
        Activation::Relu => values.iter_mut().for_each(|x| *x = x.max(0.0)),
    }
}

/// Multiplies a gradient by the slope of the activation, which is a function of its output.
fn slope(activation: Activation, outputs: &[f32], gradient: &mut [f32]) {
    let pairs = gradient.iter_mut().zip(outputs);
    match activation {
        Activation::Tanh => pairs.for_each(|(d, h)| *d *= 1.0 - h * h),
        Activation::Relu => pairs.for_each(|(d, h)| *d *= if *h > 0.0 { 1.0 } else { 0.0 }),
    }
}

/// tanh of each element.
#[inline(always)]
pub(super) fn tanh_each(values: &mut [f32]) {
    values.iter_mut().for_each(|x| *x = math::tanh(*x));
}

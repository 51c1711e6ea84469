//! Actor-critic multilayer perceptrons over one flat vector of parameters: forward and backward.
//!
//! Names and shapes of the parameters are those that [`crate::model`] declares. Wide layers keep their
//! weights `[inputs, outputs]`, narrow ones (the output layers) `[outputs, inputs]`: each the way its
//! products run fastest.

use super::gemm::{Left, Onto, Shape, dots, multiply};
use super::norm::{Norm, Normed};
use super::wide;
use crate::model::Activation;
use std::ops::Range;

/// Layers with fewer outputs are computed by scalar products.
const NARROW: usize = 8;

/// One linear layer's place in the parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dense {
    pub(crate) name: String,
    pub(crate) n_in: usize,
    pub(crate) n_out: usize,
    pub(crate) weight: Range<usize>,
    pub(crate) bias: Range<usize>,
    /// What a hidden layer's outputs are normalised by before the activation, if they are.
    pub(crate) norm: Option<Norm>,
}

impl Dense {
    /// A layer by itself.
    pub(super) fn of_widths(n_in: usize, n_out: usize) -> Self {
        let weight = 0..n_in * n_out;
        let bias = weight.end..weight.end + n_out;
        Self { name: String::new(), n_in, n_out, weight, bias, norm: None }
    }

    /// Whether the weights lie `[outputs, inputs]`.
    pub(crate) fn is_narrow(&self) -> bool {
        self.n_out < NARROW
    }

    /// The weights `[outputs, inputs]`, as checkpoints hold them.
    pub(crate) fn weight_by_output(&self, parameters: &[f32]) -> Vec<f32> {
        let mut weight = parameters[self.weight.clone()].to_vec();
        if !self.is_narrow() && self.n_in > 0 {
            wide::transpose(&parameters[self.weight.clone()], self.n_out, &mut weight);
        }
        weight
    }

    /// The reverse of [`Dense::weight_by_output`].
    pub(crate) fn set_weight_by_output(&self, weight: &[f32], parameters: &mut [f32]) {
        let to = &mut parameters[self.weight.clone()];
        if self.is_narrow() || self.n_in == 0 {
            to.copy_from_slice(weight);
        } else {
            wide::transpose(weight, self.n_in, to);
        }
    }

    /// `y = x W + b` for rows of `x`.
    pub(super) fn forward(&self, parameters: &[f32], x: &[f32], y: &mut [f32]) {
        if self.n_in == 0 {
            let bias = &parameters[self.bias.clone()];
            return y.chunks_exact_mut(self.n_out).for_each(|y| y.copy_from_slice(bias));
        }
        let (weight, bias) = (&parameters[self.weight.clone()], &parameters[self.bias.clone()]);
        let shape = Shape { m: y.len() / self.n_out, k: self.n_in, n: self.n_out };
        if self.is_narrow() {
            dots(shape, x, weight, bias, y);
        } else {
            multiply(shape, Left::rows(x, self.n_in), weight, y, Onto::Row(bias));
        }
    }

    /// Adds the gradient of weights and biases for inputs `x` and output gradients `dy`.
    pub(super) fn backward_parameters(&self, x: &[f32], dy: &[f32], gradients: &mut [f32]) {
        let rows = dy.len() / self.n_out;
        wide::add_rows(&mut gradients[self.bias.clone()], dy);
        if self.n_in == 0 {
            return;
        }
        let weight = &mut gradients[self.weight.clone()];
        if self.is_narrow() {
            let shape = Shape { m: self.n_out, k: rows, n: self.n_in };
            multiply(shape, Left::transposed(dy, self.n_out), x, weight, Onto::Sums);
        } else {
            let shape = Shape { m: self.n_in, k: rows, n: self.n_out };
            multiply(shape, Left::transposed(x, self.n_in), dy, weight, Onto::Sums);
        }
    }

    /// `dx = dy Wt`, onto zero or what is there; `by_output` holds the weights `[outputs, inputs]`.
    pub(super) fn backward_input(
        &self,
        by_output: &[f32],
        dy: &[f32],
        dx: &mut [f32],
        onto: Onto<'_>,
    ) {
        let shape = Shape { m: dy.len() / self.n_out, k: self.n_out, n: self.n_in };
        multiply(shape, Left::rows(dy, self.n_out), by_output, dx, onto);
    }
}

/// Hidden layers and the output layers that read the last of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tower {
    pub(crate) hidden: Vec<Dense>,
    pub(crate) heads: Vec<Dense>,
}

/// What a tower computed for some rows; memory that is used again and again.
#[derive(Debug, Default)]
pub(crate) struct Activations {
    /// Output of each hidden layer.
    hidden: Vec<Vec<f32>>,
    /// What each layer's normalisation computed; nothing without one.
    normed: Vec<Normed>,
    /// Its gradient, for the layer at work and the one below.
    d_hidden: [Vec<f32>; 2],
}

impl Tower {
    /// Fills the outputs of the heads, one slice each, for rows of `x`.
    pub(crate) fn forward(
        &self,
        parameters: &[f32],
        activation: Activation,
        x: &[f32],
        rows: usize,
        kept: &mut Activations,
        outputs: &mut [&mut [f32]],
    ) {
        kept.hidden.resize_with(self.hidden.len(), Vec::new);
        kept.normed.resize_with(self.hidden.len(), Normed::default);
        for (l, layer) in self.hidden.iter().enumerate() {
            let (below, rest) = kept.hidden.split_at_mut(l);
            let y = &mut rest[0];
            y.resize(rows * layer.n_out, 0.0);
            layer.forward(parameters, below.last().map_or(x, |h| h), y);
            if let Some(norm) = &layer.norm {
                norm.forward(parameters, y, &mut kept.normed[l]);
            }
            wide::activate(activation, y);
        }
        let top = kept.hidden.last().map_or(x, |h| h);
        for (head, output) in self.heads.iter().zip(outputs) {
            head.forward(parameters, top, output);
        }
    }

    /// Adds the gradient of all parameters for the rows of the last [`Tower::forward`].
    pub(crate) fn backward(
        &self,
        weights: &Weights<'_>,
        x: &[f32],
        kept: &mut Activations,
        d_outputs: &[&[f32]],
        gradients: &mut [f32],
    ) {
        let Activations { hidden, normed, d_hidden: [d_above, d_below] } = kept;
        let top = hidden.last().map_or(x, |h| h);
        if let Some(last) = self.hidden.last() {
            let rows = top.len() / last.n_out;
            d_above.resize(rows * last.n_out, 0.0);
        }
        let mut onto = Onto::Zero;
        for (head, dy) in self.heads.iter().zip(d_outputs) {
            head.backward_parameters(top, dy, gradients);
            if !self.hidden.is_empty() {
                head.backward_input(weights.by_output(head), dy, d_above, onto);
                onto = Onto::Sums;
            }
        }
        for l in (0..self.hidden.len()).rev() {
            let layer = &self.hidden[l];
            wide::slope(weights.activation, &hidden[l], d_above);
            if let Some(norm) = &layer.norm {
                norm.backward_parameters(&normed[l], d_above, gradients);
                norm.backward_input(weights.parameters, &normed[l], d_above);
            }
            let below = if l == 0 { x } else { &hidden[l - 1] };
            layer.backward_parameters(below, d_above, gradients);
            if l > 0 {
                d_below.resize(below.len(), 0.0);
                layer.backward_input(weights.by_output(layer), d_above, d_below, Onto::Zero);
                std::mem::swap(d_above, d_below);
            }
        }
    }
}

impl Tower {
    /// The gradient by the inputs alone, f32 `[rows, inputs]`, for the rows of the last
    /// [`Tower::forward`] of a tower with one head; `d_output` is the head's.
    pub(crate) fn backward_input(
        &self,
        weights: &Weights<'_>,
        kept: &mut Activations,
        d_output: &[f32],
        d_x: &mut [f32],
    ) {
        let Activations { hidden, normed, d_hidden: [d_above, d_below] } = kept;
        let Some(head) = self.heads.first() else { return };
        let rows = d_output.len() / head.n_out;
        let Some(last) = self.hidden.last() else {
            return head.backward_input(weights.by_output(head), d_output, d_x, Onto::Zero);
        };
        d_above.resize(rows * last.n_out, 0.0);
        head.backward_input(weights.by_output(head), d_output, d_above, Onto::Zero);
        for (l, layer) in self.hidden.iter().enumerate().rev() {
            wide::slope(weights.activation, &hidden[l], d_above);
            if let Some(norm) = &layer.norm {
                norm.backward_input(weights.parameters, &normed[l], d_above);
            }
            if l == 0 {
                layer.backward_input(weights.by_output(layer), d_above, d_x, Onto::Zero);
            } else {
                d_below.resize(rows * layer.n_in, 0.0);
                layer.backward_input(weights.by_output(layer), d_above, d_below, Onto::Zero);
                std::mem::swap(d_above, d_below);
            }
        }
    }
}

/// Fills `transposed` with the weights of the wide layers, `[outputs, inputs]`.
pub(crate) fn transpose_weights(tower: &Tower, parameters: &[f32], transposed: &mut [f32]) {
    for layer in tower.hidden.iter().chain(&tower.heads) {
        if !layer.is_narrow() && layer.n_in > 0 {
            let place = layer.weight.clone();
            wide::transpose(&parameters[place.clone()], layer.n_out, &mut transposed[place]);
        }
    }
}

/// Parameters with the weights of wide layers transposed to `[outputs, inputs]` as well.
#[derive(Debug)]
pub(crate) struct Weights<'a> {
    pub(crate) activation: Activation,
    pub(crate) parameters: &'a [f32],
    /// As long as the parameters; only wide layers' weights are filled.
    pub(crate) transposed: &'a [f32],
}

impl Weights<'_> {
    fn by_output(&self, layer: &Dense) -> &[f32] {
        let from = if layer.is_narrow() { self.parameters } else { self.transposed };
        &from[layer.weight.clone()]
    }
}

//! A plain perceptron: hidden layers and one linear layer on top.

use super::init::{Weights, layer};
use super::{Activation, Init, NamedTensor};
use rand::rngs::StdRng;

/// The shape of a perceptron, and how its parameters start.
#[derive(Debug, Clone, PartialEq)]
pub struct Perceptron {
    /// Numbers per row that it reads. Without any there are no hidden layers, and the outputs are the
    /// biases.
    pub inputs: usize,
    /// Widths of the hidden layers; may be empty.
    pub hidden: Vec<usize>,
    /// The function after each hidden layer.
    pub activation: Activation,
    /// Whether each hidden layer is normalised before it.
    pub layer_norm: bool,
    /// Numbers per row that it gives, at least 1.
    pub outputs: usize,
    /// How weights and biases start.
    pub init: Init,
    /// Gain of the last layer, where `init` has one.
    pub gain: f64,
    /// What the biases of the last layer start with, beside `init`; empty: nothing.
    pub bias: Vec<f32>,
}

/// A linear layer's offsets among a perceptron's parameters, which are stored layer after layer, weights before
/// biases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerShape {
    /// Numbers that it reads.
    pub inputs: usize,
    /// Numbers that it gives.
    pub outputs: usize,
}

impl Perceptron {
    /// Its linear layers, the last one included.
    pub fn layers(&self) -> impl Iterator<Item = LayerShape> {
        let below = std::iter::once(self.inputs).chain(self.hidden.iter().copied());
        let above = self.hidden.iter().copied().chain([self.outputs]);
        below.zip(above).map(|(inputs, outputs)| LayerShape { inputs, outputs })
    }

    /// Widths of the layers that are normalised.
    #[must_use]
    pub fn norms(&self) -> &[usize] {
        if self.layer_norm { &self.hidden } else { &[] }
    }

    /// What layer number `index` is called: `0`, `1`, ..., and `head`.
    #[must_use]
    pub fn layer_name(&self, index: usize) -> String {
        if index == self.hidden.len() { "head".into() } else { index.to_string() }
    }

    /// Number of parameters.
    #[must_use]
    pub fn n_parameters(&self) -> usize {
        let norms: usize = self.norms().iter().map(|width| 2 * width).sum();
        self.layers().map(|layer| (layer.inputs + 1) * layer.outputs).sum::<usize>() + norms
    }

    /// The parameters as they start, under `name`: weights f32 `[outputs, inputs]` and biases
    /// `[outputs]`, layer after layer, behind those of a hidden layer its normalisation's. Hidden layers have the gain
    /// sqrt 2.
    #[must_use]
    pub fn initial(&self, name: &str, rng: &mut StdRng) -> Vec<NamedTensor> {
        let (mut tensors, mut coming) = (Vec::new(), Vec::new());
        for (index, LayerShape { inputs, outputs }) in self.layers().enumerate() {
            let last = index == self.hidden.len();
            let gain = if last { self.gain } else { std::f64::consts::SQRT_2 };
            let (weight, mut bias) = match inputs {
                0 => (Weights::Ready(Vec::new()), vec![0.0; outputs]),
                _ => layer(self.init, inputs, outputs, gain, rng),
            };
            if last {
                bias.iter_mut().zip(&self.bias).for_each(|(bias, start)| *bias += start);
            }
            let prefix = format!("{name}.{}", self.layer_name(index));
            let tensor = |part: &str, shape, data| NamedTensor {
                name: format!("{prefix}.{part}"),
                shape,
                data,
            };
            coming.push((tensors.len(), weight));
            tensors.push(tensor("weight", vec![outputs, inputs], Vec::new()));
            tensors.push(tensor("bias", vec![outputs], bias));
            if self.norms().get(index).is_some() {
                let norm = |part: &str, start: f32| NamedTensor {
                    name: format!("{name}.norm.{index}.{part}"),
                    shape: vec![outputs],
                    data: vec![start; outputs],
                };
                tensors.extend([norm("weight", 1.0), norm("bias", 0.0)]);
            }
        }
        for (place, weights) in coming {
            tensors[place].data = weights.wait();
        }
        tensors
    }
}

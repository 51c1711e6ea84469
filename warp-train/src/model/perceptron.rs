//! A plain perceptron: hidden layers and one linear layer on top.

use super::{Activation, Init};

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
    /// Numbers per row that it gives, at least 1.
    pub outputs: usize,
    /// How weights and biases start.
    pub init: Init,
    /// Gain of the last layer, where `init` has one.
    pub gain: f64,
    /// What the biases of the last layer start with, beside `init`; empty: nothing.
    pub bias: Vec<f32>,
}

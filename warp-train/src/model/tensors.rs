//! A policy's state as named tensors: what checkpoints hold and backends hand to each other.
//!
//! Weights of linear layers have torch's layout, `[outputs, inputs]`, so that a state dict of the same
//! network in torch has the same names, shapes and values.

/// An array with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedArray<T> {
    /// Path of the parameter, such as `actor.0.weight`.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its values, row-major.
    pub data: Vec<T>,
}

/// A tensor with its name, f32.
pub type NamedTensor = NamedArray<f32>;

/// Flags with a name, u8.
pub type NamedBytes = NamedArray<u8>;

/// All that a policy needs to continue exactly where it was.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PolicyTensors {
    /// Weights and biases by name.
    pub weights: Vec<NamedTensor>,
    /// Adam's moments, `<name>.exp_avg` and `<name>.exp_avg_sq`.
    pub optimizer: Vec<NamedTensor>,
    /// Adam's steps made.
    pub n_steps: u64,
}

/// `[rows, columns]` to `[columns, rows]`.
pub(crate) fn transpose(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let element = |i: usize| values[(i % rows) * columns + i / rows];
    (0..rows * columns).map(element).collect()
}

//! A plain perceptron in f64.

use crate::model::{Activation, NamedTensor};

/// A linear layer.
#[derive(Debug, Clone)]
struct Linear {
    /// `[outputs][inputs]`.
    weight: Vec<Vec<f64>>,
    bias: Vec<f64>,
}

/// Linear layers with a function after each but the last.
#[derive(Debug, Clone)]
pub(super) struct Network {
    layers: Vec<Linear>,
    activation: Activation,
}

impl Network {
    /// The layers of `model` among `tensors`, in their order.
    pub(super) fn read(tensors: &[NamedTensor], model: &str, activation: Activation) -> Self {
        let own = tensors.iter().filter(|tensor| part_of(tensor, model).is_some());
        let own: Vec<&NamedTensor> = own.collect();
        let layer = |pair: &[&NamedTensor]| {
            let [weight, bias] = pair else { panic!("{model} has a weight without a bias") };
            assert!(weight.name.ends_with(".weight") && bias.name.ends_with(".bias"));
            let [outputs, inputs] = weight.shape[..] else { panic!("{:?}", weight.shape) };
            let numbers: Vec<f64> = wide(&weight.data);
            Linear {
                weight: (0..outputs).map(|o| numbers[o * inputs..][..inputs].to_vec()).collect(),
                bias: wide(&bias.data),
            }
        };
        let layers: Vec<Linear> = own.chunks(2).map(layer).collect();
        assert!(!layers.is_empty(), "there is no model {model}");
        Self { layers, activation }
    }

    /// What it gives for one row.
    pub(super) fn apply(&self, x: &[f64]) -> Vec<f64> {
        let mut x = x.to_vec();
        for (index, Linear { weight, bias }) in self.layers.iter().enumerate() {
            let sum = |(weights, bias): (&Vec<f64>, &f64)| {
                bias + weights.iter().zip(&x).map(|(w, x)| w * x).sum::<f64>()
            };
            let sums: Vec<f64> = weight.iter().zip(bias).map(sum).collect();
            let last = index + 1 == self.layers.len();
            let after = |sum: &f64| match self.activation {
                _ if last => *sum,
                Activation::Tanh => sum.tanh(),
                Activation::Relu => sum.max(0.0),
            };
            x = sums.iter().map(after).collect();
        }
        x
    }

    /// The only number that it gives for one row.
    pub(super) fn value(&self, x: &[f64]) -> f64 {
        let [value] = self.apply(x)[..] else { panic!("the network gives more than a value") };
        value
    }

    /// Its parameters: weights output by output, then biases, layer after layer.
    pub(super) fn parameters(&self) -> Vec<f64> {
        let of_layer = |layer: &Linear| [layer.weight.concat(), layer.bias.clone()].concat();
        self.layers.iter().flat_map(of_layer).collect()
    }

    /// The reverse of [`Network::parameters`].
    pub(super) fn set_parameters(&mut self, parameters: &[f64]) {
        let mut left = parameters.iter();
        for Linear { weight, bias } in &mut self.layers {
            let places = weight.iter_mut().flatten().chain(bias);
            places.zip(&mut left).for_each(|(place, given)| *place = *given);
        }
        assert!(left.next().is_none());
    }
}

/// What follows the model's name in a tensor's, if the tensor is the model's.
pub(super) fn part_of<'a>(tensor: &'a NamedTensor, model: &str) -> Option<&'a str> {
    tensor.name.strip_prefix(model)?.strip_prefix('.')
}

/// As f64.
pub(super) fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|x| f64::from(*x)).collect()
}

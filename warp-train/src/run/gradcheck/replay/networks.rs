//! Plain perceptrons in f64, which note how near they came to a point without a derivative.

use crate::model::{Activation, LAYER_NORM_EPSILON, NamedTensor};
use std::cell::Cell;
use std::collections::BTreeMap;

/// A linear layer.
#[derive(Debug, Clone)]
struct Linear {
    /// `[outputs][inputs]`.
    weight: Vec<Vec<f64>>,
    bias: Vec<f64>,
    /// Gains and shifts of the normalisation behind it; both empty without one.
    norm: [Vec<f64>; 2],
}

/// Linear layers with a function after each but the last.
#[derive(Debug, Clone)]
struct Network {
    layers: Vec<Linear>,
    activation: Activation,
}

impl Network {
    /// The layers of `model` among `tensors`, in their order.
    fn read(tensors: &[NamedTensor], model: &str, activation: Activation) -> Self {
        let is_norm = |part: &str| part.starts_with("norm.");
        let linear =
            |tensor: &&NamedTensor| part_of(tensor, model).is_some_and(|part| !is_norm(part));
        let own: Vec<&NamedTensor> = tensors.iter().filter(linear).collect();
        let norm = |layer: usize, part: &str| {
            let name = format!("norm.{layer}.{part}");
            let found = tensors.iter().find(|tensor| part_of(tensor, model) == Some(&name));
            found.map_or(Vec::new(), |tensor| wide(&tensor.data))
        };
        let layer = |(index, pair): (usize, &[&NamedTensor])| {
            let [weight, bias] = pair else { return None };
            let [outputs, inputs] = weight.shape[..] else { return None };
            let numbers: Vec<f64> = wide(&weight.data);
            Some(Linear {
                weight: (0..outputs).map(|o| numbers[o * inputs..][..inputs].to_vec()).collect(),
                bias: wide(&bias.data),
                norm: [norm(index, "weight"), norm(index, "bias")],
            })
        };
        Self { layers: own.chunks(2).enumerate().filter_map(layer).collect(), activation }
    }

    /// What it gives for one row, and its smallest distance from a bend of relu.
    fn apply(&self, x: &[f64]) -> (Vec<f64>, f64) {
        let (mut x, mut nearest) = (x.to_vec(), f64::INFINITY);
        for (index, Linear { weight, bias, norm: [gain, shift] }) in self.layers.iter().enumerate()
        {
            let sum = |(weights, bias): (&Vec<f64>, &f64)| {
                bias + weights.iter().zip(&x).map(|(w, x)| w * x).sum::<f64>()
            };
            x = weight.iter().zip(bias).map(sum).collect();
            if !gain.is_empty() {
                let n = x.len() as f64;
                let mean = x.iter().sum::<f64>() / n;
                let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
                let inverse = 1.0 / (variance + f64::from(LAYER_NORM_EPSILON)).sqrt();
                for (x, (gain, shift)) in x.iter_mut().zip(gain.iter().zip(shift)) {
                    *x = (*x - mean) * inverse * gain + shift;
                }
            }
            let last = index + 1 == self.layers.len();
            match self.activation {
                _ if last => {}
                Activation::Tanh => x.iter_mut().for_each(|x| *x = x.tanh()),
                Activation::Relu => {
                    nearest = x.iter().fold(nearest, |nearest, sum| nearest.min(sum.abs()));
                    x.iter_mut().for_each(|x| *x = x.max(0.0));
                }
            }
        }
        (x, nearest)
    }

    /// Its parameters: weights output by output, then biases, then gains and shifts, layer after layer.
    fn parameters(&self) -> Vec<f64> {
        let of_layer = |layer: &Linear| {
            [layer.weight.concat(), layer.bias.clone(), layer.norm.concat()].concat()
        };
        self.layers.iter().flat_map(of_layer).collect()
    }

    /// The reverse of [`Network::parameters`].
    fn set_parameters(&mut self, parameters: &[f64]) {
        let mut left = parameters.iter();
        for Linear { weight, bias, norm } in &mut self.layers {
            let places = weight.iter_mut().flatten().chain(bias).chain(norm.iter_mut().flatten());
            places.zip(&mut left).for_each(|(place, given)| *place = *given);
        }
    }
}

/// Networks by name. What is computed with them says how near it came to a bend, where a loss has no
/// derivative, and to a jump, where it has no limit.
#[derive(Debug, Clone)]
pub(crate) struct Networks {
    by_name: BTreeMap<String, Network>,
    to_bend: Cell<f64>,
    to_jump: Cell<f64>,
}

impl Networks {
    /// The networks called `models`, whose parameters are among `tensors`.
    pub(crate) fn read<'a>(
        tensors: &[NamedTensor],
        models: impl Iterator<Item = &'a str>,
        activation: Activation,
    ) -> Self {
        let network = |model: &str| (model.into(), Network::read(tensors, model, activation));
        let (to_bend, to_jump) = (Cell::new(f64::INFINITY), Cell::new(f64::INFINITY));
        Self { by_name: models.map(network).collect(), to_bend, to_jump }
    }

    /// Parameters of the network called `model`; none if there is no such network.
    pub(crate) fn parameters(&self, model: &str) -> Vec<f64> {
        self.by_name.get(model).map_or(Vec::new(), Network::parameters)
    }

    /// Sets the parameters of the network called `model`.
    pub(crate) fn set_parameters(&mut self, model: &str, parameters: &[f64]) {
        if let Some(network) = self.by_name.get_mut(model) {
            network.set_parameters(parameters);
        }
    }

    /// What the network called `model` gives for one row; nothing if there is no such network.
    pub(crate) fn apply(&self, model: &str, x: &[f64]) -> Vec<f64> {
        let Some(network) = self.by_name.get(model) else { return Vec::new() };
        let (y, to_bend) = network.apply(x);
        self.note_bend(to_bend);
        y
    }

    /// The first number that it gives.
    pub(crate) fn value(&self, model: &str, x: &[f64]) -> f64 {
        self.apply(model, x).first().copied().unwrap_or(f64::NAN)
    }

    /// Notes how far away a bend is.
    pub(crate) fn note_bend(&self, distance: f64) {
        self.to_bend.set(self.to_bend.get().min(distance.abs()));
    }

    /// Notes how far away a jump is.
    pub(crate) fn note_jump(&self, distance: f64) {
        self.to_jump.set(self.to_jump.get().min(distance.abs()));
    }

    /// The smaller number.
    pub(crate) fn least(&self, a: f64, b: f64) -> f64 {
        self.note_bend(a - b);
        a.min(b)
    }

    /// The allowed choice of the largest value; all are allowed without a mask.
    pub(crate) fn best(&self, values: &[f64], mask: &[bool]) -> usize {
        let allowed = |i: &usize| mask.get(*i).is_none_or(|allowed| *allowed);
        let mut choices: Vec<usize> = (0..values.len()).filter(allowed).collect();
        choices.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
        if let [first, second, ..] = choices[..] {
            self.note_jump(values[first] - values[second]);
        }
        choices.first().copied().unwrap_or(0)
    }

    /// What `of` gives, and how near that came to a bend and to a jump.
    pub(crate) fn watch<T>(&self, of: impl FnOnce() -> T) -> (T, [f64; 2]) {
        self.to_bend.set(f64::INFINITY);
        self.to_jump.set(f64::INFINITY);
        let found = of();
        (found, [self.to_bend.get(), self.to_jump.get()])
    }
}

/// What follows the model's name in a tensor's, if the tensor is the model's.
pub(crate) fn part_of<'a>(tensor: &'a NamedTensor, model: &str) -> Option<&'a str> {
    tensor.name.strip_prefix(model)?.strip_prefix('.')
}

/// As f64.
pub(crate) fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|x| f64::from(*x)).collect()
}

//! A model's parameters and their gradient.

use crate::algorithm::Model;
use crate::error::Result;
use crate::model::{Activation, LayerShape, NamedTensor, Perceptron};
use crate::network::native::norm::Norm;
use crate::network::native::perceptron::{Dense, Tower, Weights, transpose_weights};
use rand::rngs::StdRng;

/// A perceptron over one flat vector of parameters.
#[derive(Debug)]
pub(super) struct CpuModel {
    name: String,
    network: Perceptron,
    pub(super) tower: Tower,
    pub(super) activation: Activation,
    pub(super) parameters: Vec<f32>,
    /// Weights of wide layers, `[outputs, inputs]`; see [`Weights`].
    transposed: Vec<f32>,
    /// Of the batches of all shards.
    pub(super) gradients: Vec<f32>,
    /// Of the part of each shard here; none where there is one shard alone, whose are `gradients`.
    pub(super) of_shards: Vec<Vec<f32>>,
}

impl CpuModel {
    /// The model as it starts, drawn from `rng`.
    pub(super) fn new(model: &Model, activation: Activation, rng: &mut StdRng) -> Result<Self> {
        let network = model.network.clone();
        let what = format!("the model \"{}\"", model.name);
        // Parameters, what is transposed, gradients, moments, and a part of the gradients per chunk.
        let bytes = (network.n_parameters() as u128).saturating_mul(4 * 8);
        warp_data::memory::check(&what, bytes, "hidden")?;
        let n = network.n_parameters();
        let mut new = Self {
            name: model.name.clone(),
            tower: tower(&network),
            activation,
            parameters: vec![0.0; n],
            transposed: vec![0.0; n],
            gradients: vec![0.0; n],
            of_shards: Vec::new(),
            network,
        };
        let drawn = new.network.initial("", rng);
        new.parameters = new.flat(drawn.iter().map(|tensor| &tensor.data[..]));
        new.transpose();
        Ok(new)
    }

    /// A copy that follows this one.
    pub(super) fn as_target(&self, name: &str) -> Self {
        Self {
            name: name.into(),
            network: self.network.clone(),
            tower: self.tower.clone(),
            activation: self.activation,
            parameters: self.parameters.clone(),
            transposed: self.transposed.clone(),
            gradients: Vec::new(),
            of_shards: Vec::new(),
        }
    }

    /// Makes room for the gradients of `n` shards here.
    pub(super) fn reserve_shards(&mut self, n: usize) {
        self.of_shards = vec![vec![0.0; self.gradients.len()]; n];
    }

    /// Where the gradient of shard number `shard` of those here goes.
    pub(super) fn gradient_of(&mut self, shard: usize) -> &mut [f32] {
        self.of_shards.get_mut(shard).unwrap_or(&mut self.gradients)
    }

    pub(super) fn inputs(&self) -> usize {
        self.network.inputs
    }

    pub(super) fn outputs(&self) -> usize {
        self.network.outputs
    }

    pub(super) fn weights(&self) -> Weights<'_> {
        Weights {
            activation: self.activation,
            parameters: &self.parameters,
            transposed: &self.transposed,
        }
    }

    /// Brings what is transposed up to date with the parameters.
    pub(super) fn transpose(&mut self) {
        transpose_weights(&self.tower, &self.parameters, &mut self.transposed);
    }

    /// Whether a tensor of this name is one of the model's parameters.
    pub(super) fn owns(&self, tensor: &str) -> bool {
        let layers = (0..=self.network.hidden.len()).map(|index| self.network.layer_name(index));
        let norms = (0..self.network.norms().len()).map(|index| format!("norm.{index}"));
        layers.chain(norms).any(|layer| {
            ["weight", "bias"].iter().any(|part| tensor == format!("{}.{layer}.{part}", self.name))
        })
    }

    /// Numbers that lie as the parameters do, as tensors with `suffix` behind their names.
    pub(super) fn named(&self, flat: &[f32], suffix: &str) -> Vec<NamedTensor> {
        let layers = self.tower.hidden.iter().chain(&self.tower.heads).enumerate();
        let tensors = layers.flat_map(|(index, layer)| {
            let prefix = format!("{}.{}", self.name, self.network.layer_name(index));
            let weight = layer.weight_by_output(flat);
            let bias = flat[layer.bias.clone()].to_vec();
            let norm = layer.norm.iter().flat_map(|Norm { name, gain, shift }| {
                [("weight", gain), ("bias", shift)].map(|(part, place)| NamedTensor {
                    name: format!("{}.{name}.{part}{suffix}", self.name),
                    shape: vec![layer.n_out],
                    data: flat[place.clone()].to_vec(),
                })
            });
            let linear = [
                NamedTensor {
                    name: format!("{prefix}.weight{suffix}"),
                    shape: vec![layer.n_out, layer.n_in],
                    data: weight,
                },
                NamedTensor {
                    name: format!("{prefix}.bias{suffix}"),
                    shape: vec![layer.n_out],
                    data: bias,
                },
            ];
            linear.into_iter().chain(norm)
        });
        tensors.collect()
    }

    /// The reverse of [`CpuModel::named`]: what `tensors` hold of this model, as the parameters lie.
    pub(super) fn find(
        &self,
        tensors: &[NamedTensor],
        suffix: &str,
    ) -> std::result::Result<Vec<f32>, String> {
        let wanted = self.named(&vec![0.0; self.parameters.len()], suffix);
        let find = |wanted: &NamedTensor| {
            let found = tensors.iter().find(|tensor| tensor.name == wanted.name);
            let missing = || format!("tensor \"{}\" {:?} is missing", wanted.name, wanted.shape);
            let found = found.ok_or_else(missing)?;
            if found.shape == wanted.shape && found.data.len() == wanted.data.len() {
                return Ok(&found.data[..]);
            }
            let (name, shape) = (&found.name, &found.shape);
            Err(format!("tensor \"{name}\" is {shape:?}, but {:?} is needed", wanted.shape))
        };
        let parts = wanted.iter().map(find).collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(self.flat(parts.into_iter()))
    }

    /// Weights `[outputs, inputs]` and biases, layer after layer, as the parameters lie.
    fn flat<'a>(&self, mut parts: impl Iterator<Item = &'a [f32]>) -> Vec<f32> {
        let mut flat = vec![0.0; self.parameters.len()];
        for layer in self.tower.hidden.iter().chain(&self.tower.heads) {
            layer.set_weight_by_output(parts.next().unwrap_or_default(), &mut flat);
            flat[layer.bias.clone()].copy_from_slice(parts.next().unwrap_or_default());
            if let Some(Norm { gain, shift, .. }) = &layer.norm {
                flat[gain.clone()].copy_from_slice(parts.next().unwrap_or_default());
                flat[shift.clone()].copy_from_slice(parts.next().unwrap_or_default());
            }
        }
        flat
    }
}

/// The layers' places in a flat vector.
fn tower(network: &Perceptron) -> Tower {
    let mut next = 0;
    let mut take = |n: usize| {
        next += n;
        next - n..next
    };
    let mut layers: Vec<Dense> = network
        .layers()
        .enumerate()
        .map(|(index, LayerShape { inputs, outputs })| Dense {
            name: network.layer_name(index),
            n_in: inputs,
            n_out: outputs,
            weight: take(inputs * outputs),
            bias: take(outputs),
            norm: network.norms().get(index).map(|width| Norm {
                name: format!("norm.{index}"),
                gain: take(*width),
                shift: take(*width),
            }),
        })
        .collect();
    let heads = layers.split_off(network.hidden.len());
    Tower { hidden: layers, heads }
}

//! An actor-critic made of perceptrons: which layers there are, and how their outputs make up a
//! policy's outputs and values.
//!
//! It is read off the names and shapes of a checkpoint's tensors, so it is by construction the
//! network that the checkpoint holds.

use super::norm::Norm;
use super::perceptron::{Activations, Dense, Tower, Weights};
use super::wide::transpose;
use crate::error::PolicyError;
use crate::loss::{LossPart, OutputGradients};
use crate::model::{Activation, NamedTensor};
use std::ops::Range;

/// The layers of an actor-critic in one flat vector of parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) activation: Activation,
    /// Actor, or the shared trunk.
    actor: Tower,
    /// Critic; `None` if the value reads the shared trunk.
    critic: Option<Tower>,
    /// A learned number per element of a Box action, beside the outputs of the layers.
    log_std: Option<Range<usize>>,
    /// Parameters of the policy, which lie first, if the value has a network of its own.
    n_policy: usize,
    pub(super) n_parameters: usize,
    /// Numbers that the policy gives per row.
    pub(super) output_width: usize,
}

/// Memory for some rows, used again and again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    actor: Activations,
    critic: Activations,
    /// Outputs of the policy's one or two layers, or their gradients, each contiguous.
    parts: [Vec<f32>; 2],
    /// Outputs and values that nobody asked for.
    unwanted: (Vec<f32>, Vec<f32>),
}

/// What is asked of a network: outputs f32 `[rows, output_width]`, values f32 `[rows]`.
#[derive(Debug, Default)]
pub(super) struct Wanted<'a> {
    pub(super) outputs: Option<&'a mut [f32]>,
    pub(super) values: Option<&'a mut [f32]>,
}

/// Hands out places for layers, one after the other.
struct Places<'a> {
    tensors: &'a [NamedTensor],
    next: usize,
}

impl Places<'_> {
    fn take(&mut self, n: usize) -> Range<usize> {
        self.next += n;
        self.next - n..self.next
    }

    fn dense(&mut self, name: &str) -> Option<Dense> {
        let weight = self.tensors.iter().find(|t| t.name == format!("{name}.weight"))?;
        let [n_out, n_in] = weight.shape[..] else { return None };
        let (weight, bias) = (self.take(n_in * n_out), self.take(n_out));
        Some(Dense { name: name.into(), n_in, n_out, weight, bias, norm: None })
    }

    fn stack(&mut self, prefix: &str) -> Vec<Dense> {
        let layer = |i| {
            let mut layer = self.dense(&format!("{prefix}.{i}"))?;
            layer.norm = self.norm(&format!("{prefix}_norm.{i}"), layer.n_out);
            Some(layer)
        };
        (0..).map_while(layer).collect()
    }

    fn norm(&mut self, name: &str, width: usize) -> Option<Norm> {
        self.tensors.iter().find(|tensor| tensor.name == format!("{name}.weight"))?;
        Some(Norm { name: name.into(), gain: self.take(width), shift: self.take(width) })
    }
}

impl Network {
    /// The network that `tensors` are the parameters of.
    ///
    /// # Errors
    /// A layer that is missing.
    pub(super) fn from_tensors(
        tensors: &[NamedTensor],
        activation: Activation,
    ) -> Result<Self, PolicyError> {
        let mut places = Places { tensors, next: 0 };
        let (trunk, actor) = (places.stack("trunk"), places.stack("actor"));
        let missing = |name: &str| PolicyError::MissingTensor {
            name: format!("{name}.weight"),
            shape: Vec::new(),
            n_found: tensors.len(),
        };
        let policy = places.dense("policy_head").ok_or_else(|| missing("policy_head"))?;
        let log_std_head = places.dense("log_std_head");
        let log_std = tensors.iter().find(|t| t.name == "log_std");
        let log_std = log_std.map(|t| places.take(t.data.len()));
        // All that the value has for itself lies behind what the policy needs.
        let n_policy = places.next;
        let critic = places.stack("critic");
        let value = places.dense("value_head").ok_or_else(|| missing("value_head"))?;
        let extra = log_std_head.as_ref().map_or(0, |head| head.n_out);
        let output_width = policy.n_out + extra + log_std.as_ref().map_or(0, Range::len);
        let heads: Vec<Dense> = [Some(policy), log_std_head].into_iter().flatten().collect();
        let shared = !trunk.is_empty();
        let (actor, critic) = if shared {
            let heads = heads.into_iter().chain([value]).collect();
            (Tower { hidden: trunk, heads }, None)
        } else {
            let critic = Tower { hidden: critic, heads: vec![value] };
            (Tower { hidden: actor, heads }, Some(critic))
        };
        let n_parameters = places.next;
        Ok(Self { activation, actor, critic, log_std, n_policy, n_parameters, output_width })
    }

    /// All linear layers.
    pub(super) fn layers(&self) -> impl Iterator<Item = &Dense> {
        let towers = [Some(&self.actor), self.critic.as_ref()];
        towers.into_iter().flatten().flat_map(|tower| tower.hidden.iter().chain(&tower.heads))
    }

    /// Transposes the weights of the wide layers within `range`, of which `parameters` and `transposed` are slices.
    pub(super) fn transpose_weights(
        &self,
        range: &Range<usize>,
        parameters: &[f32],
        transposed: &mut [f32],
    ) {
        let here = |layer: &&Dense| !layer.is_narrow() && range.contains(&layer.weight.start);
        for layer in self.layers().filter(here) {
            let place = layer.weight.start - range.start..layer.weight.end - range.start;
            transpose(&parameters[place.clone()], layer.n_out, &mut transposed[place]);
        }
    }

    /// Where `log_std` lies, if the network has it.
    pub(super) fn log_std(&self) -> Option<Range<usize>> {
        self.log_std.clone()
    }

    /// Numbers per observation.
    pub(super) fn observation_width(&self) -> usize {
        self.actor.hidden.first().unwrap_or(&self.actor.heads[0]).n_in
    }

    /// Whether the value has a network of its own.
    pub(super) fn has_critic(&self) -> bool {
        self.critic.is_some()
    }

    /// The parts of which each can be computed and improved without the others, with their parameters.
    pub(super) fn parts(&self) -> Vec<(LossPart, Range<usize>)> {
        match self.critic {
            Some(_) => vec![
                (LossPart::Policy, 0..self.n_policy),
                (LossPart::Value, self.n_policy..self.n_parameters),
            ],
            None => vec![(LossPart::Whole, 0..self.n_parameters)],
        }
    }

    /// What is wanted for observations `x`.
    pub(super) fn forward(
        &self,
        parameters: &[f32],
        x: &[f32],
        scratch: &mut Scratch,
        wanted: Wanted<'_>,
    ) {
        let rows = x.len() / self.observation_width();
        let activation = self.activation;
        let Scratch { actor, critic, parts: [first, second], unwanted } = scratch;
        let Wanted { outputs, mut values } = wanted;
        if let (Some(tower), Some(values)) = (&self.critic, values.as_deref_mut()) {
            tower.forward(parameters, activation, x, rows, critic, &mut [values]);
        }
        let outputs = match outputs {
            Some(outputs) => outputs,
            None if self.critic.is_some() => return,
            None => {
                unwanted.0.resize(rows * self.output_width, 0.0);
                &mut unwanted.0
            }
        };
        let values = match (&self.critic, values) {
            (None, Some(values)) => values,
            (None, None) => {
                unwanted.1.resize(rows, 0.0);
                &mut unwanted.1
            }
            // They are there.
            _ => &mut [],
        };
        let widths = self.part_widths();
        second.resize(rows * widths[1], 0.0);
        let plain = widths[0] == self.output_width;
        if !plain {
            first.resize(rows * widths[0], 0.0);
        }
        let policy: &mut [f32] = if plain { &mut *outputs } else { first };
        match widths[1] {
            0 => self.actor.forward(parameters, activation, x, rows, actor, &mut [policy, values]),
            _ => self.actor.forward(
                parameters,
                activation,
                x,
                rows,
                actor,
                &mut [policy, second, values],
            ),
        }
        if !plain {
            self.join(parameters, [&scratch.parts[0], &scratch.parts[1]], outputs);
        }
    }

    /// Adds the gradient of a part's parameters for the rows of the last [`Network::forward`].
    pub(super) fn backward(
        &self,
        weights: &Weights<'_>,
        x: &[f32],
        scratch: &mut Scratch,
        part: LossPart,
        of_outputs: &OutputGradients<'_>,
        gradients: &mut [f32],
    ) {
        let (d_outputs, d_values) = (&*of_outputs.policy, &*of_outputs.values);
        if let (LossPart::Value, Some(tower)) = (part, &self.critic) {
            return tower.backward(weights, x, &mut scratch.critic, &[d_values], gradients);
        }
        let widths = self.part_widths();
        let plain = widths[0] == self.output_width;
        if !plain {
            self.split(d_outputs, &mut scratch.parts, gradients);
        }
        let Scratch { actor, parts: [first, second], .. } = scratch;
        let policy: &[f32] = if plain { d_outputs } else { first };
        // A policy's own network has no head for the value and leaves `d_values` aside.
        match widths[1] {
            0 => self.actor.backward(weights, x, actor, &[policy, d_values], gradients),
            _ => self.actor.backward(weights, x, actor, &[policy, second, d_values], gradients),
        }
    }

    /// Widths of the policy's first and (for a state-dependent deviation) second layer.
    fn part_widths(&self) -> [usize; 2] {
        let heads = &self.actor.heads;
        let second = heads.get(1).filter(|head| head.name == "log_std_head");
        [heads[0].n_out, second.map_or(0, |head| head.n_out)]
    }

    /// Puts the means and log standard deviations of each row beside each other.
    fn join(&self, parameters: &[f32], parts: [&Vec<f32>; 2], outputs: &mut [f32]) {
        let [width, other] = self.part_widths();
        for (row, output) in outputs.chunks_exact_mut(self.output_width).enumerate() {
            let (means, log_stds) = output.split_at_mut(width);
            means.copy_from_slice(&parts[0][row * width..][..width]);
            match &self.log_std {
                Some(range) => log_stds.copy_from_slice(&parameters[range.clone()]),
                None => log_stds.copy_from_slice(&parts[1][row * other..][..other]),
            }
        }
    }

    /// The reverse of [`Network::join`], for gradients.
    fn split(&self, d_outputs: &[f32], parts: &mut [Vec<f32>; 2], gradients: &mut [f32]) {
        let [width, other] = self.part_widths();
        let [first, second] = parts;
        first.clear();
        second.clear();
        for output in d_outputs.chunks_exact(self.output_width) {
            let (means, log_stds) = output.split_at(width);
            first.extend_from_slice(means);
            if other > 0 {
                second.extend_from_slice(log_stds);
            } else if let Some(range) = &self.log_std {
                let sums = &mut gradients[range.clone()];
                sums.iter_mut().zip(log_stds).for_each(|(sum, d)| *sum += d);
            }
        }
    }
}

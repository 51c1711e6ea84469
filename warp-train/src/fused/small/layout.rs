//! The places of a policy's tensors in the learner's padded matrices (see net.cuh), and conversions
//! in both directions.

use crate::algorithm::PolicyConfig;
use crate::config::TrainConfig;
use crate::error::{Error, Result};
use crate::model::LearnerState;
use crate::model::LogStd;
use crate::model::NamedTensor;

/// Outputs of hidden layers that there are kernels for.
const WIDTHS: [usize; 3] = [32, 64, 128];

/// Outputs of both hidden layers as the kernels have them, if they have such a network. Those that it lacks are units whose
/// weights are zero: they give zero, so that the gradients of their weights are zero, too, and no step changes them.
pub(super) fn padded_hidden(keys: &PolicyConfig) -> Option<usize> {
    let [first, second] = keys.hidden[..] else { return None };
    let width = WIDTHS.into_iter().find(|width| first.max(second) <= *width)?;
    // Layer norm takes the mean of all units, and a step without epsilon divides zero by zero.
    let pads = !keys.layer_norm && keys.adam_eps as f32 >= f32::MIN_POSITIVE;
    let fits = pads || (first, second) == (width, width);
    fits.then_some(width)
}

/// Outputs of both hidden layers as the kernels have them, of a network that they have.
pub(super) fn hidden(keys: &PolicyConfig) -> usize {
    padded_hidden(keys).unwrap_or(WIDTHS[WIDTHS.len() - 1])
}

/// The sizes that decide every place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Places {
    inputs: usize,
    /// Outputs of the hidden layers, and of each as the kernels have it.
    layers: [usize; 2],
    hidden: usize,
    normed: bool,
    outputs: usize,
    action_width: usize,
    shared: bool,
    free_log_std: bool,
}

impl Places {
    pub(super) fn new(config: &TrainConfig) -> Self {
        Self::of_policy(config, 0)
    }

    /// Sizes of policy number `index`.
    pub(super) fn of_policy(config: &TrainConfig, index: usize) -> Self {
        let plan = &config.policies[index];
        Self {
            inputs: plan.group(&config.spec).observation_width(),
            layers: [0, 1].map(|layer| plan.config.hidden.get(layer).copied().unwrap_or_default()),
            hidden: hidden(&plan.config),
            normed: plan.config.layer_norm,
            outputs: plan.layout.output_width(),
            action_width: plan.layout.action_width(),
            shared: plan.config.shared_trunk,
            free_log_std: plan.config.log_std == LogStd::StateIndependent,
        }
    }

    /// Inputs and the one, as wide as the products take them.
    fn padded_inputs(&self) -> usize {
        (self.inputs + 1).next_multiple_of(16)
    }

    fn at_second(&self) -> usize {
        self.hidden * self.padded_inputs()
    }

    fn at_second_bias(&self) -> usize {
        self.at_second() + self.hidden * self.hidden
    }

    /// Gains and shifts of the first layer, then of the second.
    fn at_norms(&self) -> usize {
        self.at_second_bias() + self.hidden
    }

    fn at_last(&self) -> usize {
        self.at_norms() + if self.normed { 4 * self.hidden } else { 0 }
    }

    fn at_last_bias(&self) -> usize {
        self.at_last() + 8 * self.hidden
    }

    /// Numbers of one network.
    pub(super) fn per_net(&self) -> usize {
        self.at_last_bias() + 8
    }

    /// Numbers of all networks.
    pub(super) fn total(&self) -> usize {
        self.per_net() * self.n_nets()
    }

    /// Networks: one with a shared trunk, else one each for policy and value.
    pub(super) fn n_nets(&self) -> usize {
        if self.shared { 1 } else { 2 }
    }

    /// The places of the tensor `name` (of a policy, without its name), which has `n` elements.
    fn of(&self, name: &str, n: usize) -> Option<Rows> {
        let critic = if self.shared { 0 } else { self.per_net() };
        let value_row = if self.shared { self.outputs } else { 0 };
        let (layer, kind) = name.rsplit_once('.').unwrap_or((name, ""));
        let net = match layer {
            "critic.0" | "critic.1" | "critic_norm.0" | "critic_norm.1" | "value_head" => critic,
            _ => 0,
        };
        let rows = |start: usize, width: usize, stride: usize| Rows {
            start: net + start,
            width: width.max(1),
            stride,
        };
        let (inputs, [first, second], hidden) = (self.inputs, self.layers, self.hidden);
        let last = |row: usize| match kind {
            "weight" => rows(self.at_last() + row * hidden, second, hidden),
            _ => rows(self.at_last_bias() + row, n, n),
        };
        Some(match (layer, kind) {
            ("trunk.0" | "actor.0" | "critic.0", "weight") => rows(0, inputs, self.padded_inputs()),
            ("trunk.0" | "actor.0" | "critic.0", "bias") => rows(inputs, 1, self.padded_inputs()),
            ("trunk.1" | "actor.1" | "critic.1", "weight") => rows(self.at_second(), first, hidden),
            ("trunk.1" | "actor.1" | "critic.1", "bias") => rows(self.at_second_bias(), n, n),
            (name, _) if self.normed && name.contains("_norm.") => {
                let (second, shift) = (name.ends_with(".1"), kind == "bias");
                let row = 2 * usize::from(second) + usize::from(shift);
                rows(self.at_norms() + row * hidden, hidden, hidden)
            }
            ("policy_head", _) => last(0),
            ("log_std_head", _) => last(self.action_width),
            ("log_std", "") if self.free_log_std => last(self.action_width),
            ("value_head", _) => last(value_row),
            _ => return None,
        })
    }

    /// Fills `packed`, padded matrices of zeros, from `tensors`, whose names end in `suffix`.
    ///
    /// # Errors
    /// A tensor that has no place.
    pub(super) fn pack(
        &self,
        policy: &str,
        tensors: &[NamedTensor],
        suffix: &str,
        packed: &mut [f32],
    ) -> Result<()> {
        for tensor in tensors.iter().filter(|tensor| tensor.name.ends_with(suffix)) {
            let rows = self.rows(policy, tensor, suffix)?;
            for (at, row) in rows.of(&tensor.data) {
                packed[at..at + row.len()].copy_from_slice(row);
            }
        }
        Ok(())
    }

    /// Fills `tensors`, whose names end in `suffix`, from the padded matrices.
    ///
    /// # Errors
    /// A tensor that has no place.
    pub(super) fn unpack(
        &self,
        policy: &str,
        packed: &[f32],
        tensors: &mut [NamedTensor],
        suffix: &str,
    ) -> Result<()> {
        for tensor in tensors.iter_mut().filter(|tensor| tensor.name.ends_with(suffix)) {
            let rows = self.rows(policy, tensor, suffix)?;
            for (at, row) in rows.of_mut(&mut tensor.data) {
                row.copy_from_slice(&packed[at..at + row.len()]);
            }
        }
        Ok(())
    }

    fn rows(&self, policy: &str, tensor: &NamedTensor, suffix: &str) -> Result<Rows> {
        let own = tensor.name.strip_prefix(policy).and_then(|name| name.strip_prefix('.'));
        let plain = own.and_then(|name| name.strip_suffix(suffix));
        plain.and_then(|name| self.of(name, tensor.data.len())).ok_or_else(|| {
            Error::Invalid(format!("tensor \"{}\" has no place in this network", tensor.name))
        })
    }
}

/// The places of a tensor: rows of so many elements, each so far behind the one before.
#[derive(Debug, Clone, Copy)]
struct Rows {
    start: usize,
    width: usize,
    stride: usize,
}

impl Rows {
    /// The rows of `data`, each with the place where it begins.
    fn of<'a>(&self, data: &'a [f32]) -> impl Iterator<Item = (usize, &'a [f32])> {
        (self.start..).step_by(self.stride.max(1)).zip(data.chunks(self.width))
    }

    /// The same, to be written.
    fn of_mut<'a>(&self, data: &'a mut [f32]) -> impl Iterator<Item = (usize, &'a mut [f32])> {
        (self.start..).step_by(self.stride.max(1)).zip(data.chunks_mut(self.width))
    }
}

/// Weights and both moments, one after the other, each as [`Places`] lays them out.
pub(super) fn pack_all(places: &Places, policy: &str, state: &LearnerState) -> Result<Vec<f32>> {
    let mut all = vec![0.0; 3 * places.total()];
    let (weights, moments) = all.split_at_mut(places.total());
    let (means, squares) = moments.split_at_mut(places.total());
    places.pack(policy, &state.weights, "", weights)?;
    places.pack(policy, &state.optimizer, ".exp_avg", means)?;
    places.pack(policy, &state.optimizer, ".exp_avg_sq", squares)?;
    Ok(all)
}

/// The reverse of [`pack_all`], into a state that has all tensors already.
pub(super) fn unpack_all(
    places: &Places,
    policy: &str,
    all: &[f32],
    state: &mut LearnerState,
) -> Result<()> {
    let n = places.total();
    places.unpack(policy, &all[..n], &mut state.weights, "")?;
    places.unpack(policy, &all[n..2 * n], &mut state.optimizer, ".exp_avg")?;
    places.unpack(policy, &all[2 * n..], &mut state.optimizer, ".exp_avg_sq")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::learner::Learner;
    use crate::run::learner::NativeLearner;

    #[test]
    fn every_tensor_has_places_of_its_own() {
        for keys in [
            "env_id = \"cartpole\"",
            "env_id = \"cartpole\"\nshared_trunk = true\nhidden = [32, 32]",
            "env_id = \"pendulum\"\nhidden = [128, 128]",
            "env_id = \"pendulum\"\nhidden = [40, 24]",
            "env_id = \"cartpole\"\nshared_trunk = true\nhidden = [7, 65]",
            "env_id = \"pendulum\"\nlog_std = \"state_dependent\"\nshared_trunk = true",
            "env_id = \"pendulum\"\nlayer_norm = true",
            "env_id = \"cartpole\"\nshared_trunk = true\nlayer_norm = true\nhidden = [32, 32]",
        ] {
            let config = TrainConfig::resolve(&keys.parse().unwrap(), &warp_envs::registry());
            let config = config.unwrap();
            let policy = config.policies[0].name.clone();
            let mut state = NativeLearner::new(&config, 1).unwrap().state();
            let mut number = 0.0;
            let mut fill = |tensor: &mut NamedTensor| {
                for value in &mut tensor.data {
                    number += 1.0;
                    *value = number;
                }
            };
            state.weights.iter_mut().for_each(&mut fill);
            state.optimizer.iter_mut().for_each(&mut fill);
            let places = Places::new(&config);
            let packed = pack_all(&places, &policy, &state).unwrap();
            let filled = packed.iter().filter(|value| **value > 0.0).count();
            assert_eq!((packed.len(), filled), (3 * places.total(), number as usize), "{keys}");
            let mut back = state.clone();
            back.weights.iter_mut().chain(&mut back.optimizer).for_each(|t| t.data.fill(0.0));
            unpack_all(&places, &policy, &packed, &mut back).unwrap();
            assert!(back == state, "{keys}");
        }
    }

    #[test]
    fn hidden_layers_are_padded_where_that_changes_nothing() {
        let padded = |keys: &str| {
            let table = format!("env_id = \"cartpole\"\n{keys}").parse().unwrap();
            let config = TrainConfig::resolve(&table, &warp_envs::registry()).unwrap();
            padded_hidden(&config.policies[0].config)
        };
        assert_eq!(padded("hidden = [32, 8]"), Some(32));
        assert_eq!(padded("hidden = [33, 8]"), Some(64));
        assert_eq!(padded("hidden = [64, 128]"), Some(128));
        assert_eq!(padded("hidden = [64, 64]\nlayer_norm = true"), Some(64));
        assert_eq!(padded("hidden = [64, 64]\nadam_eps = 0"), Some(64));
        let others = [
            "hidden = [64]",
            "hidden = [129, 8]",
            "hidden = [32, 8]\nlayer_norm = true",
            "hidden = [32, 8]\nadam_eps = 0",
        ];
        assert!(others.into_iter().all(|keys| padded(keys).is_none()));
    }

    #[test]
    fn a_tensor_of_another_network_is_refused() {
        let config =
            TrainConfig::resolve(&"env_id = \"cartpole\"".parse().unwrap(), &warp_envs::registry());
        let config = config.unwrap();
        let other =
            NamedTensor { name: "pole.actor.2.bias".into(), shape: vec![1], data: vec![1.0] };
        let places = Places::new(&config);
        let error = places.pack("pole", &[other], "", &mut []).unwrap_err().to_string();
        assert!(error.contains("\"pole.actor.2.bias\" has no place"), "{error}");
    }
}

//! The offsets of an actor-critic's layers in one flat vector of parameters on the device.
//!
//! Derived from the names and shapes of a checkpoint's tensors. Every layer has its weights
//! `[outputs, inputs]` followed by its biases; output layers that read the same hidden layer form
//! one matrix, so that one product computes logits and value.

use crate::error::PolicyError;
use crate::model::NamedTensor;
use std::ops::Range;

/// One matrix of weights and its biases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) n_in: usize,
    pub(super) n_out: usize,
    /// Where its weights begin.
    pub(super) weight: usize,
}

impl Layer {
    /// Where its biases begin.
    pub(super) fn bias(&self) -> usize {
        self.weight + self.n_out * self.n_in
    }
}

/// Who reads a tower's outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Policy and value share it.
    Both,
    /// The policy.
    Actor,
    /// The value.
    Critic,
}

/// What a kernel that acts is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Act = 0,
    LastValues = 1,
    CutValues = 2,
    /// Values of all steps, by towers that did not act.
    Values = 3,
}

impl Stage {
    /// Whether a tower takes part.
    pub(super) fn has(self, role: Role) -> bool {
        match self {
            Self::Act => role != Role::Critic,
            Self::LastValues | Self::CutValues => role != Role::Actor,
            Self::Values => role == Role::Critic,
        }
    }
}

/// Hidden layers and the output layer above them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tower {
    pub(super) role: Role,
    pub(super) hidden: Vec<Layer>,
    /// Where the gains of each hidden layer's normalisation begin, with its shifts behind them; nothing without any.
    pub(super) norms: Vec<usize>,
    pub(super) heads: Layer,
    /// The column of a policy's outputs that the first head's output is.
    pub(super) column: usize,
    /// From this output on, columns lie further right ..
    pub(super) gap_at: usize,
    /// .. by so many: where log standard deviations are parameters.
    pub(super) gap: usize,
}

impl Tower {
    /// The hidden layers and the heads.
    pub(super) fn layers(&self) -> impl Iterator<Item = &Layer> {
        self.hidden.iter().chain([&self.heads])
    }
}

/// A tensor's part of the parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    name: String,
    shape: Vec<usize>,
    range: Range<usize>,
}

/// What a hidden layer is called, and its normalisation.
struct HiddenName {
    layer: String,
    norm: String,
    has_norm: bool,
}

impl HiddenName {
    fn new(prefix: &str, number: usize, tensors: &[NamedTensor]) -> Self {
        let (layer, norm) = (format!("{prefix}.{number}"), format!("{prefix}_norm.{number}"));
        let gains = format!("{norm}.weight");
        let has_norm = tensors.iter().any(|tensor| tensor.name == gains);
        Self { layer, norm, has_norm }
    }
}

/// The layers of an actor-critic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WideNetwork {
    /// Actor (or shared trunk), then the critic if it is by itself.
    pub(super) towers: Vec<Tower>,
    /// Log standard deviations that are parameters.
    pub(super) log_std: Option<Range<usize>>,
    pub(super) n_parameters: usize,
    /// Outputs of the policy per row; the value's column is the next.
    pub(super) n_outputs: usize,
    places: Vec<Place>,
}

impl WideNetwork {
    /// The network that `tensors` are the parameters of.
    ///
    /// # Errors
    /// A layer that is missing.
    pub(super) fn from_tensors(tensors: &[NamedTensor]) -> Result<Self, PolicyError> {
        let shape = |name: &str| {
            let tensor = tensors.iter().find(|t| t.name == format!("{name}.weight"))?;
            let [n_out, n_in] = tensor.shape[..] else { return None };
            Some((n_out, n_in))
        };
        let stack = |prefix: &str| -> Vec<HiddenName> {
            let names = (0..).map(|i| HiddenName::new(prefix, i, tensors));
            names.take_while(|name| shape(&name.layer).is_some()).collect()
        };
        let missing = |name: &str| PolicyError::MissingTensor {
            name: format!("{name}.weight"),
            shape: Vec::new(),
            n_found: tensors.len(),
        };
        let (policy_width, _) = shape("policy_head").ok_or_else(|| missing("policy_head"))?;
        shape("value_head").ok_or_else(|| missing("value_head"))?;
        let log_std_width = tensors.iter().find(|t| t.name == "log_std").map(|t| t.data.len());
        let mut heads = vec!["policy_head".to_string()];
        let head_width = shape("log_std_head").map_or(0, |(n_out, _)| n_out);
        if head_width > 0 {
            heads.push("log_std_head".into());
        }
        let gap = log_std_width.unwrap_or(0);
        let n_outputs = policy_width + head_width + gap;
        let (trunk, value) = (stack("trunk"), "value_head".to_string());
        let mut this = Self {
            towers: Vec::new(),
            log_std: None,
            n_parameters: 0,
            n_outputs,
            places: Vec::new(),
        };
        if trunk.is_empty() {
            this.add(Role::Actor, &stack("actor"), &heads, &shape);
            this.add(Role::Critic, &stack("critic"), &[value], &shape);
            this.towers[1].column = n_outputs;
        } else {
            heads.push(value);
            this.add(Role::Both, &trunk, &heads, &shape);
        }
        // Beyond the policy's layer lie the log-deviations, be they columns of it or parameters.
        (this.towers[0].gap_at, this.towers[0].gap) = (policy_width, gap);
        if let Some(width) = log_std_width {
            let range = this.n_parameters..this.n_parameters + width;
            this.places.push(Place {
                name: "log_std".into(),
                shape: vec![width],
                range: range.clone(),
            });
            this.n_parameters = range.end;
            this.log_std = Some(range);
        }
        Ok(this)
    }

    /// A network of these towers, without names.
    #[cfg(test)]
    pub(super) fn of_towers(towers: Vec<Tower>, n_outputs: usize) -> Self {
        Self { towers, log_std: None, n_parameters: 0, n_outputs, places: Vec::new() }
    }

    fn add(
        &mut self,
        role: Role,
        hidden: &[HiddenName],
        heads: &[String],
        shape: &dyn Fn(&str) -> Option<(usize, usize)>,
    ) {
        let (mut layers, mut norms) = (Vec::new(), Vec::new());
        for name in hidden {
            let layer = self.matrix(std::slice::from_ref(&name.layer), shape);
            if name.has_norm {
                norms.push(self.n_parameters);
                for part in ["weight", "bias"] {
                    let range = self.n_parameters..self.n_parameters + layer.n_out;
                    let name = format!("{}.{part}", name.norm);
                    self.n_parameters = range.end;
                    self.places.push(Place { name, shape: vec![layer.n_out], range });
                }
            }
            layers.push(layer);
        }
        let heads = self.matrix(heads, shape);
        let (column, gap_at, gap) = (0, 0, 0);
        self.towers.push(Tower { role, hidden: layers, norms, heads, column, gap_at, gap });
    }

    /// Puts the weights of layers that read the same inputs below each other, then their biases.
    fn matrix(
        &mut self,
        names: &[String],
        shape: &dyn Fn(&str) -> Option<(usize, usize)>,
    ) -> Layer {
        let shapes: Vec<_> = names.iter().filter_map(|name| shape(name)).collect();
        let n_in = shapes.first().map_or(0, |(_, n_in)| *n_in);
        let n_out = shapes.iter().map(|(n_out, _)| n_out).sum();
        let layer = Layer { n_in, n_out, weight: self.n_parameters };
        let mut first = 0;
        for (name, (rows, _)) in names.iter().zip(shapes) {
            let weight = layer.weight + first * n_in;
            let bias = layer.bias() + first;
            self.places.push(Place {
                name: format!("{name}.weight"),
                shape: vec![rows, n_in],
                range: weight..weight + rows * n_in,
            });
            self.places.push(Place {
                name: format!("{name}.bias"),
                shape: vec![rows],
                range: bias..bias + rows,
            });
            first += rows;
        }
        self.n_parameters = layer.bias() + n_out;
        layer
    }

    /// Where the parameters of the value's own network lie; nothing if it shares the policy's.
    pub(super) fn critic(&self) -> Range<usize> {
        let critic = self.towers.iter().find(|tower| tower.role == Role::Critic);
        let begin = |tower: &Tower| tower.layers().next().map_or(0, |layer| layer.weight);
        let end = |tower: &Tower| tower.heads.bias() + tower.heads.n_out;
        critic.map_or(0..0, |tower| begin(tower)..end(tower))
    }

    /// The parameters by name, and where each lies.
    pub(super) fn places(&self) -> Vec<(&str, Range<usize>)> {
        self.places.iter().map(|place| (place.name.as_str(), place.range.clone())).collect()
    }

    /// Whether hidden layers are normalised.
    pub(super) fn has_norms(&self) -> bool {
        self.towers.iter().any(|tower| !tower.norms.is_empty())
    }

    /// Numbers per observation.
    pub(super) fn observation_width(&self) -> usize {
        let tower = &self.towers[0];
        tower.hidden.first().unwrap_or(&tower.heads).n_in
    }

    /// A flat vector as tensors named `<layer>.<weight or bias><suffix>`.
    pub(super) fn named(&self, flat: &[f32], suffix: &str) -> Vec<NamedTensor> {
        let tensor = |place: &Place| NamedTensor {
            name: format!("{}{suffix}", place.name),
            shape: place.shape.clone(),
            data: flat[place.range.clone()].to_vec(),
        };
        self.places.iter().map(tensor).collect()
    }

    /// The tensors with `suffix` as one flat vector.
    ///
    /// # Errors
    /// A tensor that is missing, unknown, or of another shape.
    pub(super) fn flat(
        &self,
        tensors: &[NamedTensor],
        suffix: &str,
    ) -> Result<Vec<f32>, PolicyError> {
        let mut flat = vec![0.0; self.n_parameters];
        let known = |name: &str| self.places.iter().any(|place| place.name == name);
        let strange = |t: &&NamedTensor| suffix.is_empty() && !known(&t.name);
        if let Some(tensor) = tensors.iter().find(strange) {
            return Err(PolicyError::UnknownTensor { name: tensor.name.clone() });
        }
        for place in &self.places {
            let name = format!("{}{suffix}", place.name);
            let Some(found) = tensors.iter().find(|t| t.name == name) else {
                let (shape, n_found) = (place.shape.clone(), tensors.len());
                return Err(PolicyError::MissingTensor { name, shape, n_found });
            };
            if found.shape != place.shape || found.data.len() != place.range.len() {
                return Err(PolicyError::WrongShape {
                    name,
                    found: found.shape.clone(),
                    n_values: found.data.len(),
                    expected: place.shape.clone(),
                });
            }
            flat[place.range.clone()].copy_from_slice(&found.data);
        }
        Ok(flat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(name: &str, shape: &[usize]) -> NamedTensor {
        let n = shape.iter().product::<usize>();
        let data = (0..n).map(|i| (i + 10 * name.len()) as f32).collect();
        NamedTensor { name: name.into(), shape: shape.into(), data }
    }

    fn layer(name: &str, n_out: usize, n_in: usize) -> [NamedTensor; 2] {
        [
            tensor(&format!("{name}.weight"), &[n_out, n_in]),
            tensor(&format!("{name}.bias"), &[n_out]),
        ]
    }

    #[test]
    fn heads_of_a_shared_trunk_are_one_matrix_and_tensors_come_back() {
        let tensors: Vec<_> = [layer("trunk.0", 8, 3), layer("policy_head", 2, 8)]
            .into_iter()
            .chain([layer("value_head", 1, 8)])
            .flatten()
            .chain([tensor("log_std", &[2])])
            .collect();
        let network = WideNetwork::from_tensors(&tensors).unwrap();
        let [tower] = &network.towers[..] else { panic!("{network:?}") };
        assert_eq!((tower.role, tower.heads.n_out), (Role::Both, 3));
        // Means in columns 0 and 1, log-deviations in 2 and 3, the value in 4.
        assert_eq!((tower.gap_at, tower.gap, network.n_outputs), (2, 2, 4));
        assert_eq!(network.log_std, Some(network.n_parameters - 2..network.n_parameters));
        let flat = network.flat(&tensors, "").unwrap();
        let mut back = network.named(&flat, "");
        back.sort_by(|a, b| a.name.cmp(&b.name));
        let mut sorted = tensors.clone();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(back, sorted);
        assert!(network.flat(&tensors[1..], "").is_err());
    }

    #[test]
    fn gains_and_shifts_lie_behind_the_biases_of_their_layer() {
        let tensors: Vec<_> = [layer("actor.0", 8, 3), layer("policy_head", 4, 8)]
            .into_iter()
            .chain([layer("critic.0", 6, 3), layer("value_head", 1, 6)])
            .flatten()
            .chain([tensor("actor_norm.0.weight", &[8]), tensor("actor_norm.0.bias", &[8])])
            .chain([tensor("critic_norm.0.weight", &[6]), tensor("critic_norm.0.bias", &[6])])
            .collect();
        let network = WideNetwork::from_tensors(&tensors).unwrap();
        let [actor, critic] = &network.towers[..] else { panic!("{network:?}") };
        assert_eq!((&actor.norms[..], actor.heads.weight), (&[32][..], 48));
        let begin = 48 + 4 * 8 + 4;
        assert_eq!(critic.norms, [begin + 6 * 3 + 6]);
        assert_eq!(network.critic(), begin..begin + 24 + 12 + 7);
        assert!(network.has_norms());
        let flat = network.flat(&tensors, "").unwrap();
        assert_eq!(flat[32..40], tensors[8].data);
        assert_eq!(flat[40..48], tensors[9].data);
        assert_eq!(network.named(&flat, "").len(), tensors.len());
    }

    #[test]
    fn separate_towers_lie_one_after_the_other() {
        let tensors: Vec<_> = [layer("actor.0", 8, 3), layer("policy_head", 4, 8)]
            .into_iter()
            .chain([layer("critic.0", 6, 3), layer("value_head", 1, 6)])
            .flatten()
            .collect();
        let network = WideNetwork::from_tensors(&tensors).unwrap();
        let [actor, critic] = &network.towers[..] else { panic!("{network:?}") };
        assert_eq!((actor.role, actor.column, actor.gap), (Role::Actor, 0, 0));
        assert_eq!((critic.role, critic.column), (Role::Critic, 4));
        assert_eq!(critic.hidden[0].weight, 8 * 3 + 8 + 4 * 8 + 4);
        assert_eq!(network.n_parameters, 68 + 6 * 3 + 6 + 6 + 1);
        assert_eq!(network.critic(), 68..network.n_parameters);
    }
}

//! The network that a configuration declares: an actor-critic of perceptrons of any widths.
//!
//! Hidden layers are shared (`trunk`) or separate (`actor` and `critic`), heads are linear. A
//! continuous policy has a parameter `log_std` `[dim]` or a layer `log_std_head` besides.

use super::init::{Weights, layer};
use super::tensors::NamedTensor;
use super::{Activation, Init};
use crate::error::PolicyError;
use rand::SeedableRng;
use rand::rngs::StdRng;
use warp_sample::ActionLayout;

warp_core::choices! {
    /// What the standard deviation of a continuous action depends on.
    pub enum LogStd {
        /// On nothing: one learned number per element, the parameter `log_std`.
        StateIndependent = "state_independent",
        /// On the observation: a linear layer of its own, `log_std_head`.
        StateDependent = "state_dependent",
    }
}

/// The shape of an actor-critic, and how its parameters start.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkConfig {
    /// Numbers per observation, at least 1.
    pub observation_width: usize,
    /// What the outputs mean.
    pub layout: ActionLayout,
    /// Widths of the hidden layers; may be empty.
    pub hidden: Vec<usize>,
    /// The function after each hidden layer.
    pub activation: Activation,
    /// Whether each hidden layer is normalised before its activation.
    pub layer_norm: bool,
    /// Whether policy and value share their hidden layers.
    pub shared_trunk: bool,
    /// How weights and biases start.
    pub init: Init,
    /// What the deviation of a continuous action depends on.
    pub log_std: LogStd,
    /// Where its logarithm starts.
    pub log_std_init: f32,
}

impl NetworkConfig {
    /// The initial parameters, by name: weights f32 `[outputs, inputs]` and biases `[outputs]` as
    /// `init` says (see [`Init`]), layer after layer; they depend only on `seed`. Orthogonal weights
    /// have gain sqrt 2 in hidden layers, 0.01 in policy heads and 1 in the value head. Log standard
    /// deviations start at, or `log_std_head`'s bias adds, `log_std_init`.
    ///
    /// # Errors
    /// [`PolicyError::InvalidConfig`] if a width is zero.
    pub fn initial(&self, seed: u64) -> Result<Vec<NamedTensor>, PolicyError> {
        self.check()?;
        let rng = StdRng::seed_from_u64(seed);
        let mut drawn = Drawn { init: self.init, rng, tensors: Vec::new(), weights: Vec::new() };
        let stacks: &[&str] = if self.shared_trunk { &["trunk"] } else { &["actor", "critic"] };
        for stack in stacks {
            let mut inputs = self.observation_width;
            for (i, outputs) in self.hidden.iter().enumerate() {
                let gain = std::f64::consts::SQRT_2;
                drawn.linear(&format!("{stack}.{i}"), [inputs, *outputs], gain, 0.0);
                if self.layer_norm {
                    drawn.norm(&format!("{stack}_norm.{i}"), *outputs);
                }
                inputs = *outputs;
            }
        }
        let features = self.hidden.last().copied().unwrap_or(self.observation_width);
        let (width, start) = (self.head_width(), self.log_std_init);
        drawn.linear("policy_head", [features, width], 0.01, 0.0);
        drawn.linear("value_head", [features, 1], 1.0, 0.0);
        match (&self.layout, self.log_std) {
            (ActionLayout::Discrete(_), _) => {}
            (_, LogStd::StateIndependent) => drawn.add("log_std", vec![width], vec![start; width]),
            (_, LogStd::StateDependent) => {
                drawn.linear("log_std_head", [features, width], 0.01, start);
            }
        }
        Ok(drawn.all())
    }

    /// Outputs of the policy's last layer: logits or means.
    fn head_width(&self) -> usize {
        match &self.layout {
            ActionLayout::Discrete(heads) => heads.width(),
            ActionLayout::Continuous(elements) => elements.dim(),
        }
    }

    /// Bytes that a policy with this network takes, about: parameters, gradients and Adam's moments
    /// in f32, a part of the gradients again for each chunk, and the initialisation in f64.
    #[must_use]
    pub fn bytes(&self) -> u128 {
        let layer =
            |inputs: usize, outputs: usize| (inputs as u128 + 1).saturating_mul(outputs as u128);
        let widths = [&[self.observation_width], self.hidden.as_slice()].concat();
        let layers = widths.windows(2).map(|pair| layer(pair[0], pair[1]));
        let trunk = layers.fold(0, u128::saturating_add);
        let trunks = trunk.saturating_mul(if self.shared_trunk { 1 } else { 2 });
        let heads = layer(widths[widths.len() - 1], self.layout.output_width() + 1);
        trunks.saturating_add(heads).saturating_mul(48)
    }

    fn check(&self) -> Result<(), PolicyError> {
        check_width(self.observation_width)?;
        if self.hidden.contains(&0) {
            return Err(PolicyError::InvalidConfig(format!(
                "hidden layers need widths of at least 1, but hidden is {:?}",
                self.hidden
            )));
        }
        Ok(())
    }
}

/// An error unless there are observations.
pub(crate) fn check_width(observation_width: usize) -> Result<(), PolicyError> {
    if observation_width == 0 {
        return Err(PolicyError::InvalidConfig(
            "a policy needs an observation width of at least 1, but observation_width is 0".into(),
        ));
    }
    Ok(())
}

/// Parameters that have been drawn, in their order: the next draws depend on those before.
struct Drawn {
    init: Init,
    rng: StdRng,
    tensors: Vec<NamedTensor>,
    /// What some of the tensors, by their places, are still to get.
    weights: Vec<(usize, Weights)>,
}

impl Drawn {
    /// Adds a layer whose biases start `shift` higher.
    fn linear(&mut self, name: &str, [inputs, outputs]: [usize; 2], gain: f64, shift: f32) {
        let (weight, mut bias) = layer(self.init, inputs, outputs, gain, &mut self.rng);
        bias.iter_mut().for_each(|x| *x += shift);
        self.weights.push((self.tensors.len(), weight));
        self.add(&format!("{name}.weight"), vec![outputs, inputs], Vec::new());
        self.add(&format!("{name}.bias"), vec![outputs], bias);
    }

    /// All of them, when the last weights are there.
    fn all(mut self) -> Vec<NamedTensor> {
        for (place, weights) in self.weights {
            self.tensors[place].data = weights.wait();
        }
        self.tensors
    }

    /// Adds a normalisation that leaves what it has normalised as it is.
    fn norm(&mut self, name: &str, width: usize) {
        self.add(&format!("{name}.weight"), vec![width], vec![1.0; width]);
        self.add(&format!("{name}.bias"), vec![width], vec![0.0; width]);
    }

    fn add(&mut self, name: &str, shape: Vec<usize>, data: Vec<f32>) {
        self.tensors.push(NamedTensor { name: name.into(), shape, data });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warp_sample::{Bounding, CategoricalLayout, GaussianLayout};

    fn config(layout: ActionLayout) -> NetworkConfig {
        NetworkConfig {
            observation_width: 3,
            layout,
            hidden: vec![8, 4],
            activation: Activation::Tanh,
            layer_norm: false,
            shared_trunk: true,
            init: Init::Orthogonal,
            log_std: LogStd::StateIndependent,
            log_std_init: 0.7,
        }
    }

    fn discrete() -> NetworkConfig {
        config(ActionLayout::Discrete(CategoricalLayout::new(&[3, 2]).unwrap()))
    }

    fn continuous(log_std: LogStd) -> NetworkConfig {
        let elements = GaussianLayout::new(&[-2.0, 0.0], &[2.0, 1.0], Bounding::Clip).unwrap();
        NetworkConfig { log_std, ..config(ActionLayout::Continuous(elements)) }
    }

    fn shapes(config: &NetworkConfig) -> Vec<(String, Vec<usize>)> {
        let tensors = config.initial(1).unwrap();
        for tensor in &tensors {
            assert_eq!(tensor.data.len(), tensor.shape.iter().product::<usize>());
        }
        tensors.into_iter().map(|tensor| (tensor.name, tensor.shape)).collect()
    }

    #[test]
    fn weights_lie_as_torchs() {
        let wanted: [(&str, &[usize]); 8] = [
            ("trunk.0.weight", &[8, 3]),
            ("trunk.0.bias", &[8]),
            ("trunk.1.weight", &[4, 8]),
            ("trunk.1.bias", &[4]),
            ("policy_head.weight", &[5, 4]),
            ("policy_head.bias", &[5]),
            ("value_head.weight", &[1, 4]),
            ("value_head.bias", &[1]),
        ];
        let named = |(name, shape): &(&str, &[usize])| (name.to_string(), shape.to_vec());
        let wanted: Vec<_> = wanted.iter().map(named).collect();
        assert_eq!(shapes(&discrete()), wanted);
        let apart = NetworkConfig { hidden: vec![4], shared_trunk: false, ..discrete() };
        let names: Vec<String> = shapes(&apart).into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            names[..4],
            ["actor.0.weight", "actor.0.bias", "critic.0.weight", "critic.0.bias"]
        );
    }

    #[test]
    fn hidden_layers_may_be_normalised() {
        let normed = NetworkConfig { layer_norm: true, hidden: vec![4], ..discrete() };
        let plain = NetworkConfig { layer_norm: false, ..normed.clone() };
        let (normed, plain) = (normed.initial(1).unwrap(), plain.initial(1).unwrap());
        let (own, rest): (Vec<_>, Vec<_>) =
            normed.into_iter().partition(|tensor| tensor.name.contains("_norm"));
        // The draws are the same.
        assert_eq!(rest, plain);
        let found = own.iter().map(|tensor| (tensor.name.as_str(), &tensor.data[..]));
        let wanted = [("trunk_norm.0.weight", &[1.0; 4][..]), ("trunk_norm.0.bias", &[0.0; 4])];
        assert!(found.eq(wanted));
    }

    #[test]
    fn deviations_are_a_parameter_or_a_layer() {
        let alone = continuous(LogStd::StateIndependent).initial(1).unwrap();
        let last = &alone[alone.len() - 1];
        assert_eq!((last.name.as_str(), &last.data[..]), ("log_std", &[0.7, 0.7][..]));
        let layer = continuous(LogStd::StateDependent).initial(1).unwrap();
        let [.., weight, bias] = &layer[..] else { panic!("no layers") };
        assert_eq!((weight.name.as_str(), &weight.shape[..]), ("log_std_head.weight", &[2, 4][..]));
        assert_eq!((bias.name.as_str(), &bias.data[..]), ("log_std_head.bias", &[0.7, 0.7][..]));
    }

    /// Every run begins with these: a change of the draws, or of their order, changes all results.
    #[test]
    fn the_draws_of_a_seed_stay() {
        let bits = |config: &NetworkConfig| {
            let tensors = config.initial(7).unwrap();
            let bits = tensors.iter().flat_map(|tensor| &tensor.data).map(|x| x.to_bits());
            bits.fold(0u32, |sum, bits| sum.rotate_left(5) ^ bits)
        };
        let kaiming = continuous(LogStd::StateDependent);
        let kaiming = NetworkConfig { init: Init::Kaiming, shared_trunk: false, ..kaiming };
        let xavier = NetworkConfig { init: Init::Xavier, ..discrete() };
        let seen = [bits(&discrete()), bits(&kaiming), bits(&xavier)];
        assert_eq!(seen, [2_881_186_928, 3_047_319_472, 106_358_973]);
    }

    #[test]
    fn widths_of_zero_are_refused() {
        let none = NetworkConfig { observation_width: 0, ..discrete() };
        assert!(none.initial(1).unwrap_err().to_string().contains("observation_width is 0"));
        let hidden = NetworkConfig { hidden: vec![4, 0], ..discrete() };
        assert!(hidden.initial(1).unwrap_err().to_string().contains("[4, 0]"));
    }
}

//! Networks that a policy can be made of: the trait, and multilayer perceptrons of any widths.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::{Device, Tensor, TensorData};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::Activation;
use super::init::orthogonal;
use crate::policy_error::PolicyError;

/// A burn module that maps observations to logits and values.
///
/// Implement it for any `#[derive(Module)]` type of your own. Parameters are the module's float
/// parameters; state that a module changes while it runs forward (running statistics, random
/// dropout) is not carried from one call to the next.
pub trait PolicyNetwork: Module + Sync {
    /// From observations f32 `[rows, observation_width]` to logits f32 `[rows, sum of head_sizes]`
    /// and values f32 `[rows, 1]`. Rows must not influence each other.
    fn forward(&self, observations: Tensor<2>) -> (Tensor<2>, Tensor<2>);
}

/// The shape of an [`ActorCritic`].
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkConfig {
    /// Numbers per observation, at least 1.
    pub observation_width: usize,
    /// Actions of each discrete head, each at least 1; the logits' width is their sum.
    pub head_sizes: Vec<usize>,
    /// Widths of the hidden layers; may be empty.
    pub hidden: Vec<usize>,
    /// The function after each hidden layer.
    pub activation: Activation,
    /// Whether policy and value share their hidden layers.
    pub shared_trunk: bool,
}

impl NetworkConfig {
    /// Width of the logits.
    #[must_use]
    pub fn logits_width(&self) -> usize {
        self.head_sizes.iter().sum()
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
        let heads = layer(widths[widths.len() - 1], self.logits_width() + 1);
        trunks.saturating_add(heads).saturating_mul(48)
    }

    fn check(&self) -> Result<(), PolicyError> {
        check_widths(self.observation_width, &self.head_sizes)?;
        if self.hidden.contains(&0) {
            return Err(PolicyError::InvalidConfig(format!(
                "hidden layers need widths of at least 1, but hidden is {:?}",
                self.hidden
            )));
        }
        Ok(())
    }
}

/// An error unless there are observations and at least one head, all of at least one number.
pub(super) fn check_widths(
    observation_width: usize,
    head_sizes: &[usize],
) -> Result<(), PolicyError> {
    if observation_width == 0 || head_sizes.is_empty() || head_sizes.contains(&0) {
        return Err(PolicyError::InvalidConfig(format!(
            "a policy needs an observation width of at least 1 and heads of at least 1 action, \
             but observation_width is {observation_width} and head_sizes is {head_sizes:?}"
        )));
    }
    Ok(())
}

/// Actor and critic as perceptrons, with hidden layers shared (`trunk`) or separate (`actor` and
/// `critic`), and linear heads.
#[derive(Module, Debug)]
pub struct ActorCritic {
    trunk: Vec<Linear>,
    actor: Vec<Linear>,
    critic: Vec<Linear>,
    policy_head: Linear,
    value_head: Linear,
    #[module(skip)]
    activation: Activation,
}

impl ActorCritic {
    /// A network with orthogonal weights (gain sqrt 2 in hidden layers, 0.01 in the policy head, 1 in
    /// the value head) and zero biases; `seed` alone decides the draws.
    ///
    /// # Errors
    /// [`PolicyError::InvalidConfig`] if a width is zero or there is no head.
    pub fn new(config: &NetworkConfig, seed: u64, device: &Device) -> Result<Self, PolicyError> {
        config.check()?;
        let mut rng = StdRng::seed_from_u64(seed);
        let mut stack = |wanted: bool| {
            let mut inputs = config.observation_width;
            let hidden = if wanted { config.hidden.as_slice() } else { &[] };
            let mut layers = Vec::with_capacity(hidden.len());
            for &outputs in hidden {
                let gain = std::f64::consts::SQRT_2;
                layers.push(linear(inputs, outputs, gain, &mut rng, device));
                inputs = outputs;
            }
            layers
        };
        let trunk = stack(config.shared_trunk);
        let actor = stack(!config.shared_trunk);
        let critic = stack(!config.shared_trunk);
        let features = config.hidden.last().copied().unwrap_or(config.observation_width);
        Ok(Self {
            trunk,
            actor,
            critic,
            policy_head: linear(features, config.logits_width(), 0.01, &mut rng, device),
            value_head: linear(features, 1, 1.0, &mut rng, device),
            activation: config.activation,
        })
    }

    fn hidden(&self, layers: &[Linear], input: Tensor<2>) -> Tensor<2> {
        layers.iter().fold(input, |x, layer| self.activation.apply(layer.forward(x)))
    }
}

impl PolicyNetwork for ActorCritic {
    fn forward(&self, observations: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        let features = self.hidden(&self.trunk, observations);
        let actor = self.hidden(&self.actor, features.clone());
        let critic = self.hidden(&self.critic, features);
        (self.policy_head.forward(actor), self.value_head.forward(critic))
    }
}

/// A linear layer `[inputs, outputs]` with orthogonal weight and zero bias.
fn linear(inputs: usize, outputs: usize, gain: f64, rng: &mut StdRng, device: &Device) -> Linear {
    let weight = TensorData::new(orthogonal(inputs, outputs, gain, rng), [inputs, outputs]);
    let bias = TensorData::new(vec![0.0_f32; outputs], [outputs]);
    Linear {
        weight: Param::from_tensor(Tensor::from_data(weight, device)),
        bias: Some(Param::from_tensor(Tensor::from_data(bias, device))),
    }
}

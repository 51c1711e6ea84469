//! Networks that a policy can be made of: the trait, and multilayer perceptrons of any widths.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::{Device, Tensor, TensorData};
use rand::SeedableRng;
use rand::rngs::StdRng;
use warp_sample::ActionLayout;

use super::Activation;
use super::init::layer;
use crate::config::{Init, LogStd};
use crate::policy_error::PolicyError;

/// A burn module that maps observations to policy outputs and values.
///
/// Implement it for any `#[derive(Module)]` type of your own. Parameters are the module's float
/// parameters; state that a module changes while it runs forward (running statistics, random
/// dropout) is not carried from one call to the next.
pub trait PolicyNetwork: Module + Sync {
    /// From observations f32 `[rows, observation_width]` to policy outputs f32 `[rows, output_width]`
    /// (logits of all heads; or means, then log-deviations, of all elements) and values f32
    /// `[rows, 1]`. Rows must not influence each other.
    fn forward(&self, observations: Tensor<2>) -> (Tensor<2>, Tensor<2>);
}

/// The shape of an [`ActorCritic`].
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
pub(super) fn check_width(observation_width: usize) -> Result<(), PolicyError> {
    if observation_width == 0 {
        return Err(PolicyError::InvalidConfig(
            "a policy needs an observation width of at least 1, but observation_width is 0".into(),
        ));
    }
    Ok(())
}

/// Actor and critic as perceptrons, with hidden layers shared (`trunk`) or separate (`actor` and
/// `critic`), and linear heads. A continuous policy has a parameter `log_std` `[dim]` or a layer
/// `log_std_head` besides.
#[derive(Module, Debug)]
pub struct ActorCritic {
    trunk: Vec<Linear>,
    actor: Vec<Linear>,
    critic: Vec<Linear>,
    policy_head: Linear,
    value_head: Linear,
    log_std: Option<Param<Tensor<1>>>,
    log_std_head: Option<Linear>,
    #[module(skip)]
    activation: Activation,
}

impl ActorCritic {
    /// A network whose weights start as `config.init` says (see [`Init`]); `seed` alone decides the
    /// draws. Orthogonal weights have gain sqrt 2 in hidden layers, 0.01 in policy heads and 1 in the
    /// value head. Log-deviations start at, or `log_std_head`'s bias adds, `log_std_init`.
    ///
    /// # Errors
    /// [`PolicyError::InvalidConfig`] if a width is zero.
    pub fn new(config: &NetworkConfig, seed: u64, device: &Device) -> Result<Self, PolicyError> {
        config.check()?;
        let mut rng = StdRng::seed_from_u64(seed);
        let mut linear = |inputs: usize, outputs: usize, gain: f64, shift: f32| {
            let (weight, mut bias) = layer(config.init, inputs, outputs, gain, &mut rng);
            bias.iter_mut().for_each(|x| *x += shift);
            let weight = TensorData::new(weight, [inputs, outputs]);
            let bias = TensorData::new(bias, [outputs]);
            Linear {
                weight: Param::from_tensor(Tensor::from_data(weight, device)),
                bias: Some(Param::from_tensor(Tensor::from_data(bias, device))),
            }
        };
        let mut stack = |wanted: bool| {
            let mut inputs = config.observation_width;
            let hidden = if wanted { config.hidden.as_slice() } else { &[] };
            let mut layers = Vec::with_capacity(hidden.len());
            for &outputs in hidden {
                layers.push(linear(inputs, outputs, std::f64::consts::SQRT_2, 0.0));
                inputs = outputs;
            }
            layers
        };
        let trunk = stack(config.shared_trunk);
        let actor = stack(!config.shared_trunk);
        let critic = stack(!config.shared_trunk);
        let features = config.hidden.last().copied().unwrap_or(config.observation_width);
        let width = config.head_width();
        let policy_head = linear(features, width, 0.01, 0.0);
        let value_head = linear(features, 1, 1.0, 0.0);
        let start = config.log_std_init;
        let continuous = matches!(config.layout, ActionLayout::Continuous(_));
        let log_std = continuous.then_some(config.log_std);
        let learned = || TensorData::new(vec![start; width], [width]);
        Ok(Self {
            trunk,
            actor,
            critic,
            policy_head,
            value_head,
            log_std: (log_std == Some(LogStd::StateIndependent))
                .then(|| Param::from_tensor(Tensor::from_data(learned(), device))),
            log_std_head: (log_std == Some(LogStd::StateDependent))
                .then(|| linear(features, width, 0.01, start)),
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
        let value = self.value_head.forward(critic);
        let policy = self.policy_head.forward(actor.clone());
        let log_std = match (&self.log_std, &self.log_std_head) {
            (Some(log_std), _) => log_std.val().unsqueeze::<2>().expand(policy.dims()),
            (None, Some(head)) => head.forward(actor),
            (None, None) => return (policy, value),
        };
        (Tensor::cat(vec![policy, log_std], 1), value)
    }
}

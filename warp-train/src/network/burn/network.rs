//! Networks that a policy can be made of: the trait, and the actor-critic that [`crate::model`] declares.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::{Device, Tensor, TensorData};

use crate::error::PolicyError;
use crate::model::{Activation, LAYER_NORM_EPSILON, NamedTensor, NetworkConfig, transpose};

/// A burn module that maps observations to policy outputs and values.
///
/// Implement it for any `#[derive(Module)]` type of your own. Parameters are the module's float
/// parameters; state that a module changes while it runs forward (running statistics, random
/// dropout) is not carried from one call to the next.
pub trait PolicyNetwork: Module + Sync {
    /// From observations f32 `[rows, observation_width]` to policy outputs f32 `[rows, output_width]`
    /// (logits of all heads; or means, then log standard deviations, of all elements) and values f32
    /// `[rows, 1]`. Rows must not influence each other.
    fn forward(&self, observations: Tensor<2>) -> (Tensor<2>, Tensor<2>);
}

/// Layer norm: gains and shifts behind a hidden layer.
#[derive(Module, Debug)]
pub(super) struct Norm {
    weight: Param<Tensor<1>>,
    bias: Param<Tensor<1>>,
}

impl Norm {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let (variance, mean) = x.clone().var_mean_bias(1);
        let unit = (x - mean) / variance.add_scalar(LAYER_NORM_EPSILON).sqrt();
        unit * self.weight.val().unsqueeze::<2>() + self.bias.val().unsqueeze::<2>()
    }
}

/// The actor-critic of a [`NetworkConfig`]; the names of its fields are those of its parameters.
#[derive(Module, Debug)]
pub struct ActorCritic {
    trunk: Vec<Linear>,
    actor: Vec<Linear>,
    critic: Vec<Linear>,
    trunk_norm: Vec<Norm>,
    actor_norm: Vec<Norm>,
    critic_norm: Vec<Norm>,
    policy_head: Linear,
    value_head: Linear,
    log_std: Option<Param<Tensor<1>>>,
    log_std_head: Option<Linear>,
    #[module(skip)]
    activation: Activation,
}

impl ActorCritic {
    /// The network of `config` with initial weights from `seed`.
    ///
    /// # Errors
    /// [`PolicyError::InvalidConfig`] if a width is zero.
    pub fn new(config: &NetworkConfig, seed: u64, device: &Device) -> Result<Self, PolicyError> {
        Self::from_tensors(&config.initial(seed)?, config.activation, device)
    }

    /// The network whose parameters are `tensors`.
    ///
    /// # Errors
    /// [`PolicyError::MissingTensor`] if a head is missing.
    pub fn from_tensors(
        tensors: &[NamedTensor],
        activation: Activation,
        device: &Device,
    ) -> Result<Self, PolicyError> {
        let find = |name: &str| tensors.iter().find(|tensor| tensor.name == name);
        let vector = |tensor: &NamedTensor| {
            let data = TensorData::new(tensor.data.clone(), [tensor.data.len()]);
            Param::from_tensor(Tensor::from_data(data, device))
        };
        let linear = |name: &str| {
            let weight = find(&format!("{name}.weight"))?;
            let [outputs, inputs] = weight.shape[..] else { return None };
            let transposed = transpose(&weight.data, outputs, inputs);
            let transposed =
                Tensor::from_data(TensorData::new(transposed, [inputs, outputs]), device);
            let bias = find(&format!("{name}.bias")).map(vector);
            Some(Linear { weight: Param::from_tensor(transposed), bias })
        };
        let stack = |name: &str| (0..).map_while(|i| linear(&format!("{name}.{i}"))).collect();
        let norm = |name: String| {
            let (weight, bias) = (find(&format!("{name}.weight"))?, find(&format!("{name}.bias"))?);
            Some(Norm { weight: vector(weight), bias: vector(bias) })
        };
        let norms = |name: &str| (0..).map_while(|i| norm(format!("{name}.{i}"))).collect();
        let head = |name: &str| {
            linear(name).ok_or_else(|| PolicyError::MissingTensor {
                name: format!("{name}.weight"),
                shape: Vec::new(),
                n_found: tensors.len(),
            })
        };
        Ok(Self {
            trunk: stack("trunk"),
            actor: stack("actor"),
            critic: stack("critic"),
            trunk_norm: norms("trunk_norm"),
            actor_norm: norms("actor_norm"),
            critic_norm: norms("critic_norm"),
            policy_head: head("policy_head")?,
            value_head: head("value_head")?,
            log_std: find("log_std").map(vector),
            log_std_head: linear("log_std_head"),
            activation,
        })
    }

    fn hidden(&self, layers: &[Linear], norms: &[Norm], input: Tensor<2>) -> Tensor<2> {
        layers.iter().enumerate().fold(input, |x, (i, layer)| {
            let sums = layer.forward(x);
            let sums = if let Some(norm) = norms.get(i) { norm.forward(sums) } else { sums };
            self.activation.apply(sums)
        })
    }
}

impl PolicyNetwork for ActorCritic {
    fn forward(&self, observations: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        let features = self.hidden(&self.trunk, &self.trunk_norm, observations);
        let actor = self.hidden(&self.actor, &self.actor_norm, features.clone());
        let critic = self.hidden(&self.critic, &self.critic_norm, features);
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

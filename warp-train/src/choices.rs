//! The choices that a policy's configuration has: algorithm, distribution, initialisation, activation.

use crate::burn::Activation;
use warp_core::ConfigValue;
use warp_core::toml::Value;

warp_core::choices! {
    /// How a policy learns.
    pub enum Algorithm {
        /// Proximal policy optimisation.
        Ppo = "ppo",
        /// Advantage actor-critic.
        A2c = "a2c",
    }
}

impl Algorithm {
    /// Its name in configurations and run folders.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Ppo => "ppo",
            Algorithm::A2c => "a2c",
        }
    }
}

warp_core::choices! {
    /// How a continuous action is drawn and kept within its bounds.
    pub enum ActionDistribution {
        /// A normal number in the action's own units; the environment gets it clipped.
        Gaussian = "gaussian",
        /// tanh of a normal number, stretched to the bounds.
        Squashed = "squashed",
    }
}

warp_core::choices! {
    /// What the standard deviation of a continuous action depends on.
    pub enum LogStd {
        /// On nothing: one learned number per element, the parameter `log_std`.
        StateIndependent = "state_independent",
        /// On the observation: a linear layer of its own, `log_std_head`.
        StateDependent = "state_dependent",
    }
}

warp_core::choices! {
    /// How weights start, in the terms of `torch.nn.init`.
    pub enum Init {
        /// `orthogonal_`; biases 0.
        Orthogonal = "orthogonal",
        /// `xavier_uniform_` with gain 1; biases 0.
        Xavier = "xavier",
        /// `kaiming_uniform_` with a = sqrt 5, and biases as `torch.nn.Linear` draws them.
        Kaiming = "kaiming",
    }
}

warp_core::choices! {
    /// How exact a GPU's products of matrices are.
    pub enum Precision {
        /// Half-precision operands and f32 sums, on tensor cores, where the network suits them.
        Half = "fp16",
        /// f32 throughout.
        Single = "fp32",
    }
}

impl ConfigValue for Activation {
    fn to_value(&self) -> Option<Value> {
        Some(if *self == Activation::Tanh { "tanh" } else { "relu" }.into())
    }
    fn from_value(value: &Value) -> Result<Self, String> {
        match value.as_str() {
            Some("tanh") => Ok(Activation::Tanh),
            Some("relu") => Ok(Activation::Relu),
            _ => Err("one of \"tanh\", \"relu\"".into()),
        }
    }
}

//! A network of your own, with the whole `warp` command: any burn module under a name.
//!
//! `cargo run --release -p warp-examples --features burn --example 07_your_own_network -- train cartpole
//! --device cpu --set network=residual --set hidden=[64,64]`
//!
//! Each hidden layer adds to what goes through it, in place of replacing it.

use std::process::ExitCode;
use warp_train::burn::burn::module::{Module, Param};
use warp_train::burn::burn::nn::{Linear, LinearConfig};
use warp_train::burn::burn::tensor::{Device, Tensor, activation::relu};
use warp_train::burn::{PolicyNetwork, burn, own_network};
use warp_train::model::NetworkConfig;
use warp_train::own_network::{OwnNetwork, WithNetwork};

/// Policy and value on one trunk of residual layers.
#[derive(Module, Debug)]
pub struct Residual {
    first: Linear,
    layers: Vec<Linear>,
    policy_head: Linear,
    value_head: Linear,
    log_std: Option<Param<Tensor<1>>>,
}

impl Residual {
    /// As wide as the first of the key `hidden`, with a layer for each.
    fn new(config: &NetworkConfig, device: &Device) -> Self {
        let width = config.hidden.first().copied().unwrap_or(64);
        let layer = |from: usize, to: usize| LinearConfig::new(from, to).init(device);
        // Means alone come from the network of a box; deviations are parameters.
        let is_box = config.layout.head_sizes().is_empty();
        let outputs = config.layout.output_width();
        let outputs = if is_box { outputs / 2 } else { outputs };
        let log_std = || Param::from_tensor(Tensor::full([outputs], config.log_std_init, device));
        Self {
            first: layer(config.observation_width, width),
            layers: config.hidden.iter().map(|_| layer(width, width)).collect(),
            policy_head: layer(width, outputs),
            value_head: layer(width, 1),
            log_std: is_box.then(log_std),
        }
    }
}

impl PolicyNetwork for Residual {
    fn forward(&self, observations: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        let begin = relu(self.first.forward(observations));
        let features =
            self.layers.iter().fold(begin, |x, layer| x.clone() + relu(layer.forward(x)));
        let value = self.value_head.forward(features.clone());
        let policy = self.policy_head.forward(features);
        let policy = match &self.log_std {
            Some(log_std) => {
                let log_std = log_std.val().unsqueeze::<2>().expand(policy.dims());
                Tensor::cat(vec![policy, log_std], 1)
            }
            None => policy,
        };
        (policy, value)
    }
}

/// What `network = "residual"` means.
#[must_use]
pub fn residual() -> OwnNetwork {
    own_network("residual", Residual::new)
}

fn main() -> ExitCode {
    warp_examples::run(warp_envs::registry().with_network(residual()))
}

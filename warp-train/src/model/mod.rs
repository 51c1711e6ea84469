//! What a network is, whatever runs it: its declared shape, its parameters by name, and how they start.
//!
//! Nothing here computes a network. `native/` and `burn/` do, both from [`NetworkConfig::initial`]'s
//! weights, so that a run begins alike on every backend and device.

mod activation;
mod init;
mod network;
mod perceptron;
mod tensors;

pub use activation::Activation;
pub use init::Init;
#[cfg(feature = "burn")]
pub(crate) use network::check_width;
pub use network::{LogStd, NetworkConfig};
pub use perceptron::{LayerShape, Perceptron};
#[cfg(feature = "burn")]
pub(crate) use tensors::transpose;
pub use tensors::{NamedBytes, NamedTensor, PolicyTensors};

//! Networks, whatever runs them: their declared shapes, their parameters by name, and how these start.
//!
//! Nothing here computes a network. `network/native/` and `network/burn/` do, both from [`NetworkConfig::initial`]'s
//! weights, so that a run begins alike on every backend and device.

mod activation;
mod half;
mod init;
mod moments;
mod network;
mod perceptron;
mod rows;
mod state;
mod tensors;

pub use activation::Activation;
pub(crate) use half::Half;
pub use init::Init;
pub(crate) use moments::from_moments;
#[cfg(feature = "burn")]
pub(crate) use network::check_width;
pub use network::{LogStd, NetworkConfig};
pub use perceptron::{LayerShape, Perceptron};
pub use state::{LearnerState, Statistic};
#[cfg(any(feature = "burn", feature = "cuda"))]
pub(crate) use tensors::transpose;
pub use tensors::{NamedArray, NamedBytes, NamedTensor, PolicyTensors};

/// What layer norm adds to a variance before its root is taken; torch's default.
pub const LAYER_NORM_EPSILON: f32 = 1e-5;

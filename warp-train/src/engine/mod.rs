//! Where columns, parameters and kernels live: an [`Engine`](crate::algorithm::Engine) per device.

pub(crate) mod cpu;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;
mod lockstep;
pub(crate) mod off_policy;
mod on_policy;
mod rollout;
mod state;

pub use lockstep::LockstepLearner;
pub(crate) use off_policy::{REPLAY_HEAD, UPDATES};
pub use rollout::RolloutEngine;
pub use state::EngineState;

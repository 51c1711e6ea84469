//! Where columns, parameters and kernels live: an [`Engine`](crate::algorithm::Engine) per device.

#[cfg(feature = "cuda")]
pub(crate) mod collectives;
pub(crate) mod cpu;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;
pub(crate) mod episodes;
mod lockstep;
mod member;
pub(crate) mod off_policy;
mod on_policy;
pub(crate) mod policies;
mod progress;
pub mod rollout;
mod state;

pub use lockstep::LockstepLearner;
pub(crate) use off_policy::{REPLAY_HEAD, UPDATES};
pub use progress::{Iterated, PhaseSeconds, Progress, StepRates};
pub use rollout::RolloutEngine;
pub use state::EngineState;

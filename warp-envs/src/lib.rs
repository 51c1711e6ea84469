#![doc = include_str!("../README.md")]

pub mod cartpole;

pub use warp_func::{CpuVecEnv, EpisodeTotals, Error, Registry, Result, Start, VecEnv, VecOptions};

/// All environments of this crate, by name.
#[must_use]
pub fn registry() -> Registry {
    Registry::new().with::<cartpole::CartPole>()
}

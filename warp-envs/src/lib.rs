#![doc = include_str!("../README.md")]

pub mod cartpole;
pub mod tag_continuous;
pub mod tag_gridworld;

pub use warp_func::{CpuVecEnv, EpisodeTotals, Error, Registry, Result, Start, VecEnv, VecOptions};

/// All environments of this crate, by name.
#[must_use]
pub fn registry() -> Registry {
    Registry::new()
        .with::<cartpole::CartPole>()
        .with::<tag_continuous::TagContinuous>()
        .with::<tag_gridworld::TagGridworld>()
}

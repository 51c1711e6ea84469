//! The worlds.
#![doc = include_str!("../README.md")]

pub mod acrobot;
pub mod cartpole;
pub mod continuous_mountain_car;
pub mod mountain_car;
pub mod pendulum;
mod preset;
pub mod tag_continuous;
pub mod tag_gridworld;

pub use preset::Preset;
pub use warp_func::{CpuVecEnv, EpisodeTotals, Error, Registry, Result, Start, VecEnv, VecOptions};

/// All environments of this crate, by name.
#[must_use]
pub fn registry() -> Registry {
    Registry::new()
        .with::<acrobot::Acrobot>()
        .with::<cartpole::CartPole>()
        .with::<continuous_mountain_car::ContinuousMountainCar>()
        .with::<mountain_car::MountainCar>()
        .with::<pendulum::Pendulum>()
        .with::<tag_continuous::TagContinuous>()
        .with::<tag_gridworld::TagGridworld>()
}

//! The worlds.
#![doc = include_str!("../README.md")]

pub mod acrobot;
pub mod cartpole;
pub mod catalysis;
pub mod continuous_mountain_car;
pub mod covid19;
pub mod mountain_car;
pub mod numpy;
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
        .with::<catalysis::Catalysis>()
        .with::<catalysis::CatalysisTwoAtoms>()
        .with::<continuous_mountain_car::ContinuousMountainCar>()
        .with::<covid19::Covid19>()
        .with::<mountain_car::MountainCar>()
        .with::<pendulum::Pendulum>()
        .with::<tag_continuous::TagContinuous>()
        .with::<tag_gridworld::TagGridworld>()
}

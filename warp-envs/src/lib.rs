//! The environments.
#![doc = include_str!("../README.md")]

pub mod acrobot;
pub mod blackjack;
pub mod cartpole;
pub mod catalysis;
pub mod catch;
pub mod cliff_walking;
pub mod continuous_mountain_car;
pub mod covid19;
pub mod frozen_lake;
pub mod mountain_car;
pub mod nchain;
pub mod numpy;
pub mod pendulum;
mod preset;
pub mod rice_n;
mod slippery;
pub mod tag_continuous;
pub mod tag_gridworld;
pub mod taxi;

pub use preset::Preset;
pub use warp_func::{CpuVecEnv, EpisodeTotals, Error, Registry, Result, Start, VecEnv, VecOptions};

/// All environments of this crate, by name.
#[must_use]
pub fn registry() -> Registry {
    Registry::new()
        .with::<acrobot::Acrobot>()
        .with::<blackjack::Blackjack>()
        .with::<cartpole::CartPole>()
        .with::<catalysis::Catalysis>()
        .with::<catalysis::CatalysisTwoAtoms>()
        .with::<catch::Catch>()
        .with::<cliff_walking::CliffWalking>()
        .with::<continuous_mountain_car::ContinuousMountainCar>()
        .with::<covid19::Covid19>()
        .with::<frozen_lake::FrozenLake>()
        .with::<mountain_car::MountainCar>()
        .with::<nchain::NChain>()
        .with::<pendulum::Pendulum>()
        .with::<rice_n::RiceN>()
        .with::<tag_continuous::TagContinuous>()
        .with::<tag_gridworld::TagGridworld>()
        .with::<taxi::Taxi>()
}

//! Every environment against its rules.
//!
//! Beside the crate, which would be compiled a second time for tests within it.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod acrobot;
mod blackjack;
mod cartpole;
mod catalysis;
mod catch;
mod cliff_walking;
mod continuous_mountain_car;
mod contracts;
mod frozen_lake;
mod mountain_car;
mod nchain;
mod pendulum;
mod tag_gridworld;
mod taxi;

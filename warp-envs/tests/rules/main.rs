//! Environments against their rules, as users reach them.
//!
//! They lie beside the crate: tests within it that use its registry have all bodies compiled a second time.
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

//! How policies learn: PPO and A2C over vectorised environments, with exact checkpoints

pub mod burn;

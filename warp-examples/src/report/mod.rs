//! What several runs say of the settings that they are seeds of: `warp report`.
//!
//! `scores` reads one number of each run, `statistics` sums them up with intervals from a bootstrap,
//! `comparison` is what there is to say of all of them, and `tables` and `profiles` show it. The figures are
//! those of Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", 2021.

pub mod comparison;
pub mod profiles;
pub mod scores;
pub mod statistics;
pub mod tables;

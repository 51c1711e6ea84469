//! Whole updates against slow ones in f64, written from the papers.
//!
//! A reference knows nothing of passes, tiles or derivatives: it has plain perceptrons, the loss as a
//! function of their parameters, central differences, and Adam and Polyak's averages by their formulas. What
//! is drawn, the batch and the noise, is given to it.

mod counts;
mod derivatives;
mod deterministic;
mod dqn;
mod fixture;
mod reference;
mod sac;
mod sac_discrete;
mod shards;

//! How actions are sampled.
#![doc = include_str!("../README.md")]

mod bounding;
mod categorical;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod density;
pub mod error;
mod gaussian;
mod head;
pub mod kernel_text;
mod layout;
mod ou;
mod rows;

pub use bounding::Bounding;
pub use categorical::{CategoricalLayout, Samples};
pub use error::{Error, Result};
pub use gaussian::{GaussianLayout, GaussianSamples};
pub use layout::{ActionLayout, ActionSamples, ActionsMut};
pub use ou::OrnsteinUhlenbeck;
pub use rows::{Mode, Rows};

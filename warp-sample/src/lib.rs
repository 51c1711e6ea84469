//! How actions are drawn.
#![doc = include_str!("../README.md")]

mod categorical;
pub mod density;
pub mod error;
mod gaussian;
mod head;
mod layout;
mod rows;

pub use categorical::{CategoricalLayout, Mode, Samples};
pub use error::{Error, Result};
pub use gaussian::{Bounding, GaussianLayout, GaussianSamples};
pub use layout::{ActionLayout, ActionsMut};
pub use rows::Rows;

//! How actions are drawn.
#![doc = include_str!("../README.md")]

mod categorical;
pub mod error;
mod head;
mod rows;

pub use categorical::{CategoricalLayout, Mode, Samples};
pub use error::{Error, Result};
pub use rows::Rows;

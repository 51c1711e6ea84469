//! Where numbers live.
#![doc = include_str!("../README.md")]

pub mod array;
mod bytes;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod error;
pub mod file;
pub mod log;
pub mod memory;
pub mod store;

pub use array::{Array, Element};
pub use error::{Error, Result};
pub use log::Log;
pub use store::{ArrayId, Plan, Store, StoreMut};
pub use warp_core::DType;

//! How parameters follow a gradient, on the host: clipping, then Adam or RMSprop.
//!
//! burn has an Adam, but it keeps its moments under random parameter ids and clips each tensor by itself;
//! this one is saved by name and clips all parameters of a policy together, on every backend.

mod adam;
mod clipping;
mod moved;
mod rmsprop;
mod step;

pub(crate) use clipping::{limit, squared_norm};
pub(crate) use moved::Moved;
pub use step::{Optimiser, OptimiserConfig, UpdateRule};

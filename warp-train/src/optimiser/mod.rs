//! How parameters follow a gradient, on the host: clipping, then Adam or RMSprop.
//!
//! burn has an Adam, but it keeps its moments under random parameter ids and clips each tensor by itself;
//! this one is saved by name and clips all parameters of a policy together, on every backend.

mod adam;
mod clipping;
mod descent;
mod rmsprop;

pub(crate) use clipping::{limit, squares};
pub(crate) use descent::Moved;
pub use descent::{Descent, DescentConfig, UpdateRule};

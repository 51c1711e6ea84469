//! How an environment is drawn: from its arrays to shapes, not to pixels.
//!
//! A [`Drawing`] is a plain function. It reads the first replica through a [`View`] and returns a
//! [`Scene`]; `Registry::with_drawing` registers it for its environment. Rasterising scenes is not the
//! concern of this crate.

mod scene;
mod view;

pub use scene::{Colour, Point, Scene, Shape, colours, placed};
pub use view::View;

/// Draws an environment; `None` where its arrays are not those that the drawing knows.
pub type Drawing = fn(&View<'_>) -> Option<Scene>;

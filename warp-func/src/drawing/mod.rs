//! How an environment is drawn: from what is in the arrays to shapes, without a pixel.
//!
//! A [`Drawing`] is a plain function. It looks at the first replica through a [`View`] and answers with a
//! [`Scene`]; `Registry::with_drawing` puts it beside its environment. Who makes pixels of scenes is no
//! concern of this crate.

mod scene;
mod view;

pub use scene::{Colour, Point, Scene, Shape, colours, placed};
pub use view::View;

/// Draws an environment; `None` where its arrays are not those that the drawing knows.
pub type Drawing = fn(&View<'_>) -> Option<Scene>;

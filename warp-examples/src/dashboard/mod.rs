//! What a run looks like while it goes: a model that lines of metrics change, and a screen that shows it.
//!
//! `model` is what there is to be seen of one run, whether it is trained by this process or followed in its folder
//! (`follow`); `view` draws it (feature `dashboard`), `screen` is the terminal meanwhile.

pub mod follow;
pub mod model;
#[cfg(feature = "dashboard")]
pub mod screen;
#[cfg(feature = "dashboard")]
pub mod view;

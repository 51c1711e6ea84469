//! The dashboard of a run while it goes: a model that lines of metrics change, and a screen that shows it.
//!
//! `model` is what there is to be seen of one run, whether it is trained by this process or followed in its folder
//! (`follow`); `view` draws it (feature `dashboard`) with what is known of GPUs (`gpus`), `screen` is the terminal meanwhile.

pub mod follow;
#[cfg(feature = "dashboard")]
pub mod gpus;
pub mod model;
#[cfg(feature = "dashboard")]
pub mod screen;
#[cfg(feature = "dashboard")]
pub mod view;

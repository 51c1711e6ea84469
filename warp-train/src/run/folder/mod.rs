//! A run's folder, what is written into it and read from it: configurations, records and checkpoints, and which of them
//! are set aside when it goes on from an earlier step.

pub mod array_files;
mod background_writer;
mod best;
mod configurations;
pub mod journal;
pub(crate) mod new_folder;
mod open_line;
mod place;
mod recording;
mod run_folder;
mod set_aside;

pub use background_writer::BackgroundWriter;
pub use place::{Place, Which};
pub use run_folder::{Locked, Run, Summary};

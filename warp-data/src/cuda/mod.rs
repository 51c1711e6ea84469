//! The same arrays on an NVIDIA GPU, through the driver that is found at run time.
//!
//! [`Device`] is the GPU with its stream, [`DeviceArray`] one array, [`DeviceStore`] all arrays of a
//! [`Plan`](crate::Plan), [`DeviceLog`] some of them over time, [`Graph`] launches that are replayed. Numbers cross between host and device in `push` and `pull` alone.

mod array;
mod device;
mod graph;
pub mod library;
mod log;
mod store;

/// The CUDA bindings, re-exported so that versions agree.
pub use cudarc;

pub use array::DeviceArray;
pub use device::{Device, DeviceInfo, Held, Turn};
pub use graph::Graph;
pub use log::DeviceLog;
pub use store::DeviceStore;

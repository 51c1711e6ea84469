//! The same arrays on an NVIDIA GPU, through the driver that is found at run time.
//!
//! [`Device`] is the GPU with its stream, [`DeviceArray`] one array, [`DeviceStore`] all arrays of a
//! [`Plan`](crate::Plan), [`DeviceLog`] some of them over time, [`Graph`] launches that are replayed, [`Window`]
//! memory that several GPUs can access, [`Mark`] a position in the order of the stream, [`HostCopy`] arrays on
//! their way to the host. Numbers are copied between host and device only by `push`, `pull`, [`Landing::copy`] and
//! [`Staging::push`].

mod array;
mod device;
mod graph;
mod host_copy;
mod host_word;
mod kernel_trace;
pub mod library;
mod log;
mod nccl;
mod nccl_library;
mod order;
mod peers;
mod staging;
mod store;

/// The CUDA bindings, re-exported so that versions agree.
pub use cudarc;

pub use array::DeviceArray;
pub use device::{Device, DeviceInfo, Held, Turn};
pub use graph::{Graph, begin_early, side_by_side};
pub use host_copy::{HostCopy, Landing};
pub use host_word::HostWord;
pub use kernel_trace::{Kernel, KernelTrace};
pub use log::DeviceLog;
pub use nccl::{Communicator, exit_if_aborted, nccl_name};
pub use nccl_library::{WARP_NCCL, nccl_version};
pub use order::Mark;
pub use peers::{Offer, Window};
pub use staging::Staging;
pub use store::DeviceStore;

//! Stored arrays on an NVIDIA GPU, through the driver that is found at run time.
//!
//! [`Device`] is the GPU with its stream, [`DeviceArray`] one array, [`DeviceStore`] all arrays of a
//! [`Plan`](crate::Plan), [`DeviceLog`] some of them over time, [`Graph`] launches that are replayed, [`Window`]
//! memory that several GPUs can access, [`Event`] a position in the order of the stream, [`HostCopy`] arrays on
//! their way to the host. Numbers are copied between host and device only by `push`, `pull`, [`PinnedBuffers::copy`] and
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
pub use device::{Allocation, Device, DeviceInfo, StreamLock};
pub use graph::{Graph, fork_join, programmatic_launch};
pub use host_copy::{HostCopy, PinnedBuffers};
pub use host_word::HostWord;
pub use kernel_trace::{Kernel, KernelTrace};
pub use log::DeviceLog;
pub use nccl::{Communicator, Transfer, exit_if_aborted, nccl_unique_id};
pub use nccl_library::{WARP_NCCL, nccl_version};
pub use order::Event;
pub use peers::{PeerExport, Window};
pub use staging::Staging;
pub use store::DeviceStore;

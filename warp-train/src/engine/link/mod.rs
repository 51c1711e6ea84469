//! Communication between GPUs that learn together, on the GPUs themselves.
//!
//! `linked` is memory into which other GPUs write while kernels run, `exchange.cuh` how kernels tell each other sums
//! there, and `joined` the same through NCCL. `gathering` gathers arrays of all ranks between two kernels, in the way
//! that suits them; large gradients are summed by NCCL instead.

mod gathering;
mod joined;
mod linked;

pub(crate) use gathering::{Gathering, PAIRS, Room, copies, text};
pub(crate) use joined::{Gathered, Joined, Joining};
pub(crate) use linked::{EXCHANGE, LinkArgs, Linked, is_within_reach};

//! Communication between GPUs that learn together, on the GPUs themselves.
//!
//! `peer_memory` is memory into which other GPUs write while kernels run, `exchange.cuh` how kernels tell each other sums
//! there, and `nccl` the same through NCCL. `all_gather` gathers arrays of all ranks between two kernels, in the way
//! that suits them; large gradients are summed by NCCL instead.

mod all_gather;
mod gpu_wait;
mod nccl;
mod peer_memory;

pub(crate) use all_gather::{AllGather, PAIRS, Room, copies, text};
pub(crate) use nccl::{Gathered, NcclRank, RankConnector};
pub(crate) use peer_memory::{EXCHANGE, LinkArgs, PeerInboxes, is_within_reach};

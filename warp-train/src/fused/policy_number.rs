//! Which policy of a run kernels are for.

/// A policy and its agents, by their numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct PolicyNumber {
    pub(super) index: usize,
    /// The number of its first agent, which draws depend on.
    pub(super) first_agent: u32,
}

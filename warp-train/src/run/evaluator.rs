//! The means by which a run is evaluated on its way.

use warp_func::Registry;

/// Where a run is evaluated on its way: environments on the host, of their own.
#[derive(Debug, Clone, Copy)]
pub struct Evaluator<'a> {
    /// Environments by name, on the host.
    pub registry: &'a Registry,
    /// Threads that step them; results do not depend on it.
    pub threads: usize,
}

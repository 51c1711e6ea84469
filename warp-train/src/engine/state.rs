//! The state that an engine needs to continue, the same on every device.

use crate::model::{NamedBytes, NamedTensor};

/// Weights, moments, memory and counters of one policy.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EngineState {
    /// Weights and biases, `<model>.<layer>.weight` and `.bias`, targets included.
    pub weights: Vec<NamedTensor>,
    /// Adam's moments, `.exp_avg` and `.exp_avg_sq` behind the weights' names.
    pub moments: Vec<NamedTensor>,
    /// Steps made by each optimiser, by its name.
    pub steps: Vec<(String, u64)>,
    /// Kept columns by name, and the replay memory's numbers, `replay.<name>`.
    pub numbers: Vec<NamedTensor>,
    /// The replay memory's flags.
    pub flags: Vec<NamedBytes>,
    /// Updates made.
    pub updates: u64,
    /// Where the replay memory continues.
    pub head: u64,
}

impl EngineState {
    /// What rank `rank` of `size` has of it: the rows of its replicas.
    pub(crate) fn of_rank(self, rank: usize, size: usize) -> Self {
        let numbers = self.numbers.iter().map(|array| array.part(rank, size)).collect();
        let flags = self.flags.iter().map(|array| array.part(rank, size)).collect();
        Self { numbers, flags, ..self }
    }
}

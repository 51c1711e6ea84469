//! Priorities of a replay memory on the device.

use super::ring::of_shards;
use crate::algorithm::{Plan, Priority};
use crate::engine::EngineState;
use crate::error::{Error, Result};
use crate::memory::{LARGEST, PRIORITY, Priorities};
use crate::model::NamedTensor;
use std::fmt::Write;
use warp_data::DType::{F32, U32};
use warp_data::cuda::{Device, DeviceArray};

/// The arrays of priorities; where all transitions are equally likely, of one element each.
#[derive(Debug)]
pub(super) struct PriorityArrays {
    /// Transitions of a shard, 0 where all are equally likely.
    cells: usize,
    /// The tree of sums of each shard, f32 `[shards, 2 leaves]`.
    pub(super) nodes: DeviceArray,
    /// What a new transition gets, f32 `[shards]`.
    pub(super) largest: DeviceArray,
    /// Places of the samples of the last batch, u32 `[batch]`.
    pub(super) sampled: DeviceArray,
    /// By transition: while priorities change, the last row of the batch that has it, plus 1; u32.
    pub(super) owner: DeviceArray,
}

/// Leaves of the tree of `cells` transitions.
fn leaves(cells: usize) -> usize {
    cells.next_power_of_two()
}

/// What the text knows of the plan's priorities, if it has any, of `cells` transitions of a shard.
pub(super) fn constants(plan: &Plan, cells: usize) -> String {
    let Some(Priority { alpha, beta }) = plan.replay.priority else {
        return "#define PRIORITISED 0\n".into();
    };
    let mut text = String::from("#define PRIORITISED 1\n");
    let _ = writeln!(
        text,
        "#define LEAVES {}u\n#define COLUMN_ERROR {}\n#define CELL_ALPHA {}\n#define CELL_BETA {}",
        leaves(cells),
        plan.replay.error.0,
        alpha.0,
        beta.0
    );
    text
}

impl PriorityArrays {
    /// For the memory of `plan`, of `cells` transitions in so many shards.
    pub(super) fn new(device: &Device, plan: &Plan, cells: usize, shards: usize) -> Result<Self> {
        let cells = if plan.replay.priority.is_some() { cells / shards } else { 0 };
        let make = |name: &str, dtype, n: usize| -> Result<DeviceArray> {
            let n = if cells > 0 { n } else { 1 };
            Ok(DeviceArray::zeros(device, name, dtype, &[n])?)
        };
        let arrays = Self {
            cells,
            nodes: make("replay.priority", F32, shards * 2 * leaves(cells))?,
            largest: make("replay.largest_priority", F32, shards)?,
            sampled: make("sampled", U32, plan.batch_size)?,
            owner: make("owner", U32, shards * cells)?,
        };
        arrays.clear()?;
        Ok(arrays)
    }

    /// Forgets all transitions.
    fn clear(&self) -> Result<()> {
        self.push(&vec![Priorities::new(self.cells); self.largest.len()])
    }

    /// Takes over the priorities of each shard.
    fn push(&self, shards: &[Priorities]) -> Result<()> {
        if self.cells > 0 {
            let nodes: Vec<f32> = shards.iter().flat_map(Priorities::nodes).copied().collect();
            self.nodes.push(&nodes)?;
        }
        let largest: Vec<f32> = shards.iter().map(Priorities::largest).collect();
        Ok(self.largest.push(&largest)?)
    }

    /// For a checkpoint, of a memory of `[size, n_rows]` transitions; nothing where all are equally likely.
    pub(super) fn arrays(&self, [size, n_rows]: [usize; 2]) -> Result<Vec<NamedTensor>> {
        if self.cells == 0 {
            return Ok(Vec::new());
        }
        let nodes = self.nodes.pull::<f32>()?;
        let (largest, leaves) = (self.largest.pull::<f32>()?, leaves(self.cells));
        let n_rows = n_rows / largest.len();
        let trees = nodes.chunks(2 * leaves).map(|tree| tree[leaves..][..size * n_rows].to_vec());
        let tensor = |name: &str, shape, data| NamedTensor { name: name.into(), shape, data };
        Ok(vec![
            of_shards(PRIORITY, [size, n_rows, 1], trees),
            // The same of all shards.
            tensor(LARGEST, vec![1], largest[..1].to_vec()),
        ])
    }

    /// Takes over those of a checkpoint, of `n` transitions; of an empty memory there are none.
    ///
    /// # Errors
    /// An array that is missing or of another size.
    pub(super) fn load(&self, state: &EngineState, n: usize) -> Result<()> {
        if self.cells == 0 || n == 0 {
            return self.clear();
        }
        let find = |name: &str, n: usize| {
            let found = state.numbers.iter().find(|tensor| tensor.name == name);
            found.filter(|tensor| tensor.data.len() == n).ok_or_else(|| {
                Error::Invalid(format!(
                    "the array \"{name}\" of {n} elements is missing or of another size"
                ))
            })
        };
        let (largest, all) = (find(LARGEST, 1)?.data[0], find(PRIORITY, n)?);
        let shards = self.largest.len();
        let shard = |index: usize| {
            let mut priorities = Priorities::new(self.cells);
            priorities.load(largest, &all.part(index, shards).data);
            priorities
        };
        self.push(&(0..shards).map(shard).collect::<Vec<_>>())
    }
}

//! What an engine keeps on the device, as one struct of pointers that every kernel gets.

use super::context::Agents;
use super::layout::Layout;
use super::priorities::PriorityArrays;
use super::ranks::{Division, Exchanged, RankArrays};
use super::ring::{RingArrays, ring_steps};
use crate::algorithm::{Plan, RowsOf};
use crate::engine::cpu::Place;
use crate::engine::rollout::GroupRows;
use crate::error::{Error, Result};
use crate::optimiser::{Optimiser, OptimiserConfig};
use std::fmt::Write;
use warp_core::DType::{F32, U8, U32};
use warp_data::cuda::{Device, DeviceArray};
use warp_func::VecEnv;
use warp_func::cuda::{Arg, CudaVecEnv, Pointer};

/// Numbers of `counters`: `COUNTER_*` in the text.
pub(super) const COUNTERS: [&str; 7] =
    ["SEED_LOW", "SEED_HIGH", "FIRST_REPLICA", "UPDATES", "HEAD", "SIZE", "FAULT"];
pub(super) const UPDATES: usize = 3;
pub(super) const HEAD: usize = 4;
pub(super) const SIZE: usize = 5;
pub(super) const FAULT: usize = 6;
/// In that counter the number, from 1, of an optimiser whose gradient was not finite; or this bit and a row whose mask
/// forbade everything.
pub(super) const NOTHING_ALLOWED: u32 = 1 << 31;
/// Numbers of `DescentStep`.
const STEP_WORDS: usize = 7;
/// Doubles of an optimiser: both decays, epsilon, and the largest norm.
const CONSTANTS: usize = 4;

/// The environments' arrays that one policy's groups see and fill; the order is that of the struct.
#[derive(Debug, Default)]
pub(super) struct World {
    groups: Vec<[Option<DeviceArray>; 8]>,
    ends: [Option<DeviceArray>; 3],
}

/// The fields of `World`, by group.
const OF_GROUPS: [(&str, &str); 8] = [
    ("const float*", "obs"),
    ("const unsigned char*", "action_mask"),
    ("void*", "action"),
    ("const float*", "reward"),
    ("const unsigned char*", "alive"),
    ("const unsigned char*", "agent_terminated"),
    ("const float*", "final_obs"),
    ("const unsigned char*", "final_action_mask"),
];
const OF_WORLD: [(&str, &str); 3] = [
    ("const unsigned char*", "terminated"),
    ("const unsigned char*", "truncated"),
    ("const unsigned int*", "run_step"),
];

impl World {
    /// Those of `agents`.
    pub(super) fn new(envs: &CudaVecEnv, agents: &Agents) -> Self {
        let (ids, arrays) = (envs.ids(), envs.arrays());
        let array = |id| Some(arrays.array(id).clone());
        let group = |rows: &GroupRows| {
            let g = &rows.group();
            [
                array(ids.obs[*g]),
                ids.action_mask[*g].and_then(array),
                array(ids.action[*g]),
                array(ids.reward[*g]),
                ids.alive[*g].and_then(array),
                ids.agent_terminated[*g].and_then(array),
                array(ids.final_obs[*g]),
                ids.final_action_mask[*g].and_then(array),
            ]
        };
        let ends =
            [array(ids.terminated), array(ids.truncated), Some(envs.run_step_array().clone())];
        Self { groups: agents.groups.iter().map(group).collect(), ends }
    }
}

/// Everything of one policy on the device.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) columns: Vec<DeviceArray>,
    /// Parameters of all models and what is as long as they.
    pub(super) parameters: DeviceArray,
    pub(super) exp_avg: DeviceArray,
    pub(super) exp_avg_sq: DeviceArray,
    /// `[shares, n_parameters]`.
    pub(super) gradient: DeviceArray,
    scratch: DeviceArray,
    /// Weights in half precision, two to a number.
    packed: DeviceArray,
    pub(super) cells: DeviceArray,
    /// [`COUNTERS`], then steps made by each optimiser, and this rank's number.
    pub(super) counters: DeviceArray,
    steps: DeviceArray,
    constants: DeviceArray,
    squares: DeviceArray,
    barrier: DeviceArray,
    alive_now: DeviceArray,
    pub(super) ring: RingArrays,
    pub(super) priorities: PriorityArrays,
    /// Where ranks or shards exchange something.
    pub(super) ranks: Option<RankArrays>,
    division: Division,
    world: World,
}

impl Memory {
    pub(super) fn new(
        device: &Device,
        (plan, layout, division): (&Plan, &Layout, Division),
        place: &Place,
        world: World,
    ) -> Result<Self> {
        let make = |name: &str, dtype, n: usize| -> Result<DeviceArray> {
            Ok(DeviceArray::zeros(device, name, dtype, &[n])?)
        };
        let n_rows = |rows: RowsOf| match rows {
            RowsOf::Acting => place.n_rows,
            RowsOf::Batch => plan.batch_size,
            RowsOf::Shared => 1,
        };
        let column = |c: &crate::algorithm::Column| -> Result<DeviceArray> {
            let (n, name) = (n_rows(c.rows), format!("column {}", c.name));
            Ok(DeviceArray::from_slice(device, &name, &[n, c.width], &c.start.repeat(n))?)
        };
        let n = layout.n_parameters;
        let optimisers = plan.optimisers.len();
        let cells = ring_steps(plan, place.n_rows) * place.n_rows;
        let priorities = PriorityArrays::new(device, plan, cells, division.shards)?;
        let ranks = || RankArrays::new(device, (plan, layout), division, &priorities);
        let memory = Self {
            columns: plan.columns.iter().map(column).collect::<Result<_>>()?,
            parameters: make("parameters", F32, n)?,
            exp_avg: make("exp_avg", F32, n)?,
            exp_avg_sq: make("exp_avg_sq", F32, n)?,
            gradient: make("gradient", F32, layout.shares * n)?,
            scratch: make("scratch", F32, layout.scratch)?,
            packed: make("packed", F32, if layout.half { n } else { 1 })?,
            cells: make("cells", F32, plan.cells.len())?,
            counters: make("counters", U32, COUNTERS.len() + optimisers + 1)?,
            steps: make("steps", F32, STEP_WORDS * optimisers)?,
            constants: make("constants", U32, 2 * CONSTANTS * optimisers)?,
            squares: make("squares", U32, 2 * layout.n_tiles)?,
            barrier: make("barrier", U32, 1)?,
            alive_now: make("alive_now", U8, place.n_rows)?,
            ring: RingArrays::new(device, plan, place.n_rows, division.shards)?,
            ranks: division.exchanges(plan).then(ranks).transpose()?,
            priorities,
            division,
            world,
        };
        memory.push_constants(plan)?;
        Ok(memory)
    }

    fn push_constants(&self, plan: &Plan) -> Result<()> {
        let of = |optimiser: &crate::algorithm::Optimiser| {
            let OptimiserConfig { beta_1, beta_2, epsilon, .. } = optimiser.config;
            [beta_1, beta_2, epsilon, optimiser.max_grad_norm]
        };
        for optimiser in &plan.optimisers {
            // Refuses what is out of range.
            Optimiser::new(optimiser.config, 0).map_err(|e| Error::Invalid(e.to_string()))?;
        }
        let words = plan.optimisers.iter().flat_map(of).flat_map(words).collect::<Vec<_>>();
        Ok(self.constants.push(&words)?)
    }

    /// The struct that kernels get, as an argument, with element `first_figure` of `figures` on as the run's;
    /// [`text`] declares it.
    pub(super) fn arg(&self, figures: &DeviceArray, first_figure: usize) -> Arg {
        let world = &self.world;
        let group = |i: usize| world.groups.iter().map(move |group| pointer(group[i].as_ref()));
        let pointers = self.columns.iter().map(Pointer::from);
        let pointers = pointers.chain(ARRAYS.iter().map(|(_, _, of)| Pointer::from(of(self))));
        let pointers = pointers.chain([Pointer::to(figures, first_figure)]);
        let pointers = pointers.chain((0..OF_GROUPS.len()).flat_map(group));
        let pointers = pointers.chain(world.ends.iter().map(|array| pointer(array.as_ref())));
        let of_ranks = self.ranks.iter().flat_map(|ranks| ranks.told.iter().chain(&ranks.heard));
        // The number of a shard, 0.
        let shard = (self.division.shards > 1).then(Pointer::default);
        Arg::pointers("Memory", pointers.chain(of_ranks.map(Pointer::from)).chain(shard))
    }
}

/// An array of the struct that kernels get: type, name, and which it is.
type Field = (&'static str, &'static str, fn(&Memory) -> &DeviceArray);

/// Those behind the columns.
const ARRAYS: [Field; 25] = [
    ("float*", "parameters", |m| &m.parameters),
    ("float*", "exp_avg", |m| &m.exp_avg),
    ("float*", "exp_avg_sq", |m| &m.exp_avg_sq),
    ("float*", "gradient", |m| &m.gradient),
    ("Kept*", "scratch", |m| &m.scratch),
    ("Half*", "packed", |m| &m.packed),
    ("const float*", "cells", |m| &m.cells),
    ("unsigned int*", "counters", |m| &m.counters),
    ("DescentStep*", "steps", |m| &m.steps),
    ("const double*", "constants", |m| &m.constants),
    ("double*", "squares", |m| &m.squares),
    ("unsigned int*", "barrier", |m| &m.barrier),
    ("unsigned char*", "alive_now", |m| &m.alive_now),
    ("float*", "ring_obs", |m| &m.ring.numbers[0]),
    ("float*", "ring_next_obs", |m| &m.ring.numbers[1]),
    ("float*", "ring_action", |m| &m.ring.numbers[2]),
    ("float*", "ring_reward", |m| &m.ring.numbers[3]),
    ("unsigned char*", "ring_ends", |m| &m.ring.flags[0]),
    ("unsigned char*", "ring_alive", |m| &m.ring.flags[1]),
    ("unsigned char*", "ring_mask", |m| &m.ring.flags[2]),
    ("unsigned char*", "ring_next_mask", |m| &m.ring.flags[3]),
    ("float*", "priorities", |m| &m.priorities.nodes),
    ("float*", "largest", |m| &m.priorities.largest),
    ("unsigned int*", "sampled", |m| &m.priorities.sampled),
    ("unsigned int*", "owner", |m| &m.priorities.owner),
];

/// The struct's text.
pub(super) fn text(plan: &Plan, n_groups: usize, division: Division) -> String {
    let n_columns = plan.columns.len();
    let mut text = format!("struct Memory {{\n    float* column[{n_columns}];\n");
    for (c_type, name, _) in ARRAYS {
        let _ = writeln!(text, "    {c_type} {name};");
    }
    text += "    double* figures;\n";
    for (c_type, name) in OF_GROUPS {
        let _ = writeln!(text, "    {c_type} {name}[{n_groups}];");
    }
    for (c_type, name) in OF_WORLD {
        let _ = writeln!(text, "    {c_type} {name};");
    }
    if division.exchanges(plan) {
        let n = Exchanged::n(plan);
        let _ = writeln!(text, "    float* told[{n}];\n    const float* heard[{n}];");
    }
    if division.shards > 1 {
        text += "    unsigned long long shard;\n";
    }
    text + "};\n"
}

fn pointer(array: Option<&DeviceArray>) -> Pointer<'_> {
    array.map_or(Pointer::default(), Pointer::from)
}

/// Doubles from their words.
pub(super) fn numbers(words: &[u32]) -> Vec<f64> {
    let (pairs, _) = words.as_chunks::<2>();
    pairs
        .iter()
        .map(|[low, high]| f64::from_bits(u64::from(*low) | u64::from(*high) << 32))
        .collect()
}

/// The words of a double, the low one first.
pub(super) fn words(number: f64) -> [u32; 2] {
    let bits = number.to_bits();
    [bits as u32, (bits >> 32) as u32]
}

//! The structs of pointers that kernels are passed, in the order of their C declarations.

use super::arg::{Arg, Pointer};
use crate::blueprint::SharedTable;
use crate::error::Result;
use crate::vec_env::{ArrayIds, Start, VecOptions};
use warp_core::{DType, EnvSpec, Space};
use warp_data::ArrayId;
use warp_data::cuda::{Device, DeviceArray, DeviceStore};

/// Arrays that only the device has: the counter of steps, and what ended since it was last asked,
/// per replica.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) run_step: DeviceArray,
    ended: DeviceArray,
    /// Sum, minimum and maximum.
    ended_length: [DeviceArray; 3],
    /// Per group sum, minimum and maximum.
    ended_return: Vec<[DeviceArray; 3]>,
    ended_statistic: DeviceArray,
}

impl Counters {
    pub(super) fn new(device: &Device, spec: &EnvSpec, n: usize) -> Result<Self> {
        let zeros = |name: &str, dtype, shape: &[usize]| {
            Ok::<_, crate::Error>(DeviceArray::zeros(device, name, dtype, shape)?)
        };
        let three = || -> Result<[DeviceArray; 3]> {
            let one = || zeros("ended", DType::F32, &[n]);
            Ok([one()?, one()?, one()?])
        };
        Ok(Self {
            run_step: zeros("run_step", DType::U32, &[1])?,
            ended: zeros("ended", DType::U32, &[n])?,
            ended_length: three()?,
            ended_return: spec.groups.iter().map(|_| three()).collect::<Result<_>>()?,
            ended_statistic: zeros("ended_statistic", DType::F32, &[n, spec.statistics.len()])?,
        })
    }
}

/// A shared table on the device.
pub(super) fn table(device: &Device, table: &SharedTable) -> Result<DeviceArray> {
    let (name, shape) = (table.name, &table.shape);
    Ok(match table.dtype {
        DType::I32 => {
            let data: Vec<i32> = table.bits.iter().map(|bits| *bits as i32).collect();
            DeviceArray::from_slice(device, name, shape, &data)?
        }
        _ => {
            let data: Vec<f32> = table.bits.iter().map(|bits| f32::from_bits(*bits)).collect();
            DeviceArray::from_slice(device, name, shape, &data)?
        }
    })
}

/// `WarpTables`.
pub(super) fn tables(tables: &[DeviceArray]) -> Arg {
    Arg::pointers("WarpTables", tables.iter().map(Pointer::from).chain([Pointer::default()]))
}

/// `WarpArrays`.
pub(super) fn arrays<'a>(
    spec: &EnvSpec,
    ids: &ArrayIds,
    store: &'a DeviceStore,
    counters: &'a Counters,
) -> Arg {
    let mut pointers = Vec::new();
    let at = |id: ArrayId| Pointer::from(store.array(id));
    let maybe = |id: Option<ArrayId>| id.map_or(Pointer::default(), at);
    ids.state.iter().for_each(|id| pointers.push(at(*id)));
    // Without a pool there is nothing to point to.
    for i in 0..ids.state.len() {
        pointers.push(maybe(ids.pool.get(i).copied()));
    }
    let boxed = |g: usize| matches!(spec.groups[g].action, Space::Box { .. });
    let mut grouped = |of: &dyn Fn(usize) -> Pointer<'a>| {
        (0..spec.groups.len()).for_each(|g| pointers.push(of(g)));
    };
    grouped(&|g| at(ids.obs[g]));
    grouped(&|g| at(ids.final_obs[g]));
    grouped(&|g| maybe(ids.action_mask[g]));
    grouped(&|g| maybe(ids.final_action_mask[g]));
    grouped(&|g| maybe((!boxed(g)).then_some(ids.action[g])));
    grouped(&|g| maybe(boxed(g).then_some(ids.action[g])));
    grouped(&|g| at(ids.reward[g]));
    grouped(&|g| maybe(ids.alive[g]));
    grouped(&|g| maybe(ids.agent_terminated[g]));
    grouped(&|g| at(ids.episode_return[g]));
    for i in 0..3 {
        grouped(&|g| Pointer::from(&counters.ended_return[g][i]));
    }
    pointers.extend([
        at(ids.terminated),
        at(ids.truncated),
        at(ids.episode_length),
        maybe(ids.statistic),
        maybe(ids.final_statistic),
        maybe(ids.global_obs),
        Pointer::from(&counters.run_step),
        Pointer::from(&counters.ended),
        Pointer::from(&counters.ended_length[0]),
        Pointer::from(&counters.ended_length[1]),
        Pointer::from(&counters.ended_length[2]),
        Pointer::from(&counters.ended_statistic),
    ]);
    Arg::pointers("WarpArrays", pointers)
}

/// `WarpRun`.
pub(super) fn run(options: &VecOptions) -> Arg {
    let mut bytes = Vec::new();
    for seed in [options.seed, options.start_seed.unwrap_or(options.seed)] {
        bytes.extend(seed.to_le_bytes());
    }
    for number in [
        options.first_replica,
        options.n_envs as u32,
        start_number(options.start),
        options.pool.rows() as u32,
        u32::from(options.auto_reset),
        0,
    ] {
        bytes.extend(number.to_le_bytes());
    }
    Arg::Struct("WarpRun", bytes)
}

/// The number of a start kind in `WarpRun`.
fn start_number(start: Start) -> u32 {
    match start {
        Start::Fresh => 0,
        Start::Fixed => 1,
        Start::Pool => 2,
    }
}

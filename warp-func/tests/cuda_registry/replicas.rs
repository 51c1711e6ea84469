//! Replicas that go their own way, on the host and on a GPU.

use super::board::Board;
use super::device::gpu;
use super::drone::Drone;
use super::herd::Herd;
use super::swarm::Swarm;
use warp_core::single::GroupAction;
use warp_core::toml::Table;
use warp_core::{DType, Space};
use warp_func::cuda::{Build, CudaReplicas, Numbers, Shown, machine_code, replica_source};
use warp_func::{AutoReset, Batch, Entry, Error, Orders, Registry, ReplicaOptions, Replicas};

const N: usize = 150;

pub(crate) fn compile() {
    for (entry, config) in worlds() {
        let blueprint = entry.blueprint(&config).unwrap();
        for limit in [None, Some(7)] {
            let source = replica_source(&blueprint, limit).unwrap();
            let (code, _) = machine_code(&source, Build::Parity, "sm_90a").unwrap();
            assert!(code.starts_with(b"\x7fELF"));
        }
    }
}

fn worlds() -> Vec<(Entry, Table)> {
    let registry = Registry::new().with::<Drone>().with::<Board>().with::<Swarm>().with::<Herd>();
    let agents: Table = [("agents".to_string(), 40.into())].into_iter().collect();
    let config = |name: &str| if name == "herd" { agents.clone() } else { Table::new() };
    registry.entries().map(|entry| (entry.clone(), config(entry.name))).collect()
}

fn options(auto_reset: AutoReset, limit: Option<u32>) -> ReplicaOptions {
    let seeds = (0..N as u64).map(|i| 1000 + 7 * i).collect();
    ReplicaOptions { auto_reset, max_episode_steps: limit, ..ReplicaOptions::new(seeds) }
}

/// Numbers that look random and are the same everywhere.
fn hash(parts: [usize; 4]) -> usize {
    let mut x = 0x9E37_79B9_7F4A_7C15_u64;
    for part in parts {
        x = (x ^ part as u64).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x ^= x >> 29;
    }
    x as usize
}

/// Actions of the replicas `ids` at a step.
fn orders(replicas: &Replicas, ids: Vec<u32>, step: usize) -> Orders {
    let of_group = |(g, group): (usize, &warp_core::GroupSpec)| {
        let (heads, width) = (group.action.head_sizes(), group.action.action_width());
        let elements = group.n_agents * width;
        let places = ids.iter().flat_map(|id| (0..elements).map(|i| (*id as usize, i)));
        match group.action {
            Space::Box { .. } => GroupAction::Continuous(
                places.map(|(id, i)| (hash([g, id, step, i]) % 256) as f32 / 128.0 - 1.0).collect(),
            ),
            _ => GroupAction::Discrete(
                places.map(|(id, i)| (hash([g, id, step, i]) % heads[i % width]) as i32).collect(),
            ),
        }
    };
    let actions = replicas.spec().groups.iter().enumerate().map(of_group).collect();
    Orders { ids, actions }
}

/// All replicas, or some of them in an order of their own.
fn ids(step: usize) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..N as u32).collect();
    if step % 3 == 2 {
        ids.retain(|id| hash([*id as usize, step, 0, 0]).is_multiple_of(3));
        ids.sort_by_key(|id| hash([*id as usize, step, 1, 0]));
    }
    ids
}

fn words(batch: &Batch, name: &str, rows: usize) -> Vec<u32> {
    let store = batch.store();
    let id = store.id(name).unwrap();
    let n = rows * store.array(id).row_len();
    match store.array(id).dtype() {
        DType::F32 => store.slice::<f32>(id)[..n].iter().map(|value| value.to_bits()).collect(),
        DType::I32 => store.slice::<i32>(id)[..n].iter().map(|value| *value as u32).collect(),
        DType::U32 => store.slice::<u32>(id)[..n].to_vec(),
        DType::U8 => store.slice::<u8>(id)[..n].iter().map(|value| u32::from(*value)).collect(),
    }
}

fn words_of(shown: &Shown) -> Vec<u32> {
    let array = &shown.array;
    let all: Vec<u32> = match array.dtype() {
        DType::F32 => array.pull::<f32>().unwrap().iter().map(|value| value.to_bits()).collect(),
        DType::I32 => array.pull::<i32>().unwrap().iter().map(|value| *value as u32).collect(),
        DType::U32 => array.pull::<u32>().unwrap(),
        DType::U8 => array.pull::<u8>().unwrap().iter().map(|value| u32::from(*value)).collect(),
    };
    let row = all.len() / array.shape()[0];
    // 64-bit numbers here are small and not negative.
    let step = if shown.wide { 2 } else { 1 };
    all[..row * shown.rows].iter().step_by(step).copied().collect()
}

fn same(batch: &Batch, shown: &[Shown], case: &str) {
    let rows = shown[0].rows;
    let ended: Vec<bool> = words(batch, "terminated", rows)
        .iter()
        .zip(words(batch, "truncated", rows))
        .map(|(terminated, truncated)| terminated + truncated > 0)
        .collect();
    for shown in shown {
        let (mut host, mut device) = (words(batch, &shown.name, rows), words_of(shown));
        if shown.name.starts_with("final.") {
            // Of what goes on there is no end.
            let row = host.len() / rows.max(1);
            for (at, _) in ended.iter().enumerate().filter(|(_, ended)| !**ended) {
                host[at * row..][..row].fill(0);
                device[at * row..][..row].fill(0);
            }
        }
        assert_eq!(host, device, "{case}: {}", shown.name);
    }
}

fn begin(host: &mut Replicas, batch: &mut Batch, ids: Vec<u32>) {
    host.mark_new(&ids).unwrap();
    host.step(&mut orders(host, ids, 0), batch).unwrap();
}

pub(crate) fn alike() {
    for (entry, config) in worlds() {
        for (auto_reset, limit) in [
            (AutoReset::NextStep, None),
            (AutoReset::SameStep, Some(9)),
            (AutoReset::SameStep, None),
            (AutoReset::Disabled, Some(11)),
        ] {
            let options = options(auto_reset, limit);
            let mut host = entry.make_replicas(&config, &options).unwrap();
            let made = entry.make_cuda_replicas(&config, &options, Numbers::AsWritten, gpu());
            let mut device = made.unwrap();
            let mut batch = host.new_batch(N).unwrap();
            let all: Vec<u32> = (0..N as u32).collect();
            begin(&mut host, &mut batch, all.clone());
            device.begin(None).unwrap();
            let mut over = [false; N];
            for step in 1..70 {
                let case = format!("{} {auto_reset:?} {limit:?} step {step}", entry.name);
                let mut ids = ids(step);
                if auto_reset == AutoReset::Disabled {
                    ids.retain(|id| !over[*id as usize]);
                }
                let mut orders = orders(&host, ids.clone(), step);
                host.step(&mut orders, &mut batch).unwrap();
                device.step_from_host(&mut orders, ids.len() == N).unwrap();
                let shown = device.pick(&ids).unwrap();
                same(&batch, &shown, &case);
                let flags = words(&batch, "terminated", ids.len());
                let flags = flags.iter().zip(words(&batch, "truncated", ids.len()));
                for (id, (terminated, truncated)) in ids.iter().zip(flags) {
                    over[*id as usize] =
                        auto_reset == AutoReset::Disabled && terminated + truncated > 0;
                }
                if step % 20 == 0 {
                    let ended: Vec<u32> =
                        all.iter().copied().filter(|id| over[*id as usize]).collect();
                    begin(&mut host, &mut batch, ended.clone());
                    device.begin(Some(&ended)).unwrap();
                    over.fill(false);
                }
            }
            device.finish().unwrap();
            same_state(&host, device.pulled().unwrap(), entry.name);
        }
    }
}

fn same_state(host: &Replicas, device: &Replicas, case: &str) {
    for id in host.store().ids() {
        let bits = |replicas: &Replicas| -> Vec<u32> {
            let store = replicas.store();
            match store.array(id).dtype() {
                DType::F32 => store.slice::<f32>(id).iter().map(|value| value.to_bits()).collect(),
                DType::I32 => store.slice::<i32>(id).iter().map(|value| *value as u32).collect(),
                DType::U32 => store.slice::<u32>(id).to_vec(),
                DType::U8 => store.slice::<u8>(id).iter().map(|value| u32::from(*value)).collect(),
            }
        };
        let name = host.store().array(id).name();
        assert_eq!(bits(host), bits(device), "{case}: {name}");
    }
}

/// What is wrong is found by the GPU, moves nothing, and is said once.
pub(crate) fn refused() {
    let (entry, config) = worlds().into_iter().find(|(entry, _)| entry.name == "drone").unwrap();
    let options = options(AutoReset::Disabled, Some(1));
    let made = |options: &ReplicaOptions| {
        entry.make_cuda_replicas(&config, options, Numbers::AsWritten, gpu()).unwrap()
    };
    let mut device: CudaReplicas = made(&options);
    device.begin(None).unwrap();
    let step = |device: &mut CudaReplicas, action: i32| {
        let mut orders = Orders {
            ids: (0..N as u32).collect(),
            actions: vec![GroupAction::Discrete([vec![action], vec![0; N - 1]].concat())],
        };
        device.step_from_host(&mut orders, true)
    };
    // On the host's side, at once.
    let error = step(&mut device, 6).unwrap_err();
    assert!(
        matches!(&error, Error::InvalidAction { replica: 0, action, .. } if action == "6"),
        "{error}"
    );
    step(&mut device, 1).unwrap();
    device.finish().unwrap();
    let before = device.pulled().unwrap().store().get::<u32>("replica.event").unwrap().to_vec();
    assert_eq!(before, [2; N]);
    // All have ended; the GPU finds that, and nothing moves any more.
    step(&mut device, 1).unwrap();
    let error = device.finish().unwrap_err();
    assert!(matches!(error, Error::Ended { .. }), "{error}");
    let after = device.pulled().unwrap().store().get::<u32>("replica.event").unwrap().to_vec();
    assert_eq!(after, before);
    device.begin(None).unwrap();
    step(&mut device, 2).unwrap();
    device.finish().unwrap();
}

//! Replicas of their own: each does what it would do alone, whatever moves beside it.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

use warp_core::single::{GroupAction, Single};
use warp_core::{Config, Draw, EnvSpec, Purpose, Space};
use warp_envs::cartpole::{CartPole, CartPoleConfig};
use warp_envs::registry;
use warp_func::{AutoReset, Batch, Orders, ReplicaOptions, Replicas};

/// Environments of every kind: by tiles and one by one, with numbers, masks, chances and groups.
const NAMES: [&str; 11] = [
    "cartpole",
    "acrobot",
    "pendulum",
    "mountain_car",
    "frozen_lake",
    "taxi",
    "blackjack",
    "catch",
    "nchain",
    "cliff_walking",
    "tag_gridworld",
];

fn make(name: &str, config: &str, seeds: Vec<u64>, auto_reset: AutoReset) -> Replicas {
    let options = ReplicaOptions { auto_reset, ..ReplicaOptions::new(seeds) };
    registry().get(name).unwrap().make_replicas(&config.parse().unwrap(), &options).unwrap()
}

/// Actions of one replica, as a function of its seed and of how often it was moved.
fn actions(spec: &EnvSpec, seed: u64, moved: u32) -> Vec<GroupAction> {
    let of_group = |(g, group): (usize, &warp_core::GroupSpec)| {
        let mut draw = Draw::new(seed, g as u32, moved, Purpose::RandomAction);
        let (n, sizes) = (group.n_agents, group.action.head_sizes());
        match &group.action {
            Space::Box { low, high, .. } => GroupAction::Continuous(
                (0..n)
                    .flat_map(|_| low.iter().zip(high))
                    .map(|(l, h)| draw.uniform_in(*l, *h))
                    .collect(),
            ),
            _ => GroupAction::Discrete(
                (0..n).flat_map(|_| &sizes).map(|size| draw.below(*size as u32) as i32).collect(),
            ),
        }
    };
    spec.groups.iter().enumerate().map(of_group).collect()
}

/// Orders for some replicas, each with the actions that it is due.
fn orders(replicas: &Replicas, ids: &[u32], moved: &mut [u32]) -> Orders {
    let mut all: Vec<GroupAction> = Vec::new();
    for id in ids {
        let seed = replicas.options().seeds[*id as usize];
        let own = actions(replicas.spec(), seed, moved[*id as usize]);
        moved[*id as usize] += 1;
        if all.is_empty() {
            all = own;
            continue;
        }
        for (all, own) in all.iter_mut().zip(own) {
            match (all, own) {
                (GroupAction::Discrete(all), GroupAction::Discrete(own)) => all.extend(own),
                (GroupAction::Continuous(all), GroupAction::Continuous(own)) => all.extend(own),
                _ => unreachable!("a group has one kind of action"),
            }
        }
    }
    Orders { ids: ids.to_vec(), actions: all }
}

/// Everything that a row of a batch says, but for whose it is, as bytes.
fn row(batch: &Batch, at: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let flag = |name| batch.store().get::<u8>(name).unwrap()[at] == 1;
    let ended = flag("terminated") || flag("truncated");
    // What is final is written where an episode has ended.
    let says = |name: &str| name != "env_id" && (ended || !name.starts_with("final."));
    for array in batch.arrays().filter(|array| says(array.name())) {
        let (store, id) = (batch.store(), batch.store().id(array.name()).unwrap());
        let range = at * array.row_len()..(at + 1) * array.row_len();
        match array.dtype() {
            warp_core::DType::F32 => store.slice::<f32>(id)[range]
                .iter()
                .for_each(|value| bytes.extend(value.to_le_bytes())),
            warp_core::DType::I32 => store.slice::<i32>(id)[range]
                .iter()
                .for_each(|value| bytes.extend(value.to_le_bytes())),
            _ => bytes.extend(&store.slice::<u8>(id)[range]),
        }
    }
    bytes
}

/// What a replica of `seed` shows in `n` moves when it is alone.
fn alone(name: &str, seed: u64, n: usize, auto_reset: AutoReset) -> Vec<Vec<u8>> {
    let mut replicas = make(name, "", vec![seed], auto_reset);
    let mut batch = replicas.new_batch(1).unwrap();
    let mut moved = [0];
    let mut step = || {
        let mut orders = orders(&replicas, &[0], &mut moved);
        replicas.step(&mut orders, &mut batch).unwrap();
        row(&batch, 0)
    };
    (0..n).map(|_| step()).collect()
}

#[test]
fn a_replica_does_what_it_does_alone_whatever_moves_beside_it() {
    const SEED: u64 = 0xffff_fff0;
    const N: u32 = 70;
    for name in NAMES {
        for auto_reset in [AutoReset::NextStep, AutoReset::SameStep] {
            let seeds: Vec<u64> = (0..N).map(|i| SEED + u64::from(i)).collect();
            let mut replicas = make(name, "", seeds, auto_reset);
            let mut batch = replicas.new_batch(N as usize).unwrap();
            let mut moved = vec![0; N as usize];
            let mut shown = vec![Vec::new(); N as usize];
            let mut draw = Draw::new(3, 0, 0, Purpose::Shuffle);
            for call in 0..60 {
                // All of them, some in order, or some in any order.
                let mut ids: Vec<u32> =
                    (0..N).filter(|_| call % 3 == 0 || draw.below(3) == 0).collect();
                if call % 3 == 2 {
                    (1..ids.len()).for_each(|i| ids.swap(i, draw.below(i as u32 + 1) as usize));
                }
                let mut orders = orders(&replicas, &ids, &mut moved);
                replicas.step(&mut orders, &mut batch).unwrap();
                ids.iter()
                    .enumerate()
                    .for_each(|(at, id)| shown[*id as usize].push(row(&batch, at)));
            }
            for id in [0, 1, 16, 17, 63, 64, 69] {
                let alone = alone(name, SEED + id as u64, shown[id].len(), auto_reset);
                assert!(shown[id] == alone, "{name}, {auto_reset:?}: replica {id} differs");
            }
        }
    }
}

#[test]
fn a_first_episode_is_that_of_a_single_replica() {
    let mut replicas = make("cartpole", "", vec![11], AutoReset::NextStep);
    let mut batch = replicas.new_batch(1).unwrap();
    let config = CartPoleConfig::from_table(&"".parse().unwrap()).unwrap();
    let mut single = Single::new(<CartPole as warp_core::Env>::new(&config).unwrap(), 11).unwrap();
    let mut moved = [0];
    for step in 0..400 {
        let mut orders = orders(&replicas, &[0], &mut moved);
        replicas.step(&mut orders, &mut batch).unwrap();
        if step > 0 {
            let ended = single.step(&orders.actions).unwrap();
            assert_eq!(
                batch.store().get::<u8>("terminated").unwrap()[0],
                u8::from(ended.terminated)
            );
        }
        assert_eq!(batch.store().get::<f32>("obs.pole").unwrap(), single.obs(0), "step {step}");
        if batch.store().get::<u8>("terminated").unwrap()[0] == 1 {
            assert!(step > 5);
            return;
        }
    }
    panic!("no pole stands for 400 random steps");
}

/// The episodes, as starts and steps, without what is shown twice or only by one of the modes.
#[test]
fn episodes_are_the_same_however_they_follow_each_other() {
    for name in ["cartpole", "taxi", "frozen_lake", "blackjack"] {
        let mut traces = Vec::new();
        for auto_reset in [AutoReset::NextStep, AutoReset::SameStep, AutoReset::Disabled] {
            let mut replicas = make(name, "", vec![5], auto_reset);
            let mut batch = replicas.new_batch(1).unwrap();
            let (mut trace, mut steps) = (Vec::new(), 0);
            let obs = format!("obs.{}", replicas.spec().groups[0].name);
            while trace.len() < 200 {
                let action = actions(replicas.spec(), 5, steps);
                let mut orders = Orders { ids: vec![0], actions: action };
                replicas.step(&mut orders, &mut batch).unwrap();
                let flag = |name| batch.store().get::<u8>(name).unwrap()[0] == 1;
                let ended = flag("terminated") || flag("truncated");
                let begun = batch.store().get::<i32>("elapsed_step").unwrap()[0] == 0;
                let see = |prefix: &str| {
                    let id = batch.store().id(&format!("{prefix}{obs}")).unwrap();
                    match batch.store().array(id).dtype() {
                        warp_core::DType::I32 => batch.store().slice::<i32>(id)[0] as u32,
                        _ => batch.store().slice::<f32>(id)[0].to_bits(),
                    }
                };
                if ended && auto_reset == AutoReset::SameStep {
                    trace.push(see("final."));
                }
                trace.push(see(""));
                // An action is used up by a step alone.
                steps += u32::from(ended || !begun);
                if ended && auto_reset == AutoReset::Disabled {
                    let refused = replicas.step(&mut orders.clone(), &mut batch).unwrap_err();
                    assert!(refused.to_string().contains("environment 0 has ended"), "{refused}");
                    replicas.mark_new(&[0]).unwrap();
                }
            }
            trace.truncate(200);
            traces.push(trace);
        }
        assert!(traces[0] == traces[1] && traces[0] == traces[2], "{name}");
    }
}

#[test]
fn runs_of_neighbouring_seeds_share_no_draw() {
    // What replicas of their own draw, of seeds 0 to 63, and a training run of seed 0 beside them.
    let words = |seed: u64, replica: u32| {
        (0..200).flat_map(move |event| {
            [Purpose::Reset, Purpose::Step].map(|purpose| Draw::new(seed, replica, event, purpose))
        })
    };
    let own = (0..64).flat_map(|seed| words(seed, 0));
    let run = (1..64).flat_map(|replica| words(0, replica));
    let mut blocks: Vec<[u32; 4]> = own.chain(run).map(|draw| draw.block(0)).collect();
    let n = blocks.len();
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), n);
}

#[test]
fn a_replica_that_is_marked_begins_anew_and_goes_on_in_its_stream() {
    let mut replicas = make("cartpole", "", vec![1, 2], AutoReset::NextStep);
    let mut batch = replicas.new_batch(2).unwrap();
    let mut starts = Vec::new();
    for _ in 0..3 {
        replicas.mark_new(&[0, 1]).unwrap();
        let mut orders = orders(&replicas, &[0, 1], &mut [0, 0]);
        replicas.step(&mut orders, &mut batch).unwrap();
        assert_eq!(batch.store().get::<i32>("elapsed_step").unwrap(), [0, 0]);
        starts.push(batch.store().get::<f32>("obs.pole").unwrap().to_vec());
    }
    assert!(starts[0] != starts[1] && starts[1] != starts[2]);
    replicas.seed(1, 2).unwrap();
    let mut orders = orders(&replicas, &[1], &mut [0, 0]);
    replicas.step(&mut orders, &mut batch).unwrap();
    assert_eq!(batch.store().get::<f32>("obs.pole").unwrap()[..4], starts[0][4..]);
}

#[test]
fn what_is_kept_is_all_that_the_future_depends_on() {
    for name in NAMES {
        let mut one = make(name, "", vec![7, 8, 9], AutoReset::SameStep);
        let mut other = make(name, "", vec![0, 0, 0], AutoReset::SameStep);
        let (mut seen, mut again) = (one.new_batch(3).unwrap(), other.new_batch(3).unwrap());
        let mut moved = [0; 3];
        for call in 0..40 {
            let mut orders = orders(&one, &[0, 1, 2], &mut moved);
            one.step(&mut orders.clone(), &mut seen).unwrap();
            if call >= 20 {
                other.step(&mut orders, &mut again).unwrap();
                assert!((0..3).all(|at| row(&seen, at) == row(&again, at)), "{name}, call {call}");
            } else if call == 19 {
                for id in one.store().ids() {
                    let name = one.store().array(id).name().to_string();
                    match one.store().array(id).dtype() {
                        warp_core::DType::F32 => {
                            other.store_mut().push(&name, one.store().slice::<f32>(id))
                        }
                        warp_core::DType::I32 => {
                            other.store_mut().push(&name, one.store().slice::<i32>(id))
                        }
                        warp_core::DType::U32 => {
                            other.store_mut().push(&name, one.store().slice::<u32>(id))
                        }
                        warp_core::DType::U8 => {
                            other.store_mut().push(&name, one.store().slice::<u8>(id))
                        }
                    }
                    .unwrap();
                }
            }
        }
    }
}

#[test]
fn what_is_refused_moves_nothing() {
    let mut replicas = make("cartpole", "", vec![1, 2, 3], AutoReset::NextStep);
    let mut batch = replicas.new_batch(3).unwrap();
    let act = |heads: &[i32]| vec![GroupAction::Discrete(heads.to_vec())];
    let mut start = Orders { ids: vec![0, 2], actions: act(&[9, 9]) };
    // Replicas that begin take no action, so none is wrong.
    replicas.step(&mut start, &mut batch).unwrap();
    let before: Vec<u32> = replicas.store().get::<u32>("replica.event").unwrap().to_vec();
    let mut refused = |ids: &[u32], actions, says: &str| {
        let mut orders = Orders { ids: ids.to_vec(), actions };
        let error = replicas.step(&mut orders, &mut batch).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        assert_eq!(replicas.store().get::<u32>("replica.event").unwrap(), before);
    };
    refused(&[0, 3], act(&[0, 0]), "env_id = 3: environments are numbered from 0 to 2");
    refused(&[2, 0, 2], act(&[0, 0, 0]), "env_id = 2: an environment may occur only once");
    refused(
        &[1, 2],
        act(&[7, 2]),
        "replica 2, group \"pole\", agent 0, head 0: action 2 is not in",
    );
    refused(&[0, 1], act(&[0]), "2 x 1 of Discrete(2) are needed");
    refused(&[0], vec![GroupAction::Continuous(vec![0.0])], "are needed for group \"pole\"");
    let mut foreign = make("cartpole", "", vec![1], AutoReset::NextStep);
    let mut orders = Orders { ids: vec![0], actions: act(&[0]) };
    assert!(foreign.step(&mut orders, &mut batch).is_err(), "a batch that others made");
}

#[test]
fn limits_and_options_are_checked() {
    let entry = |options: ReplicaOptions| {
        let made =
            registry().get("cartpole").unwrap().make_replicas(&"".parse().unwrap(), &options);
        made.map(|_| ()).unwrap_err().to_string()
    };
    assert!(entry(ReplicaOptions::new(vec![])).starts_with("num_envs = 0: "));
    let none = ReplicaOptions { max_episode_steps: Some(0), ..ReplicaOptions::new(vec![1]) };
    assert!(entry(none).starts_with("max_episode_steps = 0: "));
    let options = ReplicaOptions { max_episode_steps: Some(3), ..ReplicaOptions::new(vec![1]) };
    let mut replicas =
        registry().get("cartpole").unwrap().make_replicas(&"".parse().unwrap(), &options).unwrap();
    let mut batch = replicas.new_batch(1).unwrap();
    let mut cut = Vec::new();
    for _ in 0..9 {
        let mut orders = orders(&replicas, &[0], &mut [0]);
        replicas.step(&mut orders, &mut batch).unwrap();
        cut.push(batch.store().get::<u8>("truncated").unwrap()[0]);
    }
    assert_eq!(cut, [0, 0, 0, 1, 0, 0, 0, 1, 0]);
}

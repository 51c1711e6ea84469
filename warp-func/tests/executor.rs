//! The executor against single replicas: restarts, final observations, death, starts, errors,
//! restoring, and independence of threads and neighbours.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod worlds;

use std::ops::Range;
use warp_core::single::{Ended, GroupAction};
use warp_core::{DType, Env, Single, Space};
use warp_data::{ArrayId, Element};
use warp_func::{CpuVecEnv, Start, VecEnv, VecOptions};
use worlds::board::{Board, BoardConfig};
use worlds::crowd::{Crowd, CrowdConfig, HUNTER, PREY};
use worlds::drone::{Drone, DroneConfig};
use worlds::scalars::{Cart, Clock, Glide, Misjudged, RoadConfig, Slip};
use worlds::swarm::{Swarm, SwarmConfig};
use worlds::{SEED, act, choose, make, make_with, run};

/// Not a multiple of any shard or vector.
const REPLICAS: usize = 150;

fn row<T: Element>(envs: &dyn VecEnv, id: ArrayId, replica: usize) -> &[T] {
    let width = envs.store().array(id).row_len();
    &envs.store().slice(id)[replica * width..][..width]
}

/// All arrays of some replicas as bits; `all`: also those that are valid at an episode's end only.
fn bits(envs: &dyn VecEnv, replicas: Range<usize>, all: bool) -> Vec<(String, Vec<u32>)> {
    let store = envs.store();
    let wanted = store.arrays().filter(|a| all || !a.name().starts_with("final_"));
    let of = |name: &str| {
        let id = store.id(name).unwrap();
        let rows = replicas.clone().flat_map(|replica| match store.array(id).dtype() {
            DType::F32 => row::<f32>(envs, id, replica).iter().map(|x| x.to_bits()).collect(),
            DType::I32 => row::<i32>(envs, id, replica).iter().map(|x| *x as u32).collect(),
            DType::U32 => row::<u32>(envs, id, replica).to_vec(),
            DType::U8 => row::<u8>(envs, id, replica).iter().map(|x| u32::from(*x)).collect(),
        });
        rows.collect()
    };
    wanted.map(|array| (array.name().to_string(), of(array.name()))).collect()
}

fn everything(envs: &dyn VecEnv) -> Vec<(String, Vec<u32>)> {
    bits(envs, 0..envs.options().n_envs, true)
}

fn actions<E: Env>(single: &Single<E>, step: u32) -> Vec<GroupAction> {
    let spec = single.spec();
    let group = |(g, group): (usize, &warp_core::GroupSpec)| {
        let first = spec.first_agent(g) as u32;
        let of = |agent: u32| choose(&group.action, single.replica_index(), first + agent, step);
        let (heads, reals): (Vec<_>, Vec<_>) = (0..group.n_agents as u32).map(of).unzip();
        match group.action {
            Space::Box { .. } => GroupAction::Continuous(reals.concat()),
            _ => GroupAction::Discrete(heads.concat()),
        }
    };
    spec.groups.iter().enumerate().map(group).collect()
}

/// Compares what one replica of `envs` shows with what it shows alone.
fn same_view<E: Env>(envs: &dyn VecEnv, replica: usize, single: &Single<E>) {
    let ids = envs.ids();
    for g in 0..envs.spec().groups.len() {
        assert_eq!(row::<f32>(envs, ids.obs[g], replica), single.obs(g));
        let mask = ids.action_mask[g].map_or(&[][..], |id| row::<u8>(envs, id, replica));
        assert_eq!(mask, single.action_mask(g));
        let alive = ids.alive[g].map_or(&[][..], |id| row::<u8>(envs, id, replica));
        assert_eq!(alive, single.alive(g));
    }
    assert_eq!(row::<u32>(envs, ids.episode_length, replica), [single.timestep()]);
}

/// Compares the step that both have just made, then restarts the lone one if it ended.
fn same_step<E: Env>(
    envs: &dyn VecEnv,
    replica: usize,
    single: &mut Single<E>,
    was_alive: &[Vec<u8>],
    ended: Ended,
) {
    let ids = envs.ids();
    let over = ended.terminated || ended.truncated;
    assert_eq!(row::<u8>(envs, ids.terminated, replica), [u8::from(ended.terminated)]);
    assert_eq!(row::<u8>(envs, ids.truncated, replica), [u8::from(ended.truncated)]);
    for (g, was) in was_alive.iter().enumerate() {
        assert_eq!(row::<f32>(envs, ids.reward[g], replica), single.reward(g));
        if over {
            assert_eq!(row::<f32>(envs, ids.final_obs[g], replica), single.obs(g));
            let mask = ids.final_action_mask[g].map_or(&[][..], |id| row::<u8>(envs, id, replica));
            assert_eq!(mask, single.action_mask(g));
        }
        let Some(left) = ids.agent_terminated[g] else { continue };
        let leaves = |(was, is): (&u8, &u8)| *was & (u8::from(ended.terminated) | (1 - is));
        let expected: Vec<u8> = was.iter().zip(single.alive(g)).map(leaves).collect();
        assert_eq!(row::<u8>(envs, left, replica), expected);
    }
    if let (true, Some(id)) = (over, ids.final_statistic) {
        assert_eq!(row::<f32>(envs, id, replica), single.statistics());
    }
    if over {
        single.reset();
    }
}

/// Steps replicas together and alone; returns how many ended terminated and how many truncated.
fn together_and_alone<E: Env>(config: &E::Config, steps: u32) -> (u64, u64) {
    let mut envs = make::<E>(config, REPLICAS, 2);
    let alone = |i: usize| Single::<E>::replica(E::new(config).unwrap(), SEED, i as u32).unwrap();
    let mut singles: Vec<_> = (0..REPLICAS).map(alone).collect();
    let mut returns = vec![0.0_f64; envs.spec().groups.len()];
    let (mut terminated, mut truncated, mut length) = (0, 0, 0);
    for step in 0..steps {
        act(&mut envs, step);
        envs.step().unwrap();
        for (replica, single) in singles.iter_mut().enumerate() {
            let groups = 0..envs.spec().groups.len();
            let was_alive: Vec<_> = groups.clone().map(|g| single.alive(g).to_vec()).collect();
            let ended = single.step(&actions(single, step)).unwrap();
            assert!(!(ended.terminated && ended.truncated));
            terminated += u64::from(ended.terminated);
            truncated += u64::from(ended.truncated);
            for g in groups {
                returns[g] += single.reward(g).iter().map(|r| f64::from(*r)).sum::<f64>();
            }
            length += 1;
            same_step(&envs, replica, single, &was_alive, ended);
            same_view(&envs, replica, single);
        }
    }
    // What is counted of ended episodes, and what of those under way, make up everything.
    let totals = envs.take_episodes();
    assert_eq!(totals.count, terminated + truncated);
    let ids = envs.ids();
    let under_way: u32 = envs.store().slice::<u32>(ids.episode_length).iter().sum();
    assert_eq!(totals.length.sum + f64::from(under_way), f64::from(length));
    for (g, total) in returns.iter().enumerate() {
        let open: f32 = envs.store().slice::<f32>(ids.episode_return[g]).iter().sum();
        let seen = totals.returns[g].sum + f64::from(open);
        assert!((seen - total).abs() < 1e-2, "group {g}: {seen} and {total}");
    }
    assert_eq!(envs.take_episodes().count, 0, "what was taken is gone");
    (terminated, truncated)
}

#[test]
fn replicas_among_others_do_what_each_does_alone() {
    let road = RoadConfig { limit: 12 };
    for (terminated, truncated) in [
        together_and_alone::<Cart>(&road, 60),
        together_and_alone::<Slip>(&road, 60),
        together_and_alone::<Glide>(&road, 60),
        together_and_alone::<Clock>(&road, 60),
        together_and_alone::<Drone>(&DroneConfig { room: 4.0 }, 90),
        together_and_alone::<Crowd>(&CrowdConfig::default(), 60),
    ] {
        assert!(terminated > 20 && truncated > 20, "{terminated} and {truncated}");
    }
    assert!(together_and_alone::<Board>(&BoardConfig::default(), 90).0 > 100);
    assert!(together_and_alone::<Swarm>(&SwarmConfig::default(), 60).1 > 100);
}

#[test]
fn every_element_of_an_array_is_a_column() {
    let envs = make::<Drone>(&DroneConfig::default(), 70, 1);
    let names: Vec<&str> =
        envs.ids().state.iter().map(|id| envs.store().array(*id).name()).collect();
    let [a, b, c] = ["velocity[0]", "velocity[1]", "velocity[2]"];
    assert_eq!(names, ["position[0]", "position[1]", "position[2]", "gusts", a, b, c]);
    let (seen, y) = (envs.store().slice::<f32>(envs.ids().obs[0]), envs.ids().state[1]);
    assert_eq!(envs.store().array(y).shape(), [70]);
    let column = envs.store().slice::<f32>(y);
    assert!(column.iter().zip(seen.chunks(7)).all(|(y, seen)| *y == seen[1] && *y != 0.0));
}

#[test]
fn a_limit_that_is_part_of_the_game_terminates_everyone() {
    let config = CrowdConfig { truncates: false, ..CrowdConfig::default() };
    let (terminated, truncated) = together_and_alone::<Crowd>(&config, 60);
    assert!(terminated > 100 && truncated == 0, "{terminated} and {truncated}");
}

#[test]
fn who_leaves_is_terminated_once_and_stays_away_until_the_next_episode() {
    let mut envs = make::<Crowd>(&CrowdConfig::default(), 40, 1);
    let ids = envs.ids().clone();
    let (alive, left) = (ids.alive[PREY].unwrap(), ids.agent_terminated[PREY].unwrap());
    assert!(ids.alive[HUNTER].is_none() && ids.agent_terminated[HUNTER].is_none());
    let mut before = envs.store().slice::<u8>(alive).to_vec();
    let mut leavers_in_play = 0;
    for _ in 0..80 {
        run(&mut envs, 1);
        let store = envs.store();
        let rewards = store.slice::<f32>(ids.reward[PREY]);
        for i in 0..before.len() {
            let terminated = store.slice::<u8>(ids.terminated)[i / 5] != 0;
            let over = terminated || store.slice::<u8>(ids.truncated)[i / 5] != 0;
            let (is, gone) = (store.slice::<u8>(alive)[i], store.slice::<u8>(left)[i]);
            assert!(gone <= before[i], "only who was in the game can leave it");
            assert!(rewards[i] == 0.0 || before[i] == 1, "who is gone earns nothing");
            if over {
                assert_eq!(is, 1, "a new episode begins with everyone");
                assert!(gone == 1 || before[i] == 0 || !terminated);
            } else {
                assert_eq!(is, before[i] - gone);
                leavers_in_play += usize::from(gone);
            }
        }
        before = envs.store().slice::<u8>(alive).to_vec();
    }
    assert!(leavers_in_play > 50, "{leavers_in_play}");
}

#[test]
fn starts_are_fresh_per_replica_and_episode_or_all_the_same() {
    let starts = |start| {
        let options = VecOptions { n_envs: 30, seed: SEED, start, ..VecOptions::default() };
        let mut envs = make_with::<Crowd>(&CrowdConfig::default(), options);
        let place = envs.store().id("place").unwrap();
        let all = |envs: &CpuVecEnv<Crowd>| -> Vec<Vec<f32>> {
            (0..30).map(|replica| row(envs, place, replica).to_vec()).collect()
        };
        let mut seen = all(&envs);
        for _ in 0..40 {
            run(&mut envs, 1);
            let begun = envs.store().slice::<u32>(envs.ids().episode_length);
            let places = all(&envs).into_iter().zip(begun);
            seen.extend(places.filter(|(_, length)| **length == 0).map(|(place, _)| place));
        }
        assert!(seen.len() > 100);
        let n = seen.len();
        seen.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
        seen.dedup();
        (n, seen.len())
    };
    let (n, different) = starts(Start::Fresh);
    assert_eq!(n, different);
    assert_eq!(starts(Start::Fixed).1, 1);
}

fn some_as_part_of_many<E: Env>(config: &E::Config) {
    let mut all = make::<E>(config, REPLICAS, 1);
    let options = VecOptions { n_envs: 20, seed: SEED, first_replica: 97, ..VecOptions::default() };
    let mut part = make_with::<E>(config, options);
    for _ in 0..40 {
        assert_eq!(bits(&all, 97..117, true), bits(&part, 0..20, true));
        run(&mut all, 1);
        run(&mut part, 1);
    }
    assert_ne!(bits(&all, 0..20, true), bits(&part, 0..20, true), "replicas differ");
}

#[test]
fn replicas_are_numbered_over_devices() {
    some_as_part_of_many::<Cart>(&RoadConfig::default());
    some_as_part_of_many::<Slip>(&RoadConfig::default());
    some_as_part_of_many::<Crowd>(&CrowdConfig::default());
}

fn any_number_of_threads<E: Env>(config: &E::Config) {
    let mut one = make::<E>(config, REPLICAS, 1);
    run(&mut one, 60);
    let totals = one.take_episodes();
    assert!(totals.count > 100);
    for threads in [2, 3, 5] {
        let mut more = make::<E>(config, REPLICAS, threads);
        run(&mut more, 60);
        assert_eq!(everything(&one), everything(&more), "{} {threads}", E::NAME);
        assert_eq!(totals, more.take_episodes());
    }
}

#[test]
fn threads_change_no_bit() {
    any_number_of_threads::<Cart>(&RoadConfig::default());
    any_number_of_threads::<Slip>(&RoadConfig::default());
    any_number_of_threads::<Glide>(&RoadConfig::default());
    any_number_of_threads::<Drone>(&DroneConfig::default());
    any_number_of_threads::<Board>(&BoardConfig::default());
    any_number_of_threads::<Crowd>(&CrowdConfig::default());
}

/// Overwrites one action, expects it to be refused with `words` and nothing to move.
fn refused<E: Env, T: Element>(config: &E::Config, group: usize, at: usize, bad: T, words: &str) {
    let mut envs = make::<E>(config, 12, 2);
    run(&mut envs, 3);
    act(&mut envs, 3);
    let id = envs.ids().action[group];
    let good = std::mem::replace(&mut envs.store_mut().slice_mut::<T>(id)[at], bad);
    let before = everything(&envs);
    let error = envs.step().unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
    assert_eq!(everything(&envs), before);
    assert_eq!(envs.run_step(), 3);
    // Put right, the run goes on as if nothing had been.
    envs.store_mut().slice_mut::<T>(id)[at] = good;
    envs.step().unwrap();
    let mut other = make::<E>(config, 12, 2);
    run(&mut other, 4);
    assert_eq!(everything(&envs), everything(&other));
}

#[test]
fn an_action_outside_its_space_is_named_and_nothing_moves() {
    let (road, crowd) = (RoadConfig::default(), CrowdConfig::default());
    let place = "replica 7, group \"driver\", agent 0, head 0: action 2 is not in Discrete(2)";
    refused::<Cart, i32>(&road, 0, 7, 2, place);
    refused::<Slip, i32>(
        &road,
        0,
        11,
        -1,
        "replica 11, group \"driver\", agent 0, head 0: action -1",
    );
    refused::<Crowd, i32>(&crowd, HUNTER, 9, 3, "replica 4, group \"hunter\", agent 1, head 0");
    // 5 prey with 2 heads: replica 3, agent 4, heads of size 2 and 3.
    let place = "replica 3, group \"prey\", agent 4, head 0: action 2 is not in Discrete(2)";
    refused::<Crowd, i32>(&crowd, PREY, 38, 2, place);
    refused::<Crowd, i32>(&crowd, PREY, 39, i32::MAX, "agent 4, head 1: action 2147483647");
    refused::<Glide, f32>(&road, 0, 5, f32::NAN, "replica 5, group \"driver\", agent 0, head 0");
    refused::<Glide, f32>(&road, 0, 5, f32::NEG_INFINITY, "action -inf is not in Box[1]");
}

fn goes_on_from_its_arrays<E: Env>(config: &E::Config) {
    let mut first = make::<E>(config, 70, 1);
    run(&mut first, 17);
    let mut second = make_with::<E>(
        config,
        VecOptions { n_envs: 70, seed: SEED, threads: 3, ..VecOptions::default() },
    );
    run(&mut second, 5);
    for id in first.ids().persistent().collect::<Vec<_>>() {
        let (from, mut to) = (first.store(), second.store_mut());
        match from.array(id).dtype() {
            DType::F32 => to.slice_mut::<f32>(id).copy_from_slice(from.slice(id)),
            DType::I32 => to.slice_mut::<i32>(id).copy_from_slice(from.slice(id)),
            DType::U32 => to.slice_mut::<u32>(id).copy_from_slice(from.slice(id)),
            DType::U8 => to.slice_mut::<u8>(id).copy_from_slice(from.slice(id)),
        }
    }
    second.set_run_step(first.run_step());
    second.observe().unwrap();
    second.take_episodes();
    first.take_episodes();
    let seen = |envs: &CpuVecEnv<E>| -> Vec<_> {
        let all = bits(envs, 0..70, false).into_iter();
        all.filter(|(name, _)| name.starts_with("obs") || name.contains("mask")).collect()
    };
    assert_eq!(seen(&first), seen(&second), "observations follow from the state");
    for _ in 0..40 {
        run(&mut first, 1);
        run(&mut second, 1);
        assert_eq!(bits(&first, 0..70, false), bits(&second, 0..70, false), "{}", E::NAME);
    }
    assert_eq!(first.take_episodes(), second.take_episodes());
}

#[test]
fn a_restored_run_goes_on_with_the_same_bits() {
    goes_on_from_its_arrays::<Cart>(&RoadConfig::default());
    goes_on_from_its_arrays::<Slip>(&RoadConfig::default());
    goes_on_from_its_arrays::<Glide>(&RoadConfig::default());
    goes_on_from_its_arrays::<Drone>(&DroneConfig::default());
    goes_on_from_its_arrays::<Board>(&BoardConfig::default());
    goes_on_from_its_arrays::<Swarm>(&SwarmConfig::default());
    goes_on_from_its_arrays::<Crowd>(&CrowdConfig::default());
}

#[test]
fn a_dictionary_is_flat_in_byte_order_and_its_mask_apart() {
    let mut envs = make::<Crowd>(&CrowdConfig::default(), 9, 1);
    let flat = envs.spec().groups[PREY].observation.flatten();
    let parts: Vec<_> = flat.entries.iter().map(|e| (e.path.as_str(), e.offset)).collect();
    assert_eq!(parts, [("Energy", 0), ("place", 4)]);
    run(&mut envs, 6);
    let store = envs.store();
    assert_eq!(store.array(store.id("obs.prey").unwrap()).shape(), [9, 5, 5]);
    assert_eq!(store.array(store.id("action_mask.prey").unwrap()).shape(), [9, 5, 5]);
    assert!(store.id("action_mask.hunter").is_err() && store.id("alive.hunter").is_err());
    let energy = store.get::<i32>("energy").unwrap();
    let place = store.get::<f32>("place").unwrap();
    let obs = store.get::<f32>("obs.prey").unwrap().chunks(5);
    let masks = store.get::<u8>("action_mask.prey").unwrap().chunks(5);
    for (i, (obs, mask)) in obs.zip(masks).enumerate() {
        let one_hot: Vec<f32> = (0..4).map(|e| f32::from(u8::from(e == energy[i]))).collect();
        assert_eq!(obs[..4], one_hot);
        assert_eq!(obs[4], place[i / 5 * 7 + 2 + i % 5]);
        assert_eq!(mask, [1, u8::from(energy[i] > 1), 1, 1, 1]);
    }
    assert!(energy.contains(&1) && energy.contains(&2), "both masks were seen");
    assert_eq!(store.get::<f32>("global_obs").unwrap().len(), 9);
}

#[test]
fn without_auto_reset_an_ended_replica_waits() {
    let options = VecOptions { n_envs: 20, seed: SEED, auto_reset: false, ..VecOptions::default() };
    let mut envs = make_with::<Crowd>(&CrowdConfig::default(), options);
    run(&mut envs, 12);
    let ids = envs.ids().clone();
    let store = envs.store();
    let truncated = store.slice::<u8>(ids.truncated);
    assert!(truncated.contains(&1));
    for replica in (0..20).filter(|replica| truncated[*replica] == 1) {
        let (obs, last) = (ids.obs[PREY], ids.final_obs[PREY]);
        assert_eq!(row::<f32>(&envs, obs, replica), row::<f32>(&envs, last, replica));
        assert_eq!(row::<u32>(&envs, ids.episode_length, replica), [12]);
    }
    envs.reset().unwrap();
    assert!(envs.store().slice::<u32>(ids.episode_length).iter().all(|length| *length == 0));
    assert!(envs.store().slice::<u8>(ids.truncated).iter().all(|flag| *flag == 0));
}

#[test]
fn a_width_that_the_spec_contradicts_is_refused() {
    fn made<const WIDTH: usize>() -> Result<(), String> {
        let env = Misjudged::<WIDTH>::new(&RoadConfig::default()).unwrap();
        CpuVecEnv::new(env, VecOptions::default()).map(drop).map_err(|error| error.to_string())
    }
    assert_eq!([made::<0>(), made::<2>()], [Ok(()), Ok(())]);
    for (made, width) in [(made::<1>(), 1), (made::<3>(), 3), (made::<99>(), 99)] {
        let words =
            format!("OBSERVATION_WIDTH = {width} differs from the width of its observation, 2");
        assert_eq!(made, Err(format!("environment \"misjudged\": {words}")));
    }
}

#[test]
fn options_out_of_range_are_refused() {
    let refused = |n_envs, first_replica| {
        let env = Cart::new(&RoadConfig::default()).unwrap();
        let options = VecOptions { n_envs, first_replica, ..VecOptions::default() };
        CpuVecEnv::new(env, options).unwrap_err().to_string()
    };
    assert!(refused(0, 0).contains("num_envs = 0"));
    assert!(refused(usize::MAX, 0).contains("32 bits"));
    assert!(refused(usize::MAX, 5).contains("32 bits"));
    assert!(refused(2, u32::MAX - 1).contains("32 bits"));
    assert!(refused(u32::MAX as usize, 0).contains("lower num_envs"));
    let env = Cart::new(&RoadConfig { limit: 0 }).unwrap();
    let error = CpuVecEnv::new(env, VecOptions::default()).unwrap_err().to_string();
    assert!(error.contains("the time limit is 0 steps"), "{error}");
}

#[test]
fn the_public_check_passes() {
    warp_func::check_vec_env::<Cart>(&RoadConfig::default(), 3).unwrap();
    warp_func::check_vec_env::<Slip>(&RoadConfig::default(), 3).unwrap();
    warp_func::check_vec_env::<Glide>(&RoadConfig::default(), 3).unwrap();
    warp_func::check_vec_env::<Clock>(&RoadConfig::default(), 3).unwrap();
    warp_func::check_vec_env::<Crowd>(&CrowdConfig::default(), 3).unwrap();
    warp_func::check_vec_env::<Drone>(&DroneConfig::default(), 3).unwrap();
    warp_func::check_vec_env::<Board>(&BoardConfig::default(), 3).unwrap();
    warp_func::check_vec_env::<Swarm>(&SwarmConfig::default(), 3).unwrap();
    warp_core::check_env::<Crowd>(&CrowdConfig::default(), 3).unwrap();
}

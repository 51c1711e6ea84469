//! A public conformance check: does an environment satisfy the contract?
//!
//! [`check_env`] plays a few episodes with random actions and looks for problems that a learner
//! would run into later: unwritten or infinite numbers, violated bounds, hidden state, replicas
//! that influence each other, agents that come back to life, episodes that never end.

use crate::config::Config;
use crate::draw::{Draw, Purpose};
use crate::env::{Env, TableData};
use crate::error::{Error, Result};
use crate::single::{GroupAction, Single};
use crate::space::Space;
use crate::spec::GroupSpec;
use crate::state::State;
use std::sync::Arc;

/// Replicas that are played, beside each other and alone.
const REPLICAS: u32 = 3;
/// Episodes per replica.
const EPISODES: u32 = 2;
/// Steps per episode at most; an environment with a longer limit is checked up to here.
const STEPS: u32 = 400;

/// Checks an environment against the contract.
///
/// # Errors
/// The first thing that is wrong, with its values.
pub fn check_env<E: Env>(config: &E::Config, seed: u64) -> Result<()> {
    let env = Arc::new(E::new(config)?);
    check_declaration(&*env, config)?;
    let mut beside = (0..REPLICAS)
        .map(|replica| Single::<E>::replica(Arc::clone(&env), seed, replica))
        .collect::<Result<Vec<_>>>()?;
    check_reset(&env, seed)?;
    // All replicas in step, sharing one environment value ...
    let mut traces = vec![Vec::new(); beside.len()];
    for step in 0..EPISODES * STEPS {
        for (replica, trace) in beside.iter_mut().zip(&mut traces) {
            play(replica, seed, step, trace)?;
        }
    }
    // ... must do what each does alone, from the same seed.
    for (replica, trace) in (0..REPLICAS).zip(&traces) {
        let mut alone = Single::<E>::replica(E::new(config)?, seed, replica)?;
        let mut again = Vec::new();
        (0..EPISODES * STEPS).try_for_each(|step| play(&mut alone, seed, step, &mut again))?;
        if let Some(at) = trace.iter().zip(&again).position(|(a, b)| a != b) {
            return broken::<E>(format!(
                "replica {replica} with seed {seed} differs at trace element {at} when it is run \
                 alone: state lies outside the declared fields"
            ));
        }
    }
    Ok(())
}

fn broken<E: Env>(reason: String) -> Result<()> {
    Err(Error::NonConforming { env: E::NAME.into(), reason })
}

fn check_declaration<E: Env>(env: &E, config: &E::Config) -> Result<()> {
    let spec = env.spec();
    spec.validate()?;
    if spec.name != E::NAME {
        return broken::<E>(format!("its spec is named \"{}\"", spec.name));
    }
    let table = config.to_table();
    if E::Config::from_table(&table)?.to_table() != table {
        return broken::<E>("its configuration changes when written and read back".into());
    }
    for table in env.tables() {
        let len = match table.data {
            TableData::F32(data) => data.len(),
            TableData::I32(data) => data.len(),
        };
        if table.shape.iter().product::<usize>() != len {
            let (name, shape) = (table.name, &table.shape);
            return broken::<E>(format!("table \"{name}\" of shape {shape:?} has {len} elements"));
        }
    }
    let width = E::OBSERVATION_WIDTH;
    let lone = spec.groups.len() == 1 && spec.groups[0].n_agents == 1;
    if width != 0 && !(lone && E::State::SCALARS && spec.groups[0].observation_width() == width) {
        return broken::<E>(format!(
            "OBSERVATION_WIDTH = {width} needs a state of scalars and one agent that observes it"
        ));
    }
    E::kernel().map_or(Ok(()), |kernel| kernel.validate())
}

/// Reset must write every field, whatever was there before.
fn check_reset<E: Env>(env: &Arc<E>, seed: u64) -> Result<()> {
    let mut clean = Single::<E>::new(Arc::clone(env), seed)?;
    let mut soiled = Single::<E>::new(Arc::clone(env), seed)?;
    let rubbish = vec![0x3f80_0001; clean.state_bits().len()];
    soiled.set_state_bits_unobserved(&rubbish);
    clean.reset();
    soiled.reset();
    let (clean, soiled) = (clean.state_bits(), soiled.state_bits());
    match clean.iter().zip(&soiled).position(|(a, b)| a != b) {
        Some(at) => broken::<E>(format!("reset does not write state element {at}")),
        None => Ok(()),
    }
}

/// One random step, every array checked; the trace collects all bits that came out.
fn play<E: Env>(one: &mut Single<E>, seed: u64, step: u32, trace: &mut Vec<u32>) -> Result<()> {
    let draw = Draw::new(seed, one.replica_index(), step, Purpose::RandomAction);
    let mut first_agent = 0;
    let mut actions = Vec::new();
    for (g, group) in one.spec().groups.iter().enumerate() {
        actions.push(random_action(group, one.action_mask(g), &draw, first_agent));
        first_agent += group.n_agents as u32;
    }
    let alive_before: Vec<Vec<u8>> =
        (0..one.spec().groups.len()).map(|g| one.alive(g).to_vec()).collect();
    let ended = one.step(&actions)?;
    check_arrays(one, &alive_before)?;
    check_number(one)?;
    trace.extend(one.state_bits());
    for g in 0..one.spec().groups.len() {
        trace.extend(one.obs(g).iter().chain(one.reward(g)).map(|x| x.to_bits()));
    }
    check_observe(one)?;
    if one.timestep() > one.spec().time_limit.steps {
        return broken::<E>(format!("an episode lasts {} steps", one.timestep()));
    }
    if ended.terminated || ended.truncated || one.timestep() == STEPS {
        one.reset();
    }
    Ok(())
}

fn check_arrays<E: Env>(one: &Single<E>, alive_before: &[Vec<u8>]) -> Result<()> {
    let step = one.timestep();
    for (g, group) in one.spec().groups.iter().enumerate() {
        let name = &group.name;
        for (agent, obs) in one.obs(g).chunks(group.observation_width().max(1)).enumerate() {
            if !obs.iter().all(|x| x.is_finite()) || !group.observation.contains_flat(obs) {
                return broken::<E>(format!(
                    "step {step}: {name} {agent} observes {obs:?}, which is outside its space, \
                     infinite or not written"
                ));
            }
        }
        if let Some(reward) = one.reward(g).iter().find(|r| !r.is_finite()) {
            return broken::<E>(format!("step {step}: group {name} has the reward {reward}"));
        }
        if let Some(bit) = one.action_mask(g).iter().find(|bit| **bit > 1) {
            return broken::<E>(format!("step {step}: group {name} has the mask byte {bit}"));
        }
        for (agent, mask) in one.action_mask(g).chunks(group.mask_width().max(1)).enumerate() {
            let mut rest = mask;
            for size in group.action.head_sizes() {
                let (head, others) = rest.split_at(size);
                if !head.contains(&1) {
                    return broken::<E>(format!("step {step}: {name} {agent} has no action left"));
                }
                rest = others;
            }
        }
        for (agent, (now, before)) in one.alive(g).iter().zip(&alive_before[g]).enumerate() {
            if now > before {
                return broken::<E>(format!(
                    "step {step}: {name} {agent} went from {before} to {now} in alive"
                ));
            }
        }
    }
    match one.statistics().iter().find(|s| !s.is_finite()) {
        Some(value) => broken::<E>(format!("step {step}: a statistic is {value}")),
        None => Ok(()),
    }
}

/// A number says what its one-hot form and its mask say.
fn check_number<E: Env>(one: &mut Single<E>) -> Result<()> {
    let mut mask = one.action_mask(0).to_vec();
    mask.fill(u8::MAX);
    let mut number = None;
    let env = one.shared();
    one.edit(|state| {
        number = env.number(state);
        env.number_mask(state, &mut mask);
    });
    let Some(number) = number else { return Ok(()) };
    let shown = one.obs(0).iter().position(|x| *x == 1.0);
    if usize::try_from(number).ok() != shown {
        return broken::<E>(format!("number is {number}, but observe shows {shown:?}"));
    }
    if mask != one.action_mask(0) {
        let shown = one.action_mask(0);
        return broken::<E>(format!("number_mask is {mask:?}, but observe shows {shown:?}"));
    }
    Ok(())
}

/// A second look at the same state must show the same.
fn check_observe<E: Env>(one: &mut Single<E>) -> Result<()> {
    let groups = one.spec().groups.len();
    let seen: Vec<Vec<f32>> = (0..groups).map(|g| one.obs(g).to_vec()).collect();
    let bits = one.state_bits();
    one.set_state_bits(&bits)?;
    let same = (0..groups)
        .all(|g| one.obs(g).iter().zip(&seen[g]).all(|(a, b)| a.to_bits() == b.to_bits()));
    if same {
        Ok(())
    } else {
        broken::<E>("a second call of observe on the same state writes something else".into())
    }
}

/// A random action of every agent of a group, within its mask; Box bounds beyond 10 count as 10.
fn random_action(group: &GroupSpec, mask: &[u8], draw: &Draw, first_agent: u32) -> GroupAction {
    if let Space::Box { low, high, .. } = &group.action {
        let mut values = Vec::new();
        for agent in 0..group.n_agents as u32 {
            let mut draw = draw.agent(first_agent + agent);
            let bounds = low.iter().zip(high);
            values.extend(bounds.map(|(l, h)| draw.uniform_in(l.max(-10.0), h.min(10.0))));
        }
        return GroupAction::Continuous(values);
    }
    let sizes = group.action.head_sizes();
    let width: usize = sizes.iter().sum();
    let mut heads = Vec::new();
    for agent in 0..group.n_agents {
        let mut draw = draw.agent(first_agent + agent as u32);
        let mut offset = agent * width;
        for size in &sizes {
            let allowed = |a: &usize| mask.is_empty() || mask[offset + a] == 1;
            let choices: Vec<usize> = (0..*size).filter(allowed).collect();
            let pick = draw.below(choices.len().max(1) as u32) as usize;
            heads.push(choices.get(pick).map_or(0, |a| *a as i32));
            offset += size;
        }
    }
    GroupAction::Discrete(heads)
}

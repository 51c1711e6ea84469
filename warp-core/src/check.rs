//! A public conformance check: does an environment satisfy the contract?
//!
//! [`check_env`] plays a few episodes with random actions and looks for problems that a learner
//! would run into later: unwritten or infinite numbers, violated bounds, hidden state, replicas
//! that influence each other, agents that come back to life, episodes that never end.

use crate::actions::{Ended, GroupAction};
use crate::config::Config;
use crate::draw::{Draw, Purpose};
use crate::env::{Env, Table, TableData};
use crate::error::{Error, Result};
use crate::replica::Replica;
use crate::single::Single;
use crate::space::Space;
use crate::spec::{EnvSpec, GroupSpec};
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
    check_replicas(
        seed,
        &|replica| Ok(Box::new(Single::<E>::replica(Arc::clone(&env), seed, replica)?)),
        &|replica| Ok(Box::new(Single::<E>::replica(E::new(config)?, seed, replica)?)),
    )
}

/// A replica of any environment, so that what is asked of it is compiled once for all of them.
trait AnyReplica {
    fn data(&self) -> &Replica;
    fn data_mut(&mut self) -> &mut Replica;
    fn reset(&mut self);
    fn step(&mut self, actions: &[GroupAction]) -> Result<Ended>;
    fn set_state_bits(&mut self, bits: &[u32]) -> Result<()>;
    /// The number that its agent sees, if it sees one; its mask goes to `mask`.
    fn number(&mut self, mask: &mut [u8]) -> Option<i32>;
}

impl<E: Env> AnyReplica for Single<E> {
    fn data(&self) -> &Replica {
        self.data()
    }
    fn data_mut(&mut self) -> &mut Replica {
        self.data_mut()
    }
    fn reset(&mut self) {
        self.reset();
    }
    fn step(&mut self, actions: &[GroupAction]) -> Result<Ended> {
        self.step(actions)
    }
    fn set_state_bits(&mut self, bits: &[u32]) -> Result<()> {
        self.set_state_bits(bits)
    }
    fn number(&mut self, mask: &mut [u8]) -> Option<i32> {
        let mut number = None;
        let env = self.shared();
        self.edit(|state| {
            number = env.number(state);
            env.number_mask(state, mask);
        });
        number
    }
}

/// Makes a replica by its number.
type Make<'a> = &'a dyn Fn(u32) -> Result<Box<dyn AnyReplica>>;

/// Replicas that share one environment value, and replicas that each have their own.
fn check_replicas(seed: u64, shared: Make<'_>, alone: Make<'_>) -> Result<()> {
    let mut beside = (0..REPLICAS).map(shared).collect::<Result<Vec<_>>>()?;
    beside.iter_mut().try_for_each(|replica| check_seen(&mut **replica))?;
    check_reset(&mut *shared(0)?, &mut *shared(0)?)?;
    // All replicas in step, sharing one environment value ...
    let mut traces = vec![Vec::new(); beside.len()];
    for step in 0..EPISODES * STEPS {
        for (replica, trace) in beside.iter_mut().zip(&mut traces) {
            play(&mut **replica, seed, step, trace)?;
        }
    }
    // ... must do what each does alone, from the same seed.
    for (replica, trace) in (0..REPLICAS).zip(&traces) {
        let mut alone = alone(replica)?;
        let mut again = Vec::new();
        (0..EPISODES * STEPS).try_for_each(|step| play(&mut *alone, seed, step, &mut again))?;
        if let Some(at) = trace.iter().zip(&again).position(|(a, b)| a != b) {
            return broken(
                &alone.data().spec.name,
                format!(
                    "replica {replica} with seed {seed} differs at trace element {at} when it is run \
                     alone: state lies outside the declared fields"
                ),
            );
        }
    }
    Ok(())
}

fn broken(env: &str, reason: String) -> Result<()> {
    Err(Error::NonConforming { env: env.into(), reason })
}

fn check_declaration<E: Env>(env: &E, config: &E::Config) -> Result<()> {
    let spec = EnvSpec::of(env)?;
    if spec.name != E::NAME {
        return broken(E::NAME, format!("its spec is named \"{}\"", spec.name));
    }
    let table = config.to_table();
    if E::Config::from_table(&table)?.to_table() != table {
        let reason = "its configuration changes when written and read back";
        return broken(E::NAME, reason.into());
    }
    check_tables(E::NAME, &env.tables())?;
    E::kernel().map_or(Ok(()), |kernel| kernel.validate())
}

fn check_tables(env: &str, tables: &[Table<'_>]) -> Result<()> {
    for table in tables {
        let len = match table.data {
            TableData::F32(data) => data.len(),
            TableData::I32(data) => data.len(),
        };
        if table.shape.iter().product::<usize>() != len {
            let (name, shape) = (table.name, &table.shape);
            return broken(env, format!("table \"{name}\" of shape {shape:?} has {len} elements"));
        }
    }
    Ok(())
}

/// Reset must write every field, whatever was there before.
fn check_reset(clean: &mut dyn AnyReplica, soiled: &mut dyn AnyReplica) -> Result<()> {
    let rubbish = vec![0x3f80_0001; clean.data().state_bits().len()];
    soiled.data_mut().set_state_bits(&rubbish);
    clean.reset();
    soiled.reset();
    let (clean, soiled) = (clean.data(), soiled.data());
    match clean.state_bits().iter().zip(&soiled.state_bits()).position(|(a, b)| a != b) {
        Some(at) => broken(&clean.spec.name, format!("reset does not write state element {at}")),
        None => Ok(()),
    }
}

/// One random step, every array checked; the trace collects all bits that came out.
fn play(one: &mut dyn AnyReplica, seed: u64, step: u32, trace: &mut Vec<u32>) -> Result<()> {
    let before = one.data();
    let draw = Draw::new(seed, before.index, step, Purpose::RandomAction);
    let mut first_agent = 0;
    let mut actions = Vec::new();
    for (group, mask) in before.spec.groups.iter().zip(&before.action_mask) {
        actions.push(random_action(group, mask, &draw, first_agent));
        first_agent += group.n_agents as u32;
    }
    let alive_before = before.alive.clone();
    let ended = one.step(&actions)?;
    check_outcome(one.data(), &alive_before)?;
    check_seen(one)?;
    let now = one.data();
    trace.extend(now.state_bits());
    for (obs, reward) in now.obs.iter().zip(&now.reward) {
        trace.extend(obs.iter().chain(reward).map(|x| x.to_bits()));
    }
    let Replica { timestep, spec, .. } = one.data();
    if *timestep > spec.time_limit.steps {
        return broken(&spec.name, format!("an episode lasts {timestep} steps"));
    }
    if ended.terminated || ended.truncated || *timestep == STEPS {
        one.reset();
        check_seen(one)?;
    }
    Ok(())
}

/// What a step has written beside observations.
fn check_outcome(one: &Replica, alive_before: &[Vec<u8>]) -> Result<()> {
    let (step, env) = (one.timestep, &one.spec.name);
    for (g, group) in one.spec.groups.iter().enumerate() {
        let name = &group.name;
        if let Some(reward) = one.reward[g].iter().find(|r| !r.is_finite()) {
            return broken(env, format!("step {step}: group {name} has the reward {reward}"));
        }
        // Both are empty for a group that nobody leaves.
        for (agent, (now, before)) in one.alive[g].iter().zip(&alive_before[g]).enumerate() {
            if now > before {
                return broken(
                    env,
                    format!("step {step}: {name} {agent} went from {before} to {now} in alive"),
                );
            }
            let reward = one.reward[g][agent];
            if *before == 0 && reward != 0.0 {
                return broken(
                    env,
                    format!("step {step}: {name} {agent} has left, but gets the reward {reward}"),
                );
            }
        }
    }
    match one.statistics.iter().find(|s| !s.is_finite()) {
        Some(value) => broken(env, format!("step {step}: a statistic is {value}")),
        None => Ok(()),
    }
}

/// What agents and critics see now, at the first look and at the second.
fn check_seen(one: &mut dyn AnyReplica) -> Result<()> {
    check_observations(one.data())?;
    check_masks(one.data())?;
    check_number(one)?;
    check_observe(one)
}

fn check_observations(one: &Replica) -> Result<()> {
    let each = one.spec.groups.iter().zip(&one.obs);
    let each = each.flat_map(|(group, obs)| {
        let agents = obs.chunks(group.observation_width().max(1)).enumerate();
        agents.map(move |(agent, obs)| {
            (format!("{} {agent} observes", group.name), obs, &group.observation)
        })
    });
    let global = one.spec.global_observation.iter();
    let global = global.map(|space| ("a critic observes".to_string(), &one.global[..], space));
    for (who, obs, space) in each.chain(global) {
        if !obs.iter().all(|x| x.is_finite()) || !space.contains_flat(obs) {
            return broken(
                &one.spec.name,
                format!(
                    "step {}: {who} {obs:?}, which is outside its space, infinite or not written",
                    one.timestep
                ),
            );
        }
    }
    Ok(())
}

fn check_masks(one: &Replica) -> Result<()> {
    let (step, env) = (one.timestep, &one.spec.name);
    for (group, masks) in one.spec.groups.iter().zip(&one.action_mask) {
        let name = &group.name;
        if let Some(byte) = masks.iter().find(|byte| **byte > 1) {
            return broken(env, format!("step {step}: group {name} has the mask byte {byte}"));
        }
        for (agent, mask) in masks.chunks(group.mask_width().max(1)).enumerate() {
            let mut rest = mask;
            for (head, size) in group.action.head_sizes().into_iter().enumerate() {
                let (choices, others) = rest.split_at(size);
                if !choices.contains(&1) {
                    return broken(
                        env,
                        format!(
                            "step {step}: the mask of {name} {agent} forbids all of head {head}"
                        ),
                    );
                }
                rest = others;
            }
        }
    }
    Ok(())
}

/// A number says what its one-hot form and its mask say.
fn check_number(one: &mut dyn AnyReplica) -> Result<()> {
    let mut mask = vec![u8::MAX; one.data().action_mask[0].len()];
    let Some(number) = one.number(&mut mask) else { return Ok(()) };
    let Replica { spec, obs, action_mask, .. } = one.data();
    let shown = obs[0].iter().position(|x| *x == 1.0);
    if usize::try_from(number).ok() != shown {
        return broken(&spec.name, format!("number is {number}, but observe shows {shown:?}"));
    }
    if mask != action_mask[0] {
        let shown = &action_mask[0];
        return broken(&spec.name, format!("number_mask is {mask:?}, but observe shows {shown:?}"));
    }
    Ok(())
}

/// A second look at the same state must show the same.
fn check_observe(one: &mut dyn AnyReplica) -> Result<()> {
    let shown = |one: &Replica| {
        let numbers = one.obs.iter().flatten().chain(&one.global).map(|x| x.to_bits());
        let masks = one.action_mask.iter().flatten().map(|byte| u32::from(*byte));
        numbers.chain(masks).collect::<Vec<_>>()
    };
    let first = shown(one.data());
    let bits = one.data().state_bits();
    one.set_state_bits(&bits)?;
    if shown(one.data()) == first {
        return Ok(());
    }
    let reason = "a second call of observe on the same state writes something else";
    broken(&one.data().spec.name, reason.into())
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

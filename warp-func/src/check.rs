//! A public conformance check of an executor: auto-reset, final observations, independence of the
//! number of threads and of replicas from each other.

use crate::error::{Error, Result};
use crate::executor::CpuVecEnv;
use crate::group_actions::GroupActionsMut;
use crate::vec_env::{VecEnv, VecOptions};
use warp_core::{DType, Draw, Env, Purpose, Space};
use warp_data::ArrayId;

/// Not a multiple of any vector width or shard size.
const REPLICAS: usize = 67;
const STEPS: u32 = 160;

/// Runs an environment under the executor and compares what must be equal.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub fn check_vec_env<E: Env>(config: &E::Config, seed: u64) -> Result<()> {
    check_executor(seed, &|options| Ok(Box::new(CpuVecEnv::new(E::new(config)?, options)?)))
}

/// Compares what must be equal between executors that `make` makes.
fn check_executor(seed: u64, make: &dyn Fn(VecOptions) -> Result<Box<dyn VecEnv>>) -> Result<()> {
    let make = |n_envs, threads, first_replica| {
        make(VecOptions { n_envs, seed, threads, first_replica, ..VecOptions::default() })
    };
    let mut one = make(REPLICAS, 1, 0)?;
    let mut two = make(REPLICAS, 2, 0)?;
    let env = one.spec().name.clone();
    let last = REPLICAS - 1;
    let mut tail = make(1, 1, last as u32)?;
    for step in 0..STEPS {
        for envs in [&mut one, &mut two, &mut tail] {
            random_actions(&mut **envs, seed, step)?;
            envs.step()?;
        }
        check_flags(&*one)?;
        let (a, b) = (all_bits(&*one, 0..REPLICAS), all_bits(&*two, 0..REPLICAS));
        compare(&env, step, "1 and 2 threads", &a, &b)?;
        let (a, b) = (all_bits(&*one, last..REPLICAS), all_bits(&*tail, 0..1));
        compare(&env, step, "a replica among others and alone", &a, &b)?;
    }
    Ok(())
}

fn broken(env: &str, reason: String) -> Result<()> {
    Err(Error::NonConforming { env: env.into(), reason })
}

fn compare(
    env: &str,
    step: u32,
    what: &str,
    a: &[(String, Vec<u32>)],
    b: &[(String, Vec<u32>)],
) -> Result<()> {
    for ((name, a), (_, b)) in a.iter().zip(b) {
        if let Some(at) = a.iter().zip(b).position(|(x, y)| x != y) {
            return broken(
                env,
                format!(
                    "step {step}: with {what}, {name}[{at}] has the bits {:#x} and {:#x}",
                    a[at], b[at]
                ),
            );
        }
    }
    Ok(())
}

/// An episode that ended has begun anew; one that goes on has not.
fn check_flags(envs: &dyn VecEnv) -> Result<()> {
    let ids = envs.ids();
    let flags = |id| envs.store().slice::<u8>(id);
    let lengths = envs.store().slice::<u32>(ids.episode_length);
    let limit = envs.spec().time_limit.steps;
    let ended = flags(ids.terminated).iter().zip(flags(ids.truncated));
    for (replica, ((terminated, truncated), length)) in ended.zip(lengths).enumerate() {
        let fine = match terminated + truncated {
            0 => *length > 0 && *length < limit,
            1 => *length == 0,
            _ => false,
        };
        if !fine {
            let name = &envs.spec().name;
            return broken(
                name,
                format!(
                    "replica {replica} has terminated = {terminated}, truncated = {truncated} and \
                     is {length} steps into its episode"
                ),
            );
        }
    }
    Ok(())
}

/// Every array that a learner reads or a checkpoint keeps, as bits.
fn all_bits(envs: &dyn VecEnv, replicas: std::ops::Range<usize>) -> Vec<(String, Vec<u32>)> {
    let ids = envs.ids();
    let grouped = ids.obs.iter().chain(&ids.reward).copied();
    let flags = [ids.terminated, ids.truncated];
    let wanted: Vec<ArrayId> = ids.persistent().chain(grouped).chain(flags).collect();
    let bits = |id: ArrayId| {
        let array = envs.store().array(id);
        let range = replicas.start * array.row_len()..replicas.end * array.row_len();
        let bits = match array.dtype() {
            DType::F32 => {
                envs.store().slice::<f32>(id)[range].iter().map(|x| x.to_bits()).collect()
            }
            DType::I32 => envs.store().slice::<i32>(id)[range].iter().map(|x| *x as u32).collect(),
            DType::U32 => envs.store().slice::<u32>(id)[range].to_vec(),
            DType::U8 => {
                envs.store().slice::<u8>(id)[range].iter().map(|x| u32::from(*x)).collect()
            }
        };
        (array.name().to_string(), bits)
    };
    wanted.into_iter().map(bits).collect()
}

/// Writes random actions, the same for the same global replica.
pub(crate) fn random_actions(envs: &mut dyn VecEnv, seed: u64, step: u32) -> Result<()> {
    let (spec, first_replica) = (envs.spec().clone(), envs.options().first_replica);
    for (g, group) in spec.groups.iter().enumerate() {
        let first_agent = spec.first_agent(g);
        let draw = |row: usize| {
            let replica = first_replica + (row / group.n_agents) as u32;
            let agent = (first_agent + row % group.n_agents) as u32;
            Draw::new(seed, replica, step, Purpose::RandomAction).agent(agent)
        };
        let mask = envs.ids().action_mask[g].map(|id| envs.store().slice::<u8>(id).to_vec());
        let (sizes, width) = (group.action.head_sizes(), group.action.action_width());
        match (envs.actions_mut(g)?, &group.action) {
            (GroupActionsMut::Continuous(actions), Space::Box { low, high, .. }) => {
                for (row, actions) in actions.chunks_exact_mut(width).enumerate() {
                    random_elements(low, high, draw(row), actions);
                }
            }
            (actions, _) => {
                let mask_width = sizes.iter().sum::<usize>();
                for (row, actions) in actions.discrete().chunks_exact_mut(width).enumerate() {
                    let mask = mask.as_ref().map(|mask| &mask[row * mask_width..][..mask_width]);
                    random_heads(&sizes, mask, draw(row), actions).or_else(|head| {
                        let (name, agent) = (&group.name, row % group.n_agents);
                        let replica = row / group.n_agents;
                        let reason = format!(
                            "before step {step}, the mask of {name} {agent} in replica {replica} \
                             forbids all of head {head}"
                        );
                        broken(&spec.name, reason)
                    })?;
                }
            }
        }
    }
    Ok(())
}

/// One agent's elements of a Box, of which an unbounded one is cut at 10.
fn random_elements(low: &[f32], high: &[f32], mut draw: Draw, actions: &mut [f32]) {
    for (action, (low, high)) in actions.iter_mut().zip(low.iter().zip(high)) {
        *action = draw.uniform_in(low.max(-10.0), high.min(10.0));
    }
}

/// One agent's choices, within its mask if there is one; an error is the head of which it allows none.
fn random_heads(
    sizes: &[usize],
    mask: Option<&[u8]>,
    mut draw: Draw,
    actions: &mut [i32],
) -> std::result::Result<(), usize> {
    let mut offset = 0;
    for (head, (action, size)) in actions.iter_mut().zip(sizes).enumerate() {
        let pick = draw.below(*size as u32) as usize;
        let allowed = |choice: &usize| mask.is_none_or(|mask| mask[offset + choice] != 0);
        // The next allowed one.
        let choice = (pick..*size).chain(0..pick).find(allowed).ok_or(head)?;
        *action = choice as i32;
        offset += size;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_allows_nothing_is_named() {
        let draw = || Draw::new(3, 0, 1, Purpose::RandomAction);
        let choose = |mask: &[u8]| {
            let mut heads = [-1; 2];
            random_heads(&[2, 3], Some(mask), draw(), &mut heads).map(|()| heads)
        };
        assert_eq!(choose(&[0, 1, 1, 0, 0]), Ok([1, 0]));
        assert_eq!(choose(&[1, 0, 0, 0, 0]), Err(1));
        assert_eq!(choose(&[0; 5]), Err(0));
    }
}

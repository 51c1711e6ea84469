//! Actions are checked before anything moves.

use crate::error::{Error, Result};
use crate::vec_env::ArrayIds;
use warp_core::{EnvSpec, GroupSpec, Space};
use warp_data::Store;

/// Checks the actions of all groups against their spaces, as [`VecEnv::step`](crate::VecEnv::step) must
/// before anything moves; for users' own simulators.
///
/// # Errors
/// The first discrete action outside its space, or the first real number that is not finite.
pub fn check_actions(spec: &EnvSpec, store: &Store, ids: &ArrayIds) -> Result<()> {
    let head_sizes: Vec<_> = spec.groups.iter().map(|group| group.action.head_sizes()).collect();
    check(spec, &head_sizes, store, ids)
}

/// Checks every action in the store. `head_sizes` are the discrete heads by group, kept by the
/// caller so that nothing is allocated here.
pub(crate) fn check(
    spec: &EnvSpec,
    head_sizes: &[Vec<usize>],
    store: &Store,
    ids: &ArrayIds,
) -> Result<()> {
    for (g, group) in spec.groups.iter().enumerate() {
        if let Space::Box { .. } = group.action {
            check_finite(group, store.slice::<f32>(ids.action[g]))?;
        } else {
            check_heads(group, &head_sizes[g], store.slice::<i32>(ids.action[g]))?;
        }
    }
    Ok(())
}

pub(crate) fn check_finite(group: &GroupSpec, values: &[f32]) -> Result<()> {
    // A number that is not finite makes the sum not finite: one pass, no branch.
    if values.iter().map(|v| v * 0.0).sum::<f32>() == 0.0 {
        return Ok(());
    }
    match values.iter().position(|v| !v.is_finite()) {
        Some(at) => refuse(group, at, values[at].to_string(), group.action.to_string()),
        None => Ok(()),
    }
}

pub(crate) fn check_heads(group: &GroupSpec, sizes: &[usize], actions: &[i32]) -> Result<()> {
    if in_range(actions, sizes) {
        return Ok(());
    }
    let outside = |(at, a): (usize, &i32)| *a < 0 || *a as usize >= sizes[at % sizes.len()];
    match actions.iter().enumerate().position(outside) {
        Some(at) => {
            let space = Space::Discrete { n: sizes[at % sizes.len()] }.to_string();
            refuse(group, at, actions[at].to_string(), space)
        }
        None => Ok(()),
    }
}

fn refuse(group: &GroupSpec, at: usize, action: String, space: String) -> Result<()> {
    let width = group.action.action_width();
    Err(Error::InvalidAction {
        replica: at / (width * group.n_agents),
        group: group.name.clone(),
        agent: at / width % group.n_agents,
        head: at % width,
        action,
        space,
    })
}

/// Whether all actions are within their heads; a negative one is a large one when unsigned.
pub(crate) fn in_range(actions: &[i32], sizes: &[usize]) -> bool {
    let smallest = sizes.iter().copied().min().unwrap_or(0) as u32;
    let largest = actions.iter().map(|a| *a as u32).max().unwrap_or(0);
    if largest < smallest {
        return true;
    }
    let fits = |row: &[i32]| row.iter().zip(sizes).all(|(a, n)| (*a as u32) < *n as u32);
    actions.chunks_exact(sizes.len()).all(fits)
}

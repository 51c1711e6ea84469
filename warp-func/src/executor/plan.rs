//! Which arrays an environment needs: one per state field, the rest as in [`ArrayIds`].

use super::starts::{fields, pool_rows};
use crate::error::Result;
use crate::pool::StateField;
use crate::vec_env::{ArrayIds, VecOptions};
use warp_core::{DType, Env, EnvSpec, GroupSpec, Space};
use warp_data::{ArrayId, Plan};

/// The arrays of an environment's replicas, and of their reset pool if there is one, not yet allocated.
pub(crate) fn plan<E: Env>(
    env: &E,
    spec: &EnvSpec,
    options: &VecOptions,
) -> Result<(Plan, ArrayIds)> {
    let fields = fields(env)?;
    let pool_rows = pool_rows(&spec.name, &fields, options)?;
    declare(spec, options.n_envs, &fields, pool_rows)
}

impl ArrayIds {
    /// The arrays that every environment of this `spec` has, and one for each field of its `state`,
    /// for `n_envs` replicas; not yet allocated. This gives a user's own simulator the arrays that
    /// trainers read, and checkpoints contain the fields of its state.
    ///
    /// # Errors
    /// Two arrays of the same name.
    pub fn declare(
        spec: &EnvSpec,
        n_envs: usize,
        state: &[StateField],
    ) -> Result<(Plan, ArrayIds)> {
        declare(spec, n_envs, state, 0)
    }
}

/// The arrays of `n` replicas with these fields and of a reset pool of `pool_rows` (0: none).
fn declare(
    spec: &EnvSpec,
    n: usize,
    fields: &[StateField],
    pool_rows: usize,
) -> Result<(Plan, ArrayIds)> {
    let mut plan = Plan::new();
    let mut add = |prefix: &str, rows: usize, field: &StateField| {
        let shape = [&[rows], &field.dims[..]].concat();
        Ok(plan.add(&format!("{prefix}{}", field.name), field.dtype, &shape)?)
    };
    let state = fields.iter().map(|field| add("", n, field)).collect::<Result<Vec<_>>>()?;
    let pooled = fields.iter().filter(|_| pool_rows > 0);
    let pool = pooled.map(|field| add("pool.", pool_rows, field)).collect::<Result<Vec<_>>>()?;
    let mut flag = |name: &str, dtype| Ok::<_, crate::Error>(plan.add(name, dtype, &[n])?);
    let terminated = flag("terminated", DType::U8)?;
    let truncated = flag("truncated", DType::U8)?;
    let episode_length = flag("episode_length", DType::U32)?;
    let mut optional = |name: &str, width: usize| {
        (width > 0).then(|| plan.add(name, DType::F32, &[n, width])).transpose()
    };
    let statistic = optional("statistic", spec.statistics.len())?;
    let final_statistic = optional("final_statistic", spec.statistics.len())?;
    let global = spec.global_observation.as_ref().map_or(0, |space| space.flatten().width);
    let global_obs = optional("global_obs", global)?;
    let mut ids = ArrayIds {
        state,
        obs: vec![],
        final_obs: vec![],
        action_mask: vec![],
        final_action_mask: vec![],
        action: vec![],
        reward: vec![],
        alive: vec![],
        agent_terminated: vec![],
        episode_return: vec![],
        terminated,
        truncated,
        episode_length,
        statistic,
        final_statistic,
        global_obs,
        pool,
    };
    for group in &spec.groups {
        add_group(&mut plan, &mut ids, group, n)?;
    }
    Ok((plan, ids))
}

fn add_group(plan: &mut Plan, ids: &mut ArrayIds, group: &GroupSpec, n: usize) -> Result<()> {
    let agents = group.n_agents;
    let mut add = |what: &str, dtype, shape: &[usize]| -> Result<ArrayId> {
        Ok(plan.add(&format!("{what}.{}", group.name), dtype, shape)?)
    };
    let seen = [n, agents, group.observation_width()];
    ids.obs.push(add("obs", DType::F32, &seen)?);
    ids.final_obs.push(add("final_obs", DType::F32, &seen)?);
    let done = match group.action {
        Space::Box { .. } => DType::F32,
        _ => DType::I32,
    };
    ids.action.push(add("action", done, &[n, agents, group.action.action_width()])?);
    ids.reward.push(add("reward", DType::F32, &[n, agents])?);
    ids.episode_return.push(add("episode_return", DType::F32, &[n])?);
    let masked = group.mask_width() > 0;
    let choices = [n, agents, group.mask_width()];
    let mask = masked.then(|| add("action_mask", DType::U8, &choices));
    ids.action_mask.push(mask.transpose()?);
    let last = masked.then(|| add("final_action_mask", DType::U8, &choices));
    ids.final_action_mask.push(last.transpose()?);
    let alive = group.mortal.then(|| add("alive", DType::U8, &[n, agents]));
    ids.alive.push(alive.transpose()?);
    let left = group.mortal.then(|| add("agent_terminated", DType::U8, &[n, agents]));
    ids.agent_terminated.push(left.transpose()?);
    Ok(())
}

//! Which arrays replicas of their own need: what their futures depend on.

use crate::error::Result;
use crate::pool::StateField;
use warp_core::{DType, EnvSpec};
use warp_data::{ArrayId, Plan, StoreMut};

/// Whether an episode is on.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// None has begun, or another is to begin.
    New = 0,
    /// One is on.
    Running = 1,
    /// One has ended.
    Ended = 2,
}

/// The numbers of the arrays, a row per replica each.
#[derive(Debug, Clone)]
pub(super) struct ReplicaIds {
    /// One per field of the state, called as the field.
    pub(super) state: Vec<ArrayId>,
    /// The seed's lower half, u32.
    pub(super) seed_low: ArrayId,
    /// The seed's upper half, u32.
    pub(super) seed_high: ArrayId,
    /// Steps and starts so far: what the next draw is for, u32.
    pub(super) event: ArrayId,
    /// Steps since the episode began, u32.
    pub(super) elapsed_step: ArrayId,
    /// Whether an episode is on, as [`Phase`] counts, u8.
    pub(super) phase: ArrayId,
    /// Who is still in the game, u8 by group that is mortal.
    pub(super) alive: Vec<Option<ArrayId>>,
    /// Episode statistics so far, f32.
    pub(super) statistic: Option<ArrayId>,
}

impl ReplicaIds {
    /// Gives replica `id` a seed; its draws begin anew.
    pub(super) fn seed(&self, store: &mut StoreMut<'_>, id: usize, seed: u64) {
        store.slice_mut::<u32>(self.seed_low)[id] = seed as u32;
        store.slice_mut::<u32>(self.seed_high)[id] = (seed >> 32) as u32;
        store.slice_mut::<u32>(self.event)[id] = 0;
        store.slice_mut::<u8>(self.phase)[id] = Phase::New as u8;
    }
}

/// The arrays of `n` replicas, not yet allocated.
pub(super) fn plan(fields: &[StateField], spec: &EnvSpec, n: usize) -> Result<(Plan, ReplicaIds)> {
    let mut plan = Plan::new();
    let mut state = Vec::new();
    for field in fields {
        let shape = [&[n], &field.dims[..]].concat();
        state.push(plan.add(field.name, field.dtype, &shape)?);
    }
    let mut own = |name: &str, dtype| plan.add(&format!("replica.{name}"), dtype, &[n]);
    let seed_low = own("seed_low", DType::U32)?;
    let seed_high = own("seed_high", DType::U32)?;
    let event = own("event", DType::U32)?;
    let elapsed_step = own("elapsed_step", DType::U32)?;
    let phase = own("phase", DType::U8)?;
    let mut alive = Vec::new();
    for group in &spec.groups {
        let name = format!("replica.alive.{}", group.name);
        let mortal = group.mortal.then(|| plan.add(&name, DType::U8, &[n, group.n_agents]));
        alive.push(mortal.transpose()?);
    }
    let width = spec.statistics.len();
    let statistic =
        (width > 0).then(|| plan.add("replica.statistic", DType::F32, &[n, width])).transpose()?;
    let ids =
        ReplicaIds { state, seed_low, seed_high, event, elapsed_step, phase, alive, statistic };
    Ok((plan, ids))
}

//! Carries out a [`Plan`]: loads recorded states, gives recorded actions, compares.

use super::compare::{Mode, Tallies};
use super::plan::{Check, Place, Plan, Seen, Track, Treatment};
use super::twins;
use anyhow::{Result, ensure};
use warp_core::DType;
use warp_data::{ArrayId, Element, Store, StoreMut};
use warp_func::{GroupActionsMut, VecEnv};

/// Compares the arrays that do not change with what follows from the configuration.
pub(super) fn constants(plan: &Plan, tallies: &mut Tallies) {
    for constant in &plan.constants {
        let tolerance = constant.tolerance;
        let tally = tallies.index(&constant.name, Mode::Config, tolerance);
        let pairs = constant.recorded.iter().zip(&constant.expected).enumerate();
        for (element, (recorded, expected)) in pairs {
            let place = Place { row: 0, agent: 0, element };
            let plain = Treatment::Plain;
            tallies.element(tally, place, tolerance.bound, plain, *recorded, *expected);
        }
    }
}

/// Loads every recorded state into a replica of its own, as many at once as `env` has, and follows
/// it for one step.
pub(super) fn teacher(env: &mut dyn VecEnv, plan: &Plan, tallies: &mut Tallies) -> Result<()> {
    let checks = indexed(plan, Mode::Teacher, tallies);
    let n_envs = env.options().n_envs;
    for first in (0..plan.transitions).step_by(n_envs) {
        let n = n_envs.min(plan.transitions - first);
        // Replicas beyond the last transition repeat it, and nobody looks at them.
        let rows: Vec<usize> = (first..first + n_envs).map(|t| t.min(first + n - 1)).collect();
        load(env, plan, &rows)?;
        for (check, tally) in checks.iter().filter(|(check, _)| check.observed) {
            compare(env, check, *tally, &rows[..n], 0, tallies);
        }
        act(env, plan, &rows)?;
        for (check, tally) in &checks {
            compare(env, check, *tally, &rows[..n], check.after, tallies);
        }
    }
    Ok(())
}

/// Loads the first recorded state into the first replica of `env` and follows it with the recorded
/// actions. What grows is followed from every recorded state, beside the twins in the other replicas.
pub(super) fn free(env: &mut dyn VecEnv, plan: &Plan, tallies: &mut Tallies) -> Result<()> {
    if plan.free_transitions == 0 {
        return Ok(());
    }
    let (grow, stay): (Vec<_>, Vec<_>) =
        indexed(plan, Mode::Free, tallies).into_iter().partition(|(check, _)| check.grows);
    let moves = twins::moves(plan, tallies);
    let n_envs = env.options().n_envs;
    let starts = if grow.is_empty() { 1 } else { plan.free_transitions };
    for start in 0..starts {
        load(env, plan, &vec![start; n_envs])?;
        let mut together = !grow.is_empty();
        for t in start..plan.free_transitions {
            if start > 0 && !together {
                break;
            }
            act(env, plan, &vec![t; n_envs])?;
            let near = |(check, _): &(&Check, usize)| {
                twins::together(&read(env.store(), check.track.array), check)
            };
            together = together && grow.iter().all(near);
            // What stays is followed once, from the first state to the end.
            let compared =
                (grow.iter().filter(|_| together)).chain(stay.iter().filter(|_| start == 0));
            for (check, tally) in compared {
                compare(env, check, *tally, &[t], check.after, tallies);
            }
            if together {
                twins::move_apart(env.store_mut(), &moves, t);
            }
        }
    }
    Ok(())
}

/// The checks of a mode, each with the number of its tally.
fn indexed<'p>(plan: &'p Plan, mode: Mode, tallies: &mut Tallies) -> Vec<(&'p Check, usize)> {
    let with_tally = |check: &'p Check| {
        let tolerance = if mode == Mode::Free { check.free? } else { check.teacher };
        Some((check, tallies.index(&check.name, mode, tolerance)))
    };
    plan.checks.iter().filter_map(with_tally).collect()
}

/// Starts new episodes, then puts replica `i` into the state before transition `rows[i]`.
fn load(env: &mut dyn VecEnv, plan: &Plan, rows: &[usize]) -> Result<()> {
    env.reset()?;
    for track in &plan.loads {
        write(env.store_mut(), track, rows)?;
    }
    let length = env.ids().episode_length;
    for (length, row) in env.store_mut().slice_mut::<u32>(length).iter_mut().zip(rows) {
        *length = plan.timesteps[*row];
    }
    Ok(env.observe()?)
}

/// Gives replica `i` the actions of transition `rows[i]` and moves all by one step.
fn act(env: &mut dyn VecEnv, plan: &Plan, rows: &[usize]) -> Result<()> {
    for group in 0..env.ids().action.len() {
        let array = env.ids().action[group];
        let name = env.store().array(array).name().to_string();
        for track in plan.actions.iter().filter(|track| track.array == array) {
            let values = values(track, rows);
            match env.actions_mut(group)? {
                GroupActionsMut::Discrete(target) => fill(target, &name, values, whole)?,
                GroupActionsMut::Continuous(target) => fill(target, &name, values, real)?,
            }
        }
    }
    Ok(env.step()?)
}

/// The numbers of transition `rows[i]`, for every `i`.
fn values<'t>(track: &'t Track, rows: &'t [usize]) -> impl Iterator<Item = f64> + 't {
    rows.iter().flat_map(|row| track.row(*row)).copied()
}

fn real(value: f64) -> Option<f32> {
    Some(value as f32)
}

fn whole(value: f64) -> Option<i32> {
    (f64::from(value as i32) == value).then_some(value as i32)
}

fn write(mut store: StoreMut<'_>, track: &Track, rows: &[usize]) -> Result<()> {
    let array = store.array(track.array);
    let (dtype, name) = (array.dtype(), array.name().to_string());
    let (id, values) = (track.array, values(track, rows));
    match dtype {
        DType::F32 => fill(store.slice_mut(id), &name, values, real),
        DType::I32 => fill(store.slice_mut(id), &name, values, whole),
        DType::U32 => fill(store.slice_mut(id), &name, values, |v| {
            (f64::from(v as u32) == v).then_some(v as u32)
        }),
        DType::U8 => fill(store.slice_mut(id), &name, values, |v| {
            (f64::from(v as u8) == v).then_some(v as u8)
        }),
    }
}

fn fill<T: Element>(
    target: &mut [T],
    name: &str,
    values: impl Iterator<Item = f64>,
    convert: impl Fn(f64) -> Option<T>,
) -> Result<()> {
    for (place, value) in target.iter_mut().zip(values) {
        let converted = convert(value);
        ensure!(converted.is_some(), "{value} does not fit into \"{name}\" ({})", T::DTYPE);
        *place = converted.unwrap_or(*place);
    }
    Ok(())
}

/// Compares replica `i` with row `rows[i] + after`.
fn compare(
    env: &dyn VecEnv,
    check: &Check,
    tally: usize,
    rows: &[usize],
    after: usize,
    tallies: &mut Tallies,
) {
    let (store, ids) = (env.store(), env.ids());
    let seen = match check.seen {
        Seen::Store => read(store, check.track.array),
        Seen::Done => {
            let truncated = read(store, ids.truncated);
            let terminated = read(store, ids.terminated);
            terminated.iter().zip(truncated).map(|(a, b)| a.max(b)).collect()
        }
    };
    let row_len = check.track.row_len;
    for (row, seen) in rows.iter().zip(seen.chunks(row_len.max(1))) {
        tallies.row(tally, check, row + after, seen);
    }
}

/// An array's numbers, whatever their type.
fn read(store: &Store, array: ArrayId) -> Vec<f64> {
    fn widen<T: Element + Into<f64>>(store: &Store, array: ArrayId) -> Vec<f64> {
        store.slice::<T>(array).iter().map(|v| (*v).into()).collect()
    }
    match store.array(array).dtype() {
        DType::F32 => widen::<f32>(store, array),
        DType::I32 => widen::<i32>(store, array),
        DType::U32 => widen::<u32>(store, array),
        DType::U8 => widen::<u8>(store, array),
    }
}

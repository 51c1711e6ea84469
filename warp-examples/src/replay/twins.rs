//! How far a free run can be followed where errors grow: as far as its own twins stay together.
//!
//! A twin is a replica that does what the run does, but has each number of its state moved after every step, up or
//! down, by no more than the largest error that single steps have shown in that array. A recording whose rules are
//! the same, and whose rounding is another, is such a twin. When twins leave a part of the tolerance, an error says
//! nothing of the rules any more, and the comparison of what grows ends, whether it would pass or not.

use super::compare::{Mode, Tallies};
use super::plan::{Check, Plan};
use warp_core::DType;
use warp_data::{ArrayId, StoreMut};

/// Twins of a run.
pub(super) const TWINS: usize = 8;

/// The part of the tolerance that twins may be apart: a recording may be further away than any of a few twins.
const PART: f64 = 0.5;

/// How far the numbers of an array are moved at most; relative to those that are larger than 1 if so said.
#[derive(Debug, Clone, Copy)]
pub(super) struct Move {
    array: ArrayId,
    size: f64,
    relative: bool,
}

/// The moves of all loaded arrays, by what single steps from recorded states have shown.
pub(super) fn moves(plan: &Plan, tallies: &Tallies) -> Vec<Move> {
    let loaded = |check: &&Check| plan.loads.iter().any(|l| l.array == check.track.array);
    let of = |check: &Check| {
        let size = tallies.largest(&check.name, Mode::Teacher);
        Move { array: check.track.array, size, relative: check.teacher.relative }
    };
    plan.checks.iter().filter(loaded).map(of).filter(|of| of.size > 0.0).collect()
}

/// Whether all twins of the first replica are within a part of the tolerance of a free run, where `all` is the array
/// that `check` is about, of all replicas.
pub(super) fn together(all: &[f64], check: &Check) -> bool {
    let Some(tolerance) = check.free else { return true };
    let mut replicas = all.chunks(check.track.row_len.max(1));
    let run = replicas.next().unwrap_or_default();
    let near = |(own, twin): (&f64, &f64)| {
        (own - twin).abs() <= PART * tolerance.bound * scale(*own, tolerance.relative)
    };
    replicas.all(|twin| run.iter().zip(twin).all(near))
}

fn scale(number: f64, relative: bool) -> f64 {
    if relative { number.abs().max(1.0) } else { 1.0 }
}

/// Moves every twin after transition `t`; the first replica stays as it is.
pub(super) fn move_apart(mut store: StoreMut<'_>, moves: &[Move], t: usize) {
    for Move { array, size, relative } in moves {
        let row_len = store.array(*array).row_len();
        if store.array(*array).dtype() != DType::F32 {
            continue;
        }
        let values = store.slice_mut::<f32>(*array);
        for (place, value) in values.iter_mut().enumerate().skip(row_len) {
            let number = f64::from(*value);
            *value = (number + size * scale(number, *relative) * part(t, place)) as f32;
        }
    }
}

/// From -1 to 1, by the bits of SplitMix64's mixing function.
fn part(t: usize, place: usize) -> f64 {
    let z = (((t as u64) << 32) | place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    f64::from((z >> 32) as u32) / f64::from(u32::MAX) * 2.0 - 1.0
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Tolerance, Track};
    use super::*;
    use warp_core::toml::Table;
    use warp_func::{VecEnv, VecOptions};

    #[test]
    fn twins_are_moved_and_the_run_is_not() {
        let options = VecOptions { n_envs: 3, ..VecOptions::default() };
        let registry = warp_envs::registry();
        let mut env = registry.get("rice_n").unwrap().make(&Table::new(), &options).unwrap();
        let array = env.store().id("capital").unwrap();
        let track = Track::constant(env.store(), array, std::iter::empty());
        let bound = Tolerance::scaled(1e-2);
        let check = Check::new("capital", track, bound, Some(bound));
        let read = |env: &dyn VecEnv| -> Vec<f64> {
            env.store().slice::<f32>(array).iter().map(|number| f64::from(*number)).collect()
        };
        let before = read(&*env);
        for (size, stays) in [(1e-3, true), (1.0, false)] {
            assert!(together(&read(&*env), &check));
            move_apart(env.store_mut(), &[Move { array, size, relative: true }], 0);
            let after = read(&*env);
            assert_eq!(together(&after, &check), stays);
            assert_eq!(before[..27], after[..27]);
            let moved = before.iter().zip(&after).map(|(a, b)| (b - a) / scale(*a, true) / size);
            let (up, down): (Vec<_>, Vec<_>) = moved.skip(27).partition(|by| *by > 0.0);
            assert!(up.len() > 9 && down.len() > 9 && up.iter().all(|by| *by < 1.01));
            env.reset().unwrap();
        }
    }
}

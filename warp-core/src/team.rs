//! Work of many alike, written once: for one thread on a CPU, for a team of threads on a GPU.
//!
//! A body whose state has rows iterates over its agents with these functions. On the CPU each is just
//! the plain loop that it looks like. In the generated CUDA code, all threads of the team call it
//! together: they divide the indices of [`each`] among themselves and synchronise where one uses what
//! another has written.
//!
//! # Rules
//!
//! - Code outside of the loops over [`each`] and of the closures is run by all threads alike: it
//!   computes local variables, reads, and calls these functions. It writes neither state nor outputs
//!   nor scratch.
//! - [`each`] gives every index to one thread. Two indices never write the same element, except by
//!   [`add`], and nothing that one index writes is read by another in the same loop. Random numbers
//!   come from `draw.agent(i)`. `continue` ends the work of an index; the loop itself always goes
//!   through all of them.
//! - [`once`] is run by one thread. Only there are scalars of the state, `out.terminated` and
//!   statistics written.
//! - These functions are never called inside a loop or a closure of each other, nor where threads may
//!   disagree whether to call: a condition around a call depends on nothing that differs by thread.
//! - No result depends on the number of threads: sums are of integers, or have a fixed number of parts.
//!
//! ```
//! use warp_core::team;
//! let (speed, mut place) = ([0.5_f32, -1.0, 2.0], [0.0_f32; 3]);
//! let n = place.len();
//! for i in team::each(n) {
//!     place[i] += speed[i];
//! }
//! let backwards = team::sum(n, |i| i32::from(speed[i] < 0.0));
//! let distance = team::sum_parts::<4>(n, |i| place[i].abs());
//! assert_eq!((backwards, distance), (1, 3.5));
//! ```

use std::cell::RefCell;
use std::ops::{Deref, DerefMut, Range};

/// The indices `0..n`: on the CPU all of them in order, on a GPU a thread's part of them. It is used
/// only after `for i in`: a loop and not a closure, so that its body is compiled for the vector units
/// of the caller.
#[inline(always)]
#[must_use]
pub fn each(n: usize) -> Range<usize> {
    0..n
}

/// Calls `f` one time, whatever the number of threads.
#[inline(always)]
pub fn once(f: impl FnOnce()) {
    f();
}

/// Whether `f` holds for some index in `0..n`. `f` is called for all of them.
#[inline(always)]
pub fn any(n: usize, mut f: impl FnMut(usize) -> bool) -> bool {
    let mut found = false;
    for i in 0..n {
        found |= f(i);
    }
    found
}

/// The sum of `f` over `0..n`, modulo 2^32.
#[inline(always)]
pub fn sum(n: usize, mut f: impl FnMut(usize) -> i32) -> i32 {
    let mut total = 0_i32;
    for i in 0..n {
        total = total.wrapping_add(f(i));
    }
    total
}

/// The least of `f` over `0..n`; `i64::MAX` for no index.
#[inline(always)]
pub fn least(n: usize, mut f: impl FnMut(usize) -> i64) -> i64 {
    let mut least = i64::MAX;
    for i in 0..n {
        least = least.min(f(i));
    }
    least
}

/// The sum of `f` over `0..n` in `P` parts: part p adds the indices p, p + `P`, p + 2 `P` and so on
/// to 0, and the parts are added in their order, to 0. `P` is at least 1.
#[inline(always)]
pub fn sum_parts<const P: usize>(n: usize, mut f: impl FnMut(usize) -> f32) -> f32 {
    let mut parts = [0.0; P];
    let whole = n - n % P;
    for first in (0..whole).step_by(P) {
        for (p, part) in parts.iter_mut().enumerate() {
            *part += f(first + p);
        }
    }
    for i in whole..n {
        parts[i - whole] += f(i);
    }
    let mut total = 0.0;
    for part in parts {
        total += part;
    }
    total
}

/// A whole number that several indices may [`add`] to one element.
pub trait Count: Copy {
    /// The sum modulo 2^32.
    #[must_use]
    fn plus(self, other: Self) -> Self;
}

impl Count for i32 {
    #[inline(always)]
    fn plus(self, other: i32) -> i32 {
        self.wrapping_add(other)
    }
}

impl Count for u32 {
    #[inline(always)]
    fn plus(self, other: u32) -> u32 {
        self.wrapping_add(other)
    }
}

/// Adds `value` to element `index` of `counts`; inside [`each`], where several indices may hit one
/// element. The sum is modulo 2^32.
#[inline(always)]
pub fn add<T: Count>(counts: &mut [T], index: usize, value: T) {
    counts[index] = counts[index].plus(value);
}

/// Writes `f(row, column)` to every element of `out`, `[rows, width]`; threads of a GPU write
/// neighbouring elements together.
///
/// # Panics
/// If `out` has another length than `rows * width`.
#[inline(always)]
pub fn fill<T>(out: &mut [T], rows: usize, width: usize, mut f: impl FnMut(usize, usize) -> T) {
    assert!(out.len() == rows * width, "{} elements are not {rows} x {width}", out.len());
    for row in 0..rows {
        let own = &mut out[row * width..][..width];
        for (column, place) in own.iter_mut().enumerate() {
            *place = f(row, column);
        }
    }
}

/// An element of [`shared`] or [`scratch`] memory.
pub trait Element: Copy + 'static {
    /// What memory holds before it is written, as far as anyone may know. On a GPU it is whatever was
    /// there before; a debug build makes it conspicuous, so that a body that reads it is found.
    const UNSET: Self;
    /// Hands `f` this thread's unused arrays.
    fn with_pool<R>(f: impl FnOnce(&mut Vec<Vec<Self>>) -> R) -> R;
}

macro_rules! elements {
    ($($ty:ty: $unset:expr),*) => {$(
        impl Element for $ty {
            const UNSET: $ty = if cfg!(debug_assertions) { $unset } else { 0 as $ty };
            fn with_pool<R>(f: impl FnOnce(&mut Vec<Vec<$ty>>) -> R) -> R {
                thread_local! { static POOL: RefCell<Vec<Vec<$ty>>> = const { RefCell::new(Vec::new()) } }
                POOL.with_borrow_mut(f)
            }
        }
    )*};
}
elements!(f32: f32::NAN, i32: i32::MIN, u32: 0xdead_beef, u8: 0xa5);

/// Memory of the team for `N` numbers: on the stack of a CPU's thread, shared memory of a GPU. Nothing
/// is known of its contents before they are written.
#[inline(always)]
#[must_use]
pub fn shared<T: Element, const N: usize>() -> [T; N] {
    [T::UNSET; N]
}

/// As [`shared`], for a size that the environment's dimensions decide: an array that the CPU's thread
/// keeps for the next call, shared memory of a GPU.
#[inline(always)]
#[must_use]
pub fn scratch<T: Element>(n: usize) -> Scratch<T> {
    let mut values = T::with_pool(Vec::pop).unwrap_or_default();
    if cfg!(debug_assertions) {
        values.clear();
    }
    values.resize(n, T::UNSET);
    Scratch { values }
}

/// What [`scratch`] lends; a slice.
#[derive(Debug)]
pub struct Scratch<T: Element> {
    values: Vec<T>,
}

impl<T: Element> Deref for Scratch<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.values
    }
}

impl<T: Element> DerefMut for Scratch<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values
    }
}

impl<T: Element> Drop for Scratch<T> {
    #[inline(always)]
    fn drop(&mut self) {
        T::with_pool(|pool| pool.push(std::mem::take(&mut self.values)));
    }
}

/// Reading at an index that may be out of range.
pub trait GetClamped<T> {
    /// The element at `index`; the first one for an index below 0, the last one for an index beyond
    /// the end.
    ///
    /// # Panics
    /// If there are no elements.
    #[must_use]
    fn get_clamped(&self, index: i32) -> T;
}

impl<T: Copy> GetClamped<T> for [T] {
    #[inline(always)]
    fn get_clamped(&self, index: i32) -> T {
        let index = if index < 0 { 0 } else { index as usize };
        self[if index < self.len() { index } else { self.len() - 1 }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_is_visited_in_order() {
        let mut seen = Vec::new();
        for i in each(4) {
            seen.push(i);
        }
        once(|| seen.push(9));
        for i in each(0) {
            seen.push(i);
        }
        assert_eq!(seen, [0, 1, 2, 3, 9]);
        let mut visited = 0;
        let all = any(5, |i| {
            visited += 1;
            i == 1
        });
        assert!(all && visited == 5 && !any(5, |i| i > 4) && !any(0, |_| true));
        let keys = [7, -3, 9];
        assert_eq!((least(3, |i| keys[i]), least(0, |_| 0)), (-3, i64::MAX));
    }

    #[test]
    fn whole_sums_wrap() {
        assert_eq!(sum(5, |i| i as i32), 10);
        assert_eq!(sum(2, |_| i32::MAX), -2);
        let mut counts = [1_u32, u32::MAX];
        for i in each(6) {
            add(&mut counts, i % 2, 2);
        }
        assert_eq!(counts, [7, 5]);
        let mut counts = [0_i32];
        for _ in each(3) {
            add(&mut counts, 0, i32::MAX);
        }
        assert_eq!(counts, [i32::MAX - 2]);
    }

    /// The definition, element by element, in numbers whose sum depends on the order.
    #[test]
    fn parts_are_added_as_defined() {
        let x: Vec<f32> = (0..53).map(|i| 1.0 / (3.0 + (i * i) as f32)).collect();
        for n in [0, 1, 7, 8, 9, 51, 53] {
            let mut total = 0.0_f32;
            for p in 0..8 {
                let mut part = 0.0;
                x[..n].iter().skip(p).step_by(8).for_each(|value| part += value);
                total += part;
            }
            assert_eq!(sum_parts::<8>(n, |i| x[i]).to_bits(), total.to_bits(), "{n}");
        }
        let in_order = x.iter().fold(0.0, |sum, x| sum + x);
        assert_eq!(sum_parts::<1>(53, |i| x[i]).to_bits(), f32::to_bits(in_order));
        assert_ne!(sum_parts::<8>(53, |i| x[i]).to_bits(), f32::to_bits(in_order));
    }

    #[test]
    fn fill_writes_row_after_row() {
        let mut out = [0; 6];
        fill(&mut out, 2, 3, |row, column| 10 * row + column);
        assert_eq!(out, [0, 1, 2, 10, 11, 12]);
        fill(&mut [], 2, 0, |_, _| 0);
    }

    #[test]
    #[should_panic(expected = "6 elements are not 2 x 2")]
    fn fill_refuses_another_size() {
        fill(&mut [0; 6], 2, 2, |_, _| 0);
    }

    #[test]
    fn scratch_is_used_again_and_shows_what_was_not_written() {
        let first = {
            let mut a = scratch::<f32>(100);
            let b = scratch::<f32>(3);
            a.fill(1.0);
            assert_eq!((a.len(), b.len()), (100, 3));
            a.as_ptr()
        };
        // What was lent last is lent first: b was returned after a, or before it.
        let (again, other) = (scratch::<f32>(100), scratch::<f32>(60));
        assert!([again.as_ptr(), other.as_ptr()].contains(&first));
        if cfg!(debug_assertions) {
            assert!(again.iter().chain(other.iter()).all(|x| x.is_nan()));
            assert!(shared::<f32, 4>().iter().all(|x| x.is_nan()));
            assert_eq!(shared::<i32, 2>(), [i32::MIN; 2]);
        }
    }

    #[test]
    fn indices_are_clamped_to_the_slice() {
        let table = [3, 5, 7];
        let seen = [-9, -1, 0, 1, 2, 3, i32::MAX].map(|i| table.get_clamped(i));
        assert_eq!(seen, [3, 3, 3, 5, 7, 7, 7]);
    }
}

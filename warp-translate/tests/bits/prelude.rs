//! What random bodies call and are made of.

/// What every generated file begins with.
pub(crate) const PRELUDE: &str = "\
//! Generated bodies.

use warp_core::math;
use warp_core::team::{self, GetClamped};

const SMALL: [i32; 4] = [3, -7, 0x11, 2];
const HALF: f32 = 0.5;
const LEAST: i32 = -5;

/// Kinds.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    First,
    Second = 7,
    Third,
}

/// A pair with a flag and an array.
#[derive(Clone, Copy)]
struct Both {
    /// A number.
    number: f32,
    count: i32,
    flag: bool,
    parts: [i32; 3],
}

impl Both {
    fn grown(&self, by: f32) -> f32 {
        tame(self.number + by)
    }

    fn count_up(&mut self, by: i32) {
        self.count = self.count.wrapping_add(by);
    }

    fn turned(&self, by: i32) -> [i32; 3] {
        [self.parts[1], self.parts[2].wrapping_add(by), self.parts[0]]
    }

    fn fill_up(&mut self, by: i32) {
        for i in 0..self.parts.len() {
            self.parts[i] = self.parts[i].wrapping_mul(3).wrapping_add(by);
        }
    }
}

fn sum_of(values: &[i32]) -> i32 {
    let mut sum = 0_i32;
    for i in 0..values.len() {
        sum = sum.wrapping_mul(7).wrapping_add(values[i]);
    }
    sum
}

/// Keeps a float in a range in which sums and products mean something; a NaN becomes a half.
fn tame(x: f32) -> f32 {
    if x.abs() < 1.0e6 { x } else { HALF }
}

/// The bits of a float that is no NaN, and the same bits for every NaN.
fn bits(x: f32) -> u32 {
    if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() }
}

fn mixed(hash: u32, word: u32) -> u32 {
    (hash ^ word).wrapping_mul(0x0100_0193).rotate_left(5)
}

fn kind_of(x: i32) -> Kind {
    match x & 3 {
        0 => Kind::First,
        1 | 2 => Kind::Second,
        _ => Kind::Third,
    }
}

fn bumped(count: &mut u32) -> u32 {
    *count = count.wrapping_mul(3).wrapping_add(1);
    *count
}

fn split(x: f32, n: i32) -> (f32, i32, bool) {
    (tame(x * 2.0), n.wrapping_mul(5), x < 0.0)
}

fn total(values: &[f32]) -> f32 {
    let mut sum = 0.0;
    for i in 0..values.len() {
        sum += values[i];
    }
    tame(sum)
}

fn scaled(values: &mut [f32], by: f32) {
    for i in (0..values.len()).rev() {
        values[i] = tame(values[i] * by);
    }
}
";

//! Elementary functions in f32 that give the same bits on every machine.
//!
//! Environment bodies and samplers call these and never libm or CUDA's own, which differ from machine
//! to machine. The code in `math.cuh` ([`MATH_CUH`]) repeats each function operation by operation;
//! since neither side fuses a product and a sum, the two agree bit for bit (`tests/cuda_text.rs`).
//! Each function is a range reduction and a polynomial without tables, branches or calls, so a loop
//! over it vectorises even on baseline x86-64.
//!
//! The errors stated were measured against f64 over every second f32 of their ranges; the tests
//! repeat it over a sample. A NaN argument gives a NaN, whose payload is not specified. The
//! coefficients are minimax fits (Remez exchange; for [`tanh`] a Lawson iteration and a search over
//! neighbouring floats) made for this crate.

/// This module's functions in CUDA C++, named `warp_sin`, `warp_exp` and so on.
pub const MATH_CUH: &str = include_str!("math.cuh");

use std::f32::consts::{FRAC_2_PI, LOG2_E, PI};

/// `(x + ROUND) - ROUND` is `x` rounded to the nearest integer, ties to even, for |x| <= 2^22, and
/// the low bits of `x + ROUND` are that integer. It replaces `round`, a library call before SSE4.1.
const ROUND: f32 = 12_582_912.0;
const SIGN: u32 = 0x8000_0000;

// pi / 2 in three parts: eight bits, eleven bits and the rest, so that the first two products with
// an integer below 2^13 are exact.
const HALF_PI: [f32; 3] = [1.570_312_5, 4.837_513e-4, 7.54979e-8];
/// The reduced argument's bound, just above pi / 4: only arguments beyond the stated range meet it.
const REDUCED: f32 = 0.79;
const SIN: [f32; 3] = [-0.166_666_54, 0.008_332_133, -1.951_145_8e-4];
const COS: [f32; 3] = [0.041_666_646, -0.001_388_727_8, 2.442_878_6e-5];

const TAU: [f32; 3] = [6.281_25, 0.001_935_005_2, 3.019_916e-7];
const INV_TAU: f32 = 0.159_154_94;

// ln 2 in two parts; the first has ten bits, so its product with an exponent is exact.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
const EXP: [f32; 5] = [0.499_999_94, 0.166_665_2, 0.041_668_393, 0.008_368_781, 0.001_381_446_7];

const SQRT_HALF_BITS: u32 = 0x3f35_04f3;
const LN: [f32; 9] = [
    0.333_333_13,
    -0.250_000_1,
    0.200_021_2,
    -0.166_679_96,
    0.142_195_2,
    -0.124_055_44,
    0.118_883_78,
    -0.116_760_5,
    0.067_466_35,
];

const TANH_P: [f32; 5] =
    [0.136_815_19, 0.003_870_312_6, 2.804_601_4e-5, 3.067_143e-8, -1.226_197_7e-11];
const TANH_Q: [f32; 4] = [0.470_148_53, 0.027_253_162, 3.942_079_8e-4, 1.289_975_4e-6];
/// Above it the nearest f32 to tanh is 1, or within half an ulp of it.
const TANH_ONE: f32 = 9.01;

#[inline(always)]
fn flip(value: f32, sign: u32) -> f32 {
    f32::from_bits(value.to_bits() ^ sign)
}

/// `x` inside `[-bound, bound]`; a NaN stays one.
#[inline(always)]
fn clamp(x: f32, bound: f32) -> f32 {
    let x = if x > bound { bound } else { x };
    if x < -bound { -bound } else { x }
}

/// The smaller of two numbers; `b` where they are equal, as zeros of either sign are, and where one
/// is a NaN.
///
/// `f32::min` leaves the sign of a zero open, and with it a bit of the result.
#[inline(always)]
pub fn min(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

/// The larger of two numbers; `b` where they are equal, as zeros of either sign are, and where one is
/// a NaN.
#[inline(always)]
pub fn max(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// Takes multiples of pi / 2 from `a >= 0`: what is left, and the multiple's two low bits.
#[inline(always)]
fn quadrant(a: f32) -> (f32, u32) {
    let shifted = a * FRAC_2_PI + ROUND;
    let k = shifted - ROUND;
    let r = ((a - k * HALF_PI[0]) - k * HALF_PI[1]) - k * HALF_PI[2];
    (clamp(r, REDUCED), shifted.to_bits())
}

/// Sine and cosine of `x` in radians, for the price of little more than one of them.
///
/// Absolute error at most 9.5e-8 for |x| <= 12,868 (2^13 quarter turns). Beyond that it grows to
/// about the spacing of the arguments, and from 6.5e6 on the values mean nothing, but they stay
/// inside [-1, 1]. The sine is odd and the cosine even, exactly; an infinite argument gives NaN.
#[inline(always)]
pub fn sin_cos(x: f32) -> (f32, f32) {
    let sign = x.to_bits() & SIGN;
    let (r, k) = quadrant(flip(x, sign));
    let r2 = r * r;
    let s = r + (r * r2) * (SIN[0] + r2 * (SIN[1] + r2 * SIN[2]));
    let c = (1.0 - 0.5 * r2) + (r2 * r2) * (COS[0] + r2 * (COS[1] + r2 * COS[2]));
    let odd = k & 1 == 1;
    let sin = if odd { c } else { s };
    let cos = if odd { s } else { c };
    (flip(sin, ((k & 2) << 30) ^ sign), flip(cos, (k.wrapping_add(1) & 2) << 30))
}

/// Sine of `x` in radians; see [`sin_cos`].
#[inline(always)]
pub fn sin(x: f32) -> f32 {
    sin_cos(x).0
}

/// Cosine of `x` in radians; see [`sin_cos`].
#[inline(always)]
pub fn cos(x: f32) -> f32 {
    sin_cos(x).1
}

/// Square root, correctly rounded (IEEE 754), as hardware gives it.
#[inline(always)]
pub fn sqrt(x: f32) -> f32 {
    x.sqrt()
}

/// 2^n as a float, for n in -126..=127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// e to the power `x`.
///
/// Error at most 1.0 ulp where the result is a normal number (x >= -87.33). Underflow is gradual,
/// to 0 below -103.97; above 88.72 the result is infinite.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -104.0 } else { x };
    let shifted = x * LOG2_E + ROUND;
    let k = shifted - ROUND;
    let r = (x - k * LN_2[0]) - k * LN_2[1];
    let tail = EXP[0] + r * (EXP[1] + r * (EXP[2] + r * (EXP[3] + r * EXP[4])));
    let p = 1.0 + (r + (r * r) * tail);
    // Two factors, as 2^128 and 2^-149 are results of which no single normal factor is the scale.
    let n = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    let half = n >> 1;
    (p * power_of_two(half)) * power_of_two(n.wrapping_sub(half))
}

/// e to the power `x` by the platform's own function, where the same bits on every machine are not
/// required, as in a loss. In CUDA code it is [`exp`].
#[inline(always)]
pub fn platform_exp(x: f32) -> f32 {
    x.exp()
}

/// Natural logarithm of `x`.
///
/// Error at most 0.85 ulp for every positive `x`, subnormals included. `ln(0)` is negative
/// infinity (for either zero), a negative `x` gives NaN, infinity gives infinity.
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    let subnormal = x < f32::MIN_POSITIVE;
    let scaled = if subnormal { x * 8_388_608.0 } else { x };
    let shift = if subnormal { 23 } else { 0 };
    // x = m 2^e with m in [sqrt(1/2), sqrt(2)).
    let bits = scaled.to_bits().wrapping_sub(SQRT_HALF_BITS);
    let e = ((bits as i32) >> 23).wrapping_sub(shift) as f32;
    let f = f32::from_bits((bits & 0x007f_ffff).wrapping_add(SQRT_HALF_BITS)) - 1.0;
    let f2 = f * f;
    let high = LN[4] + f * (LN[5] + f * (LN[6] + f * (LN[7] + f * LN[8])));
    let tail = (f * f2) * (LN[0] + f * (LN[1] + f * (LN[2] + f * (LN[3] + f * high))));
    let y = (f + ((tail + e * LN_2[1]) - 0.5 * f2)) + e * LN_2[0];
    let y = if x < f32::INFINITY { y } else { x };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x < 0.0 { f32::NAN } else { y }
}

/// Hyperbolic tangent of `x`.
///
/// Relative error at most 3.6e-7 (6 ulp; 3.5 ulp for |x| < 1). Inside [-1, 1], odd, and exactly 1
/// or -1 for |x| > 9.01. One division and no exponential, as activations are a learner's hot loop.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let sign = x.to_bits() & SIGN;
    let a = flip(x, sign);
    let y = a * a;
    let p = TANH_P[1] + y * (TANH_P[2] + y * (TANH_P[3] + y * TANH_P[4]));
    let q = TANH_Q[1] + y * (TANH_Q[2] + y * TANH_Q[3]);
    let t = (a * (1.0 + y * (TANH_P[0] + y * p))) / (1.0 + y * (TANH_Q[0] + y * q));
    let t = if t > 1.0 { 1.0 } else { t };
    flip(if a > TANH_ONE { 1.0 } else { t }, sign)
}

#[inline(always)]
fn less_turns(x: f32, turns: f32) -> f32 {
    ((x - turns * TAU[0]) - turns * TAU[1]) - turns * TAU[2]
}

/// The angle in [-pi, pi] (both as f32) that differs from `x` by a multiple of 2 pi.
///
/// Absolute error at most 1.9e-7 for |x| <= 51,471 (2^13 turns); an `x` inside the range is
/// returned unchanged. Beyond, the error grows to the spacing of the arguments. An infinite
/// argument gives NaN.
#[inline(always)]
pub fn wrap_angle(x: f32) -> f32 {
    let r = less_turns(x, (x * INV_TAU + ROUND) - ROUND);
    // The product's rounding can pick the turn beside the nearest.
    let again = if r > PI { 1.0 } else { 0.0 };
    let again = if r < -PI { -1.0 } else { again };
    clamp(less_turns(r, again), PI)
}

/// `x` modulo `m` with the sign of `m`: the result is in [0, m). Needs a finite `m` > 0.
///
/// For |x / m| <= 1,024 it is the exact remainder, rounded once where a negative remainder has `m`
/// added; should that round to `m`, the result is 0. The error then grows with |x / m|, and from
/// 2^22 on the result means nothing, but it stays in [0, m). An infinite argument, or one whose
/// quotient overflows, may give NaN.
#[inline(always)]
pub fn modulo(x: f32, m: f32) -> f32 {
    let k = (x / m + ROUND) - ROUND;
    // The upper half of m's bits has exact products with small integers, and so has the lower.
    let high = f32::from_bits(m.to_bits() & 0xffff_f000);
    let r = (x - k * high) - k * (m - high);
    let r = if r < 0.0 { r + m } else { r };
    let r = if r >= m { 0.0 } else { r };
    if r < 0.0 { 0.0 } else { r }
}

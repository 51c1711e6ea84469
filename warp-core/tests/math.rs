//! `warp_core::math`: the errors that its docs state, measured against f64, and the special values.

use std::f32::consts::PI;
use warp_core::math::{cos, exp, ln, modulo, sin, sin_cos, tanh, wrap_angle};
use warp_core::philox::philox4x32_10;

const SIGN: u32 = 0x8000_0000;

/// f32 values from `low` to `high` (both positive): every `stride`-th, then 100,000 random ones.
fn sample(low: f32, high: f32, stride: usize) -> impl Iterator<Item = f32> {
    let (a, b) = (low.to_bits(), high.to_bits());
    let random =
        (0..100_000).map(move |i| a + philox4x32_10([i, 0, 0, 0], [a, b])[0] % (b - a + 1));
    (a..=b).step_by(stride).chain(random).map(f32::from_bits)
}

/// Distance from `exact` in units of the last place of an f32 near it (subnormals: of the smallest
/// normal).
fn ulps(value: f32, exact: f64) -> f64 {
    let near = (exact.abs() as f32).max(f32::MIN_POSITIVE);
    let ulp = f64::from(f32::from_bits(near.to_bits() & 0x7f80_0000)) / 8_388_608.0;
    (f64::from(value) - exact).abs() / ulp
}

/// The largest of `error` over the positive and negative sample.
fn worst(low: f32, high: f32, error: impl Fn(f32) -> f64) -> f64 {
    let both = sample(low, high, 1_009).flat_map(|x| [error(x), error(-x)]);
    // A NaN must not pass as small.
    both.fold(0.0, |a, b| if b.is_nan() { f64::INFINITY } else { b.max(a) })
}

#[test]
fn sine_and_cosine_are_accurate() {
    let absolute = |x: f32| {
        let (s, c) = sin_cos(x);
        let wide = f64::from(x);
        (f64::from(s) - wide.sin()).abs().max((f64::from(c) - wide.cos()).abs())
    };
    assert!(worst(1e-30, 12_868.0, absolute) <= 9.5e-8);
    assert!(worst(1e-30, 0.78, |x| ulps(sin(x), f64::from(x).sin())) <= 0.77);
}

#[test]
fn sine_and_cosine_stay_in_range_for_any_argument() {
    for x in sample(1e-45, f32::MAX, 4_001) {
        let (s, c) = sin_cos(x);
        assert!(s.abs() <= 1.0 && c.abs() <= 1.0, "sin_cos({x:e}) = ({s}, {c})");
        assert_eq!((sin(-x), cos(-x)), (-s, c));
    }
    for x in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        assert!(sin(x).is_nan() && cos(x).is_nan());
    }
    assert_eq!((sin(0.0).to_bits(), sin(-0.0).to_bits()), (0, SIGN));
    assert_eq!((cos(0.0), cos(-0.0)), (1.0, 1.0));
}

#[test]
fn exp_is_accurate() {
    assert!(worst(1e-30, 87.33, |x| ulps(exp(x), f64::from(x).exp())) <= 1.0);
    assert!(worst(87.33, 88.72, |x| ulps(exp(x.abs()), f64::from(x.abs()).exp())) <= 1.0);
    // Below the normals one rounding more, of the smallest step there is.
    assert!(worst(87.33, 110.0, |x| ulps(exp(-x.abs()), f64::from(-x.abs()).exp())) <= 1.0);
}

#[test]
fn exp_special_values() {
    assert_eq!([exp(0.0), exp(-0.0), exp(1e-10)], [1.0; 3]);
    assert_eq!([exp(88.73), exp(1e30), exp(f32::INFINITY)], [f32::INFINITY; 3]);
    assert_eq!([exp(-104.0), exp(-1e30), exp(f32::NEG_INFINITY)], [0.0; 3]);
    assert!(exp(88.72).is_finite() && exp(-100.0) > 0.0);
    assert!(exp(f32::NAN).is_nan());
}

#[test]
fn ln_is_accurate() {
    let error = |x: f32| ulps(ln(x.abs()), f64::from(x.abs()).ln());
    assert!(worst(f32::from_bits(1), f32::MAX, error) <= 0.85);
    assert!(worst(0.5, 2.0, error) <= 0.85);
}

#[test]
fn ln_special_values() {
    assert_eq!([ln(0.0), ln(-0.0)], [f32::NEG_INFINITY; 2]);
    assert_eq!((ln(1.0), ln(f32::INFINITY)), (0.0, f32::INFINITY));
    for x in [-1.0, -1e-45, f32::NEG_INFINITY, f32::NAN] {
        assert!(ln(x).is_nan());
    }
}

#[test]
fn tanh_is_accurate_and_odd() {
    assert!(worst(1e-45, 20.0, |x| ulps(tanh(x), f64::from(x).tanh())) <= 6.0);
    assert!(worst(1e-45, 1.0, |x| ulps(tanh(x), f64::from(x).tanh())) <= 3.5);
    for x in sample(1e-45, f32::MAX, 4_001) {
        assert!(tanh(x) <= 1.0 && tanh(-x) == -tanh(x));
        assert!(x <= 9.01 || tanh(x) == 1.0);
    }
}

#[test]
fn tanh_special_values() {
    assert_eq!((tanh(f32::INFINITY), tanh(f32::NEG_INFINITY)), (1.0, -1.0));
    assert_eq!((tanh(0.0).to_bits(), tanh(-0.0).to_bits()), (0, SIGN));
    assert!(tanh(f32::NAN).is_nan());
}

#[test]
fn wrapped_angles_are_accurate_and_in_range() {
    let turn = std::f64::consts::TAU;
    let error = |x: f32| {
        let moved = f64::from(wrap_angle(x)) - f64::from(x);
        (moved - turn * (moved / turn).round()).abs()
    };
    assert!(worst(1e-30, 51_471.0, error) <= 1.9e-7);
    for x in sample(1e-30, PI, 997) {
        assert_eq!((wrap_angle(x), wrap_angle(-x)), (x, -x));
    }
    for x in sample(PI, f32::MAX, 4_001) {
        assert!(wrap_angle(x).abs() <= PI && wrap_angle(-x).abs() <= PI);
    }
    assert!(wrap_angle(f32::INFINITY).is_nan() && wrap_angle(f32::NAN).is_nan());
}

#[test]
fn modulo_is_the_exact_remainder() {
    for i in 0..400_000 {
        let [a, b, c, _] = philox4x32_10([i, 0, 0, 0], [3, 5]);
        let m = f32::from_bits(0x3400_0000 + a % (0x4b00_0000 - 0x3400_0000));
        let quotient =
            (b as f32 / 2f32.powi(31) - 1.0) * [1.0, 3.0, 100.0, 1_020.0][c as usize % 4];
        let x = m * quotient;
        let exact = f64::from(x).rem_euclid(f64::from(m)) as f32;
        assert_eq!(modulo(x, m), if exact >= m { 0.0 } else { exact }, "modulo({x:e}, {m:e})");
    }
}

#[test]
fn modulo_stays_in_range() {
    for x in sample(1e-45, f32::MAX, 4_001) {
        for m in [1e-3, 1.0, 2.0 * PI, 4_096.0] {
            for x in [x, -x] {
                let r = modulo(x, m);
                let overflow = (x / m).is_infinite() && r.is_nan();
                assert!((0.0..m).contains(&r) || overflow, "modulo({x:e}, {m}) = {r}");
            }
        }
    }
    assert_eq!(
        [modulo(-1.0, 4.0), modulo(4.0, 4.0), modulo(-4.0, 4.0), modulo(7.5, 4.0)],
        [3.0, 0.0, 0.0, 3.5]
    );
    assert_eq!(modulo(-1e-10, 1.0), 0.0);
    assert!(modulo(f32::INFINITY, 1.0).is_nan() && modulo(f32::NAN, 1.0).is_nan());
}

//! Sixteen-bit operands of products, fp16 or bf16: the text that names their type to kernels, and the same numbers
//! on the host.

use crate::algorithm::Precision;
use crate::config::TrainConfig;
use crate::model::Half;

/// The smallest number of fp16 with all its digits, 2^-14.
const SMALLEST_NORMAL: f32 = 6.103_515_6e-5;

/// What kernels with such operands include; it needs the macro BF16.
pub(super) const TEXT: &str = include_str!("halves.cuh");

/// Whether operands are bf16.
pub(super) fn are_bf16(precision: Precision) -> bool {
    precision == Precision::BFloat
}

/// Whether products of some policy are to be in fp32, without such operands.
pub(super) fn is_exact(config: &TrainConfig) -> bool {
    config.policies.iter().any(|plan| plan.config.precision == Precision::Single)
}

/// `x` as an operand, rounded to nearest, ties to even.
pub(super) fn bits(precision: Precision, x: f32) -> u16 {
    match are_bf16(precision) {
        true => bfloat_bits(x),
        false => half_bits(x),
    }
}

fn bfloat_bits(x: f32) -> u16 {
    if x.is_nan() {
        return 0x7fc0;
    }
    ((Half::Bf16.nearest(x.into()) as f32).to_bits() >> 16) as u16
}

fn half_bits(x: f32) -> u16 {
    let rounded = Half::Fp16.nearest(x.into()) as f32;
    let (bits, sign) = (rounded.to_bits() & 0x7fff_ffff, (x.to_bits() >> 16) as u16 & 0x8000);
    let size = f32::from_bits(bits);
    if x.is_nan() {
        return 0x7e00;
    }
    if size < SMALLEST_NORMAL {
        // Below the normal numbers steps have one size, 2^-24.
        return sign | (size * 16_777_216.0) as u16;
    }
    // The exponent's bias becomes 15 instead of 127; what is too large is infinity.
    sign | ((bits >> 13) - (112 << 10)).min(0x7c00) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_the_nearest() {
        let halves = [
            (0.0, 0x0000),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (65504.0, 0x7bff),
            (65519.0, 0x7bff),
            (65520.0, 0x7c00),
            (f32::INFINITY, 0x7c00),
            (f32::NEG_INFINITY, 0xfc00),
            (6.103_515_6e-5, 0x0400),
            (6.097_555e-5, 0x03ff),
            (5.960_464_5e-8, 0x0001),
            (2.980_232_2e-8, 0x0000),
            (1.0 + 1.0 / 2048.0, 0x3c00),
            (1.0 + 3.0 / 2048.0, 0x3c02),
            (1.0 + 1.1 / 2048.0, 0x3c01),
            (0.1, 0x2e66),
        ];
        for (x, bits) in halves {
            assert_eq!(half_bits(x), bits, "{x}");
        }
        assert_eq!(half_bits(f32::NAN) & 0x7c00, 0x7c00);
    }

    /// The number that `bits` of fp16 are; infinity where its next number would be.
    fn half_of(bits: u16) -> f64 {
        let (exponent, digits) = (i32::from(bits >> 10), f64::from(bits & 0x3ff));
        match exponent {
            0 => digits * 2.0_f64.powi(-24),
            _ => (1024.0 + digits) * 2.0_f64.powi(exponent - 25),
        }
    }

    /// Of any two neighbours, what lies between them goes to the nearer one and what is in the middle to the even one.
    #[test]
    fn all_numbers_go_to_their_nearest() {
        let bfloat_of = |bits: u16| f64::from(f32::from_bits(u32::from(bits) << 16));
        for bits in 0..0x7c00 {
            check(bits, [bits, bits + 1].map(half_of), half_bits);
        }
        for bits in 0..0x7f7f {
            check(bits, [bits, bits + 1].map(bfloat_of), bfloat_bits);
        }
    }

    fn check(bits: u16, [low, high]: [f64; 2], of: fn(f32) -> u16) {
        // Numbers of f32: they have twice the digits.
        let (low, middle) = (low as f32, ((low + high) / 2.0) as f32);
        let even = bits + (bits & 1);
        let found = [low, middle.next_down(), middle, middle.next_up()];
        assert_eq!(found.map(of), [bits, bits, even, bits + 1], "{bits:#x}");
        let negative = found.map(|x| of(-x) ^ 0x8000);
        assert_eq!(negative, [bits, bits, even, bits + 1], "-{bits:#x}");
    }

    #[test]
    fn bfloats_are_the_nearest() {
        let numbers = [
            (0.0, 0x0000),
            (-0.0, 0x8000),
            (1.0, 0x3f80),
            (-2.0, 0xc000),
            (f32::MAX, 0x7f80),
            (f32::INFINITY, 0x7f80),
            (f32::NEG_INFINITY, 0xff80),
            (1.0 + 1.0 / 256.0, 0x3f80),
            (1.0 + 3.0 / 256.0, 0x3f82),
            (1.0 + 1.1 / 256.0, 0x3f81),
            (0.1, 0x3dcd),
        ];
        for (x, wanted) in numbers {
            assert_eq!(bits(Precision::BFloat, x), wanted, "{x}");
        }
        assert!(bits(Precision::BFloat, f32::NAN) > 0x7f80);
        assert_eq!(bits(Precision::Half, 1.0), 0x3c00);
    }
}

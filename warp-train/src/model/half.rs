//! Types of 16-bit operands, and rounding to them on the host.

/// A floating-point type of 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    /// 5 bits of exponent, 10 of mantissa.
    Fp16,
    /// 8 bits of exponent, as f32 has, and 7 of mantissa.
    Bf16,
}

impl Half {
    /// The number nearest to `x` that has no more digits than the type, ties to even; near 0 as few as the type's
    /// subnormal numbers. Its size is not limited, and infinities and NaN are what they were.
    pub(crate) fn nearest(self, x: f64) -> f64 {
        if !x.is_finite() {
            return x;
        }
        let (digits, smallest_exponent) = match self {
            Self::Fp16 => (10, -14),
            Self::Bf16 => (7, -126),
        };
        let exponent = (x.to_bits() >> 52 & 0x7ff) as i32 - 1023;
        let spacing = 2.0_f64.powi(exponent.max(smallest_exponent) - digits);
        (x / spacing).round_ties_even() * spacing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_as_their_types_are() {
        for (x, fp16, bf16) in [
            (0.0, 0.0, 0.0),
            (-2.0, -2.0, -2.0),
            (1.0 + 1.0 / 2048.0, 1.0, 1.0),
            (1.0 + 3.0 / 2048.0, 1.0 + 4.0 / 2048.0, 1.0),
            (-1.0 - 3.0 / 256.0, -1.0 - 3.0 / 256.0, -1.0 - 4.0 / 256.0),
            (3e-8, 2.0_f64.powi(-24), 3e-8),
        ] {
            assert_eq!(Half::Fp16.nearest(x), fp16, "{x}");
            assert!((Half::Bf16.nearest(x) - bf16).abs() < 1e-10, "{x}");
        }
        for half in [Half::Fp16, Half::Bf16] {
            assert!(half.nearest(f64::NAN).is_nan() && half.nearest(-0.0).is_sign_negative());
            assert_eq!([f64::INFINITY, -1e300].map(|x| half.nearest(x) < 0.0), [false, true]);
        }
    }
}

//! Which relus may be on the other side of their kink where operands are rounded.
//!
//! There a derivative jumps, so gradients of either side are right and neither is the other's. Whether rounding
//! changes the side is seen by computing the row both ways: a fixed distance would either let some cross, since
//! numbers are rounded relative to their size, or leave out nearly every row of a wide network.

use super::tower::{Kept, Layer, Tower};

/// Rows nearer than this to a point at which the loss has no derivative are left out ..
pub(super) const NEAR: f64 = 1e-4;
/// .. and, by the distance of its clipped quantities, than this in half precision, which may take them for rows
/// beyond it. Relus are left to [`RoundedTower`].
pub(super) const HALF_NEAR: f64 = 5e-3;

/// What operands of products are rounded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    Fp16,
    Bf16,
}

impl Rounding {
    /// The nearest number of that type.
    fn nearest(self, x: f64) -> f64 {
        let (digits, smallest_exponent) = match self {
            Self::Fp16 => (10, -14),
            Self::Bf16 => (7, -126),
        };
        let exponent = match x == 0.0 {
            true => smallest_exponent,
            false => (x.abs().log2().floor() as i32).max(smallest_exponent),
        };
        let spacing = 2.0_f64.powi(exponent - digits);
        (x / spacing).round_ties_even() * spacing
    }

    fn all(self, x: &[f64]) -> Vec<f64> {
        x.iter().map(|x| self.nearest(*x)).collect()
    }
}

/// The hidden layers of a tower with relus, with operands rounded.
#[derive(Debug)]
pub(super) struct RoundedTower {
    layers: Vec<Layer>,
    rounding: Rounding,
}

impl RoundedTower {
    pub(super) fn new(tower: &Tower, rounding: Rounding) -> Self {
        let layer = |layer: &Layer| Layer { weight: rounding.all(&layer.weight), ..layer.clone() };
        Self { layers: tower.hidden.iter().map(layer).collect(), rounding }
    }

    /// Whether a relu may be on another side here than in `kept`, which was computed without rounding: if it is,
    /// or if it is no further from its kink, both ways, than rounding moves those of its layer.
    pub(super) fn may_cross(&self, kept: &Kept) -> bool {
        let mut x = self.rounding.all(&kept.inputs[0]);
        for (layer, exact) in self.layers.iter().zip(&kept.sums) {
            let sums = layer.normed(&layer.forward(&x));
            let near = NEAR + typical_distance(&sums, exact);
            let mut pairs = sums.iter().zip(exact);
            if pairs.any(|(a, b)| a * b <= 0.0 || a.abs().min(b.abs()) < near) {
                return true;
            }
            x = sums.iter().map(|sum| self.rounding.nearest(sum.max(0.0))).collect();
        }
        false
    }
}

/// Root mean square of the differences.
fn typical_distance(a: &[f64], b: &[f64]) -> f64 {
    let squares = a.iter().zip(b).map(|(a, b)| (a - b).powi(2));
    (squares.sum::<f64>() / a.len() as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Activation;

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
            assert_eq!(Rounding::Fp16.nearest(x), fp16, "{x}");
            assert!((Rounding::Bf16.nearest(x) - bf16).abs() < 1e-10, "{x}");
        }
    }

    /// A relu of `x * weight + bias`.
    fn may_cross(x: f64, weight: f64, bias: f64, rounding: Rounding) -> bool {
        let layer =
            Layer { name: String::new(), weight: vec![weight], bias: vec![bias], norm: None };
        let tower = Tower { hidden: vec![layer], heads: Vec::new() };
        RoundedTower::new(&tower, rounding).may_cross(&tower.forward(Activation::Relu, &[x]))
    }

    #[test]
    fn relus_that_rounding_moves_across_their_kink_are_found() {
        // 8.003 is 8 in both types.
        assert!(may_cross(8.003, 1.0, -8.001, Rounding::Fp16));
        assert!(may_cross(8.003, 1.0, -7.999, Rounding::Bf16));
        // It moves by 0.003: 0.005 is further, 0.002 is not.
        assert!(!may_cross(8.003, 1.0, -7.992, Rounding::Fp16));
        assert!(may_cross(8.003, 1.0, -7.998, Rounding::Fp16));
        // What is exact has no kink nearer than elsewhere.
        assert!(!may_cross(8.0, 1.0, -7.9998, Rounding::Fp16));
        assert!(may_cross(8.0, 1.0, -7.99995, Rounding::Fp16));
    }
}

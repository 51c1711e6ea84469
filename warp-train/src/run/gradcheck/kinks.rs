//! Which relus may be on the other side of their kink where operands are rounded.
//!
//! There a derivative jumps, so gradients of either side are right and neither is the other's. Whether rounding
//! changes the side is seen by computing the row both ways: a fixed distance would either let some cross, since
//! numbers are rounded relative to their size, or leave out nearly every row of a wide network.

use super::tower::{Kept, Layer, Tower};
use crate::model::Half;

/// Rows nearer than this to a point at which the loss has no derivative are left out ..
pub(super) const NEAR: f64 = 1e-4;
/// .. and, by the distance of its clipped quantities, than this in half precision, which may take them for rows
/// beyond it. Relus are left to [`RoundedTower`].
pub(super) const HALF_NEAR: f64 = 5e-3;

/// `x`, rounded to the digits of `half`.
fn rounded(half: Half, x: &[f64]) -> Vec<f64> {
    x.iter().map(|x| half.nearest(*x)).collect()
}

/// The hidden layers of a tower with relus, with operands rounded.
#[derive(Debug)]
pub(super) struct RoundedTower {
    layers: Vec<Layer>,
    half: Half,
}

impl RoundedTower {
    pub(super) fn new(tower: &Tower, half: Half) -> Self {
        let layer = |layer: &Layer| Layer { weight: rounded(half, &layer.weight), ..layer.clone() };
        Self { layers: tower.hidden.iter().map(layer).collect(), half }
    }

    /// Whether a relu may be on another side here than in `kept`, which was computed without rounding: if it is,
    /// or if it is no further from its kink, both ways, than rounding moves those of its layer.
    pub(super) fn may_cross(&self, kept: &Kept) -> bool {
        let mut x = rounded(self.half, &kept.inputs[0]);
        for (layer, exact) in self.layers.iter().zip(&kept.sums) {
            let sums = layer.normed(&layer.forward(&x));
            let near = NEAR + typical_distance(&sums, exact);
            let mut pairs = sums.iter().zip(exact);
            if pairs.any(|(a, b)| a * b <= 0.0 || a.abs().min(b.abs()) < near) {
                return true;
            }
            x = sums.iter().map(|sum| self.half.nearest(sum.max(0.0))).collect();
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

    /// A relu of `x * weight + bias`.
    fn may_cross(x: f64, weight: f64, bias: f64, half: Half) -> bool {
        let layer =
            Layer { name: String::new(), weight: vec![weight], bias: vec![bias], norm: None };
        let tower = Tower { hidden: vec![layer], heads: Vec::new() };
        RoundedTower::new(&tower, half).may_cross(&tower.forward(Activation::Relu, &[x]))
    }

    #[test]
    fn relus_that_rounding_moves_across_their_kink_are_found() {
        // 8.003 is 8 in both types.
        assert!(may_cross(8.003, 1.0, -8.001, Half::Fp16));
        assert!(may_cross(8.003, 1.0, -7.999, Half::Bf16));
        // It moves by 0.003: 0.005 is further, 0.002 is not.
        assert!(!may_cross(8.003, 1.0, -7.992, Half::Fp16));
        assert!(may_cross(8.003, 1.0, -7.998, Half::Fp16));
        // What is exact has no kink nearer than elsewhere.
        assert!(!may_cross(8.0, 1.0, -7.9998, Half::Fp16));
        assert!(may_cross(8.0, 1.0, -7.99995, Half::Fp16));
    }
}

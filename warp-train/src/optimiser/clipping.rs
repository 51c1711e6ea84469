//! Clipping by the global norm: all parameters of a policy together, not tensor by tensor.

use crate::vectors::{self, Work};

/// The norm that a gradient is clipped to where the key `max_grad_norm` is given; 0 means never.
pub(crate) fn limit(max_grad_norm: f64) -> f64 {
    if max_grad_norm > 0.0 { max_grad_norm } else { f64::INFINITY }
}

/// What a gradient of L2 norm `norm` is multiplied by, so that its norm is at most `limit`.
pub(super) fn scale(norm: f64, limit: f64) -> f32 {
    // torch.nn.utils.clip_grad_norm_'s 1e-6 included.
    (limit / (norm + 1e-6)).min(1.0) as f32
}

/// The squared L2 norm in f64, in lanes (a fixed order that vectorises).
pub(crate) fn squared_norm(values: &[f32]) -> f64 {
    vectors::run(SquaredNorm(values))
}

struct SquaredNorm<'a>(&'a [f32]);

impl Work for SquaredNorm<'_> {
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let mut lanes = [0.0_f64; 32];
        let rest = self.0.chunks_exact(32).remainder();
        for chunk in self.0.chunks_exact(32) {
            for (lane, &value) in lanes.iter_mut().zip(chunk) {
                *lane += f64::from(value) * f64::from(value);
            }
        }
        for (lane, &value) in lanes.iter_mut().zip(rest) {
            *lane += f64::from(value) * f64::from(value);
        }
        lanes.iter().sum::<f64>()
    }
}

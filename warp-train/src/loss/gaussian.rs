//! Gaussian distributions over the elements of a box, clipped or squashed, and their derivatives.
//!
//! Log-probabilities are recomputed from raw samples, so that squashing needs no inverse; its Jacobian
//! depends only on the raw sample and has no gradient. The entropy of a squashed policy is the
//! Gaussian's plus the mean of the log-Jacobian by quadrature
//! ([`warp_sample::density::mean_log_slope`]): a function of the outputs with exact derivatives. The
//! usual estimate, -log_prob of old samples, has no gradient on average and so no effect.

use super::block::{BLOCK, Block, Column, Distributions, Room, Slopes, to_columns, to_rows};
use crate::vectors::{Work, run};
use warp_sample::GaussianLayout;
use warp_sample::density::normal;

/// One element's derivatives, of all rows.
#[derive(Debug)]
struct Element<'a> {
    log_prob_by_mean: &'a mut Column,
    log_prob_by_log_std: &'a mut Column,
    entropy_by_mean: &'a mut Column,
    entropy_by_log_std: &'a mut Column,
    /// 1 where the log standard deviation lies above its range, -1 below, 0 within.
    outside: &'a mut Column,
}

/// Columns of an [`Element`].
const DERIVATIVES: usize = 5;

/// Element after element of its columns.
fn elements(columns: &mut [Column]) -> impl Iterator<Item = Element<'_>> {
    columns.as_chunks_mut().0.iter_mut().map(|columns: &mut [Column; DERIVATIVES]| {
        let [log_prob_by_mean, log_prob_by_log_std, entropy_by_mean, entropy_by_log_std, outside] =
            columns;
        Element {
            log_prob_by_mean,
            log_prob_by_log_std,
            entropy_by_mean,
            entropy_by_log_std,
            outside,
        }
    })
}

/// Derivatives of up to [`BLOCK`] rows.
#[derive(Debug)]
pub(super) struct Gaussian<'a> {
    layout: &'a GaussianLayout,
    /// Means, then log standard deviations; or their gradients.
    outputs: &'a mut [Column],
    raw: &'a mut [Column],
    /// Of each element those of an [`Element`].
    derivatives: &'a mut [Column],
}

impl<'a> Gaussian<'a> {
    pub(super) fn new(layout: &'a GaussianLayout, room: &'a mut Room) -> Self {
        let [outputs, raw, derivatives] = &mut room.columns;
        outputs.resize(2 * layout.dim(), [0.0; BLOCK]);
        raw.resize(layout.dim(), [0.0; BLOCK]);
        derivatives.resize(DERIVATIVES * layout.dim(), [0.0; BLOCK]);
        Self { layout, outputs, raw, derivatives }
    }

    /// Computes a block's distributions from its outputs and `raw` samples `[n, dim]`, and keeps what
    /// [`Self::gradient`] needs.
    pub(super) fn evaluate(&mut self, block: &Block<'_>, raw: &[f32]) -> Distributions {
        to_columns(block.outputs, self.outputs);
        to_columns(raw, self.raw);
        let Self { layout, outputs, raw, derivatives } = self;
        run(Evaluate { layout, outputs, raw, derivatives })
    }

    /// Writes the gradient of each row of the last block by its outputs into `gradients` `[n, 2 dim]`.
    ///
    /// A log standard deviation outside its range gets a gradient only where descent leads back inside.
    pub(super) fn gradient(&mut self, slopes: &Slopes, gradients: &mut [f32]) {
        let Slopes { d_log_probs, d_entropies } = slopes;
        let (by_mean, by_log_std) = self.outputs.split_at_mut(self.layout.dim());
        let outputs = by_mean.iter_mut().zip(by_log_std);
        for ((by_mean, by_log_std), e) in outputs.zip(elements(self.derivatives)) {
            for i in 0..BLOCK {
                by_mean[i] =
                    d_log_probs[i] * e.log_prob_by_mean[i] + d_entropies[i] * e.entropy_by_mean[i];
                let by = d_log_probs[i] * e.log_prob_by_log_std[i]
                    + d_entropies[i] * e.entropy_by_log_std[i];
                by_log_std[i] = if by * e.outside[i] < 0.0 { 0.0 } else { by };
            }
        }
        to_rows(self.outputs, gradients);
    }
}

/// Distributions of all rows, element by element.
struct Evaluate<'a> {
    layout: &'a GaussianLayout,
    outputs: &'a [Column],
    raw: &'a [Column],
    derivatives: &'a mut [Column],
}

impl Work for Evaluate<'_> {
    type Output = Distributions;

    #[inline(always)]
    fn run(self) -> Distributions {
        let Self { layout, outputs, raw, derivatives } = self;
        let mut found = Distributions { log_probs: [0.0; BLOCK], entropies: [0.0; BLOCK] };
        let (means, log_stds) = outputs.split_at(layout.dim());
        let inputs = raw.iter().zip(means).zip(log_stds).enumerate();
        for ((number, ((raw, means), given)), e) in inputs.zip(elements(derivatives)) {
            let mut log_stds = [0.0; BLOCK];
            for i in 0..BLOCK {
                log_stds[i] = layout.clamp_log_std(given[i]);
                let outside = (given[i] - log_stds[i]).signum();
                e.outside[i] = if given[i] == log_stds[i] { 0.0 } else { outside };
            }
            let log_jacobians = layout.log_jacobians(number, raw);
            for i in 0..BLOCK {
                let density = normal(raw[i], means[i], log_stds[i]);
                found.log_probs[i] += density.log_density - log_jacobians[i];
                e.log_prob_by_mean[i] = density.z * density.inverse_std;
                e.log_prob_by_log_std[i] = density.z * density.z - 1.0;
            }
            let entropies;
            [entropies, *e.entropy_by_mean, *e.entropy_by_log_std] =
                layout.entropies(number, means, &log_stds);
            found.entropies.iter_mut().zip(entropies).for_each(|(sum, entropy)| *sum += entropy);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::actions::ActionsRef;
    use warp_sample::Bounding;

    #[test]
    fn a_log_deviation_outside_its_range_is_only_led_back() {
        let layout = GaussianLayout::new(&[-1.0], &[1.0], Bounding::Clip).unwrap();
        let mut room = Room::default();
        let mut gaussian = Gaussian::new(&layout, &mut room);
        let mut at = |log_std: f32| {
            let block = Block {
                outputs: &[0.0, log_std],
                mask: None,
                actions: ActionsRef::Continuous(&[0.5]),
            };
            let found = gaussian.evaluate(&block, &[0.5]);
            let by_log_std = [1.0, -1.0].map(|d_entropy| {
                let d_entropies = [d_entropy; BLOCK];
                let mut gradient = [9.0; 2];
                let slopes = Slopes { d_log_probs: [0.0; BLOCK], d_entropies };
                gaussian.gradient(&slopes, &mut gradient);
                gradient[1]
            });
            (found.log_probs[0], found.entropies[0], by_log_std)
        };
        let (above, highest) = (at(3.0), at(2.0));
        assert_eq!((above.0, above.1), (highest.0, highest.1));
        assert_eq!(above.2, [1.0, 0.0]);
        assert_eq!(at(-6.0).2, [0.0, -1.0]);
        assert_eq!(at(1.0).2, [1.0, -1.0]);
    }
}

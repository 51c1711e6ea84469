//! One head of a block of rows: the softmax of its logits, and a choice from it.
//!
//! Rows are lanes, and every loop runs over [`LANES`] of them, so that all of it vectorises; per
//! row the sums still run over the choices in order, which is what a CUDA twin repeats. A forbidden
//! choice is one whose logit is negative infinity. Weights are computed again rather than kept, so
//! nothing is allocated for heads of any size.

use warp_core::math::{exp, ln};

/// Rows per block.
pub(crate) const LANES: usize = 64;
/// A number per row of a block.
pub(crate) type Lanes = [f32; LANES];

/// Lanes that are worked on for `n_rows` rows: whole vectors, and not all of them for a few rows.
#[inline(always)]
pub(crate) fn filled(n_rows: usize) -> usize {
    n_rows.next_multiple_of(8).min(LANES)
}

/// How a head is chosen from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pick<'a> {
    /// By a uniform number in [0, 1) per row.
    At(&'a Lanes),
    /// The first choice whose logit is largest.
    Largest,
}

/// Choices and what is known about them.
#[derive(Debug)]
pub(crate) struct Choices {
    pub(crate) actions: [i32; LANES],
    pub(crate) log_probs: Lanes,
    pub(crate) entropies: Lanes,
}

/// One head in the rows of a block, of which there are at most [`LANES`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head<'a> {
    /// Logits of all heads, `[rows, width]`; numbers or negative infinity.
    pub(crate) logits: &'a [f32],
    /// Mask of all heads, of the same shape.
    pub(crate) mask: Option<&'a [u8]>,
    /// Width of a row.
    pub(crate) width: usize,
    /// Where the head begins in a row.
    pub(crate) first: usize,
    /// Number of choices.
    pub(crate) size: usize,
}

impl Head<'_> {
    /// Chooses in each row; log-probability and entropy are of the softmax over the allowed
    /// choices.
    ///
    /// Nothing if a row has no choice. Lanes beyond the rows hold no meaning.
    pub(crate) fn choose(&self, pick: Pick<'_>) -> Option<Choices> {
        let (largest, max) = self.largest();
        let n_rows = self.logits.len() / self.width;
        if max[..n_rows].contains(&f32::NEG_INFINITY) {
            return None;
        }
        let (sum, moment) = self.totals(&max);
        let actions = match pick {
            Pick::At(uniform) => self.inverse(&max, uniform, &sum),
            Pick::Largest => largest,
        };
        let logits = self.chosen(&actions);
        let (mut log_probs, mut entropies) = ([0.0; LANES], [0.0; LANES]);
        for i in 0..filled(n_rows) {
            let ln_sum = ln(sum[i]);
            log_probs[i] = (logits[i] - max[i]) - ln_sum;
            entropies[i] = ln_sum - moment[i] / sum[i];
        }
        Some(Choices { actions, log_probs, entropies })
    }

    #[inline(always)]
    fn lanes(&self) -> usize {
        filled(self.logits.len() / self.width)
    }

    /// Logits of one choice in all rows.
    #[inline(always)]
    fn column(&self, choice: usize) -> Lanes {
        let mut column = [0.0; LANES];
        let at = self.first + choice;
        for (value, row) in column.iter_mut().zip(self.logits.chunks_exact(self.width)) {
            *value = row[at];
        }
        if let Some(mask) = self.mask {
            for (value, row) in column.iter_mut().zip(mask.chunks_exact(self.width)) {
                *value = if row[at] == 0 { f32::NEG_INFINITY } else { *value };
            }
        }
        column
    }

    /// The logits of the actions.
    fn chosen(&self, actions: &[i32; LANES]) -> Lanes {
        let mut logits = [0.0; LANES];
        let rows = self.logits.chunks_exact(self.width).zip(actions);
        for (value, (row, action)) in logits.iter_mut().zip(rows) {
            *value = row[self.first + *action as usize];
        }
        logits
    }

    /// The first largest allowed logit and its value.
    fn largest(&self) -> ([i32; LANES], Lanes) {
        let (mut index, mut max) = ([0; LANES], [f32::NEG_INFINITY; LANES]);
        let lanes = self.lanes();
        for choice in 0..self.size {
            let logits = self.column(choice);
            for i in 0..lanes {
                let larger = logits[i] > max[i];
                index[i] = if larger { choice as i32 } else { index[i] };
                max[i] = if larger { logits[i] } else { max[i] };
            }
        }
        (index, max)
    }

    /// Sums of the weights w = exp(logit - max) and of w (logit - max).
    fn totals(&self, max: &Lanes) -> (Lanes, Lanes) {
        let (mut sum, mut moment) = ([0.0; LANES], [0.0; LANES]);
        let lanes = self.lanes();
        for choice in 0..self.size {
            let logits = self.column(choice);
            for i in 0..lanes {
                let below = logits[i] - max[i];
                let weight = exp(below);
                sum[i] += weight;
                // A weight of 0 may come with a logit of -inf, and their product is NaN.
                moment[i] += if weight > 0.0 { weight * below } else { 0.0 };
            }
        }
        (sum, moment)
    }

    /// The first choice at which the running sum of weights exceeds `uniform * sum`.
    ///
    /// As the sum grows there, the weight is positive. Should rounding put the threshold at the
    /// total, it is the last choice of positive weight.
    fn inverse(&self, max: &Lanes, uniform: &Lanes, sum: &Lanes) -> [i32; LANES] {
        let mut index = [0; LANES];
        let mut running = [0.0f32; LANES];
        let lanes = self.lanes();
        for choice in 0..self.size {
            let logits = self.column(choice);
            for i in 0..lanes {
                let weight = exp(logits[i] - max[i]);
                // Not yet exceeded: this one takes over from those before it. `&` and not `&&`: no
                // branch.
                let takes = (running[i] <= uniform[i] * sum[i]) & (weight > 0.0);
                running[i] += weight;
                // By bits: LLVM makes of a select a branch, which then stands in the way of
                // vectors.
                let bits = i32::from(takes).wrapping_neg();
                index[i] ^= (index[i] ^ choice as i32) & bits;
            }
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: f32 = f32::NEG_INFINITY;
    const ALMOST_ONE: f32 = 1.0 - 1.0 / 16_777_216.0;

    fn choose(logits: &[f32], mask: &[u8], pick: Pick<'_>) -> Option<i32> {
        let size = logits.len();
        let head = Head { logits, mask: Some(mask), width: size, first: 0, size };
        head.choose(pick).map(|choices| choices.actions[0])
    }

    fn at(logits: &[f32], mask: &[u8], uniform: f32) -> i32 {
        choose(logits, mask, Pick::At(&[uniform; LANES])).unwrap()
    }

    #[test]
    fn the_ends_of_the_uniform_never_choose_what_has_no_probability() {
        for uniform in [0.0, 1e-8, ALMOST_ONE, 1.0] {
            assert_eq!(at(&[0.0, 0.0, 0.0], &[0, 1, 0], uniform), 1);
            assert_eq!(at(&[NONE, 3.0, NONE], &[1; 3], uniform), 1);
            // exp(-200) is 0.
            assert_eq!(at(&[-200.0, 0.0, -200.0], &[1; 3], uniform), 1);
        }
        assert_eq!(at(&[0.0; 5], &[0, 1, 0, 1, 0], 0.0), 1);
        assert_eq!(at(&[0.0; 5], &[0, 1, 0, 1, 0], 0.5), 3);
        assert_eq!(at(&[0.0; 5], &[0, 1, 0, 1, 0], ALMOST_ONE), 3);
    }

    /// Sums of many roundings, with nothing possible at either end.
    #[test]
    fn rounded_sums_never_choose_what_has_no_probability() {
        for n in 3..400 {
            let mut logits: Vec<f32> = (0..n).map(|j| (j * 7 % 13) as f32 * 0.37 - 2.0).collect();
            (logits[0], logits[n - 1]) = (NONE, -200.0);
            let mask = vec![1; n];
            assert_eq!(at(&logits, &mask, 0.0), 1);
            for uniform in [ALMOST_ONE, 1.0] {
                assert_eq!(at(&logits, &mask, uniform), n as i32 - 2);
            }
        }
    }

    #[test]
    fn largest_is_the_first_allowed_maximum() {
        assert_eq!(choose(&[1.0, 2.0, 2.0], &[1, 1, 1], Pick::Largest), Some(1));
        assert_eq!(choose(&[9.0, 2.0, 2.0], &[0, 0, 1], Pick::Largest), Some(2));
        assert_eq!(choose(&[NONE, -1e30, NONE], &[1, 1, 1], Pick::Largest), Some(1));
    }

    #[test]
    fn no_choice_is_noticed() {
        assert_eq!(choose(&[0.0, 1.0], &[0, 0], Pick::Largest), None);
        assert_eq!(choose(&[0.0, NONE], &[0, 1], Pick::Largest), None);
    }
}

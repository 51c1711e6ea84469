//! Multi-discrete categorical distributions over logits, with an optional mask.
//!
//! An action that the mask forbids has probability exactly zero, contributes nothing to the entropy
//! and receives no gradient. Rows are computed side by side: a choice's numbers of all rows are one column.

use super::block::{BLOCK, Block, Column, Distributions, Room, Slopes, to_columns, to_rows};
use super::exponential::{exp, ln};
use crate::vectors::{Work, fuses, run};

/// Probabilities of up to [`BLOCK`] rows.
#[derive(Debug)]
pub(crate) struct Categorical<'a> {
    head_sizes: &'a [usize],
    /// A column per choice of each head.
    probabilities: &'a mut [Column],
    log_probabilities: &'a mut [Column],
    /// A column per head.
    entropies: &'a mut [Column],
}

impl<'a> Categorical<'a> {
    /// For heads of these sizes.
    pub(super) fn new(head_sizes: &'a [usize], room: &'a mut Room) -> Self {
        let width = head_sizes.iter().sum();
        let [probabilities, log_probabilities, entropies] = &mut room.columns;
        probabilities.resize(width, [0.0; BLOCK]);
        log_probabilities.resize(width, [0.0; BLOCK]);
        entropies.resize(head_sizes.len(), [0.0; BLOCK]);
        Self { head_sizes, probabilities, log_probabilities, entropies }
    }

    /// Computes a block's distributions and keeps what [`Self::gradient`] needs.
    pub(super) fn evaluate(&mut self, block: &Block<'_>, actions: &[i32]) -> Distributions {
        let Self { head_sizes, probabilities, log_probabilities, entropies } = self;
        to_columns(block.outputs, log_probabilities);
        if let Some(mask) = block.mask {
            forbid(mask, log_probabilities);
        }
        let heads = Heads { sizes: head_sizes, probabilities, log_probabilities, entropies };
        if fuses() {
            run(Softmax::<true>(heads))
        } else {
            run(Softmax::<false>(heads))
        }
        let mut found = Distributions { log_probs: [0.0; BLOCK], entropies: [0.0; BLOCK] };
        let mut first = 0;
        for (head, (&size, entropies)) in head_sizes.iter().zip(&**entropies).enumerate() {
            let log_probabilities = &log_probabilities[first..first + size];
            let taken = actions.iter().skip(head).step_by(head_sizes.len());
            for (row, (log_prob, action)) in found.log_probs.iter_mut().zip(taken).enumerate() {
                // The action of a row that does not count may be anything.
                *log_prob += log_probabilities[(*action as usize).min(size - 1)][row];
            }
            found.entropies.iter_mut().zip(entropies).for_each(|(sum, entropy)| *sum += entropy);
            first += size;
        }
        found
    }

    /// Writes the gradient of each row of the last block by its logits into `gradients` `[n, width]`.
    pub(super) fn gradient(&mut self, actions: &[i32], slopes: &Slopes, gradients: &mut [f32]) {
        let Self { head_sizes, probabilities, log_probabilities, entropies } = self;
        let heads = Heads { sizes: head_sizes, probabilities, log_probabilities, entropies };
        run(Gradient { heads, slopes });
        to_rows(probabilities, gradients);
        let rows = gradients.chunks_exact_mut(probabilities.len());
        let rows = rows.zip(actions.chunks_exact(head_sizes.len())).zip(&slopes.d_log_probs);
        for ((gradient, actions), d_log_prob) in rows {
            let mut first = 0;
            for (&size, &action) in head_sizes.iter().zip(actions) {
                gradient[first + (action as usize).min(size - 1)] += d_log_prob;
                first += size;
            }
        }
    }
}

/// Gives choices that `mask` `[n, width]` forbids the logit of what never happens.
fn forbid(mask: &[u8], logits: &mut [Column]) {
    for (row, mask) in mask.chunks_exact(logits.len()).enumerate() {
        // Most rows forbid nothing, which is quickly seen of all choices together.
        if mask.iter().fold(true, |all, allowed| all & (*allowed != 0)) {
            continue;
        }
        for (logits, _) in logits.iter_mut().zip(mask).filter(|(_, allowed)| **allowed == 0) {
            logits[row] = f32::NEG_INFINITY;
        }
    }
}

/// The columns of all heads.
struct Heads<'a> {
    sizes: &'a [usize],
    probabilities: &'a mut [Column],
    log_probabilities: &'a mut [Column],
    entropies: &'a mut [Column],
}

/// The columns of one head.
struct Head<'a> {
    probabilities: &'a mut [Column],
    log_probabilities: &'a mut [Column],
    entropies: &'a mut Column,
}

impl<'a> Iterator for Heads<'a> {
    type Item = Head<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Head<'a>> {
        let size = *self.sizes.split_off_first()?;
        Some(Head {
            probabilities: self.probabilities.split_off_mut(..size)?,
            log_probabilities: self.log_probabilities.split_off_mut(..size)?,
            entropies: self.entropies.split_off_first_mut()?,
        })
    }
}

/// From logits, which lie where log-probabilities will.
struct Softmax<'a, const FUSED: bool>(Heads<'a>);

impl<const FUSED: bool> Work for Softmax<'_, FUSED> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for head in self.0 {
            softmax::<FUSED>(head);
        }
    }
}

/// One head of all rows.
#[inline(always)]
fn softmax<const FUSED: bool>(head: Head<'_>) {
    let Head { probabilities, log_probabilities, entropies } = head;
    let mut max = [f32::NEG_INFINITY; BLOCK];
    for logits in &*log_probabilities {
        for i in 0..BLOCK {
            max[i] = if logits[i] > max[i] { logits[i] } else { max[i] };
        }
    }
    let mut sum = [0.0; BLOCK];
    for (p, logits) in probabilities.iter_mut().zip(&*log_probabilities) {
        for i in 0..BLOCK {
            p[i] = exp::<FUSED>(logits[i] - max[i]);
            sum[i] += p[i];
        }
    }
    let mut log_sum = [0.0; BLOCK];
    for i in 0..BLOCK {
        log_sum[i] = ln::<FUSED>(sum[i]);
    }
    let mut entropy = [0.0; BLOCK];
    for (p, log_p) in probabilities.iter_mut().zip(log_probabilities) {
        for i in 0..BLOCK {
            p[i] /= sum[i];
            log_p[i] = log_p[i] - max[i] - log_sum[i];
            let more = entropy[i] - p[i] * log_p[i];
            entropy[i] = if p[i] > 0.0 { more } else { entropy[i] };
        }
    }
    *entropies = entropy;
}

/// Gradients by the logits, but for what the action taken adds, in the place of probabilities.
struct Gradient<'a> {
    heads: Heads<'a>,
    slopes: &'a Slopes,
}

impl Work for Gradient<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { heads, slopes: Slopes { d_log_probs, d_entropies } } = self;
        for Head { probabilities, log_probabilities, entropies } in heads {
            for (p, log_p) in probabilities.iter_mut().zip(log_probabilities) {
                for i in 0..BLOCK {
                    let by_entropy = d_entropies[i] * (log_p[i] + entropies[i]);
                    let some = -p[i] * (d_log_probs[i] + by_entropy);
                    // p = 0 comes with log p = -inf: such an action has no gradient at all.
                    p[i] = if p[i] == 0.0 { 0.0 } else { some };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::actions::ActionsRef;

    const ONE: Slopes = Slopes { d_log_probs: [1.0; BLOCK], d_entropies: [1.0; BLOCK] };

    fn block<'a>(outputs: &'a [f32], mask: Option<&'a [u8]>, actions: &'a [i32]) -> Block<'a> {
        Block { outputs, mask, actions: ActionsRef::Discrete(actions) }
    }

    #[test]
    fn masked_actions_have_no_probability_and_no_gradient() {
        let mut room = Room::default();
        let mut categorical = Categorical::new(&[3, 2], &mut room);
        let logits = [1.0, 1e30, 1.0, 0.5, -0.5];
        let mask = [1, 0, 1, 0, 1];
        let found = categorical.evaluate(&block(&logits, Some(&mask), &[0, 1]), &[0, 1]);
        assert!((found.log_probs[0] - 0.5f32.ln()).abs() < 1e-6);
        assert!((found.entropies[0] - 2f32.ln()).abs() < 1e-6);
        let mut gradient = [9.0; 5];
        categorical.gradient(&[0, 1], &ONE, &mut gradient);
        assert_eq!(gradient[1], 0.0);
        assert_eq!(gradient[3..], [0.0, 0.0]);
        assert!((gradient[0] - 0.5).abs() < 1e-6 && (gradient[2] + 0.5).abs() < 1e-6);
    }

    #[test]
    fn far_apart_logits_give_no_nan() {
        let mut room = Room::default();
        let mut categorical = Categorical::new(&[3], &mut room);
        let logits = [200.0, -200.0, f32::NEG_INFINITY];
        let found = categorical.evaluate(&block(&logits, None, &[0]), &[0]);
        assert_eq!((found.log_probs[0], found.entropies[0]), (0.0, 0.0));
        let mut gradient = [0.0; 3];
        categorical.gradient(&[0], &ONE, &mut gradient);
        assert_eq!(gradient, [0.0; 3]);
    }
}

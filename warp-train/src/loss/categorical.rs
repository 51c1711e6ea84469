//! Multi-discrete categorical distributions over logits, with an optional mask.
//!
//! An action that the mask forbids has probability exactly zero, contributes nothing to the entropy
//! and receives no gradient.

use super::distribution::{BLOCK, RowDistribution};

/// Probabilities of up to [`BLOCK`] rows.
#[derive(Debug)]
pub(crate) struct Categorical<'a> {
    head_sizes: &'a [usize],
    /// Sum of the heads' sizes.
    width: usize,
    probabilities: Vec<f32>,
    log_probabilities: Vec<f32>,
    entropies: Vec<f32>,
}

impl<'a> Categorical<'a> {
    /// For heads of these sizes.
    pub(crate) fn new(head_sizes: &'a [usize]) -> Self {
        let width = head_sizes.iter().sum();
        Self {
            head_sizes,
            width,
            probabilities: vec![0.0; BLOCK * width],
            log_probabilities: vec![0.0; BLOCK * width],
            entropies: vec![0.0; BLOCK * head_sizes.len()],
        }
    }

    /// Computes row number `row`'s distribution from `logits` `[width]`, `mask` `[width]` and checked
    /// `actions` `[heads]`, and keeps what [`Self::gradient`] needs.
    pub(crate) fn evaluate(
        &mut self,
        row: usize,
        logits: &[f32],
        mask: Option<&[u8]>,
        actions: &[i32],
    ) -> RowDistribution {
        let mut found = RowDistribution { log_prob: 0.0, entropy: 0.0 };
        let probabilities = &mut self.probabilities[row * self.width..][..self.width];
        let log_probabilities = &mut self.log_probabilities[row * self.width..][..self.width];
        let entropies = &mut self.entropies[row * self.head_sizes.len()..];
        let mut start = 0;
        for ((&size, &action), kept) in self.head_sizes.iter().zip(actions).zip(entropies) {
            let range = start..start + size;
            start = range.end;
            let log_probabilities = &mut log_probabilities[range.clone()];
            let entropy = masked_softmax(
                &logits[range.clone()],
                mask.map(|mask| &mask[range.clone()]),
                &mut probabilities[range],
                log_probabilities,
            );
            *kept = entropy;
            found.entropy += entropy;
            found.log_prob += log_probabilities[action as usize];
        }
        found
    }

    /// Writes `d_log_prob * d log_prob / d logits + d_entropy * d entropy / d logits` of row number `row`
    /// into `gradient` `[width]`.
    pub(crate) fn gradient(
        &self,
        row: usize,
        actions: &[i32],
        d_log_prob: f32,
        d_entropy: f32,
        gradient: &mut [f32],
    ) {
        let probabilities = &self.probabilities[row * self.width..][..self.width];
        let log_probabilities = &self.log_probabilities[row * self.width..][..self.width];
        let entropies = &self.entropies[row * self.head_sizes.len()..];
        let mut start = 0;
        for ((&size, &action), &entropy) in self.head_sizes.iter().zip(actions).zip(entropies) {
            let range = start..start + size;
            start = range.end;
            let gradient = &mut gradient[range.clone()];
            let pairs = probabilities[range.clone()].iter().zip(&log_probabilities[range]);
            for (gradient, (p, log_p)) in gradient.iter_mut().zip(pairs) {
                // p = 0 comes with log p = -inf: such an action has no gradient at all.
                let some = -p * (d_log_prob + d_entropy * (log_p + entropy));
                *gradient = if *p == 0.0 { 0.0 } else { some };
            }
            gradient[action as usize] += d_log_prob;
        }
    }
}

/// Softmax and log-softmax of one head over its allowed actions; returns the entropy.
fn masked_softmax(
    logits: &[f32],
    mask: Option<&[u8]>,
    probabilities: &mut [f32],
    log_probabilities: &mut [f32],
) -> f32 {
    let allowed = |j: usize| mask.is_none_or(|mask| mask[j] != 0);
    let mut max = f32::NEG_INFINITY;
    for (j, &logit) in logits.iter().enumerate() {
        if allowed(j) && logit > max {
            max = logit;
        }
    }
    let mut sum = 0.0;
    for (j, &logit) in logits.iter().enumerate() {
        probabilities[j] = if allowed(j) { (logit - max).exp() } else { 0.0 };
        sum += probabilities[j];
    }
    let log_sum = sum.ln();
    let mut entropy = 0.0;
    for (j, &logit) in logits.iter().enumerate() {
        probabilities[j] /= sum;
        let log_p = if allowed(j) { logit - max - log_sum } else { f32::NEG_INFINITY };
        log_probabilities[j] = log_p;
        if probabilities[j] > 0.0 {
            entropy -= probabilities[j] * log_p;
        }
    }
    entropy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masked_actions_have_no_probability_and_no_gradient() {
        let mut categorical = Categorical::new(&[3, 2]);
        let logits = [1.0, 1e30, 1.0, 0.5, -0.5];
        let mask = [1, 0, 1, 0, 1];
        let row = categorical.evaluate(0, &logits, Some(&mask), &[0, 1]);
        assert!((row.log_prob - 0.5f32.ln()).abs() < 1e-6);
        assert!((row.entropy - 2f32.ln()).abs() < 1e-6);
        let mut gradient = [9.0; 5];
        categorical.gradient(0, &[0, 1], 1.0, 1.0, &mut gradient);
        assert_eq!(gradient[1], 0.0);
        assert_eq!(gradient[3..], [0.0, 0.0]);
        assert!((gradient[0] - 0.5).abs() < 1e-6 && (gradient[2] + 0.5).abs() < 1e-6);
    }

    #[test]
    fn far_apart_logits_give_no_nan() {
        let mut categorical = Categorical::new(&[3]);
        let row = categorical.evaluate(0, &[200.0, -200.0, f32::NEG_INFINITY], None, &[0]);
        assert_eq!(row, RowDistribution { log_prob: 0.0, entropy: 0.0 });
        let mut gradient = [0.0; 3];
        categorical.gradient(0, &[0], 1.0, 1.0, &mut gradient);
        assert_eq!(gradient, [0.0; 3]);
    }
}

//! Histograms of the actions in a rollout.

use super::event::Histogram;
use warp_train::rollout::PolicyRollout;

/// One histogram per head of a policy. Agents that were out of the game are left out.
pub(super) fn histograms(policy: &PolicyRollout) -> Vec<Histogram> {
    let n_heads = policy.head_sizes.len();
    let mut counts: Vec<Vec<u64>> = policy.head_sizes.iter().map(|n| vec![0; *n]).collect();
    for (row, actions) in policy.actions.chunks_exact(n_heads.max(1)).enumerate() {
        if policy.weights.get(row) == Some(&0.0) {
            continue;
        }
        for (counts, action) in counts.iter_mut().zip(actions) {
            if let Some(count) = usize::try_from(*action).ok().and_then(|a| counts.get_mut(a)) {
                *count += 1;
            }
        }
    }
    counts.iter().map(|counts| choices(counts)).collect()
}

/// A bucket around each choice.
fn choices(counts: &[u64]) -> Histogram {
    let moment = |power: i32| {
        let terms = counts.iter().enumerate().map(|(i, n)| (i as f64).powi(power) * *n as f64);
        terms.sum()
    };
    Histogram {
        min: -0.5,
        limits: (0..counts.len()).map(|i| i as f64 + 0.5).collect(),
        counts: counts.iter().map(|n| *n as f64).collect(),
        sum: moment(1),
        sum_squares: moment(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_choice_has_its_bucket() {
        let histogram = choices(&[3, 0, 2]);
        assert_eq!(histogram.limits, [0.5, 1.5, 2.5]);
        assert_eq!(histogram.counts, [3.0, 0.0, 2.0]);
        assert_eq!((histogram.sum, histogram.sum_squares), (4.0, 8.0));
    }
}

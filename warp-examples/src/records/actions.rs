//! Histograms of the actions in a rollout.

use super::event::Histogram;
use warp_sample::ActionLayout;
use warp_train::Actions;
use warp_train::rollout::PolicyRollout;

/// Buckets of a continuous action between its bounds.
const BUCKETS: usize = 40;

/// One histogram per head or element of a policy's actions, as the environment got them. Agents that
/// were out of the game are left out.
pub(super) fn histograms(policy: &PolicyRollout) -> Vec<Histogram> {
    let in_game = |row: &usize| policy.weights.get(*row) != Some(&0.0);
    match (&policy.layout, &policy.actions) {
        (ActionLayout::Discrete(heads), Actions::Discrete(actions)) => {
            let mut counts: Vec<Vec<u64>> = heads.sizes().iter().map(|n| vec![0; *n]).collect();
            let rows = actions.chunks_exact(heads.n_heads()).enumerate();
            for (_, actions) in rows.filter(|(row, _)| in_game(row)) {
                for (counts, action) in counts.iter_mut().zip(actions) {
                    let count = usize::try_from(*action).ok().and_then(|a| counts.get_mut(a));
                    count.into_iter().for_each(|count| *count += 1);
                }
            }
            counts.iter().map(|counts| choices(counts)).collect()
        }
        (ActionLayout::Continuous(elements), Actions::Continuous(raw)) => {
            let (dim, mut actions) = (elements.dim(), vec![0.0; raw.len()]);
            if elements.bound(raw, &mut actions).is_err() {
                return Vec::new();
            }
            let rows = || (0..raw.len() / dim).filter(in_game);
            let values =
                |element| rows().map(|row| f64::from(actions[row * dim + element])).collect();
            (0..dim).map(|element| numbers(values(element))).collect()
        }
        _ => Vec::new(),
    }
}

/// Equal buckets from the smallest to the largest number.
fn numbers(values: Vec<f64>) -> Histogram {
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (min, width) =
        if min < max { (min, (max - min) / BUCKETS as f64) } else { (min - 0.5, 1.0) };
    let mut counts = vec![0.0; BUCKETS];
    for value in &values {
        counts[(((value - min) / width) as usize).min(BUCKETS - 1)] += 1.0;
    }
    Histogram {
        min,
        limits: (1..=BUCKETS).map(|i| min + width * i as f64).collect(),
        counts,
        sum: values.iter().sum(),
        sum_squares: values.iter().map(|x| x * x).sum(),
    }
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
    fn numbers_fall_into_equal_buckets() {
        let histogram = numbers(vec![-1.0, 0.99, 1.0, 1.0]);
        assert_eq!((histogram.min, histogram.limits[39]), (-1.0, 1.0));
        assert_eq!((histogram.counts[0], histogram.counts[39]), (1.0, 3.0));
        assert_eq!(numbers(vec![2.0]).counts.iter().sum::<f64>(), 1.0);
    }

    #[test]
    fn each_choice_has_its_bucket() {
        let histogram = choices(&[3, 0, 2]);
        assert_eq!(histogram.limits, [0.5, 1.5, 2.5]);
        assert_eq!(histogram.counts, [3.0, 0.0, 2.0]);
        assert_eq!((histogram.sum, histogram.sum_squares), (4.0, 8.0));
    }
}

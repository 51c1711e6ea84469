//! Figures of scores, and intervals around them by a bootstrap that is stratified by task.

use warp_core::{Draw, Purpose};

/// What intervals in a report are.
pub const INTERVAL: &str = "95 % percentile interval of a bootstrap over runs, stratified by task";

/// A figure with its interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Estimated {
    /// The figure of the scores as they are.
    pub value: f64,
    /// Lower and upper bound; nothing where no task has two runs.
    pub interval: Option<[f64; 2]>,
}

/// How intervals are found.
#[derive(Debug, Clone, Copy)]
pub struct Bootstrap {
    /// Resamples, at least 1.
    pub resamples: u32,
    /// Seed of what is drawn.
    pub seed: u64,
}

/// The scores of a setting's runs, task by task.
pub type Strata = Vec<Vec<f64>>;

/// Mean; NaN for none.
#[must_use]
pub fn mean(scores: &[f64]) -> f64 {
    scores.iter().sum::<f64>() / scores.len() as f64
}

/// The score in the middle, or the mean of the two there; NaN for none.
#[must_use]
pub fn median(scores: &[f64]) -> f64 {
    let sorted = sorted(scores);
    let n = sorted.len();
    mean(&sorted[n.saturating_sub(1) / 2..n / 2 + usize::from(n > 0)])
}

/// Mean without the lowest and the highest quarter, each rounded down to whole runs: of fewer than four the
/// mean of all.
#[must_use]
pub fn interquartile_mean(scores: &[f64]) -> f64 {
    let cut = scores.len() / 4;
    mean(&sorted(scores)[cut..scores.len() - cut])
}

/// Share of the scores above `threshold`.
#[must_use]
pub fn share_above(scores: &[f64], threshold: f64) -> f64 {
    scores.iter().filter(|score| **score > threshold).count() as f64 / scores.len() as f64
}

/// How probable it is that a run of `these` has a higher score than one of `those`, in the mean over tasks;
/// equal ones count half (Mann and Whitney's U over the number of pairs).
#[must_use]
pub fn probability_of_improvement(these: &Strata, those: &Strata) -> f64 {
    let wins = |a: f64, b: f64| if a > b { 1.0 } else { f64::from(u8::from(a == b)) / 2.0 };
    let of_task = |(these, those): (&Vec<f64>, &Vec<f64>)| {
        let pairs = these.iter().flat_map(|a| those.iter().map(move |b| wins(*a, *b)));
        pairs.sum::<f64>() / (these.len() * those.len()) as f64
    };
    mean(&these.iter().zip(those).map(of_task).collect::<Vec<_>>())
}

fn sorted(scores: &[f64]) -> Vec<f64> {
    let mut sorted = scores.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

impl Bootstrap {
    /// `figure` of all scores together.
    #[must_use]
    pub fn estimate(&self, strata: &Strata, figure: impl Fn(&[f64]) -> f64) -> Estimated {
        self.estimate_of(&[strata], |samples| figure(&samples[0].concat()))
    }

    /// `figure` of several settings, each resampled by itself.
    #[must_use]
    pub fn estimate_of(
        &self,
        settings: &[&Strata],
        figure: impl Fn(&[Strata]) -> f64,
    ) -> Estimated {
        let whole: Vec<Strata> = settings.iter().map(|strata| (*strata).clone()).collect();
        let value = figure(&whole);
        if settings.iter().any(|strata| strata.iter().all(|task| task.len() < 2)) {
            return Estimated { value, interval: None };
        }
        let resampled = (0..self.resamples).map(|n| figure(&self.resample(settings, n)));
        let found = sorted(&resampled.collect::<Vec<_>>());
        Estimated { value, interval: Some([quantile(&found, 0.025), quantile(&found, 0.975)]) }
    }

    /// Resample number `n`: as many runs of each task, drawn with replacement.
    fn resample(&self, settings: &[&Strata], n: u32) -> Vec<Strata> {
        let mut sample = Vec::with_capacity(settings.len());
        for (place, strata) in (0..).zip(settings) {
            let mut draw = Draw::new(self.seed, place, n, Purpose::Replay);
            let mut pick = |task: &Vec<f64>| -> Vec<f64> {
                (0..task.len()).map(|_| task[draw.below(task.len() as u32) as usize]).collect()
            };
            sample.push(strata.iter().map(&mut pick).collect());
        }
        sample
    }
}

/// The quantile of sorted numbers, between two of them by a straight line.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOTSTRAP: Bootstrap = Bootstrap { resamples: 4000, seed: 0 };

    #[test]
    fn figures_are_those_of_small_cases() {
        let scores = [5.0, 1.0, 2.0, 100.0, 3.0, 4.0, 6.0, -50.0];
        assert_eq!((mean(&scores), median(&scores)), (71.0 / 8.0, 3.5));
        // Without -50, 1 and 6, 100.
        assert_eq!(interquartile_mean(&scores), 3.5);
        assert_eq!((interquartile_mean(&[1.0, 2.0, 9.0]), median(&[7.0])), (4.0, 7.0));
        assert_eq!((share_above(&scores, 4.0), share_above(&scores, 200.0)), (3.0 / 8.0, 0.0));
        assert!(median(&[]).is_nan() && mean(&[]).is_nan());
    }

    #[test]
    fn improvement_counts_pairs_task_by_task() {
        let these = vec![vec![1.0, 3.0], vec![0.0]];
        let those = vec![vec![2.0, 3.0], vec![5.0, 0.0]];
        // 3 > 2, 3 = 3 of four pairs; 0 = 0 of two.
        let expected = (1.5 / 4.0 + 0.5 / 2.0) / 2.0;
        assert_eq!(probability_of_improvement(&these, &those), expected);
        assert_eq!(probability_of_improvement(&those, &these), 1.0 - expected);
    }

    #[test]
    fn a_mean_of_many_has_the_interval_of_the_normal_distribution() {
        let mut draw = Draw::new(1, 0, 0, Purpose::Step);
        let scores: Vec<f64> = (0..400).map(|_| f64::from(draw.normal())).collect();
        let Estimated { value, interval } = BOOTSTRAP.estimate(&vec![scores.clone()], mean);
        let [low, high] = interval.unwrap();
        let squares: f64 = scores.iter().map(|x| (x - value) * (x - value)).sum();
        let half = 1.96 * (squares / 400.0).sqrt() / 400_f64.sqrt();
        assert!(((high - low) / 2.0 / half - 1.0).abs() < 0.05, "{low} {high} {half}");
        assert!(low < value && value < high);
    }

    #[test]
    fn each_task_is_resampled_by_itself() {
        // Runs of a task agree: whatever is drawn, it is the same sample.
        let strata = vec![vec![1.0; 5], vec![9.0; 3]];
        let found = BOOTSTRAP.estimate(&strata, mean);
        assert_eq!(found, Estimated { value: 4.0, interval: Some([4.0, 4.0]) });
        let again = Bootstrap { resamples: 500, seed: 7 };
        let spread = vec![vec![1.0, 4.0, 2.0]];
        assert_eq!(again.estimate(&spread, median), again.estimate(&spread, median));
    }

    #[test]
    fn lone_runs_have_no_interval() {
        let found = BOOTSTRAP.estimate(&vec![vec![1.0], vec![3.0]], mean);
        assert_eq!(found, Estimated { value: 2.0, interval: None });
        let (one, two) = (vec![vec![1.0]], vec![vec![0.0, 2.0]]);
        let both = |samples: &[Strata]| probability_of_improvement(&samples[0], &samples[1]);
        assert_eq!(BOOTSTRAP.estimate_of(&[&one, &two], both).interval, None);
    }
}

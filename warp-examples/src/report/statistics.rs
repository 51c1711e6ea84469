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
    /// Seed of the random numbers.
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

/// A figure of what the runs of each task have in the mean, if there are several tasks; of one task, of its runs.
#[must_use]
pub fn over_tasks(strata: &Strata, figure: fn(&[f64]) -> f64) -> f64 {
    match &strata[..] {
        [runs] => figure(runs),
        tasks => figure(&tasks.iter().map(|runs| mean(runs)).collect::<Vec<_>>()),
    }
}

/// Mean without the lowest and the highest quarter, each rounded down to whole runs: of fewer than four the
/// mean of all.
#[must_use]
pub fn interquartile_mean(scores: &[f64]) -> f64 {
    let cut = scores.len() / 4;
    mean(&sorted(scores)[cut..scores.len() - cut])
}

/// Fraction of `ascending` scores above `threshold`.
#[must_use]
pub fn share_above(ascending: &[f64], threshold: f64) -> f64 {
    let above = ascending.len() - ascending.partition_point(|score| *score <= threshold);
    above as f64 / ascending.len() as f64
}

/// How probable it is that a run of `these` has a higher score than one of `those`, in the mean over tasks;
/// equal ones count half (Mann and Whitney's U over the number of pairs, found by ranks).
#[must_use]
pub fn probability_of_improvement(these: &Strata, those: &Strata) -> f64 {
    let of_task = |(these, those): (&Vec<f64>, &Vec<f64>)| {
        let ascending = sorted(those);
        let beaten = |score: &f64| {
            let below = ascending.partition_point(|other| other < score);
            let equal = ascending[below..].partition_point(|other| other == score);
            below as f64 + 0.5 * equal as f64
        };
        these.iter().map(beaten).sum::<f64>() / (these.len() * those.len()) as f64
    };
    mean(&these.iter().zip(those).map(of_task).collect::<Vec<_>>())
}

/// Ascending scores; in linear time, if they are so already.
fn sorted(scores: &[f64]) -> Vec<f64> {
    let mut sorted = scores.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The scores of some runs, those of each task and all of them in ascending order.
#[derive(Debug, Clone)]
pub struct Sample {
    /// By task.
    pub strata: Strata,
    /// Together.
    pub all: Vec<f64>,
}

/// A setting's runs by their ranks: what is drawn from them comes out in order, without being sorted.
struct Ranked {
    /// Ascending.
    scores: Vec<f64>,
    /// The task of each of them.
    tasks: Vec<usize>,
    /// The place among `scores` of every task's runs.
    ranks: Vec<Vec<usize>>,
}

impl Ranked {
    fn new(strata: &Strata) -> Self {
        let of_task = |(task, scores): (usize, &Vec<f64>)| {
            (0..scores.len()).map(move |run| (task, run)).collect::<Vec<_>>()
        };
        let mut runs: Vec<(usize, usize)> = strata.iter().enumerate().flat_map(of_task).collect();
        runs.sort_by(|a, b| strata[a.0][a.1].total_cmp(&strata[b.0][b.1]));
        let mut ranks: Vec<Vec<usize>> = strata.iter().map(|task| vec![0; task.len()]).collect();
        runs.iter().enumerate().for_each(|(rank, (task, run))| ranks[*task][*run] = rank);
        Self {
            scores: runs.iter().map(|(task, run)| strata[*task][*run]).collect(),
            tasks: runs.iter().map(|(task, _)| *task).collect(),
            ranks,
        }
    }

    /// All runs once.
    fn whole(&self) -> Sample {
        self.sample(&vec![1; self.scores.len()])
    }

    /// As many runs of each task, drawn with replacement.
    fn resample(&self, mut draw: Draw) -> Sample {
        let mut times = vec![0; self.scores.len()];
        for ranks in &self.ranks {
            for _ in ranks {
                times[ranks[draw.below(ranks.len() as u32) as usize]] += 1;
            }
        }
        self.sample(&times)
    }

    /// Each run so many times.
    fn sample(&self, times: &[usize]) -> Sample {
        let mut all = Vec::with_capacity(self.scores.len());
        let mut strata: Strata =
            self.ranks.iter().map(|task| Vec::with_capacity(task.len())).collect();
        for ((score, task), n) in self.scores.iter().zip(&self.tasks).zip(times) {
            for _ in 0..*n {
                all.push(*score);
                strata[*task].push(*score);
            }
        }
        Sample { strata, all }
    }
}

impl Bootstrap {
    /// `figure` of all scores together, which it gets in ascending order.
    #[must_use]
    pub fn estimate(&self, strata: &Strata, figure: impl Fn(&[f64]) -> f64) -> Estimated {
        self.estimate_of(&[strata], |samples| figure(&samples[0].all))
    }

    /// `figure` of several settings, each resampled by itself.
    #[must_use]
    pub fn estimate_of(
        &self,
        settings: &[&Strata],
        figure: impl Fn(&[Sample]) -> f64,
    ) -> Estimated {
        self.estimate_each(settings, |samples| [figure(samples)])[0]
    }

    /// Several figures of the same resamples, which are drawn once.
    #[must_use]
    pub fn estimate_each<F: AsRef<[f64]>>(
        &self,
        settings: &[&Strata],
        figures: impl Fn(&[Sample]) -> F,
    ) -> Vec<Estimated> {
        let ranked: Vec<Ranked> = settings.iter().map(|strata| Ranked::new(strata)).collect();
        let values = figures(&ranked.iter().map(Ranked::whole).collect::<Vec<_>>());
        let is_lone = |strata: &&Strata| strata.iter().all(|task| task.len() < 2);
        let n_resamples = if settings.iter().any(is_lone) { 0 } else { self.resamples };
        let mut found: Vec<Vec<f64>> = vec![Vec::new(); values.as_ref().len()];
        for n in 0..n_resamples {
            let draw = |place| Draw::new(self.seed, place, n, Purpose::Replay);
            let resampled = (0..).zip(&ranked).map(|(place, own)| own.resample(draw(place)));
            let samples: Vec<Sample> = resampled.collect();
            let figures = figures(&samples);
            found.iter_mut().zip(figures.as_ref()).for_each(|(all, figure)| all.push(*figure));
        }
        let interval = |found: &Vec<f64>| {
            let found = sorted(found);
            (n_resamples > 0).then(|| [quantile(&found, 0.025), quantile(&found, 0.975)])
        };
        let estimates = values.as_ref().iter().zip(&found);
        estimates
            .map(|(value, found)| Estimated { value: *value, interval: interval(found) })
            .collect()
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
        let ascending = sorted(&scores);
        assert_eq!(
            (share_above(&ascending, 4.0), share_above(&ascending, 200.0)),
            (3.0 / 8.0, 0.0)
        );
        assert!(median(&[]).is_nan() && mean(&[]).is_nan());
    }

    /// As rliable's aggregate_mean and aggregate_median: tasks count alike, whatever their runs.
    #[test]
    fn tasks_count_alike() {
        let strata = vec![vec![0.0, 1.0], vec![3.0; 6], vec![10.0, 4.0]];
        assert_eq!((over_tasks(&strata, mean), over_tasks(&strata, median)), (10.5 / 3.0, 3.0));
        let lone = vec![vec![1.0, 2.0, 9.0]];
        assert_eq!((over_tasks(&lone, mean), over_tasks(&lone, median)), (4.0, 2.0));
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
        let both =
            |samples: &[Sample]| probability_of_improvement(&samples[0].strata, &samples[1].strata);
        assert_eq!(BOOTSTRAP.estimate_of(&[&one, &two], both).interval, None);
    }

    #[test]
    fn ranks_say_what_pairs_say() {
        let mut draw = Draw::new(4, 0, 0, Purpose::Step);
        // Few values, so that many are equal.
        let mut scores = |n: u32| (0..n).map(|_| f64::from(draw.below(9))).collect::<Vec<f64>>();
        let (these, those) = (scores(40), scores(23));
        let pairs = these.iter().flat_map(|a| those.iter().map(move |b| a.total_cmp(b) as i32));
        let expected = pairs.map(|sign| f64::from(sign + 1) / 2.0).sum::<f64>() / (40.0 * 23.0);
        let found = probability_of_improvement(&vec![these], &vec![those]);
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    }

    #[test]
    fn a_resample_is_ascending_and_as_large_task_by_task() {
        let strata = vec![vec![5.0, -1.0, 3.0], vec![4.0, 0.0]];
        let ranked = Ranked::new(&strata);
        assert_eq!(ranked.whole().all, [-1.0, 0.0, 3.0, 4.0, 5.0]);
        for n in 0..50 {
            let Sample { strata: own, all } = ranked.resample(Draw::new(0, 0, n, Purpose::Replay));
            assert!(all.is_sorted() && own.iter().all(|task| task.is_sorted()));
            assert_eq!((own[0].len(), own[1].len(), all.len()), (3, 2, 5));
            let is_own = |task: usize| own[task].iter().all(|x| strata[task].contains(x));
            assert!(is_own(0) && is_own(1));
        }
    }

    #[test]
    fn thousands_of_seeds_take_no_time_to_speak_of() {
        let mut draw = Draw::new(1, 0, 0, Purpose::Step);
        let mut scores = || vec![(0..5000).map(|_| f64::from(draw.normal())).collect::<Vec<f64>>()];
        let (these, those) = (scores(), scores());
        let started = std::time::Instant::now();
        let both =
            |samples: &[Sample]| probability_of_improvement(&samples[0].strata, &samples[1].strata);
        let bootstrap = Bootstrap { resamples: 200, seed: 0 };
        let Estimated { value, interval } = bootstrap.estimate_of(&[&these, &those], both);
        let [low, high] = interval.unwrap();
        assert!(low < value && value < high && high - low < 0.05, "{low} {value} {high}");
        // 200 times all pairs would be 5e9 comparisons.
        assert!(started.elapsed().as_secs_f64() < 5.0, "{:?}", started.elapsed());
    }
}

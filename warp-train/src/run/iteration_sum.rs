//! Several iterations summed up as one, for records that are not of every iteration.

use crate::algorithm::{PolicyConfig, PolicyFigures};
use crate::engine::StepRates;
use crate::run::metrics::{EpisodeMetrics, IterationMetrics, MeanMinMax};
use std::collections::BTreeMap;

/// Iterations of one run since the last record.
#[derive(Debug, Clone, Default)]
pub(crate) struct IterationSum {
    pub(super) open: Option<IterationMetrics>,
    pub(super) n: u64,
    /// Iterations of this process, over which times are summed.
    pub(super) n_timed: u64,
    /// By policy.
    pub(super) figures: BTreeMap<String, FigureSums>,
}

/// A policy's figures: an iteration need not have all of them, since an actor may learn in some alone.
#[derive(Debug, Clone, Default)]
pub(super) struct FigureSums(pub(super) Vec<FigureSum>);

/// A figure in the iterations that had it.
#[derive(Debug, Clone)]
pub(super) struct FigureSum {
    pub(super) name: &'static str,
    pub(super) sum: f64,
    pub(super) n: u64,
}

impl FigureSums {
    /// Takes in an iteration's figures. A new one comes behind the one that is before it there.
    fn add(&mut self, figures: &PolicyFigures) {
        let mut place = 0;
        for (name, figure) in figures.iter() {
            let known = self.0.iter().position(|one| one.name == name);
            place = known.unwrap_or(place);
            if known.is_none() {
                self.0.insert(place, FigureSum { name, sum: 0.0, n: 0 });
            }
            let FigureSum { sum, n, .. } = &mut self.0[place];
            *sum = match Join::of(name) {
                Join::Mean => *sum + figure,
                Join::Last => figure,
                Join::Smallest if *n > 0 => sum.min(figure),
                Join::Largest if *n > 0 => sum.max(figure),
                Join::Smallest | Join::Largest => figure,
            };
            *n += 1;
            place += 1;
        }
    }

    /// What each comes to over the iterations that had it.
    fn joined(self) -> PolicyFigures {
        let joined = |FigureSum { name, sum, n }| match Join::of(name) {
            Join::Mean => (name, sum / n as f64),
            Join::Last | Join::Smallest | Join::Largest => (name, sum),
        };
        self.0.into_iter().map(joined).collect()
    }
}

/// How a figure of several iterations is made.
enum Join {
    Mean,
    /// Of schedules: the value in the last of them.
    Last,
    Smallest,
    Largest,
}

impl Join {
    fn of(name: &str) -> Self {
        match name {
            "max_reward" => Self::Largest,
            "min_reward" => Self::Smallest,
            _ if PolicyConfig::is_schedule(name) => Self::Last,
            _ => Self::Mean,
        }
    }
}

impl IterationSum {
    /// Whether there was none.
    pub(crate) fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Takes in the next iteration.
    pub(crate) fn add(&mut self, metrics: &IterationMetrics) {
        let sum = self.open.get_or_insert_with(|| IterationMetrics {
            episodes: EpisodeMetrics { episodes: 0, ..metrics.episodes.clone() },
            policy: BTreeMap::new(),
            steps_per_second: StepRates::default(),
            evaluation: None,
            league: None,
            ..*metrics
        });
        (sum.iteration, sum.env_steps) = (metrics.iteration, metrics.env_steps);
        sum.agent_steps = metrics.agent_steps;
        merge_episodes(&mut sum.episodes, &metrics.episodes);
        for (policy, figures) in &metrics.policy {
            match self.figures.get_mut(policy) {
                Some(sums) => sums.add(figures),
                None => self.figures.entry(policy.clone()).or_default().add(figures),
            }
        }
        sum.steps_per_second.join(&metrics.steps_per_second, |sum, rate| sum + 1.0 / rate);
        if metrics.evaluation.is_some() {
            sum.evaluation.clone_from(&metrics.evaluation);
        }
        if metrics.league.is_some() {
            sum.league.clone_from(&metrics.league);
        }
        self.n += 1;
        self.n_timed += 1;
    }

    /// What they come to so far, as [`IterationSum::take`] has it; they stay.
    pub(crate) fn so_far(&self) -> Option<IterationMetrics> {
        self.clone().take()
    }

    /// What they come to: totals of episodes, means of figures over the iterations that had them, the values of
    /// schedules and the evaluation of the last one; nothing if there was none.
    pub(crate) fn take(&mut self) -> Option<IterationMetrics> {
        self.n = 0;
        let n = std::mem::take(&mut self.n_timed) as f64;
        let mut sum = self.open.take()?;
        let figures = std::mem::take(&mut self.figures).into_iter();
        sum.policy = figures.map(|(policy, sums)| (policy, sums.joined())).collect();
        // All iterations have the same number of steps.
        let rate = |sum: f64| if sum.is_finite() && n > 0.0 { n / sum } else { 0.0 };
        sum.steps_per_second.join(&StepRates::default(), |sum, _| rate(sum));
        Some(sum)
    }
}

fn merge_episodes(into: &mut EpisodeMetrics, from: &EpisodeMetrics) {
    if from.episodes == 0 {
        return;
    }
    if into.episodes == 0 {
        *into = from.clone();
        return;
    }
    let (m, n) = (into.episodes as f64, from.episodes as f64);
    let mean = |a: f64, b: f64| (a * m + b * n) / (m + n);
    let join = |a: &mut MeanMinMax, b: &MeanMinMax| {
        *a = MeanMinMax { mean: mean(a.mean, b.mean), min: a.min.min(b.min), max: a.max.max(b.max) }
    };
    for (a, b) in [
        (&mut into.episode_return, &from.episode_return),
        (&mut into.episode_length, &from.episode_length),
    ] {
        if let (Some(a), Some(b)) = (a, b) {
            join(a, b);
        }
    }
    into.group_return.values_mut().zip(from.group_return.values()).for_each(|(a, b)| join(a, b));
    let statistics = into.statistics.values_mut().zip(from.statistics.values());
    statistics.for_each(|(a, b)| *a = mean(*a, *b));
    into.episodes += from.episodes;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iteration(n: u64, episodes: u64, mean: f64) -> IterationMetrics {
        let spread =
            (episodes > 0).then_some(MeanMinMax { mean, min: mean - 1.0, max: mean + 1.0 });
        let figures = PolicyFigures::from_iter([("loss", mean), ("learning_rate", mean)]);
        IterationMetrics {
            iteration: n,
            env_steps: 10 * n,
            agent_steps: 20 * n,
            episodes: EpisodeMetrics {
                episodes,
                episode_return: spread,
                episode_length: spread,
                group_return: BTreeMap::new(),
                statistics: BTreeMap::new(),
            },
            policy: BTreeMap::from([("a".into(), figures)]),
            steps_per_second: StepRates { total: mean, ..StepRates::default() },
            evaluation: None,
            league: None,
        }
    }

    #[test]
    fn episodes_are_added_and_figures_averaged() {
        let mut sum = IterationSum::default();
        [iteration(1, 1, 4.0), iteration(2, 0, 100.0), iteration(3, 3, 8.0)]
            .iter()
            .for_each(|one| sum.add(one));
        let all = sum.take().unwrap();
        assert_eq!((all.iteration, all.env_steps, all.agent_steps), (3, 30, 60));
        let MeanMinMax { mean, min, max } = all.episodes.episode_return.unwrap();
        assert_eq!((all.episodes.episodes, mean, min, max), (4, 7.0, 3.0, 9.0));
        let figures = &all.policy["a"];
        assert_eq!(
            (figures.get("loss"), figures.get("learning_rate")),
            (Some(112.0 / 3.0), Some(8.0))
        );
        // 30 steps in 10 / 4 + 10 / 100 + 10 / 8 seconds; a phase that nobody measured has no rate.
        let rates = all.steps_per_second;
        assert!((rates.total - 30.0 / 3.85).abs() < 1e-12, "{rates:?}");
        assert_eq!((rates.learn, sum.take()), (0.0, None));
    }

    /// As with TD3, whose actor learns in every other update.
    #[test]
    fn a_figure_counts_in_the_iterations_that_have_it() {
        let mut sum = IterationSum::default();
        let with = |n: u64, figures: &[(&'static str, f64)]| {
            let figures = figures.iter().copied().collect();
            IterationMetrics {
                policy: BTreeMap::from([("a".into(), figures)]),
                ..iteration(n, 0, 1.0)
            }
        };
        sum.add(&with(1, &[("learning_rate", 0.1), ("critic_loss", 1.0), ("q", 5.0)]));
        sum.add(&with(
            2,
            &[("learning_rate", 0.2), ("critic_loss", 3.0), ("actor_loss", -8.0), ("q", 7.0)],
        ));
        sum.add(&with(3, &[("learning_rate", 0.3), ("critic_loss", 8.0), ("q", 9.0)]));
        sum.add(&with(4, &[("learning_rate", 0.4), ("actor_loss", -6.0)]));
        let all = sum.take().unwrap();
        let expected =
            [("learning_rate", 0.4), ("critic_loss", 4.0), ("actor_loss", -7.0), ("q", 7.0)];
        assert_eq!(all.policy["a"], PolicyFigures::from_iter(expected));
        sum.add(&with(5, &[("min_reward", -1.0), ("max_reward", -0.5), ("epsilon", 1.0)]));
        sum.add(&with(6, &[("min_reward", -3.0), ("max_reward", -2.0), ("epsilon", 0.1)]));
        let expected = [("min_reward", -3.0), ("max_reward", -0.5), ("epsilon", 0.1)];
        assert_eq!(sum.take().unwrap().policy["a"], PolicyFigures::from_iter(expected));
        // Nothing is left of them.
        sum.add(&with(5, &[("q", 2.0)]));
        assert_eq!(sum.take().unwrap().policy["a"], PolicyFigures::from_iter([("q", 2.0)]));
    }

    #[test]
    fn a_policy_may_have_figures_later() {
        let mut sum = IterationSum::default();
        let first = IterationMetrics { policy: BTreeMap::new(), ..iteration(1, 0, 1.0) };
        sum.add(&first);
        sum.add(&iteration(2, 0, 3.0));
        assert_eq!(sum.take().unwrap().policy["a"].get("loss"), Some(3.0));
    }

    #[test]
    fn one_iteration_is_itself() {
        let (mut sum, one) = (IterationSum::default(), iteration(7, 2, 0.25));
        sum.add(&one);
        assert_eq!(sum.take(), Some(one));
    }
}

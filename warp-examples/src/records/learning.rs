//! Learning curves of several seeds: one report of `warp bench --train --curve-steps`.
//!
//! A run as long as was planned is cut into at most [`POINTS`] equal parts, and a curve has those that it came to the
//! end of, so that runs which took too long can be compared with those that did not. A point is the mean return of
//! all episodes that ended in its part, in the game as it was trained: actions are sampled, not greedy. All seeds
//! have the same parts, so they are compared point by point.

use super::history::Points;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::path::Path;
use warp_data::file;
use warp_train::TrainConfig;
use warp_train::metrics::IterationMetrics;

/// Maximum number of points of a curve.
pub const POINTS: usize = 60;

/// What `warp bench --train --json` prints, as far as curves need it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Report {
    /// The environment's name.
    pub env: String,
    /// The algorithms, joined by `+`.
    pub algorithm: String,
    /// "cpu" or "cuda".
    pub device: String,
    /// Whose networks were asked for: "native" or "burn".
    pub backend: String,
    /// What products of matrices were computed in.
    pub precision: String,
    /// One entry per number of replicas.
    pub training: Vec<Trained>,
}

/// One number of replicas of a [`Report`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Trained {
    /// Environment replicas.
    pub replicas: usize,
    /// Environment steps of an iteration, summed over replicas.
    pub steps_per_iteration: u64,
    /// The curves, if they were asked for.
    #[serde(default)]
    pub curves: Option<Curves>,
}

/// The curves of several seeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curves {
    /// Environment steps at the end of each part, summed over replicas.
    pub steps: Vec<u64>,
    /// Seconds of each seed's training, without compiling and allocating.
    pub seconds: Vec<f64>,
    /// One entry per group of agents that a trained policy acts for.
    pub groups: Vec<GroupCurves>,
}

/// The curves of a group of agents: return of all of them together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupCurves {
    /// The group's name.
    pub group: String,
    /// The policy that acts for it.
    pub policy: String,
    /// Mean over the seeds, by part; nothing where no episode finished.
    pub mean: Vec<Option<f64>>,
    /// The lowest seed.
    pub lowest: Vec<Option<f64>>,
    /// The highest seed.
    pub highest: Vec<Option<f64>>,
    /// Each seed's curve.
    pub seeds: Vec<Vec<Option<f64>>>,
}

/// One seed's run as it goes: sums over the episodes that ended, by part and group.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// What was planned.
    n_iterations: u64,
    n_parts: u64,
    steps: Vec<u64>,
    episodes: Vec<u64>,
    returns: Vec<Vec<f64>>,
}

impl Course {
    /// A run of `config` that was planned for `n_iterations` iterations and has room for `most` of them,
    /// at least 1 each. It ends with a part; only one that is shorter than the first part is cut anew.
    #[must_use]
    pub fn new(config: &TrainConfig, n_iterations: u64, most: u64) -> Self {
        let most = most.max(1);
        let planned = n_iterations.max(1);
        let n_iterations = if most < planned.div_ceil(POINTS as u64) { most } else { planned };
        let n_parts = n_iterations.min(POINTS as u64);
        let iterations_at_end = |part: u64| ((part + 1) * n_iterations).div_ceil(n_parts);
        let ends = (0..n_parts).map(iterations_at_end).take_while(|end| *end <= most);
        let steps: Vec<u64> = ends.map(|end| end * config.steps_per_iteration()).collect();
        let n = steps.len();
        Self {
            n_iterations,
            n_parts,
            steps,
            episodes: vec![0; n],
            returns: vec![vec![0.0; n]; groups(config).len()],
        }
    }

    /// Environment steps at its end, summed over replicas.
    #[must_use]
    pub fn env_steps(&self) -> u64 {
        self.steps.last().copied().unwrap_or(0)
    }

    /// Adds an iteration.
    pub fn add(&mut self, config: &TrainConfig, metrics: &IterationMetrics) {
        let done = metrics.iteration.clamp(1, self.n_iterations) - 1;
        let part = (done * self.n_parts / self.n_iterations) as usize;
        let part = part.min(self.steps.len() - 1);
        let n = metrics.episodes.episodes;
        self.episodes[part] += n;
        for (sums, (_, group)) in self.returns.iter_mut().zip(groups(config)) {
            let spread = metrics.episodes.group_return.get(group);
            sums[part] += spread.map_or(0.0, |spread| spread.mean * n as f64);
        }
    }

    /// The means of the group number `group`.
    fn means(&self, group: usize) -> Vec<Option<f64>> {
        let parts = self.returns[group].iter().zip(&self.episodes);
        parts.map(|(sum, n)| (*n > 0).then(|| sum / *n as f64)).collect()
    }
}

/// Policies that learn, and the groups that they act for: names, in the order of the groups.
fn groups(config: &TrainConfig) -> Vec<(&str, &str)> {
    let trained = config.policies.iter().filter(|plan| plan.config.to_train);
    let mut pairs: Vec<_> =
        trained.flat_map(|plan| plan.groups().map(|group| (group, plan.name.as_str()))).collect();
    pairs.sort_unstable();
    let name = |group: usize| config.spec.groups[group].name.as_str();
    pairs.into_iter().map(|(group, policy)| (policy, name(group))).collect()
}

impl Report {
    /// Reads what `warp bench --train --json` printed into the file `path`.
    ///
    /// # Errors
    /// A file that can't be read, or that is no such report with curves.
    pub fn read(path: &Path) -> Result<Self> {
        let context = || format!("cannot read the report \"{}\"", path.display());
        let text = file::read_text(path, file::DESCRIPTION).with_context(context)?;
        let report: Self = serde_json::from_str(&text).with_context(context)?;
        let name = path.display();
        let found: Vec<_> = report.curves().map(|(_, curves)| curves).collect();
        ensure!(
            !found.is_empty(),
            "the report \"{name}\" has no curves; warp bench --train --curve-steps measures them"
        );
        let fits = |curves: &&Curves| {
            let mut seeds = curves.groups.iter().flat_map(|group| &group.seeds);
            seeds.all(|seed| seed.len() == curves.steps.len())
        };
        ensure!(found.iter().all(fits), "the report \"{name}\" has curves of several lengths");
        Ok(report)
    }

    /// The numbers of replicas that have curves.
    pub fn curves(&self) -> impl Iterator<Item = (&Trained, &Curves)> {
        self.training.iter().filter_map(|trained| Some((trained, trained.curves.as_ref()?)))
    }
}

impl Curves {
    /// One seed's curve, as far as it has points.
    #[must_use]
    pub fn points(&self, seed: &[Option<f64>]) -> Points {
        let points = self.steps.iter().zip(seed);
        points.filter_map(|(step, y)| Some((*step as f64, (*y)?))).collect()
    }

    /// Puts the seeds' runs together, all of them equally long runs of `config`; `seconds` are theirs.
    #[must_use]
    pub fn new(config: &TrainConfig, courses: &[Course], seconds: Vec<f64>) -> Self {
        let steps = courses.first().map_or(Vec::new(), |course| course.steps.clone());
        let group = |(index, (policy, group)): (usize, (&str, &str))| {
            let seeds: Vec<_> = courses.iter().map(|course| course.means(index)).collect();
            GroupCurves::new(policy, group, steps.len(), seeds)
        };
        let groups = groups(config).into_iter().enumerate().map(group).collect();
        Self { steps, seconds, groups }
    }
}

impl GroupCurves {
    fn new(policy: &str, group: &str, n_parts: usize, seeds: Vec<Vec<Option<f64>>>) -> Self {
        let found = |part: usize| seeds.iter().filter_map(move |seed| seed[part]);
        let all = |combine: &dyn Fn(&mut dyn Iterator<Item = f64>) -> Option<f64>| {
            (0..n_parts).map(|part| combine(&mut found(part))).collect()
        };
        let mean = all(&|ys| {
            let (n, sum) = ys.fold((0.0, 0.0), |(n, sum), y| (n + 1.0, sum + y));
            (n > 0.0).then(|| sum / n)
        });
        let lowest = all(&|ys| ys.reduce(f64::min));
        let highest = all(&|ys| ys.reduce(f64::max));
        Self { group: group.into(), policy: policy.into(), mean, lowest, highest, seeds }
    }

    /// The last point: mean, lowest and highest seed; nothing if no episode finished at all.
    #[must_use]
    pub fn last(&self) -> Option<(f64, f64, f64)> {
        let points = self.mean.iter().zip(&self.lowest).zip(&self.highest).rev();
        points.filter_map(|((mean, low), high)| Some(((*mean)?, (*low)?, (*high)?))).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use warp_train::metrics::{EpisodeMetrics, MeanMinMax, PhaseSeconds};

    fn config(sets: &[&str]) -> TrainConfig {
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        crate::settings::configure("cartpole", &sets, &warp_envs::registry()).unwrap()
    }

    fn iteration(config: &TrainConfig, iteration: u64, n: u64, mean: f64) -> IterationMetrics {
        let spread = MeanMinMax { mean, min: mean, max: mean };
        let group_return = match n {
            0 => BTreeMap::new(),
            _ => BTreeMap::from([("pole".to_string(), spread)]),
        };
        IterationMetrics {
            iteration,
            env_steps: iteration * config.steps_per_iteration(),
            agent_steps: 0,
            episodes: EpisodeMetrics {
                episodes: n,
                episode_return: None,
                episode_length: None,
                group_return,
                statistics: BTreeMap::new(),
            },
            policy: BTreeMap::new(),
            steps_per_second: PhaseSeconds::default().rates(1),
            evaluation: None,
            league: None,
        }
    }

    #[test]
    fn a_point_is_the_mean_over_the_episodes_of_its_part() {
        let config = config(&["num_envs=4", "num_steps=10"]);
        let mut course = Course::new(&config, 120, 120);
        assert_eq!((course.steps.len(), course.steps[0], course.steps[59]), (60, 80, 4800));
        for (number, n, mean) in [(1, 1, 10.0), (2, 3, 30.0), (3, 0, 0.0), (120, 2, 7.0)] {
            course.add(&config, &iteration(&config, number, n, mean));
        }
        let means = course.means(0);
        assert_eq!((means[0], means[1], means[59]), (Some(25.0), None, Some(7.0)));
    }

    #[test]
    fn parts_end_where_their_iterations_do() {
        let config = config(&["num_envs=1", "num_steps=4"]);
        for n in [1, 7, 60, 61, 100, 119, 121] {
            let course = Course::new(&config, n, n);
            for done in 0..n {
                let part = (done * course.steps.len() as u64 / n) as usize;
                let begin = part.checked_sub(1).map_or(0, |before| course.steps[before]);
                assert!(
                    (done + 1) * 4 <= course.steps[part] && begin < (done + 1) * 4,
                    "{n} {done}"
                );
            }
            assert_eq!(course.steps.last(), Some(&(n * 4)));
        }
    }

    #[test]
    fn a_run_that_ends_early_has_the_same_parts() {
        let config = config(&["num_envs=1", "num_steps=4"]);
        let whole = Course::new(&config, 120, 120);
        let early = Course::new(&config, 120, 9);
        assert_eq!((early.steps.as_slice(), early.env_steps()), (&whole.steps[..4], 32));
        // Too short for one of them.
        let cut_anew = Course::new(&config, 1000, 3);
        assert_eq!(cut_anew.steps, [4, 8, 12]);
        for (planned, most) in [(1, 1), (61, 2), (119, 1), (121, 3), (1000, 17)] {
            let course = Course::new(&config, planned, most);
            assert!((4..=4 * most).contains(&course.env_steps()), "{planned} {most}");
        }
    }

    #[test]
    fn seeds_are_compared_point_by_point() {
        let seeds = vec![vec![Some(1.0), None, None], vec![Some(4.0), Some(2.0), None]];
        let curves = GroupCurves::new("p", "g", 3, seeds);
        assert_eq!(curves.mean, [Some(2.5), Some(2.0), None]);
        assert_eq!(curves.lowest, [Some(1.0), Some(2.0), None]);
        assert_eq!(curves.highest, [Some(4.0), Some(2.0), None]);
        assert_eq!(curves.last(), Some((2.0, 2.0, 2.0)));
    }
}

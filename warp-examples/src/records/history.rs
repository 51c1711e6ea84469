//! A run's history, as curves read it: the numbers of `metrics.jsonl`, line by line.

use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;

/// Points of a curve: environment steps and a figure.
pub type Points = Vec<(f64, f64)>;

/// What a run logged.
#[derive(Debug, Clone)]
pub struct History {
    lines: Vec<Value>,
}

impl History {
    /// Reads the `metrics.jsonl` of the run in `folder`. An incomplete last line (the run was killed,
    /// or goes on as we read) is left out.
    ///
    /// # Errors
    /// No such folder, or one without a run.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("metrics.jsonl");
        let text = std::fs::read_to_string(&path);
        let text = text.with_context(|| format!("cannot read a run's \"{}\"", path.display()))?;
        Ok(Self { lines: text.lines().flat_map(serde_json::from_str).collect() })
    }

    /// A figure by its keys, over environment steps; where a line lacks it, there is no point.
    #[must_use]
    pub fn series(&self, keys: &[&str]) -> Points {
        let figure = |line: &Value| {
            let found = keys.iter().try_fold(line, |value, key| value.get(key))?;
            Some((line.get("env_steps")?.as_f64()?, found.as_f64().filter(|y| y.is_finite())?))
        };
        self.lines.iter().filter_map(figure).collect()
    }

    /// A mean over episodes, smoothed: every point is the mean of the last `window` episodes or more,
    /// as far as there are so many.
    #[must_use]
    pub fn smoothed(&self, keys: &[&str], window: f64) -> Points {
        let means = self.series(keys);
        let mut counts = self.series(&["episodes"]);
        counts.retain(|(_, n)| *n > 0.0);
        if means.len() != counts.len() {
            return means;
        }
        let (mut first, mut n, mut sum) = (0, 0.0, 0.0);
        let mut point = |index: usize| {
            let (step, mean) = means[index];
            n += counts[index].1;
            sum += mean * counts[index].1;
            while first < index && n - counts[first].1 >= window {
                n -= counts[first].1;
                sum -= means[first].1 * counts[first].1;
                first += 1;
            }
            (step, sum / n)
        };
        (0..means.len()).map(&mut point).collect()
    }

    /// All figures that the run logged, their keys joined by dots.
    #[must_use]
    pub fn figures(&self) -> Vec<String> {
        // Figures of episodes are missing until one has ended.
        figures(self.lines.first().into_iter().chain(self.lines.last()))
    }
}

/// All figures in some lines, their keys joined by dots.
#[must_use]
pub fn figures<'a>(lines: impl IntoIterator<Item = &'a Value>) -> Vec<String> {
    let mut names = Vec::new();
    for line in lines {
        super::flatten("", line, &mut |tag, _| {
            let name = tag.replace('/', ".");
            if !names.contains(&name) {
                names.push(name);
            }
        });
    }
    names
}

/// Points of a curve at `xs`, on straight lines between its own; `None` outside of them.
#[must_use]
pub fn interpolate(points: &[(f64, f64)], xs: &[f64]) -> Vec<Option<f64>> {
    let at = |x: &f64| {
        let after = points.partition_point(|point| point.0 < *x);
        let right = points.get(after)?;
        if right.0 == *x {
            return Some(right.1);
        }
        let left = points.get(after.checked_sub(1)?)?;
        Some(left.1 + (right.1 - left.1) * (x - left.0) / (right.0 - left.0))
    };
    xs.iter().map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(text: &str) -> History {
        History { lines: text.lines().flat_map(serde_json::from_str).collect() }
    }

    #[test]
    fn figures_are_found_where_they_are() {
        let text = r#"{"env_steps": 10, "episodes": 0, "episode_return": null, "policy": {"a": {"loss": 1}}}
{"env_steps": 20, "episodes": 1, "episode_return": {"mean": 4.0}, "policy": {"a": {"loss": 2}}}
{"env_steps": 30, "epis"#;
        let history = history(text);
        assert_eq!(history.series(&["episode_return", "mean"]), [(20.0, 4.0)]);
        assert_eq!(history.series(&["policy", "a", "loss"]), [(10.0, 1.0), (20.0, 2.0)]);
        assert_eq!(history.series(&["policy", "b", "loss"]), []);
        let figures = ["env_steps", "episodes", "policy.a.loss", "episode_return.mean"];
        assert_eq!(history.figures(), figures);
    }

    #[test]
    fn a_mean_is_taken_over_enough_episodes() {
        let text = (1..=4).map(|i| {
            format!("{{\"env_steps\": {i}, \"episodes\": {i}, \"r\": {{\"mean\": {}}}}}\n", 10 * i)
        });
        let history = history(&text.collect::<String>());
        let means: Vec<f64> = history.smoothed(&["r", "mean"], 4.0).iter().map(|p| p.1).collect();
        // 1 episode; 1 + 2; 2 + 3; 4.
        assert_eq!(means, [10.0, 50.0 / 3.0, 26.0, 40.0]);
    }

    #[test]
    fn curves_are_straight_between_points() {
        let points = [(0.0, 0.0), (2.0, 4.0), (2.0, 5.0), (4.0, 9.0)];
        let found = interpolate(&points, &[-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(found, [None, Some(0.0), Some(2.0), Some(4.0), Some(7.0), Some(9.0), None]);
    }
}

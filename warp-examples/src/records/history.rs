//! A run's history, as curves read it: some figures of `metrics.jsonl`, line by line, thinned as they
//! are read.

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde_json::Value;
use std::path::Path;
use warp_train::journal::{METRICS, each_line};

/// Points of a curve: where it stands, and a figure.
pub type Points = Vec<(f64, f64)>;

/// A figure by its keys, from the outermost inwards.
pub type Keys<'a> = Vec<&'a str>;

/// Parts of a series, at most; a longer run has several lines in each.
const PARTS: usize = 4096;

/// The horizontal axis of curves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Axis {
    /// Environment steps, summed over replicas.
    #[default]
    Steps,
    /// Wall time since the run began, without the time between an end and a resume.
    Seconds,
    /// Episodes that have ended.
    Episodes,
}

impl Axis {
    /// The label below the axis.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Axis::Steps => "environment steps",
            Axis::Seconds => "seconds",
            Axis::Episodes => "episodes",
        }
    }
}

/// What a run logged of some figures.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// What there is to say of lines that can't be read, a sentence; an incomplete last one (the run was killed, or is still
    /// running) does not count.
    pub damage: Option<String>,
    /// One for each figure that was asked for, in their order.
    pub series: Vec<Series>,
    /// The progress of the run.
    pub end: f64,
    /// All figures that the run logged, their keys joined by dots.
    pub names: Vec<String>,
}

/// One figure of a run.
#[derive(Debug, Clone, Default)]
pub struct Series {
    parts: Vec<Part>,
    /// Lines in a part.
    n_lines: u64,
}

/// Some lines that follow each other.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// Where the last of them stands.
    x: f64,
    n_lines: u64,
    /// Episodes, or lines for figures that are not of episodes.
    weight: f64,
    /// Sum of the figure times weight.
    sum: f64,
}

/// Whether a figure is a mean over the episodes of its line.
#[must_use]
pub fn is_of_episodes(keys: &[&str]) -> bool {
    matches!(keys[0], "episode_return" | "episode_length" | "group_return" | "statistics")
}

impl History {
    /// Reads some figures of the run in `folder`.
    ///
    /// # Errors
    /// No such folder, one without a run, or a run that did not log what `axis` is.
    pub fn read(folder: &Path, axis: Axis, figures: &[Keys<'_>]) -> Result<Self> {
        let path = folder.join(METRICS);
        let mut found = Self { series: vec![Series::default(); figures.len()], ..Self::default() };
        let (mut episodes, mut edges, mut lacks) = (0.0, [Value::Null, Value::Null], false);
        let mut n_damaged = 0;
        let read = each_line(&path, |line| {
            let Ok(values) = serde_json::from_slice::<Value>(line.bytes) else {
                n_damaged += u64::from(line.is_ended);
                return;
            };
            let number = |key: &str| values.get(key).and_then(Value::as_f64);
            let n = number("episodes").unwrap_or(0.0);
            episodes += n;
            let x = match axis {
                Axis::Steps => number("env_steps"),
                Axis::Seconds => number("seconds"),
                Axis::Episodes => Some(episodes),
            };
            lacks |= x.is_none();
            let Some(x) = x else { return };
            found.end = x;
            for (series, keys) in found.series.iter_mut().zip(figures) {
                let figure = keys.iter().try_fold(&values, |value, key| value.get(key));
                if let Some(y) = figure.and_then(Value::as_f64).filter(|y| y.is_finite()) {
                    series.add(x, y, if is_of_episodes(keys) { n } else { 1.0 });
                }
            }
            let [first, last] = &mut edges;
            *(if first.is_null() { first } else { last }) = values;
        });
        read.with_context(|| format!("cannot read a run's \"{}\"", path.display()))?;
        if lacks && axis == Axis::Seconds {
            bail!("\"{}\" has lines without seconds, written by an older build", path.display());
        }
        found.damage = damage(&path, n_damaged);
        // Figures of episodes are missing until one has ended.
        found.names = self::figures(&edges);
        Ok(found)
    }
}

/// What there is to say of a file of records, of which `n` lines can't be read; nothing if all can.
#[must_use]
pub fn damage(path: &Path, n: u64) -> Option<String> {
    let lines = if n == 1 { "1 line".to_string() } else { format!("{n} lines") };
    (n > 0).then(|| format!("\"{}\": skipped {lines} that can't be read", path.display()))
}

impl Series {
    fn add(&mut self, x: f64, y: f64, weight: f64) {
        let n_lines = self.n_lines.max(1);
        match self.parts.last_mut() {
            Some(part) if part.n_lines < n_lines => {
                let (weight, sum) = (part.weight + weight, part.sum + weight * y);
                *part = Part { x, n_lines: part.n_lines + 1, weight, sum };
            }
            _ => self.parts.push(Part { x, n_lines: 1, weight, sum: weight * y }),
        }
        if self.parts.len() > PARTS {
            let pair = |pair: &[Part]| Part {
                x: pair[pair.len() - 1].x,
                n_lines: pair.iter().map(|part| part.n_lines).sum(),
                weight: pair.iter().map(|part| part.weight).sum(),
                sum: pair.iter().map(|part| part.sum).sum(),
            };
            self.parts = self.parts.chunks(2).map(pair).collect();
            self.n_lines = 2 * n_lines;
        }
    }

    /// The figure; of a long run, means over some lines each.
    #[must_use]
    pub fn points(&self) -> Points {
        self.smoothed(0.0)
    }

    /// A smoothed mean over episodes: every point is the mean of at least the last `window` episodes,
    /// as far as there are that many.
    #[must_use]
    pub fn smoothed(&self, window: f64) -> Points {
        let (parts, mut first, mut n, mut sum) = (&self.parts, 0, 0.0, 0.0);
        let mut point = |index: usize| {
            n += parts[index].weight;
            sum += parts[index].sum;
            while first < index && n - parts[first].weight >= window {
                n -= parts[first].weight;
                sum -= parts[first].sum;
                first += 1;
            }
            // Alone it is as it was logged, without what rounding adds.
            let (sum, n) =
                if first == index { (parts[index].sum, parts[index].weight) } else { (sum, n) };
            (parts[index].x, sum / n)
        };
        (0..parts.len()).map(&mut point).filter(|(_, y)| y.is_finite()).collect()
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

    fn history(axis: Axis, text: &str, figures: &[Keys<'_>]) -> Result<History> {
        let id = std::thread::current().id();
        let folder =
            std::env::temp_dir().join(format!("warp-history-{}-{id:?}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(METRICS), text).unwrap();
        let history = History::read(&folder, axis, figures);
        std::fs::remove_dir_all(&folder).unwrap();
        history
    }

    #[test]
    fn figures_are_found_where_they_are() {
        let text = r#"{"env_steps": 10, "episodes": 0, "episode_return": null, "policy": {"a": {"loss": 1}}}
not a line
{"env_steps": 20, "episodes": 1, "episode_return": {"mean": 4.0}, "policy": {"a": {"loss": 2}}}
{"env_steps": 30, "epis"#;
        let keys =
            [vec!["episode_return", "mean"], vec!["policy", "a", "loss"], vec!["policy", "b"]];
        let found = history(Axis::Steps, text, &keys).unwrap();
        assert_eq!(found.series[0].points(), [(20.0, 4.0)]);
        assert_eq!(found.series[1].points(), [(10.0, 1.0), (20.0, 2.0)]);
        assert_eq!(found.series[2].points(), []);
        assert_eq!(found.end, 20.0);
        let said = found.damage.unwrap();
        assert!(said.ends_with("metrics.jsonl\": skipped 1 line that can't be read"), "{said}");
        let figures = ["env_steps", "episodes", "policy.a.loss", "episode_return.mean"];
        assert_eq!(found.names, figures);
        let by_episodes = history(Axis::Episodes, text, &keys[1..2]).unwrap();
        assert_eq!(by_episodes.series[0].points(), [(0.0, 1.0), (1.0, 2.0)]);
        let error = history(Axis::Seconds, text, &keys).unwrap_err().to_string();
        assert!(error.contains("without seconds"), "{error}");
    }

    #[test]
    fn a_mean_is_taken_over_enough_episodes() {
        let text = (1..=4).map(|i| {
            let mean = 10 * i;
            format!(
                "{{\"env_steps\": {i}, \"episodes\": {i}, \"group_return\": {{\"r\": {mean}}}}}\n"
            )
        });
        let keys = [vec!["group_return", "r"]];
        let found = history(Axis::Steps, &text.collect::<String>(), &keys).unwrap();
        let means: Vec<f64> = found.series[0].smoothed(4.0).iter().map(|p| p.1).collect();
        // 1 episode; 1 + 2; 2 + 3; 4.
        assert_eq!(means, [10.0, 50.0 / 3.0, 26.0, 40.0]);
    }

    #[test]
    fn a_long_run_is_thinned_and_keeps_its_mean_and_its_end() {
        let mut series = Series::default();
        let n = 10 * PARTS as u64 + 7;
        (1..=n).for_each(|i| series.add(i as f64, i as f64, 2.0));
        assert!(series.parts.len() <= PARTS);
        let total: f64 = series.parts.iter().map(|part| part.sum).sum();
        assert_eq!(total, (n * (n + 1)) as f64);
        assert_eq!(series.points().last().unwrap().0, n as f64);
        assert!(series.points().windows(2).all(|pair| pair[0].1 < pair[1].1));
    }

    #[test]
    fn curves_are_straight_between_points() {
        let points = [(0.0, 0.0), (2.0, 4.0), (2.0, 5.0), (4.0, 9.0)];
        let found = interpolate(&points, &[-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(found, [None, Some(0.0), Some(2.0), Some(4.0), Some(7.0), Some(9.0), None]);
    }
}

//! What there is to be seen of one run: how far it is, returns by group, figures, phases.

use serde_json::Value;
use std::collections::BTreeMap;
use warp_train::metrics::IterationMetrics;

/// Points of a curve, at most; then neighbours are joined.
const MOST_POINTS: usize = 512;
/// Phases of an iteration, as metrics call them.
const PHASES: [&str; 4] = ["policy", "sample", "step", "learn"];

/// A curve with as many points as a terminal can show, each the mean of as many values as the others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve {
    points: Vec<(f64, f64)>,
    /// Values in a point.
    per_point: u64,
    sum: f64,
    n: u64,
}

impl Curve {
    /// Adds a value at `x`.
    pub fn add(&mut self, x: f64, y: f64) {
        if !y.is_finite() {
            return;
        }
        self.sum += y;
        self.n += 1;
        if self.n < self.per_point.max(1) {
            return;
        }
        self.points.push((x, self.sum / self.n as f64));
        (self.sum, self.n) = (0.0, 0);
        if self.points.len() >= MOST_POINTS {
            self.points = self
                .points
                .chunks_exact(2)
                .map(|two| (two[1].0, f64::midpoint(two[0].1, two[1].1)))
                .collect();
            self.per_point = 2 * self.per_point.max(1);
        }
    }

    /// Its points, from left to right.
    #[must_use]
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }
}

/// Seconds without a line, at least, after which a run may have been killed, so that nothing is said of the time left.
const LONG_SILENCE: f64 = 60.0;

/// What the files of a run say of whether it is still under way; nothing of a run of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Files {
    /// Seconds since `metrics.jsonl` was last written.
    pub silent: Option<f64>,
    /// Whether `summary.json` has been written since.
    pub has_ended: bool,
}

/// One run, as far as it is.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// What the run is called.
    pub title: String,
    /// Environment steps done.
    pub steps: u64,
    /// Environment steps of the whole run.
    pub total: u64,
    /// Environment steps per second, lately.
    pub rate: f64,
    /// Mean return over the last iterations' episodes, by group; of a lone group, or together, as "return".
    pub returns: BTreeMap<String, Curve>,
    /// Figures of policies in the last iteration, `POLICY.NAME`.
    pub figures: Vec<(String, f64)>,
    /// Fraction of the time of each phase in the last iteration; empty where phases are not distinguished.
    pub phases: Vec<(&'static str, f64)>,
    /// Mean return of the last evaluation.
    pub evaluation: Option<f64>,
    /// Seconds from the beginning of the run to its last line.
    last_line: f64,
    /// Seconds between the line before and that one.
    between_lines: f64,
    /// What its files say of whether it is still under way.
    pub files: Files,
    /// What is wrong with it, if it can't be read.
    pub fault: Option<String>,
}

impl Shown {
    /// A run of `total` steps that has done `steps`.
    #[must_use]
    pub fn new(title: String, steps: u64, total: u64) -> Self {
        Self { title, steps, total, ..Self::default() }
    }

    /// What follows the number of steps: ", done", ", stopped", ", no news for 5 min 2 s", ", 10 s left", or nothing.
    #[must_use]
    pub fn outlook(&self) -> String {
        if self.steps >= self.total {
            return ", done".into();
        }
        if self.files.has_ended {
            return ", stopped".into();
        }
        let is_long = |silent: &f64| *silent >= LONG_SILENCE.max(3.0 * self.between_lines);
        if let Some(silent) = self.files.silent.filter(is_long) {
            return format!(", no news for {}", time(silent));
        }
        let left = (self.total - self.steps) as f64;
        if self.rate > 0.0 { format!(", {} left", time(left / self.rate)) } else { String::new() }
    }

    /// Fraction of the run that is done.
    #[must_use]
    pub fn share(&self) -> f64 {
        (self.steps as f64 / self.total.max(1) as f64).clamp(0.0, 1.0)
    }

    /// Takes in an iteration.
    pub fn iteration(&mut self, metrics: &IterationMetrics, shows_figures: bool) {
        self.steps = metrics.env_steps;
        let x = metrics.env_steps as f64;
        let groups = &metrics.episodes.group_return;
        if groups.len() > 1 {
            for (group, spread) in groups {
                self.add_return(group, x, spread.mean);
            }
        } else if let Some(spread) = metrics.episodes.episode_return {
            self.add_return("return", x, spread.mean);
        }
        if let Some(evaluation) = &metrics.evaluation {
            self.evaluation = Some(evaluation.mean_episode_return);
        }
        if !shows_figures {
            return;
        }
        let rates = metrics.steps_per_second;
        self.rate(rates.total, [rates.policy, rates.sample, rates.step, rates.learn]);
        self.figures.clear();
        for (policy, figures) in &metrics.policy {
            let named = figures.iter().map(|(name, figure)| (format!("{policy}.{name}"), figure));
            self.figures.extend(named);
        }
    }

    /// Takes in a line of `metrics.jsonl`.
    pub fn line(&mut self, line: &Value) {
        let number = |keys: &[&str]| {
            keys.iter().try_fold(line, |value, key| value.get(key)).and_then(Value::as_f64)
        };
        let Some(steps) = number(&["env_steps"]) else { return };
        self.steps = steps as u64;
        if let Some(seconds) = number(&["seconds"]) {
            self.between_lines = (seconds - self.last_line).max(0.0);
            self.last_line = seconds;
        }
        let object = |key: &str| line.get(key).and_then(Value::as_object);
        let groups = object("group_return").filter(|groups| groups.len() > 1);
        if let Some(groups) = groups {
            for (group, spread) in groups {
                if let Some(mean) = spread.get("mean").and_then(Value::as_f64) {
                    self.add_return(group, steps, mean);
                }
            }
        } else if let Some(mean) = number(&["episode_return", "mean"]) {
            self.add_return("return", steps, mean);
        }
        self.evaluation = number(&["evaluation", "mean_episode_return"]).or(self.evaluation);
        let rate = |name: &str| number(&["steps_per_second", name]).unwrap_or(0.0);
        self.rate(rate("total"), PHASES.map(rate));
        self.figures.clear();
        for (policy, figures) in object("policy").into_iter().flatten() {
            let named = figures.as_object().into_iter().flatten();
            let named =
                named.filter_map(|(name, x)| Some((format!("{policy}.{name}"), x.as_f64()?)));
            self.figures.extend(named);
        }
    }

    fn add_return(&mut self, name: &str, x: f64, mean: f64) {
        self.returns.entry(name.into()).or_default().add(x, mean);
    }

    /// From rates over everything and in each phase alone.
    fn rate(&mut self, total: f64, phases: [f64; 4]) {
        if total > 0.0 {
            // Smoothed, so that the time left does not jump.
            self.rate = if self.rate > 0.0 { 0.9 * self.rate + 0.1 * total } else { total };
        }
        let told_apart = phases.iter().filter(|rate| **rate > 0.0).count() > 1;
        let share = |(name, rate): (&'static str, f64)| (rate > 0.0).then(|| (name, total / rate));
        self.phases =
            PHASES.into_iter().zip(phases).filter_map(share).filter(|_| told_apart).collect();
    }

    /// The run in a line, for where there is no terminal.
    #[must_use]
    pub fn summary(&self) -> String {
        if let Some(fault) = &self.fault {
            return format!("{}: {fault}", self.title);
        }
        let last = |(name, curve): (&String, &Curve)| {
            curve.points().last().map(|(_, mean)| format!("{name} {mean:.1}"))
        };
        let returns: Vec<String> = self.returns.iter().filter_map(last).collect();
        let returns =
            if returns.is_empty() { "no episode has finished".into() } else { returns.join(", ") };
        let Self { title, steps, total, .. } = self;
        format!("{title}: {steps} of {total} steps, {returns}{}", self.outlook())
    }
}

fn time(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_keeps_its_shape_in_few_points() {
        let mut curve = Curve::default();
        (0..100_000).for_each(|i| curve.add(f64::from(i), f64::from(i)));
        let points = curve.points();
        assert!(points.len() < MOST_POINTS && points.len() >= MOST_POINTS / 4, "{}", points.len());
        assert!(points.iter().all(|(x, y)| (x - y).abs() < 1000.0));
        assert!(points.is_sorted_by(|a, b| a.0 < b.0));
        curve.add(1.0, f64::NAN);
        assert!(curve.points().iter().all(|(_, y)| y.is_finite()));
    }

    #[test]
    fn lines_of_metrics_are_what_is_shown() {
        let mut shown = Shown::new("runs/a".into(), 0, 400);
        let line = |steps: u64, mean: f64| {
            serde_json::json!({
                "env_steps": steps,
                "seconds": steps,
                "episode_return": { "mean": mean },
                "policy": { "pole": { "loss": 0.5 } },
                "steps_per_second": { "total": 100.0, "policy": 400.0, "step": 400.0, "learn": 200.0 },
            })
        };
        shown.line(&line(100, 1.0));
        shown.line(&line(200, 3.0));
        assert_eq!(shown.returns["return"].points(), [(100.0, 1.0), (200.0, 3.0)]);
        assert_eq!(shown.figures, [("pole.loss".to_string(), 0.5)]);
        assert_eq!(shown.phases, [("policy", 0.25), ("step", 0.25), ("learn", 0.5)]);
        assert_eq!(shown.summary(), "runs/a: 200 of 400 steps, return 3.0, 2 s left");
        let outlook = |silent, has_ended, steps| {
            let files = Files { silent: Some(silent), has_ended };
            Shown { files, steps, ..shown.clone() }.outlook()
        };
        // A line came every 100 s.
        assert_eq!(outlook(299.0, false, 200), ", 2 s left");
        assert_eq!(outlook(302.0, false, 200), ", no news for 5 min 2 s");
        assert_eq!(outlook(1.0, true, 200), ", stopped");
        assert_eq!(outlook(7300.0, true, 400), ", done");
        let groups = serde_json::json!({
            "env_steps": 300, "group_return": { "a": { "mean": 1.0 }, "b": { "mean": -1.0 } },
        });
        shown.line(&groups);
        assert_eq!(shown.returns.keys().collect::<Vec<_>>(), ["a", "b", "return"]);
        shown.line(&serde_json::json!({ "other": 1 }));
        assert_eq!(shown.steps, 300);
    }
}

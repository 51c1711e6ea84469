//! Values that change over a run: piecewise linear in the number of environment steps done.
//!
//! A configuration may place points at percentages of the run, as in `["60%", 0.001]`. They become
//! steps once, when the run begins ([`Schedule::of_run`]); from then on they stay where they are.

use std::ops::Range;
use warp_core::ConfigValue;
use warp_core::toml::Value;

/// A number, or points `[step, value]` with straight lines between them and constant beyond.
///
/// ```
/// use warp_train::Schedule;
/// let annealed = Schedule::points(vec![(0, 1.0), (100, 0.5)]).unwrap();
/// assert_eq!((annealed.at(0), annealed.at(50), annealed.at(1000)), (1.0, 0.75, 0.5));
/// assert_eq!(Schedule::constant(3.0).at(7), 3.0);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    points: Vec<(u64, f64)>,
}

impl Schedule {
    /// A schedule with `value` at every step.
    #[must_use]
    pub fn constant(value: f64) -> Self {
        Self { points: vec![(0, value)] }
    }

    /// Lines between points; `None` unless there is at least one and steps increase.
    #[must_use]
    pub fn points(points: Vec<(u64, f64)>) -> Option<Self> {
        let ordered = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
        (ordered && !points.is_empty()).then_some(Self { points })
    }

    /// Reads the value of a key for a run of `total_steps`: the step of a point may also be a share of
    /// the run, from `"0%"` to `"100%"`.
    ///
    /// Two points at one share are a jump: there the first one's value holds, and one step later the
    /// second one's.
    ///
    /// ```
    /// use warp_train::Schedule;
    /// let text = r#"rate = [["0%", 1.0], ["50%", 0.5], ["50%", 0.0]]"#;
    /// let rate = text.parse::<warp_core::toml::Table>().unwrap()["rate"].clone();
    /// let points = vec![(0, 1.0), (100, 0.5), (101, 0.0)];
    /// assert_eq!(Schedule::of_run(&rate, 200).ok(), Schedule::points(points));
    /// ```
    ///
    /// # Errors
    /// What was expected instead, as a noun phrase.
    pub fn of_run(value: &Value, total_steps: u64) -> Result<Self, String> {
        Self::read(value, Some(total_steps)).ok_or_else(|| {
            format!(
                "a finite number, or a list of points [step, value] with increasing steps, each a \
                 number or a percentage from \"0%\" to \"100%\" of the run's {total_steps} steps"
            )
        })
    }

    /// Shares need a run of which they are.
    fn read(value: &Value, total_steps: Option<u64>) -> Option<Self> {
        if let Ok(constant) = f64::from_value(value) {
            return Some(Self::constant(constant));
        }
        let mut points = Vec::<(u64, f64)>::new();
        let (mut highest_share, mut highest_step) = (0.0, 0);
        for point in value.as_array()? {
            let [place, value] = point.as_array()?.as_slice() else { return None };
            let step = if let Some(share) = place.as_str() {
                let share = parse_share(share).filter(|share| *share >= highest_share)?;
                highest_share = share;
                let step = (share * total_steps? as f64).round() as u64;
                // Jumps, and shares that a short run can't tell apart; but no step given as a number
                // gives way.
                let next = points.last().map_or(0, |(last, _)| last.saturating_add(1));
                if step < highest_step {
                    return None;
                }
                step.max(next)
            } else {
                highest_step = u64::from_value(place).ok()?;
                highest_step
            };
            points.push((step, f64::from_value(value).ok()?));
        }
        Self::points(points)
    }

    /// The value after `step` environment steps.
    #[must_use]
    pub fn at(&self, step: u64) -> f64 {
        let after = self.points.partition_point(|(at, _)| *at <= step);
        if after == 0 {
            return self.points[0].1;
        }
        let (from, a) = self.points[after - 1];
        match self.points.get(after) {
            Some((to, b)) => a + (b - a) * ((step - from) as f64 / (to - from) as f64),
            None => a,
        }
    }

    /// This schedule with every value times `factor`.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self { points: self.points.iter().map(|(step, value)| (*step, value * factor)).collect() }
    }

    /// The largest magnitude that occurs.
    #[must_use]
    pub fn largest(&self) -> f64 {
        self.points.iter().map(|(_, value)| value.abs()).fold(0.0, f64::max)
    }

    /// Whether the value is not the same at all steps.
    #[must_use]
    pub fn changes(&self) -> bool {
        self.points.windows(2).any(|pair| pair[0].1 != pair[1].1)
    }

    /// The smallest value that occurs.
    #[must_use]
    pub fn lowest(&self) -> f64 {
        self.points.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min)
    }

    /// The step of the last point, if the value changes at all.
    #[must_use]
    pub fn end(&self) -> Option<u64> {
        self.points.last().filter(|_| self.changes()).map(|(step, _)| *step)
    }

    /// Where the value stays at 0 within `steps`: ranges in increasing order. A 0 that is only passed,
    /// at a single step, is left out.
    #[must_use]
    pub fn zeros(&self, steps: Range<u64>) -> Vec<Range<u64>> {
        let (first, last) = (self.points[0], self.points[self.points.len() - 1]);
        let ends = self.points.windows(2).map(|pair| (pair[0], pair[1]));
        let before = std::iter::once(((0, first.1), first));
        let after = std::iter::once((last, (u64::MAX, last.1)));
        let mut found = Vec::<Range<u64>>::new();
        for (from, to) in before.chain(ends).chain(after) {
            let range = from.0.max(steps.start)..to.0.saturating_add(1).min(steps.end);
            if from.1 != 0.0 || to.1 != 0.0 || from.0 == to.0 || range.is_empty() {
                continue;
            }
            match found.last_mut().filter(|previous| previous.end >= range.start) {
                Some(previous) => previous.end = range.end,
                None => found.push(range),
            }
        }
        found
    }
}

/// `"60%"` as 0.6.
fn parse_share(text: &str) -> Option<f64> {
    let percent = text.trim().strip_suffix('%')?.trim_end().parse::<f64>().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

impl ConfigValue for Schedule {
    fn to_value(&self) -> Option<Value> {
        if let [(_, value)] = self.points[..] {
            return Some(value.into());
        }
        let point = |(step, value): &(u64, f64)| {
            Some(Value::Array(vec![ConfigValue::to_value(step)?, (*value).into()]))
        };
        self.points.iter().map(point).collect::<Option<_>>().map(Value::Array)
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        let expected = "a finite number, or a list of points [step, value] with increasing steps";
        Self::read(value, None).ok_or_else(|| expected.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_numbers_and_points_and_writes_them_back() {
        for text in ["0.5", "[[0, 1.0], [1000, 0.25]]"] {
            let value: Value = format!("x = {text}").parse::<toml::Table>().unwrap()["x"].clone();
            let schedule = Schedule::from_value(&value).unwrap();
            assert_eq!(schedule.to_value().unwrap().to_string(), text);
        }
        for bad in ["\"fast\"", "[]", "[[0, 1.0], [0, 2.0]]", "[[5, 1.0], [3, 2.0]]", "[1.0]"] {
            let value = format!("x = {bad}").parse::<toml::Table>().unwrap()["x"].clone();
            assert!(Schedule::from_value(&value).unwrap_err().contains("points"), "{bad}");
        }
    }

    #[test]
    fn before_the_first_point_the_first_value_holds() {
        let late = Schedule::points(vec![(10, 2.0), (20, 4.0)]).unwrap();
        assert_eq!(
            (late.at(0), late.at(10), late.at(15), late.at(20), late.at(99)),
            (2.0, 2.0, 3.0, 4.0, 4.0)
        );
        assert_eq!(late.lowest(), 2.0);
    }

    fn of_run(text: &str, total_steps: u64) -> Result<Schedule, String> {
        let table = format!("x = {text}").parse::<toml::Table>().unwrap();
        Schedule::of_run(&table["x"], total_steps)
    }

    #[test]
    fn shares_become_steps_of_the_run() {
        let points = |text: &str, total| of_run(text, total).unwrap().points;
        let jump = r#"[["0%", 0.0], ["60%", 0.0], ["60 %", 3e-3], ["100%", 3e-4]]"#;
        let values = [0.0, 0.0, 3e-3, 3e-4];
        for (total, steps) in [
            (400_000, [0, 240_000, 240_001, 400_000]),
            (60_000, [0, 36_000, 36_001, 60_000]),
            // Too short for all of them, but never out of order.
            (1, [0, 1, 2, 3]),
            (0, [0, 1, 2, 3]),
        ] {
            let wanted: Vec<_> = steps.into_iter().zip(values).collect();
            assert_eq!(points(jump, total), wanted, "{total}");
        }
        assert_eq!(points(r#"[["80%", 1]]"#, 10), [(8, 1.0)]);
        assert_eq!(
            points(r#"[[0, 1], ["0.5%", 2], [7, 3]]"#, 1000),
            [(0, 1.0), (5, 2.0), (7, 3.0)]
        );
        assert_eq!(points("[[3, 1.0], [9, 2.0]]", 5), [(3, 1.0), (9, 2.0)]);
        assert_eq!(points("0.5", 5), [(0, 0.5)]);
    }

    #[test]
    fn shares_that_make_no_sense_are_refused() {
        for bad in [
            r#"[["60%", 1.0], ["50%", 2.0]]"#,
            r#"[["101%", 1.0]]"#,
            r#"[["-1%", 1.0]]"#,
            r#"[["nan%", 1.0]]"#,
            r#"[["0.5", 1.0]]"#,
            r#"["50%", 1.0]"#,
            r#"[[600, 1.0], ["50%", 2.0]]"#,
            r#"[["50%", 1.0], [500, 2.0]]"#,
            r#"[["50%", "x"]]"#,
        ] {
            let expected = of_run(bad, 1000).unwrap_err();
            assert!(expected.contains("\"100%\" of the run's 1000 steps"), "{bad}: {expected}");
        }
        // Without a run there is nothing to have a share of.
        let value: Value = vec![Value::from(vec![Value::from("0%"), 1.0.into()])].into();
        assert!(Schedule::from_value(&value).is_err());
    }

    #[test]
    fn ends_and_zeros_are_found() {
        let of = |points: &[(u64, f64)]| Schedule::points(points.to_vec()).unwrap();
        assert_eq!(of(&[(0, 1.0), (50, 0.5)]).end(), Some(50));
        assert_eq!((of(&[(0, 1.0), (50, 1.0)]).end(), Schedule::constant(2.0).end()), (None, None));
        let zeros = |schedule: &Schedule, steps: Range<u64>| -> Vec<(u64, u64)> {
            schedule.zeros(steps).into_iter().map(|range| (range.start, range.end)).collect()
        };
        let late = of(&[(0, 0.0), (60, 0.0), (61, 3.0), (100, 1.0)]);
        assert_eq!(zeros(&late, 0..100), [(0, 61)]);
        assert_eq!((zeros(&late, 10..30), zeros(&late, 61..100)), (vec![(10, 30)], vec![]));
        let annealed = of(&[(0, 1.0), (100, 0.0)]);
        assert_eq!(
            (zeros(&annealed, 0..100), zeros(&annealed, 0..400)),
            (vec![], vec![(100, 400)])
        );
        assert_eq!(zeros(&of(&[(0, 0.0), (9, 1.0)]), 0..99), []);
        let late = of(&[(5, 0.0), (9, 1.0), (10, 0.0)]);
        assert_eq!(zeros(&late, 0..99), [(0, 6), (10, 99)]);
        assert_eq!(zeros(&Schedule::constant(0.0), 3..9), [(3, 9)]);
    }
}

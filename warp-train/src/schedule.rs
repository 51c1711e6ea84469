//! Values that change over a run: piecewise linear in the number of environment steps done.

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
    /// The same value at every step.
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

    /// The largest magnitude that occurs.
    #[must_use]
    pub fn largest(&self) -> f64 {
        self.points.iter().map(|(_, value)| value.abs()).fold(0.0, f64::max)
    }

    /// The smallest value that occurs.
    #[must_use]
    pub fn lowest(&self) -> f64 {
        self.points.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min)
    }
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
        let expected = || "a number, or a list of points [step, value] with increasing steps";
        if let Ok(constant) = f64::from_value(value) {
            return Ok(Self::constant(constant));
        }
        let point = |point: &Value| match point.as_array().map(Vec::as_slice) {
            Some([step, value]) => {
                Some((u64::from_value(step).ok()?, f64::from_value(value).ok()?))
            }
            _ => None,
        };
        let points = value.as_array().and_then(|list| list.iter().map(point).collect());
        points.and_then(Self::points).ok_or_else(|| expected().into())
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
}

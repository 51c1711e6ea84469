//! The largest error of each array, and where it is.

use super::plan::{Check, Place, Tolerance, Treatment};

/// How a case was replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Every recorded state is loaded and followed for one step.
    Teacher,
    /// The first state is loaded and followed to the end.
    Free,
    /// Nothing runs: a constant is compared with the configuration.
    Config,
}

impl Mode {
    /// The word that reports use.
    pub(super) fn word(self) -> &'static str {
        match self {
            Mode::Teacher => "teacher",
            Mode::Free => "free",
            Mode::Config => "config",
        }
    }
}

/// What is known of one array in one mode.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tally {
    /// The name of the recorded array.
    pub(super) array: String,
    /// How it was replayed.
    pub(super) mode: Mode,
    /// What it must keep.
    tolerance: Tolerance,
    /// The bound of the element with the largest error.
    pub(super) bound: f64,
    /// The largest error so far; where elements have different bounds, the largest in their units.
    pub(super) largest_error: f64,
    /// Where it is; `None`: nothing was compared.
    pub(super) place: Option<Place>,
    /// Elements compared.
    pub(super) compared: u64,
    /// Elements that the recording says cannot be relied on.
    pub(super) skipped: u64,
}

impl Tally {
    /// Whether no error exceeds the tolerance.
    pub(super) fn passed(&self) -> bool {
        self.largest_error <= self.bound
    }
}

/// The tallies of one case, in the order in which arrays were first compared.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    all: Vec<Tally>,
}

impl Tallies {
    /// All of them.
    pub(super) fn into_vec(self) -> Vec<Tally> {
        self.all
    }

    /// The largest error of `array` in `mode` so far.
    pub(super) fn largest(&self, array: &str, mode: Mode) -> f64 {
        let found = self.all.iter().find(|tally| tally.array == array && tally.mode == mode);
        found.map_or(0.0, |tally| tally.largest_error)
    }

    /// The number of the tally for `array` in `mode`.
    pub(super) fn index(&mut self, array: &str, mode: Mode, tolerance: Tolerance) -> usize {
        let found = self.all.iter().position(|t| t.array == array && t.mode == mode);
        found.unwrap_or_else(|| {
            self.all.push(Tally {
                array: array.into(),
                mode,
                tolerance,
                bound: tolerance.bound,
                largest_error: 0.0,
                place: None,
                compared: 0,
                skipped: 0,
            });
            self.all.len() - 1
        })
    }

    /// Compares one row of `check` with what was seen.
    pub(super) fn row(&mut self, tally: usize, check: &Check, row: usize, seen: &[f64]) {
        let expected = check.track.row(row);
        for ((origin, expected), seen) in check.track.origin.iter().zip(expected).zip(seen) {
            let place = Place { row, agent: origin.agent, element: origin.element };
            let loose =
                self.all[tally].mode == Mode::Teacher && check.loose.0.contains(&origin.element);
            let bound = if loose { check.loose.1 } else { self.all[tally].tolerance.bound };
            self.element(tally, place, bound, (check.rule)(place), *expected, *seen);
        }
    }

    /// Compares one element.
    pub(super) fn element(
        &mut self,
        tally: usize,
        place: Place,
        bound: f64,
        treatment: Treatment,
        expected: f64,
        seen: f64,
    ) {
        let tally = &mut self.all[tally];
        let difference = match treatment {
            Treatment::Skip => {
                tally.skipped += 1;
                return;
            }
            _ => seen - expected,
        };
        let error = match treatment {
            Treatment::PerUnit(unit) => difference / unit,
            Treatment::Modulo(period) => difference - period * (difference / period).round(),
            Treatment::Offset(offset) => {
                let other = (difference.abs() - offset.abs()).abs();
                other.min(difference.abs())
            }
            _ => difference,
        };
        let scale = if tally.tolerance.relative { expected.abs().max(1.0) } else { 1.0 };
        let error = match (expected.is_nan() && seen.is_nan(), expected == seen) {
            (false, false) if error.is_nan() => f64::INFINITY,
            (false, false) => error.abs() / scale,
            _ => 0.0,
        };
        tally.compared += 1;
        // error / bound > largest_error / tally.bound, also where a bound is 0.
        if tally.place.is_none()
            || error * tally.bound > tally.largest_error * bound
            || (bound == 0.0 && error > tally.largest_error)
        {
            (tally.largest_error, tally.bound, tally.place) = (error, bound, Some(place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(treatment: Treatment, tolerance: Tolerance, pair: (f64, f64)) -> f64 {
        let mut tallies = Tallies::default();
        let index = tallies.index("x", Mode::Teacher, tolerance);
        let place = Place { row: 1, agent: 2, element: 3 };
        tallies.element(index, place, tolerance.bound, treatment, pair.0, pair.1);
        tallies.into_vec().remove(0).largest_error
    }

    #[test]
    fn differences_are_measured_as_the_treatment_says() {
        let exact = Tolerance::EXACT;
        assert_eq!(error(Treatment::Plain, exact, (1.0, 1.5)), 0.5);
        assert_eq!(error(Treatment::Modulo(1.0), exact, (0.0, -0.75)), 0.25);
        assert_eq!(error(Treatment::PerUnit(4.0), exact, (1.0, 3.0)), 0.5);
        assert_eq!(error(Treatment::Offset(-0.5), exact, (1.0, 1.5)), 0.0);
        assert_eq!(error(Treatment::Offset(-0.5), exact, (1.0, 0.25)), 0.25);
        assert_eq!(error(Treatment::Skip, exact, (1.0, 9.0)), 0.0);
        assert_eq!(error(Treatment::Plain, Tolerance::scaled(0.1), (100.0, 101.0)), 0.01);
    }

    #[test]
    fn what_is_not_a_number_equals_only_itself() {
        let plain = |pair| error(Treatment::Plain, Tolerance::EXACT, pair);
        assert_eq!(plain((f64::NAN, f64::NAN)), 0.0);
        assert_eq!(plain((f64::INFINITY, f64::INFINITY)), 0.0);
        assert_eq!(plain((1.0, f64::NAN)), f64::INFINITY);
        assert_eq!(plain((f64::NAN, 1.0)), f64::INFINITY);
        assert_eq!(plain((f64::INFINITY, 1.0)), f64::INFINITY);
    }
}

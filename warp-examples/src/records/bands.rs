//! Several curves as one: their mean, and a band that says how far apart they are.

use super::history::{Points, interpolate};
use clap::ValueEnum;
use warp_train::confidence_interval::{Estimate, INTERVAL};

/// Points of a curve that is made from several.
const POINTS: usize = 200;

/// What the band around the mean of several runs shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Band {
    /// From the lowest to the highest run.
    Range,
    /// One standard deviation over runs (n - 1), either way.
    Std,
    /// The 95 % confidence interval of the mean, by Student's t.
    Confidence,
}

/// Where it stands, lower and upper bound.
pub type Bounds = Vec<(f64, f64, f64)>;

/// Mean and band of several curves, at every point over those that have begun and continue there; where
/// there is only one, the band has no width.
#[must_use]
pub fn together(curves: &[Points], band: Band) -> (Points, Bounds) {
    let starts = curves.iter().filter_map(|curve| Some(curve.first()?.0));
    let ends = curves.iter().filter_map(|curve| Some(curve.last()?.0));
    let (start, end) = (starts.fold(f64::INFINITY, f64::min), ends.fold(0.0, f64::max));
    let step = (end - start) / (POINTS - 1) as f64;
    let last = |i: usize| if i == POINTS - 1 { end } else { start + i as f64 * step };
    let xs: Vec<f64> = (0..POINTS).map(last).collect();
    let found: Vec<_> = curves.iter().map(|curve| interpolate(curve, &xs)).collect();
    let (mut points, mut bounds) = (Vec::new(), Vec::new());
    for (i, x) in xs.into_iter().enumerate() {
        let ys: Vec<f64> = found.iter().filter_map(|curve| curve[i]).collect();
        let Some(found) = Estimate::of(&ys) else { continue };
        let (low, high) = band.around(&found, &ys);
        points.push((x, found.mean));
        bounds.push((x, low, high));
    }
    (points, bounds)
}

impl Band {
    /// What it shows, for a caption.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Band::Range => "lowest to highest run",
            Band::Std => "one standard deviation either way",
            Band::Confidence => INTERVAL,
        }
    }

    /// Lower and upper bound for numbers of which `found` is known.
    fn around(self, found: &Estimate, ys: &[f64]) -> (f64, f64) {
        let half = match self {
            Band::Range => {
                let low = ys.iter().copied().fold(f64::INFINITY, f64::min);
                return (low, ys.iter().copied().fold(f64::NEG_INFINITY, f64::max));
            }
            Band::Std => found.std,
            Band::Confidence => found.confidence,
        };
        let half = half.unwrap_or(0.0);
        (found.mean - half, found.mean + half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(slope: f64, end: f64) -> Points {
        vec![(0.0, 0.0), (end, slope * end)]
    }

    #[test]
    fn seeds_become_a_mean_with_a_band() {
        let curves = [line(1.0, 10.0), line(3.0, 10.0)];
        let (points, bounds) = together(&curves, Band::Range);
        assert_eq!((points[0], points[POINTS - 1]), ((0.0, 0.0), (10.0, 20.0)));
        assert_eq!(bounds[POINTS - 1], (10.0, 10.0, 30.0));
        let half = |band| 20.0 - together(&curves, band).1[POINTS - 1].1;
        assert!((half(Band::Std) - 200f64.sqrt()).abs() < 1e-9);
        // Student's t for one degree of freedom.
        assert!((half(Band::Confidence) - 12.7062 * 10.0).abs() < 1e-2);
        // A run in which no episode has finished yet is not counted.
        assert_eq!(together(&[line(1.0, 10.0), vec![]], Band::Range).0[POINTS - 1], (10.0, 10.0));
    }

    #[test]
    fn a_run_that_ends_early_leaves_the_others() {
        let curves = [line(1.0, 5.0), line(2.0, 10.0), line(4.0, 20.0)];
        let (points, bounds) = together(&curves, Band::Confidence);
        assert_eq!(points[POINTS - 1], (20.0, 80.0));
        let at = |x: f64| points.iter().position(|point| point.0 >= x).unwrap();
        let mean = |x: f64| points[at(x)].1 / points[at(x)].0;
        let width = |x: f64| bounds[at(x)].2 - bounds[at(x)].1;
        for (x, slope) in [(4.0, 7.0 / 3.0), (8.0, 3.0), (15.0, 4.0)] {
            assert!((mean(x) - slope).abs() < 1e-9, "{x}: {}", mean(x));
        }
        assert!(width(4.0) > 0.0 && width(8.0) > 0.0 && width(15.0) == 0.0);
    }
}

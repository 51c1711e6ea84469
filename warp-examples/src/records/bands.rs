//! Several curves as one: their mean, and a band that says how far apart they are.

use super::history::{Points, interpolate};
use clap::ValueEnum;

/// Points of a curve that is made from several.
const POINTS: usize = 200;

/// What the band around the mean of several runs shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Band {
    /// From the lowest to the highest run.
    Range,
    /// One standard deviation over runs, either way.
    Std,
    /// The 95 % confidence interval of the mean: 1.96 std / sqrt(n) either way.
    Confidence,
}

/// Environment steps, lower and upper bound.
pub type Bounds = Vec<(f64, f64, f64)>;

/// Mean and band of several curves, from where all of them have begun to where the first ends.
#[must_use]
pub fn together(curves: &[Points], band: Band) -> (Points, Bounds) {
    let starts = curves.iter().filter_map(|curve| Some(curve.first()?.0));
    let ends = curves.iter().filter_map(|curve| Some(curve.last()?.0));
    let (start, end) = (starts.fold(0.0, f64::max), ends.fold(f64::INFINITY, f64::min));
    let step = (end - start) / (POINTS - 1) as f64;
    let last = |i: usize| if i == POINTS - 1 { end } else { start + i as f64 * step };
    let xs: Vec<f64> = (0..POINTS).map(last).collect();
    let found: Vec<_> = curves.iter().map(|curve| interpolate(curve, &xs)).collect();
    let (mut points, mut bounds) = (Vec::new(), Vec::new());
    for (i, x) in xs.into_iter().enumerate() {
        let ys: Vec<f64> = found.iter().filter_map(|curve| curve[i]).collect();
        if ys.is_empty() {
            continue;
        }
        let mean = ys.iter().sum::<f64>() / ys.len() as f64;
        let (low, high) = band.around(mean, &ys);
        points.push((x, mean));
        bounds.push((x, low, high));
    }
    (points, bounds)
}

impl Band {
    /// Lower and upper bound for numbers with this mean.
    fn around(self, mean: f64, ys: &[f64]) -> (f64, f64) {
        let n = ys.len() as f64;
        let squares = || ys.iter().map(|y| (y - mean) * (y - mean)).sum::<f64>();
        let half = match self {
            Band::Range => {
                let low = ys.iter().copied().fold(f64::INFINITY, f64::min);
                return (low, ys.iter().copied().fold(f64::NEG_INFINITY, f64::max));
            }
            Band::Std => (squares() / n).sqrt(),
            Band::Confidence if n < 2.0 => 0.0,
            Band::Confidence => 1.96 * (squares() / (n - 1.0) / n).sqrt(),
        };
        (mean - half, mean + half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_become_a_mean_with_a_band() {
        let line = |slope: f64, end: f64| vec![(0.0, 0.0), (end, slope * end)];
        let curves = [line(1.0, 10.0), line(3.0, 12.0)];
        let (points, bounds) = together(&curves, Band::Range);
        assert_eq!((points[0], points[POINTS - 1]), ((0.0, 0.0), (10.0, 20.0)));
        assert_eq!(bounds[POINTS - 1], (10.0, 10.0, 30.0));
        let (_, bounds) = together(&curves, Band::Std);
        assert_eq!(bounds[POINTS - 1], (10.0, 10.0, 30.0));
        let (_, bounds) = together(&curves, Band::Confidence);
        let half = 1.96 * 200f64.sqrt() / 2f64.sqrt();
        assert!((bounds[POINTS - 1].1 - (20.0 - half)).abs() < 1e-9);
        // A run in which no episode has ended yet is not counted.
        assert_eq!(together(&[line(1.0, 10.0), vec![]], Band::Range).0[POINTS - 1], (10.0, 10.0));
    }
}
